//! Questions to clients of the modern era: a result of its own kind, and a retry that brings the answers.

mod support;

use deskhand_core::desktop::event::Observation;
use deskhand_core::{Carriage, Input, Limits};
use serde_json::{Value, json};
use support::offers::{OFFERS, Served, accept, call, everything, modern, request};

/// One POST, with its answer.
fn post(s: &mut Served, principal: &str, message: &Value) -> Value {
    let conn = 1000 + s.now + s.core.kept().connections as u64;
    s.now += 1;
    s.open(conn, principal, Carriage::Exchange);
    let mut sent = s.message(conn, message);
    assert_eq!((sent.len(), sent[0].conn), (1, conn), "{sent:?}");
    s.close(conn);
    sent.remove(0).message
}

fn first(tool: &str, arguments: Value) -> Value {
    modern(call(7, tool, arguments), everything())
}

fn again(message: &Value, state: Option<&Value>, responses: Value) -> Value {
    let mut message = message.clone();
    message["params"]["inputResponses"] = responses;
    if let Some(state) = state {
        message["params"]["requestState"] = state.clone();
    }
    message
}

fn shown(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

fn refused(answer: &Value, why: &str) {
    let message = format!("Invalid params: requestState is refused: {why}; send the request anew without it");
    assert_eq!(answer["error"], json!({"code": -32602, "message": message}), "{answer}");
}

const FORGED: &str = "it was not made by this server for this request";
const USED: &str = "it was used already";

#[test]
fn a_question_is_a_result_and_the_retry_is_answered() {
    let mut s = Served::new();
    let message = first("ask_all", json!({"nonce": "n"}));
    let answer = post(&mut s, "a", &message);
    let state = answer["result"]["requestState"].clone();
    let user = json!({"role": "user", "content": {"type": "text", "text": "n"}});
    let requests = json!({
        "form": {"method": "elicitation/create", "params": {"message": "n", "requestedSchema": {"type": "object", "properties": {}}}},
        "sample": {"method": "sampling/createMessage", "params": {"messages": [user], "maxTokens": 10}},
        "roots": {"method": "roots/list", "params": {}},
    });
    let info = json!({"name": "deskhand", "title": "Offers", "version": "0.0.0", "description": "Everything that can be offered"});
    let meta = json!({"io.modelcontextprotocol/serverInfo": info});
    let result = json!({"resultType": "input_required", "inputRequests": requests, "requestState": state, "_meta": meta});
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": 7, "result": result}));
    // Only what is missing, or misshapen, is asked again.
    let responses = json!({"form": accept("x"), "sample": "misshapen", "unasked": 1});
    let answer = post(&mut s, "a", &again(&message, Some(&state), responses));
    let keys: Vec<&String> = answer["result"]["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["roots", "sample"]);
    let rest = json!({"sample": {"role": "assistant", "content": {}}, "roots": {"roots": []}});
    let answer = post(&mut s, "a", &again(&message, Some(&answer["result"]["requestState"]), rest));
    let all = json!({"form": accept("x"), "roots": {"roots": []}, "sample": {"role": "assistant", "content": {}}});
    assert_eq!((shown(&answer), &answer["result"]["resultType"]), (format!("n: {all}").as_str(), &json!("complete")));
    assert_eq!(s.core.kept(), Default::default());
}

#[test]
fn rounds_carry_what_was_answered() {
    let mut s = Served::new();
    let message = first("ask_twice", json!({"nonce": "n"}));
    let one = post(&mut s, "a", &message);
    assert_eq!(one["result"]["inputRequests"]["name"]["params"]["message"], "n name");
    let two = post(&mut s, "a", &again(&message, Some(&one["result"]["requestState"]), json!({"name": accept("Ann")})));
    assert_eq!(two["result"]["inputRequests"]["colour"]["params"]["message"], "n colour of Ann");
    let three = post(&mut s, "a", &again(&message, Some(&two["result"]["requestState"]), json!({"colour": accept("red")})));
    assert_eq!(shown(&three), "n: Ann red");
    // A state of an earlier round isn't one of a later.
    refused(&post(&mut s, "a", &again(&message, Some(&one["result"]["requestState"]), json!({"name": accept("Eve")}))), USED);
    // Answers without a state are a first round's.
    let fresh = post(&mut s, "a", &again(&message, None, json!({"name": accept("Bob"), "colour": accept("blue")})));
    assert_eq!(shown(&fresh), "n: Bob blue");
}

#[test]
fn a_state_is_for_one_use_one_principal_and_one_request() {
    let mut s = Served::new();
    let message = first("ask", json!({"nonce": "n"}));
    let state = post(&mut s, "a", &message)["result"]["requestState"].clone();
    let answers = json!({"q": accept("x")});
    refused(&post(&mut s, "b", &again(&message, Some(&state), answers.clone())), FORGED);
    for other in [first("ask", json!({"nonce": "m"})), first("ask", json!({})), first("ask_all", json!({"nonce": "n"})), first("ask_twice", json!({"nonce": "n"}))] {
        refused(&post(&mut s, "a", &again(&other, Some(&state), answers.clone())), FORGED);
    }
    for (method, params) in [("resources/read", json!({"uri": "t://asking"})), ("prompts/get", json!({"name": "asking"}))] {
        refused(&post(&mut s, "a", &again(&modern(request(json!(7), method, params), everything()), Some(&state), answers.clone())), FORGED);
    }
    let mut altered = state.as_str().unwrap().to_string();
    altered = altered.replace("\"answers\":{}", "\"answers\":{\"q\":{\"action\":\"decline\"}}");
    assert_ne!(altered, state.as_str().unwrap());
    for forged in [altered.as_str(), "", "abc", &"0".repeat(64), &"é".repeat(64)] {
        refused(&post(&mut s, "a", &again(&message, Some(&json!(forged)), answers.clone())), FORGED);
    }
    // None of these used it up, nor do those that aren't read so far.
    for (state, responses, why) in [
        (json!(7), answers.clone(), "Invalid params: requestState must be a string"),
        (state.clone(), json!([1]), "Invalid params: inputResponses must be an object"),
    ] {
        assert_eq!(post(&mut s, "a", &again(&message, Some(&state), responses))["error"], json!({"code": -32602, "message": why}));
    }
    assert_eq!(shown(&post(&mut s, "a", &again(&message, Some(&state), answers.clone()))), format!("n: {}", accept("x")));
    refused(&post(&mut s, "a", &again(&message, Some(&state), answers)), USED);
}

#[test]
fn a_state_lives_ten_minutes_and_not_beyond_a_restart() {
    let mut s = Served::new();
    let message = first("ask", json!({}));
    let answers = json!({"q": accept("x")});
    let state = post(&mut s, "a", &message)["result"]["requestState"].clone();
    s.now += 10 * 60_000 - 2;
    assert!(shown(&post(&mut s, "a", &again(&message, Some(&state), answers.clone()))).contains("accept"));
    let state = post(&mut s, "a", &message)["result"]["requestState"].clone();
    s.now += 10 * 60_000;
    refused(&post(&mut s, "a", &again(&message, Some(&state), answers.clone())), "it is older than ten minutes");
    let state = post(&mut s, "a", &message)["result"]["requestState"].clone();
    s.core.restart([9; 32]);
    s.drain();
    refused(&post(&mut s, "a", &again(&message, Some(&state), answers)), FORGED);
}

/// What says "send it again" must leave the means for it.
#[test]
fn a_request_that_is_not_served_uses_no_state_up() {
    let mut s = Served::of(&OFFERS, Limits { calls_per_connection: 1, ..Limits::default() });
    s.open(1, "a", Carriage::Stdio);
    let answers = json!({"q": accept("x")});
    let read = modern(request(json!(7), "resources/read", json!({"uri": "t://asking"})), everything());
    for message in [first("gated", json!({})), read] {
        let state = post(&mut s, "a", &message)["result"]["requestState"].clone();
        let retry = again(&message, Some(&state), answers.clone());
        s.message(1, &first("wait", json!({})));
        let twice = s.message(1, &retry);
        assert_eq!(twice[0].message["error"]["message"], "Invalid Request: a request with this id is still in flight");
        let mut other = retry.clone();
        other["id"] = json!(8);
        let busy = s.message(1, &other)[0].message.to_string();
        assert!(busy.contains("busy") || busy.contains("too many"), "{busy}");
        s.cancel(1, json!(7));
        if message["method"] == "tools/call" {
            s.feed(Input::Observed(Observation::UserInput));
            assert_eq!(shown(&post(&mut s, "a", &retry)), "the gate is closed");
            s.feed(Input::Observed(Observation::UserInput));
        }
        assert!(post(&mut s, "a", &retry).to_string().contains("accept"));
        refused(&post(&mut s, "a", &retry), USED);
    }
}

#[test]
fn no_arguments_are_the_same_however_they_are_written() {
    let forms = [None, Some("{}"), Some("{ }"), Some("null"), Some("{\n}")];
    let write = |arguments: Option<&str>, rest: &str| {
        let meta = format!("\"_meta\":{{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}}", everything());
        let arguments = arguments.map(|a| format!(",\"arguments\":{a}")).unwrap_or_default();
        format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{{\"name\":\"ask\"{arguments}{rest},{meta}}}}}")
    };
    for one in forms {
        for other in forms {
            let mut s = Served::new();
            s.open(1, "a", Carriage::Stdio);
            let state = s.text(1, 0, write(one, ""))[0].message["result"]["requestState"].clone();
            let rest = format!(",\"requestState\":{state},\"inputResponses\":{}", json!({"q": accept("x")}));
            assert!(shown(&s.text(1, 0, write(other, &rest))[0].message).contains("accept"), "{one:?} {other:?}");
        }
    }
}

#[test]
fn what_the_client_did_not_declare_is_an_error_with_what_is_required() {
    let cases = [
        ("form", json!({"elicitation": {"form": {}}})),
        ("url", json!({"elicitation": {"url": {}}})),
        ("sample", json!({"sampling": {}})),
        ("roots", json!({"roots": {}})),
    ];
    for (what, required) in &cases {
        let mut s = Served::new();
        let call = call(7, "ask", json!({"what": what}));
        let answer = post(&mut s, "a", &modern(call.clone(), json!({})));
        assert_eq!((&answer["error"]["code"], &answer["error"]["data"]), (&json!(-32021), &json!({"requiredCapabilities": required})));
        // Each other capability doesn't help; its own does.
        for (other, declared) in &cases {
            let answer = post(&mut s, "a", &modern(call.clone(), declared.clone()));
            assert_eq!(answer["result"]["resultType"] == "input_required", other == what, "{what} {other}: {answer}");
        }
        // Answers to what could never have been asked.
        let answer = post(&mut s, "a", &again(&modern(call, json!({})), None, json!({"q": accept("x")})));
        assert_eq!(answer["error"]["code"], -32021);
    }
}

#[test]
fn what_is_not_a_tool_may_ask_where_the_revision_has_room() {
    let mut s = Served::new();
    for (method, params, key) in [("resources/read", json!({"uri": "t://asking"}), "contents"), ("prompts/get", json!({"name": "asking"}), "messages")] {
        let message = modern(request(json!(7), method, params), everything());
        let state = post(&mut s, "a", &message)["result"]["requestState"].clone();
        let answer = post(&mut s, "a", &again(&message, Some(&state), json!({"q": accept("x")})));
        assert!(answer["result"][key].to_string().contains("accept"), "{answer}");
    }
    let list = modern(request(json!(7), "resources/list", json!({"cursor": "ask"})), everything());
    assert_eq!(post(&mut s, "a", &list)["error"]["code"], -32603);
}

#[test]
fn answers_too_large_to_carry_are_refused() {
    let mut s = Served::new();
    let message = first("ask_twice", json!({}));
    let answer = post(&mut s, "a", &again(&message, None, json!({"name": accept(&"x".repeat(300 << 10))})));
    assert_eq!(answer["error"]["message"], "Invalid params: the answers given so far are too large to be carried on");
    // What wasn't asked isn't carried.
    let answer = post(&mut s, "a", &again(&message, None, json!({"name": accept("x"), "other": "x".repeat(300 << 10)})));
    assert_eq!(answer["result"]["resultType"], "input_required");
}

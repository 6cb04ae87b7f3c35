//! Questions to clients of the legacy era: requests of the core's, and every way in which their answers come or don't.

mod support;

use bytes::Bytes;
use deskhand_core::{Carriage, Conn, Input, Route};
use serde_json::{Value, json};
use support::offers::{Sent, Served, accept, call, everything, request, to};

fn asked() -> (Served, Value) {
    let mut s = Served::new();
    s.legacy(1, "2025-11-25", everything());
    let sent = s.message(1, &call(7, "ask", json!({"nonce": "n"})));
    let id = question(&sent);
    (s, id)
}

/// The id of the only message, which is a question.
fn question(sent: &[Sent]) -> Value {
    let [only] = sent else { panic!("{sent:?}") };
    assert!(only.message["method"].is_string() && only.message["id"].is_u64(), "{only:?}");
    only.message["id"].clone()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

fn answered(id: u64, text: &str, is_error: bool) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}], "isError": is_error}})
}

fn withdrawn(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "the call that asked this is over"}})
}

#[test]
fn each_question_is_a_request_and_its_answer_reaches_the_handler() {
    let user = json!({"role": "user", "content": {"type": "text", "text": "n"}});
    let sample = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "hi"}});
    let cases = [
        ("form", "elicitation/create", json!({"message": "n", "requestedSchema": {"type": "object", "properties": {}}}), accept("x")),
        ("form", "elicitation/create", json!({"message": "n", "requestedSchema": {"type": "object", "properties": {}}}), json!({"action": "decline"})),
        ("url", "elicitation/create", json!({"mode": "url", "message": "n", "url": "https://example.org/", "elicitationId": "e"}), json!({"action": "accept"})),
        ("sample", "sampling/createMessage", json!({"messages": [user], "maxTokens": 10}), sample),
        ("roots", "roots/list", json!({}), json!({"roots": []})),
    ];
    for (what, method, params, answer) in cases {
        let mut s = Served::new();
        s.legacy(1, "2025-11-25", everything());
        let sent = s.message(1, &call(7, "ask", json!({"nonce": "n", "what": what})));
        let id = question(&sent);
        assert_eq!(to(1, &sent), [json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})]);
        assert_eq!(s.core.kept().asks, 1);
        let sent = s.respond(1, &id, answer.clone());
        assert_eq!(to(1, &sent), [answered(7, &format!("n: {answer}"), false)]);
        // The same once more finds nobody.
        assert_eq!(s.respond(1, &id, answer), []);
        assert_eq!((s.core.kept().asks, s.core.poll_timeout()), (0, None));
    }
}

#[test]
fn what_the_client_did_not_declare_is_not_asked() {
    let cases = [
        (json!({}), vec!["form", "url", "sample", "roots"]),
        (json!({"elicitation": {}}), vec!["url", "sample", "roots"]),
        (json!({"elicitation": {"url": {}}}), vec!["form", "sample", "roots"]),
        (json!({"elicitation": true, "sampling": {}, "roots": null}), vec!["form", "url", "roots"]),
    ];
    for (capabilities, lacking) in cases {
        let mut s = Served::new();
        s.legacy(1, "2025-11-25", capabilities.clone());
        for what in ["form", "url", "sample", "roots"] {
            let sent = s.message(1, &call(7, "ask", json!({"what": what})));
            let refused = sent[0].message["result"]["isError"] == json!(true);
            assert_eq!(refused, lacking.contains(&what), "{capabilities} {what}");
            if refused {
                assert!(text(&sent[0].message["result"]).contains("use a client that has it"));
            } else {
                s.cancel(1, json!(7));
            }
        }
        // One of several is enough to ask none.
        if !lacking.is_empty() {
            assert!(s.message(1, &call(8, "ask_all", json!({})))[0].message.get("method").is_none());
        }
        assert_eq!(s.core.kept().asks, 0);
    }
}

#[test]
fn an_error_and_a_misshapen_answer_end_the_call_with_what_is_wrong() {
    let long = "m".repeat(200);
    let errors = [
        (json!({"code": -1, "message": "no user"}), "no user".to_string()),
        (json!({"code": -1, "message": long}), format!("{}...", "m".repeat(80))),
        (json!({"code": -1}), "no message".into()),
        (json!(null), "no message".into()),
        (json!([1]), "no message".into()),
    ];
    for (error, why) in errors {
        let (mut s, id) = asked();
        let sent = s.message(1, &json!({"jsonrpc": "2.0", "id": id, "error": error}));
        assert_eq!(to(1, &sent), [answered(7, &format!("the client answered elicitation/create with an error: {why}"), true)]);
    }
    for misshapen in [json!(null), json!(7), json!({}), json!({"action": "accept"}), json!({"action": "accept", "content": []}), json!({"action": "perhaps"}), json!([])] {
        let (mut s, id) = asked();
        let sent = s.respond(1, &id, misshapen.clone());
        assert_eq!(to(1, &sent), [answered(7, "the client's answer to elicitation/create has not the shape of one", true)], "{misshapen}");
    }
}

#[test]
fn several_questions_go_out_at_once_and_their_answers_come_in_any_order() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut s = Served::new();
        s.legacy(1, "2025-11-25", everything());
        let sent = to(1, &s.message(1, &call(7, "ask_all", json!({"nonce": "n"}))));
        let answers = [accept("x"), json!({"role": "assistant", "content": {}}), json!({"roots": [{"uri": "file:///"}]})];
        let mut last = Vec::new();
        for at in order {
            assert_eq!(last, []);
            last = s.respond(1, &sent[at]["id"], answers[at].clone());
        }
        let all = json!({"form": answers[0], "sample": answers[1], "roots": answers[2]});
        assert_eq!(to(1, &last), [answered(7, &format!("n: {all}"), false)]);
    }
    // The first one's error withdraws the others.
    let mut s = Served::new();
    s.legacy(1, "2025-11-25", everything());
    let sent = to(1, &s.message(1, &call(7, "ask_all", json!({"nonce": "n"}))));
    let rest = to(1, &s.message(1, &json!({"jsonrpc": "2.0", "id": sent[0]["id"], "error": {"code": 1, "message": "m"}})));
    assert_eq!(rest[..2], [withdrawn(&sent[1]["id"]), withdrawn(&sent[2]["id"])]);
    assert_eq!(rest[2]["id"], 7);
}

#[test]
fn answers_that_nobody_waits_for_do_nothing() {
    let (mut s, id) = asked();
    let number = id.as_u64().unwrap();
    for other in [json!(number + 1), json!(0), json!(number.to_string()), json!(-1), json!("x")] {
        assert_eq!(s.respond(1, &other, accept("stray")), []);
    }
    // Another connection's answer with the same number, and one on another route of the same connection.
    s.legacy(2, "2025-11-25", everything());
    assert_eq!(s.respond(2, &id, accept("stray")), []);
    s.open(3, "person", Carriage::Exchange);
    assert_eq!(s.respond(3, &id, accept("stray")), []);
    let answer = json!({"jsonrpc": "2.0", "id": id, "result": accept("own")});
    assert_eq!(to(1, &s.text(1, 9, answer.to_string())), [answered(7, &format!("n: {}", accept("own")), false)]);
}

/// An answer is never answered, or two peers could go on for ever; and an error with the answer's number would be taken
/// for the answer to the client's own request of that number.
#[test]
fn answers_that_cannot_be_read_are_not_answered() {
    let (mut s, id) = asked();
    for stray in [
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "Parse error"}}),
        json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}}),
        json!({"jsonrpc": "2.0", "id": 1.5, "result": {}}),
        json!({"jsonrpc": "1.0", "id": id, "result": accept("stray")}),
        json!({"id": id, "result": accept("stray")}),
    ] {
        assert_eq!(s.message(1, &stray), [], "{stray}");
    }
    assert_eq!(s.text(1, 0, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}},\"result\":{{}}}}")), []);
    // With both it is an error, and ends the call.
    let sent = s.message(1, &json!({"jsonrpc": "2.0", "id": id, "result": accept("x"), "error": {"code": 1, "message": "m"}}));
    assert_eq!(to(1, &sent), [answered(7, "the client answered elicitation/create with an error: m", true)]);
}

#[test]
fn cancelling_the_call_withdraws_its_questions_and_no_answer_follows() {
    let mut s = Served::new();
    s.legacy(1, "2025-11-25", everything());
    let ids: Vec<Value> = to(1, &s.message(1, &call(7, "ask_all", json!({})))).iter().map(|m| m["id"].clone()).collect();
    assert_eq!(to(1, &s.cancel(1, json!(7))), ids.iter().map(withdrawn).collect::<Vec<_>>());
    for id in &ids {
        assert_eq!(s.respond(1, id, accept("late")), []);
    }
    assert_eq!((s.core.kept().asks, s.core.kept().calls, s.core.poll_timeout()), (0, 0, None));
    // A stop of the core's own is an answer beside it.
    let id = question(&s.message(1, &call(8, "ask", json!({}))));
    let sent = to(1, &s.feed(Input::Shutdown));
    assert_eq!(sent, [withdrawn(&id), answered(8, "stopped: ShuttingDown", true)]);
}

#[test]
fn a_question_goes_where_its_call_came_from() {
    let mut s = Served::new();
    s.open(1, "person", Carriage::Session);
    s.initialize(1, 1, "2025-11-25", everything());
    let first = s.text(1, 5, call(7, "ask", json!({"nonce": "five"})).to_string());
    let second = s.text(1, 6, call(8, "ask", json!({"nonce": "six"})).to_string());
    assert_eq!((first[0].route, second[0].route), (5, 6));
    assert_eq!(s.text(1, 7, json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}).to_string())[0].route, 5);
    let sent = s.text(1, 8, json!({"jsonrpc": "2.0", "id": second[0].message["id"], "result": accept("x")}).to_string());
    assert_eq!((sent.len(), sent[0].route), (1, 6));
}

#[test]
fn a_closed_connection_is_told_nothing_and_leaves_nothing() {
    let mut s = Served::new();
    s.legacy(1, "2025-11-25", everything());
    s.message(1, &call(7, "ask_all", json!({})));
    s.message(1, &call(8, "shrug", json!({})));
    assert_eq!(s.close(1), []);
    assert_eq!(s.core.kept(), Default::default());
    assert_eq!(s.core.poll_timeout(), None);
}

#[test]
fn the_end_of_the_clients_input_ends_its_questions() {
    let (mut s, _) = asked();
    let sent = to(1, &s.feed(Input::Ended { conn: Conn(1) }));
    let why = "the client ended its input, so elicitation/create can't be answered; keep it open until the call is answered";
    assert_eq!(sent, [answered(7, why, true)]);
    assert_eq!((s.core.kept().asks, s.core.poll_timeout()), (0, None));
    // A question that begins after it.
    let mut s = Served::new();
    s.legacy(1, "2025-11-25", everything());
    let id = question(&s.message(1, &call(7, "ask_twice", json!({}))));
    let both = [
        Input::Message { conn: Conn(1), route: Route(0), bytes: Bytes::from(json!({"jsonrpc": "2.0", "id": id, "result": accept("x")}).to_string()) },
        Input::Ended { conn: Conn(1) },
    ];
    let sent: Vec<Sent> = both.into_iter().flat_map(|input| s.feed(input)).collect();
    assert_eq!(to(1, &sent).last(), Some(&answered(7, why, true)));
}

#[test]
fn five_minutes_are_for_all_questions_of_a_call_together() {
    let left = |method: &str| format!("the client left {method} unanswered for 5 minutes; call again when someone can answer");
    let (mut s, id) = asked();
    assert_eq!(s.pass(5 * 60_000 - 1), []);
    assert_eq!(to(1, &s.pass(1)), [withdrawn(&id), answered(7, &left("elicitation/create"), true)]);
    assert_eq!(s.respond(1, &id, accept("late")), []);
    let mut s = Served::new();
    s.legacy(1, "2025-11-25", everything());
    let ids: Vec<Value> = to(1, &s.message(1, &call(7, "ask_all", json!({})))).iter().map(|m| m["id"].clone()).collect();
    s.pass(4 * 60_000);
    assert_eq!(s.respond(1, &ids[0], accept("x")), []);
    assert_eq!(to(1, &s.pass(60_000)), [withdrawn(&ids[1]), withdrawn(&ids[2]), answered(7, &left("sampling/createMessage"), true)]);
    assert_eq!((s.core.kept().asks, s.core.poll_timeout()), (0, None));
}

#[test]
fn a_question_that_the_handler_leaves_is_withdrawn_while_the_call_goes_on() {
    let mut s = Served::new();
    s.legacy(1, "2025-11-25", everything());
    let ids: Vec<Value> = to(1, &s.message(1, &call(7, "shrug", json!({"nonce": "n"})))).iter().map(|m| m["id"].clone()).collect();
    let sent = s.message(1, &json!({"jsonrpc": "2.0", "id": ids[0], "error": {"code": 1, "message": "m"}}));
    assert_eq!(to(1, &sent), [withdrawn(&ids[1])]);
    assert_eq!((s.core.kept().asks, s.core.kept().calls), (0, 1));
    assert_eq!(to(1, &s.pass(60_000)), [answered(7, "n: the client answered elicitation/create with an error: m", false)]);
}

#[test]
fn what_is_not_a_tool_may_ask_too() {
    let mut s = Served::new();
    s.legacy(1, "2025-11-25", everything());
    let cases = [
        ("resources/read", json!({"uri": "t://asking"}), json!({"contents": [{"uri": "t://asking", "text": accept("x").to_string()}]})),
        ("prompts/get", json!({"name": "asking"}), json!({"messages": [{"role": "user", "content": {"type": "text", "text": accept("x").to_string()}}]})),
        ("resources/list", json!({"cursor": "ask"}), json!({"resources": []})),
    ];
    for (method, params, result) in cases {
        let id = question(&s.message(1, &request(json!(7), method, params.clone())));
        assert_eq!(to(1, &s.respond(1, &id, accept("x"))), [json!({"jsonrpc": "2.0", "id": 7, "result": result})]);
        let id = question(&s.message(1, &request(json!(7), method, params)));
        let sent = to(1, &s.message(1, &json!({"jsonrpc": "2.0", "id": id, "error": {"code": 1, "message": "m"}})));
        assert_eq!(sent[0]["error"], json!({"code": -32602, "message": "the client answered elicitation/create with an error: m"}));
    }
}

#[test]
fn members_of_a_batch_ask_and_are_answered_together() {
    let mut s = Served::new();
    s.legacy(1, "2025-03-26", everything());
    let batch = json!([call(1, "ask", json!({"nonce": "a"})), call(2, "ask", json!({"nonce": "b"})), call(3, "echo", json!({"nonce": "c"}))]);
    let ids: Vec<Value> = to(1, &s.message(1, &batch)).iter().map(|m| m["id"].clone()).collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(s.cancel(1, json!(1)).len(), 1);
    let answers = json!([{"jsonrpc": "2.0", "id": ids[1], "result": accept("x")}, {"jsonrpc": "2.0", "id": ids[0], "result": accept("x")}]);
    let sent = to(1, &s.message(1, &answers));
    assert_eq!(sent, [json!([answered(3, "c", false), answered(2, &format!("b: {}", accept("x")), false)])]);
    assert_eq!(s.core.kept().batches, 0);
}

#[test]
fn a_batch_without_requests_is_never_answered() {
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    let answer = json!({"jsonrpc": "2.0", "id": 99, "result": {}});
    let bad = json!({"jsonrpc": "2.0", "id": null, "error": {}});
    let many: Vec<Value> = (0..101).map(|_| notification.clone()).collect();
    for revision in ["2024-11-05", "2025-03-26", "2025-11-25"] {
        let mut s = Served::new();
        s.legacy(1, revision, json!({}));
        for batch in [json!([notification]), json!([notification, answer, bad]), json!(many)] {
            assert_eq!(s.message(1, &batch), [], "{revision}");
        }
        for batch in [json!([]), json!([notification, call(1, "none", json!({}))]), json!([[notification]]), json!([7])] {
            assert_eq!(s.message(1, &batch).len(), 1, "{revision} {batch}");
        }
        assert_eq!(s.core.kept().batches, 0);
    }
}

#[test]
fn after_a_restart_late_answers_find_nobody_and_batches_are_whole() {
    let mut s = Served::new();
    s.legacy(1, "2025-03-26", everything());
    let batch = json!([call(1, "ask", json!({"nonce": "a"})), call(2, "echo", json!({"nonce": "b"})), call(3, "wait", json!({}))]);
    let old = question(&s.message(1, &batch));
    s.core.restart([9; 32]);
    let sent = to(1, &s.drain());
    let [cancelled, Value::Array(answers)] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!(*cancelled, withdrawn(&old));
    let told: Vec<(Value, Value)> = answers.iter().map(|a| (a["id"].clone(), a["error"]["code"].clone())).collect();
    assert_eq!(told, [(json!(2), json!(null)), (json!(1), json!(-32603)), (json!(3), json!(-32603))]);
    let new = question(&s.message(1, &call(4, "ask", json!({"nonce": "d"}))));
    assert_ne!(old, new);
    assert_eq!(s.respond(1, &old, accept("late")), []);
    assert_eq!(to(1, &s.respond(1, &new, accept("x"))), [answered(4, &format!("d: {}", accept("x")), false)]);
    assert_eq!((s.core.kept().asks, s.core.kept().calls, s.core.kept().batches), (0, 0, 0));
}

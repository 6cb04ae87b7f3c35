//! What a toolset offers beside tools, through the core in both eras: each method's success and each refusal, to the letter.

mod support;

use deskhand_core::protocol::revision::Revision;
use deskhand_core::rpc::body::Nature;
use deskhand_core::{Carriage, Limits};
use serde_json::{Value, json};
use support::offers::{BARE, MODERN, Sent, Served, call, everything, modern, request, to};

fn legacy() -> Served {
    let mut s = Served::new();
    s.legacy(1, "2025-11-25", json!({}));
    s
}

/// The one answer to a request with id 7.
fn ask(s: &mut Served, method: &str, params: Value) -> Value {
    answer(s.message(1, &request(json!(7), method, params)))
}

fn ask_modern(s: &mut Served, method: &str, params: Value) -> Value {
    answer(s.message(2, &modern(request(json!(7), method, params), json!({}))))
}

fn answer(sent: Vec<Sent>) -> Value {
    let [only] = sent.as_slice() else { panic!("{sent:?}") };
    let mut message = only.message.clone();
    assert_eq!((&message["jsonrpc"], &message["id"]), (&json!("2.0"), &json!(7)));
    let error = message["error"]["code"].as_i64();
    assert_eq!(only.nature, Nature::Answer { error });
    message[if error.is_some() { "error" } else { "result" }].take()
}

fn both() -> Served {
    let mut s = legacy();
    s.open(2, "person", Carriage::Stdio);
    s
}

/// What the modern era adds to every result.
fn complete(mut result: Value, cacheable: bool) -> Value {
    result["resultType"] = json!("complete");
    result["_meta"] = server_info();
    if cacheable {
        result["ttlMs"] = json!(0);
        result["cacheScope"] = json!("private");
    }
    result
}

fn server_info() -> Value {
    json!({"io.modelcontextprotocol/serverInfo": {"name": "deskhand", "title": "Offers", "version": "0.0.0", "description": "Everything that can be offered"}})
}

/// The success of each method, as the legacy era has it, and whether the modern one lets it be cached.
fn successes() -> Vec<(&'static str, Value, Value, bool)> {
    let many: Vec<String> = (0..100).map(|n| format!("x{n}")).collect();
    let greet = |argument: &str, context: Value| json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": argument, "value": "x"}, "context": context});
    vec![
        ("resources/list", json!({}), json!({"resources": [{"uri": "t://text", "name": "text"}, {"uri": "t://blob", "name": "blob"}], "nextCursor": "2"}), true),
        ("resources/list", json!({"cursor": null}), json!({"resources": [{"uri": "t://text", "name": "text"}, {"uri": "t://blob", "name": "blob"}], "nextCursor": "2"}), true),
        ("resources/list", json!({"cursor": "2"}), json!({"resources": [{"uri": "t://asking", "name": "asking"}]}), true),
        (
            "resources/templates/list",
            json!({}),
            json!({"resourceTemplates": [{"uriTemplate": "t://{id}", "name": "any", "title": "Any", "description": "By id", "mimeType": "text/plain"}]}),
            true,
        ),
        ("resources/read", json!({"uri": "t://text"}), json!({"contents": [{"uri": "t://text", "mimeType": "text/plain", "text": "a \"text\""}]}), true),
        ("resources/read", json!({"uri": "t://blob"}), json!({"contents": [{"uri": "t://blob", "blob": "AAAA"}]}), true),
        (
            "prompts/list",
            json!({}),
            json!({"prompts": [
                {"name": "plain", "title": "Plain", "description": "Without arguments", "arguments": []},
                {"name": "greet", "title": "Greet", "description": "A greeting", "arguments": [
                    {"name": "name", "description": "Whom", "required": true}, {"name": "tone", "description": "How", "required": false}]},
                {"name": "asking", "title": "Asking", "description": "Asks first", "arguments": []},
            ]}),
            true,
        ),
        ("prompts/get", json!({"name": "plain"}), json!({"messages": [{"role": "user", "content": {"type": "text", "text": "plain"}}]}), false),
        (
            "prompts/get",
            json!({"name": "greet", "arguments": {"name": "Ünal", "tone": "warmly", "unknown": "is let through"}}),
            json!({"description": "A \"greeting\"", "messages": [
                {"role": "user", "content": {"type": "text", "text": "Ünal warmly"}},
                {"role": "assistant", "content": {"type": "image", "mimeType": "image/png", "data": "AAAA"}},
            ]}),
            false,
        ),
        ("completion/complete", greet("many", json!(null)), json!({"completion": {"values": many, "total": 1000, "hasMore": true}}), false),
        (
            "completion/complete",
            greet("tone", json!({"arguments": {"name": "a"}})),
            json!({"completion": {"values": ["tone=x with {\"name\":\"a\"}"], "hasMore": false}}),
            false,
        ),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/resource", "uri": "t://{id}"}, "argument": {"name": "id", "value": ""}}),
            json!({"completion": {"values": ["text"], "hasMore": false}}),
            false,
        ),
    ]
}

#[test]
fn each_method_succeeds_in_both_eras() {
    let mut s = both();
    for (method, params, result, cacheable) in successes() {
        assert_eq!(ask(&mut s, method, params.clone()), result, "{method} {params}");
        assert_eq!(ask_modern(&mut s, method, params.clone()), complete(result, cacheable), "{method} {params}");
    }
    assert!(s.core.is_idle());
}

#[test]
fn older_revisions_show_no_titles() {
    let mut s = Served::new();
    s.legacy(1, "2024-11-05", json!({}));
    for (method, key) in [("prompts/list", "prompts"), ("resources/templates/list", "resourceTemplates")] {
        let shown = ask(&mut s, method, json!({}));
        assert!(shown[key].as_array().unwrap().iter().all(|one| one.get("title").is_none() && one.get("name").is_some()), "{shown}");
    }
}

fn error(code: i64, message: &str) -> Value {
    json!({"code": code, "message": message})
}

/// The refusal of each method, alike in both eras.
fn refusals() -> Vec<(&'static str, Value, Value)> {
    let invalid = |what: &str| error(-32602, &format!("Invalid params: {what}"));
    let argument = json!({"name": "tone", "value": "x"});
    let reference = json!({"type": "ref/prompt", "name": "greet"});
    let bad_ref = "completion/complete needs a ref of type ref/prompt with a name, or ref/resource with a uri";
    let long = "t".repeat((8 << 10) + 1);
    vec![
        ("resources/list", json!({"cursor": "9"}), invalid("unknown cursor")),
        ("resources/list", json!({"cursor": 2}), invalid("cursor must be a string")),
        ("resources/templates/list", json!({"cursor": "2"}), invalid("unknown cursor; the list has one page")),
        ("resources/read", json!({}), invalid("resources/read needs a uri, a string")),
        ("resources/read", json!({"uri": ["t://text"]}), invalid("resources/read needs a uri, a string")),
        ("resources/read", json!({"uri": long}), invalid("a uri of more than 8192 bytes")),
        ("prompts/list", json!({"cursor": 0}), invalid("unknown cursor; the list has one page")),
        ("prompts/get", json!({}), invalid("prompts/get needs the prompt's name")),
        ("prompts/get", json!({"name": "p".repeat(100)}), error(-32602, &format!("Unknown prompt: {}...", "p".repeat(80)))),
        ("prompts/get", json!({"name": "greet"}), invalid("the prompt greet needs the argument name")),
        ("prompts/get", json!({"name": "greet", "arguments": {"tone": "warmly"}}), invalid("the prompt greet needs the argument name")),
        ("prompts/get", json!({"name": "greet", "arguments": {"name": 7}}), invalid("a prompt's arguments are strings")),
        ("prompts/get", json!({"name": "greet", "arguments": {"name": null}}), invalid("a prompt's arguments are strings")),
        ("prompts/get", json!({"name": "greet", "arguments": ["name"]}), invalid("arguments must be an object")),
        ("prompts/get", json!({"name": "greet", "arguments": {"name": "nobody"}}), error(-32602, "invalid arguments: nobody can't be greeted")),
        ("completion/complete", json!({}), invalid("completion/complete needs ref")),
        ("completion/complete", json!({"ref": reference}), invalid("completion/complete needs argument")),
        ("completion/complete", json!({"ref": "greet", "argument": argument}), invalid(bad_ref)),
        ("completion/complete", json!({"ref": {"type": "ref/prompt", "uri": "greet"}, "argument": argument}), invalid(bad_ref)),
        ("completion/complete", json!({"ref": {"type": "ref/resource", "name": "greet"}, "argument": argument}), invalid(bad_ref)),
        ("completion/complete", json!({"ref": reference, "argument": "tone"}), invalid("completion/complete needs argument.name")),
        ("completion/complete", json!({"ref": reference, "argument": {"name": "tone"}}), invalid("completion/complete needs argument.value")),
        ("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "none"}, "argument": argument}), invalid("nothing to complete")),
        ("resources/write", json!({}), error(-32601, "Method not found: resources/write")),
        ("tools/call", json!({"arguments": {}}), invalid("tools/call needs the tool's name")),
        ("tools/call", json!({"name": "none"}), error(-32602, "Unknown tool: none")),
    ]
}

#[test]
fn each_method_refuses_in_both_eras() {
    let mut s = both();
    for (method, params, error) in refusals() {
        assert_eq!(ask(&mut s, method, params.clone()), error, "{method} {params}");
        assert_eq!(ask_modern(&mut s, method, params.clone()), error, "{method} {params}");
    }
    // Only the code differs, by the era.
    let not_found = |code| json!({"code": code, "message": "Resource not found", "data": {"uri": "t://none"}});
    assert_eq!(ask(&mut s, "resources/read", json!({"uri": "t://none"})), not_found(-32002));
    assert_eq!(ask_modern(&mut s, "resources/read", json!({"uri": "t://none"})), not_found(-32602));
    for method in ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "initialize"] {
        let params = json!({"uri": "t://text", "level": "info"});
        assert_eq!(ask_modern(&mut s, method, params), error(-32601, &format!("Method not found: {method}")));
    }
    assert!(s.core.is_idle());
}

#[test]
fn what_a_toolset_lacks_is_no_method_and_no_capability() {
    let mut s = Served::of(&BARE, Limits::default());
    s.legacy(1, "2025-11-25", json!({}));
    s.open(2, "person", Carriage::Stdio);
    let methods = ["resources/list", "resources/templates/list", "resources/read", "prompts/list", "prompts/get", "completion/complete"];
    for method in methods {
        let params = json!({"uri": "t://text", "name": "greet"});
        assert_eq!(ask(&mut s, method, params.clone()), error(-32601, &format!("Method not found: {method}")));
        assert_eq!(ask_modern(&mut s, method, params), error(-32601, &format!("Method not found: {method}")));
    }
    for method in ["logging/setLevel", "resources/subscribe", "resources/unsubscribe"] {
        assert_eq!(ask(&mut s, method, json!({"uri": "t://text", "level": "info"})), error(-32601, &format!("Method not found: {method}")));
    }
    assert_eq!(ask_modern(&mut s, "server/discover", json!({}))["capabilities"], json!({"tools": {"listChanged": true}}));
    let all = json!({"tools": {"listChanged": true}, "prompts": {"listChanged": true}, "resources": {"listChanged": true, "subscribe": true}, "completions": {}, "logging": {}});
    assert_eq!(ask_modern(&mut both(), "server/discover", json!({}))["capabilities"], all);
}

#[test]
fn blocks_are_as_each_revision_has_them() {
    let image = json!({"type": "image", "mimeType": "image/png", "data": "AAAA"});
    let audio = json!({"type": "audio", "mimeType": "audio/wav", "data": "BBBB"});
    let resource = json!({"type": "resource", "resource": {"uri": "t://text", "text": "\"hi\""}});
    let link = json!({"type": "resource_link", "uri": "t://text", "name": "text"});
    let text = |text: &str| json!({"type": "text", "text": text});
    for revision in Revision::ALL {
        let mut s = Served::new();
        let result = if revision.is_modern() {
            s.open(2, "person", Carriage::Stdio);
            ask_modern(&mut s, "tools/call", json!({"name": "media"}))
        } else {
            s.legacy(1, revision.name(), json!({}));
            ask(&mut s, "tools/call", json!({"name": "media"}))
        };
        let audio = if revision == Revision::V2024_11_05 { text("[audio/wav: the client's revision of the protocol carries no audio]") } else { audio.clone() };
        let link = if revision < Revision::V2025_06_18 { text("text: t://text") } else { link.clone() };
        assert_eq!(result["content"], json!([image, audio, resource, link]), "{revision:?}");
    }
    let named = json!({"content": [{"type": "text", "text": "{\"detail\":\"it broke; mend it\",\"error\":\"broken\"}"}], "isError": true});
    let mut s = Served::new();
    s.legacy(1, "2025-03-26", json!({}));
    assert_eq!(ask(&mut s, "tools/call", json!({"name": "fail"})), named);
}

#[test]
fn log_messages_follow_the_level_that_was_asked_for() {
    let levels = |sent: &[Sent], nonce: &str| -> Vec<String> {
        let messages: Vec<&Value> = sent.iter().map(|s| &s.message).filter(|m| m["method"] == "notifications/message").collect();
        assert!(messages.iter().all(|m| m["params"]["logger"] == "test" && m["params"]["data"] == json!({"nonce": nonce})));
        messages.iter().map(|m| m["params"]["level"].as_str().unwrap().to_string()).collect()
    };
    let mut s = both();
    let tell = |nonce: &str| call(7, "tell", json!({"nonce": nonce}));
    assert_eq!(levels(&s.message(1, &tell("a")), "a"), ["info", "warning", "emergency"]);
    for (level, told) in [("debug", 4), ("warning", 2), ("emergency", 1)] {
        assert_eq!(ask(&mut s, "logging/setLevel", json!({"level": level})), json!({}));
        assert_eq!(levels(&s.message(1, &tell(level)), level).len(), told);
    }
    let message = "Invalid params: level must be debug, info, notice, warning, error, critical, alert or emergency";
    for wrong in [json!({}), json!({"level": "loud"}), json!({"level": 3}), json!({"level": null}), json!({"level": {"debug": null}}), json!({"level": "Debug"})] {
        assert_eq!(ask(&mut s, "logging/setLevel", wrong.clone()), error(-32602, message), "{wrong}");
    }
    assert_eq!(levels(&s.message(1, &tell("b")), "b"), ["emergency"]);
    // The modern era: by request, and nothing unless asked.
    let with = |level: Value| {
        let mut message = modern(tell("m"), json!({}));
        message["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = level;
        message
    };
    assert_eq!(levels(&s.message(2, &modern(tell("m"), json!({}))), "m"), [""; 0]);
    assert_eq!(levels(&s.message(2, &with(json!("warning"))), "m"), ["warning", "emergency"]);
    assert_eq!(levels(&s.message(2, &with(json!("loud"))), "m"), [""; 0]);
}

#[test]
fn changes_are_told_to_those_who_asked() {
    let mut s = Served::new();
    s.legacy(1, "2025-11-25", json!({}));
    s.legacy(3, "2025-11-25", json!({}));
    s.open(4, "person", Carriage::Exchange);
    s.open(5, "person", Carriage::Exchange);
    // Opened, and not past its handshake.
    s.open(6, "person", Carriage::Session);
    assert_eq!(ask(&mut s, "resources/subscribe", json!({"uri": "t://text"})), json!({}));
    assert_eq!(ask(&mut s, "resources/subscribe", json!({"uri": "t://blob"})), json!({}));
    assert_eq!(ask(&mut s, "resources/unsubscribe", json!({"uri": "t://blob"})), json!({}));
    assert_eq!(ask(&mut s, "resources/subscribe", json!({})), error(-32602, "Invalid params: resources/subscribe needs a uri, a string"));
    let filter = json!({"toolsListChanged": true, "promptsListChanged": false, "resourceSubscriptions": ["t://text", 7, "t".repeat(9000)], "other": true});
    let sent = s.message(4, &modern(request(json!("sub"), "subscriptions/listen", json!({"notifications": filter})), json!({})));
    let meta = json!({"io.modelcontextprotocol/subscriptionId": "sub"});
    let acknowledged = json!({"toolsListChanged": true, "resourceSubscriptions": ["t://text"]});
    let acknowledgement = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {"_meta": meta, "notifications": acknowledged}});
    assert_eq!(to(4, &sent), [acknowledgement]);
    let sent = s.message(5, &modern(request(json!(5), "subscriptions/listen", json!({"notifications": {}})), json!({})));
    assert_eq!(to(5, &sent)[0]["params"], json!({"_meta": {"io.modelcontextprotocol/subscriptionId": 5}, "notifications": {}}));
    let sent = s.message(1, &call(7, "change", json!({})));
    let of = |conn: u64| -> Vec<(String, Value)> {
        let messages = sent.iter().filter(|s| s.conn == conn && s.message.get("method").is_some());
        messages.map(|s| (s.message["method"].as_str().unwrap().trim_start_matches("notifications/").to_string(), s.message["params"].clone())).collect()
    };
    let lists = ["tools/list_changed", "resources/list_changed", "prompts/list_changed"].map(|m| (m.to_string(), Value::Null));
    assert_eq!(of(1), [lists.to_vec(), vec![("resources/updated".to_string(), json!({"uri": "t://text"}))]].concat());
    assert_eq!(of(3), lists);
    assert_eq!(of(4), [("tools/list_changed".to_string(), json!({"_meta": meta})), ("resources/updated".to_string(), json!({"_meta": meta, "uri": "t://text"}))]);
    assert_eq!((of(5), of(6)), (vec![], vec![]));
    for bad in [json!({}), json!({"notifications": []}), json!({"notifications": null})] {
        let params = bad.clone();
        assert_eq!(ask_modern(&mut both(), "subscriptions/listen", params), error(-32602, "Invalid params: subscriptions/listen needs notifications, an object"), "{bad}");
    }
}

#[test]
fn bounds_are_told_and_hold() {
    let limits = Limits { calls_per_connection: 2, subscribed_resources: 2, subscriptions_per_connection: 1, ..Limits::default() };
    let mut s = Served::of(&support::offers::OFFERS, limits);
    s.legacy(1, "2025-11-25", json!({}));
    s.open(2, "person", Carriage::Stdio);
    for uri in ["a", "b", "a"] {
        assert_eq!(ask(&mut s, "resources/subscribe", json!({"uri": uri})), json!({}));
    }
    assert_eq!(ask(&mut s, "resources/subscribe", json!({"uri": "c"})), error(-32600, "Invalid Request: more than 2 resources; unsubscribe from one first"));
    let listen = |id: u64, uris: Value| modern(request(json!(id), "subscriptions/listen", json!({"notifications": {"resourceSubscriptions": uris}})), json!({}));
    assert_eq!(answer(s.message(2, &listen(7, json!(["a", "b", "c"])))), error(-32602, "Invalid params: more than 2 resourceSubscriptions"));
    assert_eq!(s.message(2, &listen(6, json!(["a", "b"]))).len(), 1);
    assert_eq!(answer(s.message(2, &listen(7, json!([])))), error(-32600, "Invalid Request: more than 1 subscriptions; end one first"));
    for id in [1, 2] {
        assert_eq!(s.message(1, &request(json!(id), "resources/read", json!({"uri": "t://slow"}))), []);
    }
    let full = error(-32600, "Invalid Request: too many requests are in flight; wait for answers before sending more");
    assert_eq!(ask(&mut s, "resources/read", json!({"uri": "t://slow"})), full);
    assert_eq!(ask(&mut s, "prompts/get", json!({"name": "plain"})), full);
    let twice = answer_of(s.message(1, &request(json!(1), "resources/list", json!({}))));
    assert_eq!(twice["error"], error(-32600, "Invalid Request: a request with this id is still in flight"));
    assert_eq!(s.pass(1000).len(), 2);
    assert_eq!(s.core.kept().calls, 0);
    s.close(1);
    s.close(2);
    assert_eq!(s.core.kept(), Default::default());
}

fn answer_of(sent: Vec<Sent>) -> Value {
    sent.into_iter().next().unwrap().message
}

#[test]
fn carriages_serve_their_eras_only() {
    let mut s = Served::new();
    s.open(1, "person", Carriage::Exchange);
    s.open(2, "person", Carriage::Session);
    let needs = error(-32602, "Invalid params: _meta needs io.modelcontextprotocol/protocolVersion");
    for method in ["initialize", "ping", "tools/list", "resources/list"] {
        assert_eq!(ask(&mut s, method, json!({})), needs);
    }
    s.initialize(2, 3, "2025-11-25", everything());
    let refused = error(-32600, "Invalid Request: a request with _meta of this revision doesn't belong to a session; send it without one");
    assert_eq!(ask_modern(&mut s, "resources/list", json!({})), refused);
    // Not of the revision that a version names: told before the carriage is looked at.
    let params = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2025-11-25", "io.modelcontextprotocol/clientCapabilities": {}}});
    let unsupported = json!({"code": -32022, "message": "Unsupported protocol version", "data": {"supported": [MODERN], "requested": "2025-11-25"}});
    assert_eq!(ask(&mut s, "resources/list", params), unsupported);
}

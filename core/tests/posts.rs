//! What a POST is, decided before the core sees it: heads and bodies in a table, and any heads and bodies at all.

#![allow(clippy::disallowed_methods)] // a test may ask its environment

mod support;

use deskhand_core::protocol::http::{Head, HttpRefusal, Posted, inspect, status_of};
use deskhand_core::rpc::body::Nature;
use deskhand_core::{Carriage, Input};
use proptest::prelude::*;
use serde_json::{Value, json};
use support::offers::{MODERN, OFFERS, Served, call, modern, request};

#[derive(Clone, Debug, Default)]
struct Post {
    version: Option<String>,
    method: Option<String>,
    name: Option<String>,
    session: Option<String>,
    params: Vec<(String, Vec<u8>)>,
}

impl Post {
    fn inspect(&self, body: &[u8]) -> Result<Posted, HttpRefusal> {
        let param = |name: &str| self.params.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_slice()).collect();
        let head = Head { version: self.version.as_deref(), method: self.method.as_deref(), name: self.name.as_deref(), session: self.session.as_deref(), param: &param };
        inspect(&OFFERS, &head, body)
    }
}

fn none() -> Post {
    Post::default()
}

fn session() -> Post {
    Post { session: Some("s".into()), ..none() }
}

fn versioned(version: &str) -> Post {
    Post { version: Some(version.into()), ..none() }
}

/// A head as it fits the modern request.
fn fitting(method: &str, name: Option<&str>) -> Post {
    Post { version: Some(MODERN.into()), method: Some(method.into()), name: name.map(str::to_string), ..none() }
}

fn with(mut post: Post, name: &str, value: &[u8]) -> Post {
    post.params.push((name.into(), value.to_vec()));
    post
}

fn list() -> Value {
    modern(request(json!(1), "tools/list", json!({})), json!({}))
}

fn echo() -> Value {
    modern(call(1, "echo", json!({})), json!({}))
}

const YES: Verdict = Ok(Posted::Modern { answered: true });
const LEGACY: Verdict = Ok(Posted::Legacy { answered: true });
const QUIET: Verdict = Ok(Posted::Legacy { answered: false });

/// All refusals are 400: their code, and whether they name the request.
fn verdict(post: &Post, body: &[u8]) -> Verdict {
    post.inspect(body).map_err(|refusal| {
        assert_eq!(refusal.status, 400);
        let message: Value = serde_json::from_slice(&refusal.body.to_vec()).unwrap();
        let code = message["error"]["code"].as_i64().unwrap();
        assert_eq!(refusal.body.nature(), Nature::Answer { error: Some(code) });
        // Without a request there is no id, not even null: an HTTP answer's place says what it belongs to.
        assert!(!message["id"].is_null() || message.get("id").is_none(), "{message}");
        (code, message.get("id").is_some())
    })
}

type Verdict = Result<Posted, (i64, bool)>;

fn check(table: Vec<(&str, Post, Value, Verdict)>) {
    for (what, post, body, expected) in table {
        assert_eq!(verdict(&post, body.to_string().as_bytes()), expected, "{what}: {post:?} {body}");
    }
}

#[test]
fn what_is_not_json_or_no_message_is_refused() {
    for post in [none(), session(), versioned(MODERN), versioned("2025-11-25"), fitting("tools/list", None)] {
        for (body, refused) in [
            (&b""[..], (-32700, false)),
            (b"{", (-32700, false)),
            (b"\xff", (-32700, false)),
            (b"[{},", (-32700, false)),
            (b"7", (-32600, false)),
            (b"{}", (-32600, false)),
            (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", (-32600, false)),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1}", (-32600, true)),
            (b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", (-32600, true)),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}", (-32600, true)),
            (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{}}", (-32600, false)),
            (b"{\"jsonrpc\":\"1.0\",\"id\":1,\"result\":{}}", (-32600, false)),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"_meta\":7}}", (-32602, true)),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"name\":7}}", (-32602, true)),
        ] {
            assert_eq!(verdict(&post, body), Err(refused), "{post:?} {}", String::from_utf8_lossy(body));
        }
    }
}

#[test]
fn the_era_is_told_by_meta_and_version() {
    let ping = || request(json!(1), "ping", json!({}));
    let init = || request(json!(1), "initialize", json!({"protocolVersion": "2025-11-25"}));
    let discover = || request(json!(1), "server/discover", json!({}));
    let named = |version: Value, capabilities: Value| {
        let mut message = list();
        message["params"]["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": capabilities});
        message
    };
    let mut in_session = fitting("tools/list", None);
    in_session.session = Some("s".into());
    check(vec![
        ("a session begins", none(), init(), Ok(Posted::Initialize)),
        ("and again", session(), init(), Ok(Posted::Initialize)),
        ("whatever version", versioned("2024-11-05"), init(), Ok(Posted::Initialize)),
        ("even an unknown one", versioned("1999-01-01"), init(), Ok(Posted::Initialize)),
        ("but not in the modern era", versioned(MODERN), init(), Err((-32602, true))),
        ("where it is a method like any other", fitting("initialize", None), modern(init(), json!({})), YES),
        ("in a session", session(), ping(), LEGACY),
        ("with its version", Post { version: Some("2025-06-18".into()), ..session() }, ping(), LEGACY),
        ("without a session", none(), ping(), Err((-32600, true))),
        ("without one, with a version", versioned("2025-11-25"), ping(), Err((-32600, true))),
        ("a version that isn't known", Post { version: Some("1999-01-01".into()), ..session() }, ping(), Err((-32022, true))),
        ("an empty version", Post { version: Some(String::new()), ..session() }, ping(), Err((-32022, true))),
        ("a header without _meta", versioned(MODERN), ping(), Err((-32602, true))),
        ("and in a session", Post { version: Some(MODERN.into()), ..session() }, ping(), Err((-32602, true))),
        ("discovering needs _meta", none(), discover(), Err((-32602, true))),
        ("and has it", fitting("server/discover", None), modern(discover(), json!({})), YES),
        ("modern", fitting("tools/list", None), list(), YES),
        ("whose session is ignored", in_session, list(), YES),
        ("required _meta comes before headers", none(), named(json!(MODERN), json!(null)), Err((-32602, true))),
        ("whatever is wrong with it", none(), named(json!(MODERN), json!([])), Err((-32602, true))),
        ("a version is a string", fitting("tools/list", None), named(json!(7), json!({})), Err((-32602, true))),
        ("no header", none(), list(), Err((-32020, true))),
        ("another header", versioned("2025-11-25"), list(), Err((-32020, true))),
        ("headers come before knowing the version", none(), named(json!("2030-01-01"), json!({})), Err((-32020, true))),
        ("a version that isn't known, named twice", versioned("2030-01-01"), named(json!("2030-01-01"), json!({})), Err((-32022, true))),
        ("a legacy one", versioned("2025-11-25"), named(json!("2025-11-25"), json!({})), Err((-32022, true))),
        ("no method", versioned(MODERN), list(), Err((-32020, true))),
        ("another method", fitting("tools/call", None), list(), Err((-32020, true))),
        ("in other letters", fitting("Tools/List", None), list(), Err((-32020, true))),
        ("a method that isn't known is the core's to refuse", fitting("x", None), modern(request(json!(1), "x", json!({})), json!({})), YES),
    ]);
}

#[test]
fn what_needs_no_answer_is_accepted() {
    let note = |params: Value| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    let meta = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": MODERN}});
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    let both = json!({"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}});
    let bad = json!({"jsonrpc": "2.0", "id": null, "result": {}});
    let ping = request(json!(1), "ping", json!({}));
    let modern_quiet = Ok(Posted::Modern { answered: false });
    let in_modern = Post { version: Some(MODERN.into()), ..session() };
    check(vec![
        ("a notification", session(), note(json!({"requestId": 1})), QUIET),
        ("outside a session", none(), note(json!({})), Err((-32600, false))),
        ("of the modern era, by its header alone", versioned(MODERN), note(json!({})), modern_quiet),
        ("or by its _meta", none(), note(meta.clone()), modern_quiet),
        ("in a session it is the session's", session(), note(meta), QUIET),
        ("unreadable", session(), note(json!({"name": 7})), QUIET),
        ("an answer", session(), answer.clone(), QUIET),
        ("an error with a result", session(), both, QUIET),
        ("outside a session", none(), answer.clone(), Err((-32600, false))),
        ("which the modern era doesn't have", in_modern.clone(), answer.clone(), Err((-32600, false))),
        ("an answer to nothing", session(), bad.clone(), Err((-32600, false))),
        ("a batch of these", session(), json!([note(json!({})), answer, bad]), QUIET),
        ("with a request", session(), json!([note(json!({})), ping]), LEGACY),
        ("with what is no message", session(), json!([7]), LEGACY),
        ("with a batch", session(), json!([[ping]]), LEGACY),
        ("with nothing", session(), json!([]), LEGACY),
        ("outside a session", none(), json!([ping]), Err((-32600, false))),
        ("in the modern era", in_modern, json!([ping]), Err((-32600, false))),
    ]);
}

#[test]
fn names_and_mirrored_arguments_are_compared() {
    let of = |method: &str, params: Value| modern(request(json!(1), method, params), json!({}));
    let named = |name: &str| modern(call(1, name, json!({})), json!({}));
    let mirrored = |arguments: Value| modern(call(1, "mirrored", arguments), json!({}));
    let post = || fitting("tools/call", Some("mirrored"));
    let region = |value: &[u8]| with(post(), "mcp-param-region", value);
    let count = |value: &str| with(post(), "mcp-param-count", value.as_bytes());
    let no = Err((-32020, true));
    check(vec![
        ("the tool's name", fitting("tools/call", Some("echo")), echo(), YES),
        ("with blanks", fitting("tools/call", Some(" echo\t")), echo(), YES),
        ("no name", fitting("tools/call", None), echo(), no),
        ("another name", fitting("tools/call", Some("wait")), echo(), no),
        ("a body without one is the core's to refuse", fitting("tools/call", None), of("tools/call", json!({})), YES),
        ("encoded", fitting("tools/call", Some("=?base64?w5xuYWw=?=")), named("Ünal"), YES),
        ("encoded badly", fitting("tools/call", Some("=?base64?w5x?=")), named("Ünal"), no),
        ("encoded bytes that are no text", fitting("tools/call", Some("=?base64?/w==?=")), named("Ünal"), no),
        ("not encoded", fitting("tools/call", Some("Ünal")), named("Ünal"), no),
        ("an encoding's beginning alone is a name", fitting("tools/call", Some("=?base64?=")), named("=?base64?="), YES),
        ("a resource's uri", fitting("resources/read", Some("t://text")), of("resources/read", json!({"uri": "t://text"})), YES),
        ("not its name", fitting("resources/read", Some("text")), of("resources/read", json!({"uri": "t://text"})), no),
        ("a prompt's name", fitting("prompts/get", Some("plain")), of("prompts/get", json!({"name": "plain"})), YES),
        ("others have none", fitting("resources/list", Some("anything")), of("resources/list", json!({"name": "x", "uri": "y"})), YES),
        ("mirrored", region(b"eu"), mirrored(json!({"region": "eu"})), YES),
        ("encoded", region(b"=?base64?w5xuYWw=?="), mirrored(json!({"region": "Ünal"})), YES),
        ("neither", post(), mirrored(json!({})), YES),
        ("null is none", post(), mirrored(json!({"region": null})), YES),
        ("no header", post(), mirrored(json!({"region": "eu"})), no),
        ("no argument", region(b"eu"), mirrored(json!({})), no),
        ("no arguments at all", region(b"eu"), of("tools/call", json!({"name": "mirrored"})), no),
        ("another", region(b"us"), mirrored(json!({"region": "eu"})), no),
        ("not text", region(b"\xff"), mirrored(json!({"region": "eu"})), no),
        ("twice", with(region(b"eu"), "mcp-param-region", b"eu"), mirrored(json!({"region": "eu"})), no),
        ("an object", region(b"{}"), mirrored(json!({"region": {}})), no),
        ("a number", count("3"), mirrored(json!({"count": 3})), YES),
        ("in another form", count("3.0"), mirrored(json!({"count": 3})), YES),
        ("another number", count("4"), mirrored(json!({"count": 3})), no),
        ("no number", count("three"), mirrored(json!({"count": 3})), no),
        ("not the nearest float's", count("9007199254740993"), mirrored(json!({"count": 9_007_199_254_740_992_u64})), no),
        ("to the last digit", count("9007199254740993"), mirrored(json!({"count": 9_007_199_254_740_993_u64})), YES),
        ("below an object", with(post(), "mcp-param-flag", b"true"), mirrored(json!({"deep": {"flag": true}})), YES),
        ("and not beside it", with(post(), "mcp-param-flag", b"true"), mirrored(json!({"flag": true})), no),
        ("a header that mirrors nothing", with(post(), "mcp-param-other", b"x"), mirrored(json!({})), YES),
    ]);
}

#[test]
fn the_status_follows_the_era_and_the_code() {
    let error = |code| Nature::Answer { error: Some(code) };
    let modern = Posted::Modern { answered: true };
    for (code, status) in [(-32601, 404), (-32020, 400), (-32021, 400), (-32022, 400), (-32602, 200), (-32603, 200), (-32600, 200), (-32700, 200)] {
        assert_eq!(status_of(modern, error(code)), status);
        assert_eq!(status_of(Posted::Legacy { answered: true }, error(code)), 200);
        assert_eq!(status_of(Posted::Initialize, error(code)), 200);
    }
    assert_eq!((status_of(modern, Nature::Answer { error: None }), status_of(modern, Nature::Message)), (200, 200));
}

const METHODS: &[&str] = &[
    "initialize", "ping", "tools/list", "tools/call", "resources/list", "resources/read", "resources/subscribe", "prompts/get", "completion/complete",
    "logging/setLevel", "server/discover", "subscriptions/listen", "notifications/initialized", "notifications/cancelled", "x",
];
const VERSIONS: &[&str] = &["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN, "1999-01-01", ""];

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![Just(json!(null)), Just(json!(1)), Just(json!("1")), Just(json!(1.5)), Just(json!({})), Just(json!([1])), Just(json!(true)), Just(json!("i".repeat(2000)))]
}

fn any_params() -> impl Strategy<Value = Value> {
    let meta = (proptest::option::of(prop_oneof![6 => Just(json!(MODERN)), 1 => any_value()]), prop_oneof![6 => Just(json!({})), 1 => any_value()]);
    let name = prop_oneof![Just("echo"), Just("ask"), Just("mirrored"), Just("plain"), Just("none")];
    (meta, proptest::option::weighted(0.7, name), proptest::option::weighted(0.2, any_value()), proptest::option::weighted(0.2, any_value())).prop_map(|((version, capabilities), name, odd, other)| {
        let mut params = json!({"uri": "t://text", "requestId": 1, "level": "info", "notifications": {}});
        if let Some(version) = version {
            params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": capabilities});
        }
        if let Some(name) = name {
            params["name"] = json!(name);
        }
        if let Some(odd) = odd {
            params["arguments"] = odd;
        }
        if let Some(other) = other {
            params["requestState"] = other;
        }
        params
    })
}

fn any_message() -> impl Strategy<Value = Value> {
    let id = proptest::option::weighted(0.8, prop_oneof![4 => Just(json!(1)), 1 => any_value()]);
    let method = proptest::option::weighted(0.8, prop_oneof![10 => proptest::sample::select(METHODS).prop_map(|m| json!(m)), 1 => any_value()]);
    let params = proptest::option::weighted(0.8, prop_oneof![8 => any_params(), 1 => any_value()]);
    (id, method, params, proptest::option::weighted(0.15, any_value()), proptest::option::weighted(0.15, any_value()), proptest::bool::weighted(0.95)).prop_map(
        |(id, method, params, result, error, jsonrpc)| {
            let mut message = json!({});
            for (key, value) in [("id", id), ("method", method), ("params", params), ("result", result), ("error", error), ("jsonrpc", jsonrpc.then(|| json!("2.0")))] {
                if let Some(value) = value {
                    message[key] = value;
                }
            }
            message
        },
    )
}

fn any_body() -> impl Strategy<Value = Vec<u8>> {
    let batch = proptest::collection::vec(prop_oneof![8 => any_message(), 1 => any_value()], 0..5).prop_map(Value::from);
    let text = prop_oneof![6 => any_message(), 2 => batch].prop_map(|m| m.to_string().into_bytes());
    let altered = (text, proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..3), proptest::bool::weighted(0.15)).prop_map(|(mut text, bytes, alter)| {
        for (at, byte) in bytes.into_iter().filter(|_| alter) {
            let at = at.index(text.len());
            text[at] = byte;
        }
        text
    });
    prop_oneof![10 => altered, 1 => proptest::collection::vec(any::<u8>(), 0..100)]
}

/// Half of the heads are what the body wants.
fn any_head() -> impl Strategy<Value = (Post, bool)> {
    let text = || prop_oneof![4 => proptest::sample::select(METHODS).prop_map(str::to_string), 1 => any::<String>()];
    let version = proptest::option::of(prop_oneof![8 => proptest::sample::select(VERSIONS).prop_map(str::to_string), 1 => any::<String>()]);
    let params = proptest::collection::vec((prop_oneof![Just("mcp-param-region"), Just("mcp-param-count"), Just("mcp-param-flag")].prop_map(str::to_string), proptest::collection::vec(any::<u8>(), 0..8)), 0..3);
    (version, proptest::option::of(text()), proptest::option::of(text()), any::<bool>(), prop_oneof![3 => Just(Vec::new()), 1 => params], any::<bool>())
        .prop_map(|(version, method, name, session, params, fit)| (Post { version, method, name, session: session.then(|| "s".into()), params }, fit))
}

fn fit(post: &mut Post, body: &[u8]) {
    let message: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |at: &str| message.pointer(at).and_then(Value::as_str).map(str::to_string);
    post.method = text("/method");
    post.name = if post.method.as_deref() == Some("resources/read") { text("/params/uri") } else { text("/params/name") };
    post.version = text("/params/_meta/io.modelcontextprotocol~1protocolVersion");
}

/// `PROPTEST_CASES` says otherwise.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(3000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn only_what_is_to_be_answered_is_answered((mut post, fits) in any_head(), body in any_body(), revision in 0..4usize, asks in any::<bool>()) {
        if fits {
            fit(&mut post, &body);
        }
        let posted = match post.inspect(&body) {
            Ok(posted) => posted,
            Err(refusal) => {
                prop_assert_eq!(refusal.status, 400);
                let message: Value = serde_json::from_slice(&refusal.body.to_vec()).unwrap();
                prop_assert!(message["error"]["code"].is_i64() && message.get("result").is_none());
                return Ok(());
            }
        };
        let mut s = Served::new();
        let (answered, once) = match posted {
            Posted::Modern { answered } => {
                s.open(1, "person", Carriage::Exchange);
                (answered, true)
            }
            Posted::Initialize => {
                s.open(1, "person", Carriage::Session);
                (true, true)
            }
            Posted::Legacy { answered } => {
                s.open(1, "person", Carriage::Session);
                s.initialize(1, 1, VERSIONS[revision], if asks { json!({"elicitation": {}}) } else { json!({}) });
                // A batch may cancel its own members.
                (answered, !body.trim_ascii_start().starts_with(b"["))
            }
        };
        let mut sent = s.feed(Input::Message { conn: deskhand_core::Conn(1), route: deskhand_core::Route(5), bytes: body.clone().into() });
        sent.extend(s.pass(6 * 60_000));
        sent.extend(s.feed(Input::Shutdown));
        let answers = sent.iter().filter(|one| matches!(one.nature, Nature::Answer { .. })).count();
        prop_assert!(answers <= usize::from(answered), "{posted:?} {sent:?}");
        prop_assert!(!answered || !once || answers == 1, "{posted:?} {sent:?}");
        prop_assert!(sent.iter().all(|one| one.route == 5 || one.nature == Nature::Message));
        prop_assert_eq!(s.core.kept().calls, 0);
    }
}

//! A toolset that offers everything a toolset can, none of it real, and a core that serves it.

use bytes::Bytes;
use deskhand_core::engine::cx::{Cx, Reason};
use deskhand_core::handler;
use deskhand_core::policy::{Policy, PolicyState};
use deskhand_core::protocol::asking::Ask;
use deskhand_core::protocol::offering::{Level, ListKind};
use deskhand_core::rpc::body::Nature;
use deskhand_core::rpc::error::RpcError;
use deskhand_core::tools::args::Args;
use deskhand_core::tools::content::{Block, Contents, ContentsBody, Role};
use deskhand_core::tools::declare::{Arg, Audit, Handler, Hints, LeaseNeed, Profile, Tool};
use deskhand_core::tools::facts::{Facts, Refused};
use deskhand_core::tools::offers::{Completion, CompletionAsk, Prompt, PromptArgument, PromptMessages, Reference, ResourcePage, Resources, Template};
use deskhand_core::tools::toolset::Toolset;
use deskhand_core::{Carriage, Config, Conn, Core, Input, Limits, Output, Route, Time};
use serde_json::{Map, Value, json};

pub static OFFERS: Toolset = Toolset {
    name: "offers",
    tools: &[&ECHO, &WAIT, &ASK, &ASK_ALL, &ASK_TWICE, &SHRUG, &GATED, &TELL, &CHANGE, &POLL, &MEDIA, &FAIL, &MIRRORED],
    prompts: &[&PLAIN, &GREET, &ASKING],
    resources: Some(&RESOURCES),
    complete: Some(handler!(complete)),
    logging: true,
    ..COMMON
};

/// Nothing beside one tool.
pub static BARE: Toolset = Toolset { name: "bare", tools: &[&ECHO], ..COMMON };

const COMMON: Toolset = Toolset {
    title: "Offers",
    description: "Everything that can be offered",
    instructions: "For tests.",
    // Each press of a key opens or closes the gate.
    gate: |w, _, tool, _| if tool.name == "gated" && w.user_inputs % 2 == 1 { Err(Refused::Plain("the gate is closed".into())) } else { Ok(()) },
    busy: || Refused::Plain("busy".into()),
    abandoned: |_, reason| stopped(reason),
    ..Toolset::BARE
};

const NONCE: Arg = Arg::text("nonce", "Comes back.", 0, 1 << 20, Audit::Length);

static ECHO: Tool = tool("echo", &[NONCE], handler!(echo));
static WAIT: Tool = tool("wait", &[NONCE, Arg::integer("ms", "How long.", 0, 3_600_000).or(1000)], handler!(wait));
static ASK: Tool = tool("ask", &[NONCE, Arg::choice("what", "Which question.", &["form", "url", "sample", "roots"], "form")], handler!(ask));
static ASK_ALL: Tool = tool("ask_all", &[NONCE], handler!(ask_all));
static ASK_TWICE: Tool = tool("ask_twice", &[NONCE], handler!(ask_twice));
static SHRUG: Tool = tool("shrug", &[NONCE], handler!(shrug));
static GATED: Tool = tool("gated", &[NONCE], handler!(ask_form));
static TELL: Tool = tool("tell", &[NONCE], handler!(tell));
static CHANGE: Tool = tool("change", &[], handler!(change));
static POLL: Tool = tool("poll", &[NONCE], handler!(poll));
static MEDIA: Tool = tool("media", &[], handler!(media));
static FAIL: Tool = tool("fail", &[], handler!(fail));
static MIRRORED: Tool = Tool {
    schema: Some(
        r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"count":{"type":"integer","x-mcp-header":"Count"},
        "deep":{"type":"object","properties":{"flag":{"type":"boolean","x-mcp-header":"Flag"}}}}}"#,
    ),
    ..tool("mirrored", &[], handler!(mirrored))
};

static PLAIN: Prompt = Prompt { name: "plain", title: "Plain", description: "Without arguments", arguments: &[], run: handler!(plain) };
static GREET: Prompt = Prompt {
    name: "greet",
    title: "Greet",
    description: "A greeting",
    arguments: &[
        PromptArgument { name: "name", description: "Whom", required: true },
        PromptArgument { name: "tone", description: "How", required: false },
    ],
    run: handler!(greet),
};
static ASKING: Prompt = Prompt { name: "asking", title: "Asking", description: "Asks first", arguments: &[], run: handler!(asking) };

static RESOURCES: Resources = Resources {
    list: handler!(list),
    templates: &[Template { uri_template: "t://{id}", name: "any", title: "Any", description: "By id", mime: "text/plain" }],
    read: handler!(read),
    subscribe: true,
};

const fn tool(name: &'static str, args: &'static [Arg], run: Handler) -> Tool {
    Tool {
        name,
        title: name,
        summary: name,
        description: name,
        args,
        schema: None,
        hints: Hints::ReadOnly,
        lease: LeaseNeed::No,
        profile: Profile::Observe,
        always_load: false,
        run,
    }
}

fn text(text: impl Into<String>) -> Facts {
    Facts::blocks(vec![Block::Text(text.into())])
}

fn nonce(args: &Args) -> String {
    args.text("nonce").unwrap_or_default().to_string()
}

fn stopped(reason: Reason) -> Refused {
    Refused::Plain(format!("stopped: {reason:?}"))
}

async fn echo(_: Cx, args: Args) -> Result<Facts, Refused> {
    Ok(text(nonce(&args)))
}

async fn wait(cx: Cx, args: Args) -> Result<Facts, Refused> {
    cx.progress(1.0, Some(2.0), "waiting");
    cx.sleep(args.id("ms").unwrap_or_default()).await.map_err(stopped)?;
    Ok(text(nonce(&args)))
}

/// The question carries the nonce.
fn question(what: &str, nonce: &str) -> Ask {
    match what {
        "url" => Ask::Elicit(json!({"mode": "url", "message": nonce, "url": "https://example.org/", "elicitationId": "e"})),
        "sample" => Ask::Sample(json!({"messages": [{"role": "user", "content": {"type": "text", "text": nonce}}], "maxTokens": 10})),
        "roots" => Ask::Roots,
        _ => Ask::Elicit(json!({"message": nonce, "requestedSchema": {"type": "object", "properties": {}}})),
    }
}

async fn ask(cx: Cx, args: Args) -> Result<Facts, Refused> {
    let nonce = nonce(&args);
    let answers = cx.ask(vec![("q", question(args.text("what").unwrap_or_default(), &nonce))]).await?;
    Ok(text(format!("{nonce}: {}", answers["q"])))
}

async fn ask_form(cx: Cx, args: Args) -> Result<Facts, Refused> {
    let answers = cx.ask(vec![("q", question("form", &nonce(&args)))]).await?;
    Ok(text(answers["q"].to_string()))
}

async fn ask_all(cx: Cx, args: Args) -> Result<Facts, Refused> {
    let nonce = nonce(&args);
    let answers = cx.ask(vec![("form", question("form", &nonce)), ("sample", question("sample", &nonce)), ("roots", Ask::Roots)]).await?;
    Ok(text(format!("{nonce}: {}", Value::Object(answers))))
}

async fn ask_twice(cx: Cx, args: Args) -> Result<Facts, Refused> {
    let nonce = nonce(&args);
    let first = cx.ask(vec![("name", question("form", &format!("{nonce} name")))]).await?;
    let name = first["name"]["content"]["v"].as_str().unwrap_or_default().to_string();
    let second = cx.ask(vec![("colour", question("form", &format!("{nonce} colour of {name}")))]).await?;
    Ok(text(format!("{nonce}: {name} {}", second["colour"]["content"]["v"].as_str().unwrap_or_default())))
}

/// Goes on whatever the answer is, and for a while.
async fn shrug(cx: Cx, args: Args) -> Result<Facts, Refused> {
    let nonce = nonce(&args);
    let told = match cx.ask(vec![("form", question("form", &nonce)), ("sample", question("sample", &nonce))]).await {
        Ok(_) => "answered".to_string(),
        Err(refused) => refused.sentence(),
    };
    cx.sleep(60_000).await.map_err(stopped)?;
    Ok(text(format!("{nonce}: {told}")))
}

async fn tell(cx: Cx, args: Args) -> Result<Facts, Refused> {
    for level in [Level::Debug, Level::Info, Level::Warning, Level::Emergency] {
        cx.log(level, "test", json!({"nonce": nonce(&args)}));
    }
    cx.list_changed(ListKind::Tools);
    cx.resource_updated("t://text");
    Ok(text(nonce(&args)))
}

async fn change(cx: Cx, _: Args) -> Result<Facts, Refused> {
    for kind in [ListKind::Tools, ListKind::Resources, ListKind::Prompts] {
        cx.list_changed(kind);
    }
    cx.resource_updated("t://text");
    Ok(text("changed"))
}

async fn poll(cx: Cx, args: Args) -> Result<Facts, Refused> {
    cx.end_stream(500);
    cx.sleep(1000).await.map_err(stopped)?;
    Ok(text(nonce(&args)))
}

async fn media(_: Cx, _: Args) -> Result<Facts, Refused> {
    Ok(Facts::blocks(vec![
        Block::Image { mime: "image/png".into(), base64: Bytes::from_static(b"AAAA") },
        Block::Audio { mime: "audio/wav".into(), base64: Bytes::from_static(b"BBBB") },
        Block::Resource(Contents { uri: "t://text".into(), mime: None, body: ContentsBody::Text("\"hi\"".into()) }),
        Block::Link(json!({"uri": "t://text", "name": "text"})),
    ]))
}

async fn fail(_: Cx, _: Args) -> Result<Facts, Refused> {
    Err(Refused::named("broken", "it broke; mend it"))
}

async fn mirrored(_: Cx, args: Args) -> Result<Facts, Refused> {
    Ok(text(Value::Object(args.map().clone()).to_string()))
}

async fn plain(_: Cx, _: Map<String, Value>) -> Result<PromptMessages, Refused> {
    Ok(PromptMessages { description: None, messages: vec![(Role::User, Block::Text("plain".into()))] })
}

async fn greet(_: Cx, arguments: Map<String, Value>) -> Result<PromptMessages, Refused> {
    if arguments["name"] == "nobody" {
        return Err(Refused::arguments("nobody can't be greeted"));
    }
    let hello = format!("{} {}", arguments["name"].as_str().unwrap_or_default(), arguments.get("tone").and_then(Value::as_str).unwrap_or("plainly"));
    let image = Block::Image { mime: "image/png".into(), base64: Bytes::from_static(b"AAAA") };
    Ok(PromptMessages { description: Some("A \"greeting\"".into()), messages: vec![(Role::User, Block::Text(hello)), (Role::Assistant, image)] })
}

async fn asking(cx: Cx, _: Map<String, Value>) -> Result<PromptMessages, Refused> {
    let answers = cx.ask(vec![("q", question("form", "prompt"))]).await?;
    Ok(PromptMessages { description: None, messages: vec![(Role::User, Block::Text(answers["q"].to_string()))] })
}

async fn list(cx: Cx, cursor: Option<String>) -> Result<ResourcePage, Refused> {
    let resource = |name: &str| json!({"uri": format!("t://{name}"), "name": name});
    match cursor.as_deref() {
        None => Ok(ResourcePage { resources: vec![resource("text"), resource("blob")], next: Some("2".into()) }),
        Some("2") => Ok(ResourcePage { resources: vec![resource("asking")], next: None }),
        // A question where the modern era has no place for one.
        Some("ask") => cx.ask(vec![("q", question("form", "list"))]).await.map(|_| ResourcePage::default()),
        Some(_) => Err(Refused::Rpc(RpcError::invalid_params("Invalid params: unknown cursor"))),
    }
}

async fn read(cx: Cx, uri: String) -> Result<Vec<Contents>, Refused> {
    let (mime, body) = match uri.as_str() {
        "t://text" => (Some("text/plain".to_string()), ContentsBody::Text("a \"text\"".into())),
        "t://blob" => (None, ContentsBody::Blob(Bytes::from_static(b"AAAA"))),
        "t://slow" => {
            cx.sleep(1000).await.map_err(stopped)?;
            (None, ContentsBody::Text("slow".into()))
        }
        "t://asking" => {
            let answers = cx.ask(vec![("q", question("form", &uri))]).await?;
            (None, ContentsBody::Text(answers["q"].to_string()))
        }
        _ => return Err(Refused::NotFound(uri)),
    };
    Ok(vec![Contents { uri, mime, body }])
}

async fn complete(_: Cx, ask: CompletionAsk) -> Result<Completion, Refused> {
    match (&ask.reference, ask.argument.as_str()) {
        (Reference::Prompt(name), "many") if name == "greet" => {
            Ok(Completion { values: (0..150).map(|n| format!("{}{n}", ask.value)).collect(), total: Some(1000), has_more: false })
        }
        (Reference::Prompt(name), argument) if name == "greet" => {
            Ok(Completion { values: vec![format!("{argument}={} with {}", ask.value, Value::Object(ask.context))], ..Completion::default() })
        }
        (Reference::Resource(template), _) if template == "t://{id}" => Ok(Completion { values: vec!["text".into()], ..Completion::default() }),
        _ => Err(Refused::Rpc(RpcError::invalid_params("Invalid params: nothing to complete"))),
    }
}

pub const MODERN: &str = "2026-07-28";

/// What came out: where, and what it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    pub conn: u64,
    pub route: u64,
    pub message: Value,
    pub nature: Nature,
}

/// The core and the time.
pub struct Served {
    pub core: Core,
    pub now: Time,
    pub others: Vec<Output>,
}

impl Served {
    pub fn new() -> Self {
        Self::of(&OFFERS, Limits::default())
    }

    pub fn of(toolset: &'static Toolset, limits: Limits) -> Self {
        let config = Config {
            toolset,
            server_version: "0.0.0".into(),
            policy: Policy::default(),
            policy_state: PolicyState::Missing,
            audit_path: None,
            wall_offset_ms: 0,
            limits,
        };
        Self { core: Core::new(config, [3; 32], super::START), now: super::START, others: Vec::new() }
    }

    pub fn feed(&mut self, input: Input) -> Vec<Sent> {
        self.core.handle_input(self.now, input);
        self.drain()
    }

    pub fn drain(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        while let Some(output) = self.core.poll_output() {
            match output {
                Output::Send { conn, route, body } => {
                    let message = serde_json::from_slice(&body.to_vec()).expect("what is sent is JSON");
                    sent.push(Sent { conn: conn.0, route: route.0, message, nature: body.nature() });
                }
                other => self.others.push(other),
            }
        }
        sent
    }

    pub fn open(&mut self, conn: u64, principal: &str, carriage: Carriage) {
        assert_eq!(self.feed(Input::Opened { conn: Conn(conn), principal: principal.into(), carriage }), []);
    }

    pub fn close(&mut self, conn: u64) -> Vec<Sent> {
        self.feed(Input::Closed { conn: Conn(conn) })
    }

    pub fn text(&mut self, conn: u64, route: u64, text: impl Into<String>) -> Vec<Sent> {
        self.feed(Input::Message { conn: Conn(conn), route: Route(route), bytes: Bytes::from(text.into()) })
    }

    pub fn message(&mut self, conn: u64, message: &Value) -> Vec<Sent> {
        self.text(conn, 0, message.to_string())
    }

    pub fn pass(&mut self, ms: u64) -> Vec<Sent> {
        self.now += ms;
        self.feed(Input::Tick)
    }

    /// A legacy client on stdio, past its handshake.
    pub fn legacy(&mut self, conn: u64, revision: &str, capabilities: Value) {
        self.open(conn, "person", Carriage::Stdio);
        self.initialize(conn, 0, revision, capabilities);
    }

    pub fn initialize(&mut self, conn: u64, route: u64, revision: &str, capabilities: Value) {
        let params = json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"}});
        let sent = self.text(conn, route, request(json!("init"), "initialize", params).to_string());
        assert_eq!(sent[0].message["result"]["protocolVersion"], revision);
        assert_eq!(self.message(conn, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})), []);
    }

    pub fn cancel(&mut self, conn: u64, id: Value) -> Vec<Sent> {
        self.message(conn, &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}))
    }

    /// An answer of the client's to a request of the core's.
    pub fn respond(&mut self, conn: u64, id: &Value, result: Value) -> Vec<Sent> {
        self.message(conn, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }
}

pub fn request(id: Value, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub fn call(id: u64, tool: &str, arguments: Value) -> Value {
    request(json!(id), "tools/call", json!({"name": tool, "arguments": arguments}))
}

/// The same request of the modern era.
pub fn modern(mut request: Value, capabilities: Value) -> Value {
    let meta = &mut request["params"]["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
    meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    request
}

pub fn everything() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

pub fn accept(value: &str) -> Value {
    json!({"action": "accept", "content": {"v": value}})
}

/// The messages alone, of one connection.
pub fn to(conn: u64, sent: &[Sent]) -> Vec<Value> {
    assert!(sent.iter().all(|s| s.conn == conn), "something went elsewhere: {sent:?}");
    sent.iter().map(|s| s.message.clone()).collect()
}

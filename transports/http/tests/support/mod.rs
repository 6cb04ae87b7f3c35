//! A server on loopback with a toolset for tests.
#![allow(dead_code)]

mod client;
mod toolset;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use deskhand_http::{Doors, Limits, Listener, Mount};
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub use client::{Answer, Client, request, within};
pub use toolset::{Held, TOOLSET};

pub const MODERN: &str = "2026-07-28";

pub struct Server {
    pub address: SocketAddr,
    pub held: Arc<Held>,
    pub driver: Arc<deskhand_driver::Driver>,
    end: Option<oneshot::Sender<()>>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Server {
    pub fn start() -> Self {
        Self::with(Doors::default(), Limits::default())
    }

    pub fn with(doors: Doors, limits: Limits) -> Self {
        Self::on(|_| None, doors, limits)
    }

    pub fn on(more: impl FnOnce(SocketAddr) -> Option<Listener>, doors: Doors, limits: Limits) -> Self {
        let held = Arc::new(Held::default());
        let driver = held.driver();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let listeners = std::iter::once(Listener::Tcp(listener)).chain(more(address)).collect();
        let mounts = vec![
            Mount { paths: vec!["/mcp".into(), "/mcp/test".into()], driver: driver.clone(), toolset: &TOOLSET },
            Mount { paths: vec!["/other".into()], driver: Arc::new(Held::default()).driver(), toolset: &TOOLSET },
        ];
        let (end, asked) = oneshot::channel::<()>();
        let asked = async {
            let _ = asked.await;
        };
        let serving = tokio::spawn(deskhand_http::serve(listeners, mounts, doors, limits, asked));
        Self { address, held, driver, end: Some(end), serving }
    }

    pub async fn client(&self) -> Client {
        Client::new(within(TcpStream::connect(self.address)).await.unwrap())
    }

    /// One that takes little in before it is read.
    pub async fn slow_client(&self) -> Client {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        Client::new(within(socket.connect(self.address)).await.unwrap())
    }

    pub fn ask_to_end(&mut self) {
        self.end.take();
    }

    pub async fn ended(self) {
        within(self.serving).await.unwrap().unwrap();
    }
}

/// A request of the stateless revision and its headers.
pub fn modern(id: Value, method: &str, mut params: Value) -> (Vec<(&'static str, String)>, Vec<u8>) {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let mut headers = vec![("MCP-Protocol-Version", MODERN.to_string()), ("Mcp-Method", method.to_string())];
    if let Some(name) = params["name"].as_str() {
        headers.push(("Mcp-Name", name.to_string()));
    }
    (headers, json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string().into_bytes())
}

pub fn call(id: Value, tool: &str, arguments: Value) -> (Vec<(&'static str, String)>, Vec<u8>) {
    modern(id, "tools/call", json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": 1}}))
}

impl Client {
    /// Sends a request that `modern` or `call` made.
    pub async fn post(&mut self, (headers, body): (Vec<(&'static str, String)>, Vec<u8>)) -> Answer {
        self.post_only((headers, body)).await;
        self.answer().await
    }

    pub async fn post_only(&mut self, (headers, body): (Vec<(&'static str, String)>, Vec<u8>)) {
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        self.write(&request("POST", "/mcp", &headers, Some(&body))).await.unwrap();
    }

    /// Begins a legacy session; its id.
    pub async fn initialize(&mut self, revision: &str) -> String {
        self.initialize_with(revision, &[]).await
    }

    pub async fn initialize_with(&mut self, revision: &str, headers: &[(&str, &str)]) -> String {
        let answer = self.ask("POST", "/mcp", headers, Some(&initialize(revision))).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.json()["result"]["protocolVersion"], revision);
        let id = answer.header("mcp-session-id").expect("a session id").to_string();
        let mut all = vec![("Mcp-Session-Id", id.as_str())];
        all.extend(headers);
        let answer = self.ask("POST", "/mcp", &all, Some(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)).await;
        assert_eq!(answer.status, 202);
        assert!(answer.body.is_empty());
        id
    }

    pub async fn in_session(&mut self, session: &str, message: &Value) -> Answer {
        self.in_session_only(session, message).await;
        self.answer().await
    }

    pub async fn in_session_only(&mut self, session: &str, message: &Value) {
        self.write(&request("POST", "/mcp", &[("Mcp-Session-Id", session)], Some(message.to_string().as_bytes()))).await.unwrap();
    }

    /// Opens a GET stream.
    pub async fn listen(&mut self, session: &str, last: Option<&str>) -> Answer {
        let mut headers = vec![("Mcp-Session-Id", session), ("Accept", "text/event-stream"), ("Content-Type", "")];
        headers.extend(last.map(|l| ("Last-Event-ID", l)));
        self.ask("GET", "/mcp", &headers, None).await
    }
}

pub fn initialize(revision: &str) -> Vec<u8> {
    let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string().into_bytes()
}

/// A legacy call that wants progress.
pub fn legacy_call(id: u64, tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments, "_meta": {"progressToken": id}}})
}

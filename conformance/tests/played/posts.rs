//! A client over HTTP: each message a POST of its own, with the head that its revision wants.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::ways::{Client, Taken};

pub struct Web {
    address: SocketAddr,
    token: String,
    session: Option<String>,
    client: Arc<Client>,
}

struct Response {
    status: u16,
    session: Option<String>,
    is_stream: bool,
    body: BufReader<TcpStream>,
}

impl Web {
    pub fn new(address: SocketAddr, token: String, client: Arc<Client>) -> Self {
        Self {
            address,
            token,
            session: None,
            client,
        }
    }

    /// Returns once the core has the message, or the server has refused it; answers come to the client as they come.
    pub async fn send(&mut self, bytes: &[u8], taken: &Taken) {
        let message: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let meta = &message["params"]["_meta"];
        let mut head = String::new();
        if let Some(version) = meta["io.modelcontextprotocol/protocolVersion"].as_str() {
            head += &format!(
                "MCP-Protocol-Version: {version}\r\nMcp-Method: {}\r\n",
                message["method"].as_str().unwrap()
            );
            if let Some(name) = message["params"]["name"].as_str() {
                head += &format!("Mcp-Name: {name}\r\n");
            }
        } else if let Some(session) = &self.session {
            head += &format!("Mcp-Session-Id: {session}\r\n");
        }
        let client = self.client.clone();
        if message["method"] == "initialize" && self.session.is_none() {
            let mut response = ask(self.address, &self.token, "POST", &head, bytes).await;
            self.session = response.session.take();
            read(response, &client).await;
            if self.session.is_some() {
                self.listen().await;
            }
            return;
        }
        let before = taken.count();
        let (address, token, bytes) = (self.address, self.token.clone(), bytes.to_vec());
        let asked = tokio::spawn(async move {
            read(ask(address, &token, "POST", &head, &bytes).await, &client).await
        });
        tokio::select! {
            () = taken.more_than(before) => {}
            done = asked => done.unwrap(),
        }
    }

    /// The session's stream for what belongs to no request.
    async fn listen(&self) {
        let head = format!("Mcp-Session-Id: {}\r\n", self.session.as_deref().unwrap());
        let response = ask(self.address, &self.token, "GET", &head, b"").await;
        assert_eq!(response.status, 200);
        let client = self.client.clone();
        tokio::spawn(async move { read(response, &client).await });
    }

    pub async fn close(self) {
        if let Some(session) = &self.session {
            let response = ask(
                self.address,
                &self.token,
                "DELETE",
                &format!("Mcp-Session-Id: {session}\r\n"),
                b"",
            )
            .await;
            assert_eq!(response.status, 204);
        }
    }
}

/// By HTTP/1.0, where a body of no known length ends with the connection.
async fn ask(address: SocketAddr, token: &str, method: &str, head: &str, body: &[u8]) -> Response {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let text = format!(
        "{method} /mcp HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{head}\r\n",
        body.len()
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut body = BufReader::new(stream);
    let mut line = String::new();
    body.read_line(&mut line).await.unwrap();
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse().ok())
        .unwrap_or_else(|| panic!("{line:?} isn't a status line"));
    let (mut session, mut is_stream) = (None, false);
    loop {
        line.clear();
        body.read_line(&mut line).await.unwrap();
        match line.trim_end().split_once(": ") {
            Some(("mcp-session-id", id)) => session = Some(id.to_string()),
            Some(("content-type", kind)) => is_stream = kind.starts_with("text/event-stream"),
            Some(_) => {}
            None => {
                return Response {
                    status,
                    session,
                    is_stream,
                    body,
                };
            }
        }
    }
}

async fn read(mut response: Response, client: &Client) {
    if !response.is_stream {
        let mut all = Vec::new();
        response.body.read_to_end(&mut all).await.unwrap();
        if !all.is_empty() {
            client.take(serde_json::from_slice(&all).unwrap());
        }
        return;
    }
    let mut lines = response.body.lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(data) = line
            .strip_prefix("data:")
            .map(str::trim)
            .filter(|data| !data.is_empty())
        {
            client.take(serde_json::from_str(data).unwrap());
        }
    }
}

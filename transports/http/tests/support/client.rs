//! A small HTTP client that can also misbehave.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

pub trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

pub struct Client {
    wire: Box<dyn Wire>,
    unread: Vec<u8>,
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    pub id: Option<String>,
    pub retry: Option<u64>,
    pub data: Option<String>,
    pub comment: bool,
}

/// Nothing here takes long; what doesn't come in this time doesn't come.
pub async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what).await.expect("it takes too long")
}

pub const BASICS: &[(&str, &str)] = &[("Host", "localhost"), ("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&self.body)))
    }

    pub fn is_events(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }
}

impl Event {
    pub fn json(&self) -> Value {
        serde_json::from_str(self.data.as_deref().expect("an event with data")).unwrap()
    }
}

/// A request's text. Headers that are given replace the basic ones; an empty value leaves one out.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> Vec<u8> {
    let mut out = format!("{method} {path} HTTP/1.1\r\n");
    let basics = BASICS.iter().filter(|(name, _)| !headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name)));
    for (name, value) in basics.chain(headers).filter(|(_, value)| !value.is_empty()) {
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(body) = body {
        out.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    out.push_str("\r\n");
    let mut out = out.into_bytes();
    out.extend_from_slice(body.unwrap_or_default());
    out
}

impl Client {
    pub fn new(wire: impl Wire + 'static) -> Self {
        Self { wire: Box::new(wire), unread: Vec::new() }
    }

    pub async fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        within(self.wire.write_all(bytes)).await
    }

    pub async fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> Answer {
        self.write(&request(method, path, headers, body)).await.unwrap();
        self.answer().await
    }

    /// The head, and the body unless it is a stream of events.
    pub async fn answer(&mut self) -> Answer {
        let mut answer = self.head().await;
        if !answer.is_events() {
            answer.body = match (answer.header("content-length"), answer.header("transfer-encoding")) {
                (Some(length), _) => self.exactly(length.parse().unwrap()).await,
                (None, Some("chunked")) => self.all_chunks().await,
                _ => Vec::new(),
            };
        }
        answer
    }

    pub async fn head(&mut self) -> Answer {
        let head = self.until(b"\r\n\r\n").await.expect("the connection ended before a head");
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.filter_map(|l| l.split_once(": ")).map(|(n, v)| (n.to_string(), v.to_string())).collect();
        Answer { status, headers, body: Vec::new() }
    }

    /// The next event of a stream; `None` at its end.
    pub async fn event(&mut self) -> Option<Event> {
        let mut text = Vec::new();
        while !text.ends_with(b"\n\n") {
            match self.chunk().await {
                Some(chunk) => text.extend(chunk),
                None => {
                    assert!(text.is_empty(), "half an event");
                    return None;
                }
            }
        }
        let mut event = Event::default();
        for line in String::from_utf8(text).unwrap().lines().filter(|l| !l.is_empty()) {
            match line.split_once(": ").unwrap_or((line, "")) {
                ("id", v) => event.id = Some(v.to_string()),
                ("retry", v) => event.retry = Some(v.parse().unwrap()),
                ("data", v) => assert!(event.data.replace(v.to_string()).is_none(), "two lines of data"),
                (":", _) => event.comment = true,
                other => panic!("{other:?}"),
            }
        }
        Some(event)
    }

    /// `None` after the last one, or when the connection ends.
    async fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = String::from_utf8(self.until(b"\r\n").await?).unwrap();
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut data = self.exactly(size + 2).await;
        data.truncate(size);
        (size > 0).then_some(data)
    }

    async fn all_chunks(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(chunk) = self.chunk().await {
            all.extend(chunk);
        }
        all
    }

    /// Whether the other side has ended the connection, by whatever way; waits for it.
    pub async fn is_closed(&mut self) -> bool {
        let mut buffer = [0; 4096];
        within(async {
            loop {
                match self.wire.read(&mut buffer).await {
                    Ok(0) | Err(_) => return true,
                    Ok(_) => {}
                }
            }
        })
        .await
    }

    /// The same for one who doesn't read: nobody takes what is written any more.
    pub async fn is_gone(&mut self) -> bool {
        within(async {
            while self.wire.write_all(b" ").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            true
        })
        .await
    }

    async fn exactly(&mut self, n: usize) -> Vec<u8> {
        while self.unread.len() < n {
            assert!(self.more().await, "the connection ended after {} of {n} bytes", self.unread.len());
        }
        self.unread.drain(..n).collect()
    }

    async fn until(&mut self, mark: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.unread.windows(mark.len()).position(|w| w == mark) {
                return Some(self.unread.drain(..at + mark.len()).collect());
            }
            if !self.more().await {
                return None;
            }
        }
    }

    async fn more(&mut self) -> bool {
        let mut buffer = vec![0; 64 << 10];
        match within(self.wire.read(&mut buffer)).await {
            Ok(0) | Err(_) => false,
            Ok(n) => {
                self.unread.extend_from_slice(&buffer[..n]);
                true
            }
        }
    }
}

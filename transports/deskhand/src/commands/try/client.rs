//! A tiny MCP client: JSON lines, one request at a time.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Interrupt;

/// The longest tool waits 10 s by itself.
const ANSWER: Duration = Duration::from_secs(20);

pub struct Client {
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    interrupt: Interrupt,
    next_id: u64,
}

impl Client {
    /// Reads on a thread of its own, which ends with the server's output.
    pub fn new(input: ChildStdin, output: impl Read + Send + 'static, interrupt: Interrupt) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let _ = BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line));
        });
        Self { input: Some(input), lines, interrupt, next_id: 1 }
    }

    /// The request's result, or the error's message.
    pub fn request(&mut self, method: &str, params: Value) -> Result<Value, String> {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        let end = Instant::now() + ANSWER;
        loop {
            let message = self.receive(method, end)?;
            if message["id"] != id {
                continue;
            }
            return match message.get("error") {
                Some(error) => Err(format!("{method}: {}", error["message"].as_str().unwrap_or("an error without a message"))),
                None => Ok(message["result"].clone()),
            };
        }
    }

    pub fn notify(&mut self, method: &str) -> Result<(), String> {
        self.send(&json!({"jsonrpc": "2.0", "method": method}))
    }

    /// Ends the server's input, and so the server.
    pub fn close(&mut self) {
        self.input = None;
    }

    fn send(&mut self, message: &Value) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("the server's input is closed")?;
        input.write_all(format!("{message}\n").as_bytes()).and_then(|()| input.flush()).map_err(|e| format!("the server doesn't read: {e}"))
    }

    fn receive(&mut self, method: &str, end: Instant) -> Result<Value, String> {
        loop {
            self.interrupt.check()?;
            match self.lines.recv_timeout(Duration::from_millis(20)) {
                Ok(line) => return serde_json::from_str(&line).map_err(|e| format!("the server wrote a line that isn't JSON: {e}")),
                Err(RecvTimeoutError::Disconnected) => return Err(format!("{method}: the server ended without an answer")),
                Err(RecvTimeoutError::Timeout) if Instant::now() > end => {
                    return Err(format!("{method}: no answer within {} s", ANSWER.as_secs()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

//! One line of a trace, read and written.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::desktop::effect::{Effect, Outcome};
use crate::desktop::event::Observation;
use crate::engine::io::{Conn, Input, Op, Output, Route};
use crate::protocol::carriage::Carriage;
use crate::time::Time;

/// A line after the header.
#[derive(Debug)]
pub enum Entry {
    /// `at` is the time before when the line has none.
    In { at: Option<Time>, input: Box<Input> },
    /// The output's JSON text.
    Out(Box<RawValue>),
    /// No output may fit this pattern.
    None(Value),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    at: Option<Time>,
    #[serde(rename = "in")]
    input: Option<InputLine>,
    out: Option<Box<RawValue>>,
    none: Option<Value>,
}

#[derive(Serialize)]
struct InLine<'a> {
    at: Time,
    #[serde(rename = "in")]
    input: &'a InputLine,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum InputLine {
    Opened {
        conn: Conn,
        principal: String,
        #[serde(default, skip_serializing_if = "Carriage::is_stdio")]
        carriage: Carriage,
    },
    Message(MessageLine),
    TooLong(Place),
    Ended { conn: Conn },
    Closed { conn: Conn },
    Completed { op: Op, outcome: Outcome },
    Observed(Observation),
    AuditWritten { error: Option<String> },
    WallClock { offset_ms: u64 },
    Shutdown,
    Tick,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    conn: Conn,
    #[serde(default, skip_serializing_if = "is_first")]
    route: Route,
}

/// Bytes that are JSON stand as JSON, other text as a string, anything else in hexadecimal.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageLine {
    conn: Conn,
    #[serde(default, skip_serializing_if = "is_first")]
    route: Route,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    json: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

#[derive(Serialize)]
struct OutLine<'a> {
    out: &'a OutputLine<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum OutputLine<'a> {
    Fence(u64),
    Send(MessageLine),
    Start { op: Op, effect: &'a Effect, deadline: Time, generation: u64 },
    Cancel { op: Op },
    EndStream { conn: Conn, route: Route, retry_ms: u64 },
    Audit(&'a Value),
    Close { conn: Conn },
}

fn is_first(route: &Route) -> bool {
    route.0 == 0
}

impl Entry {
    pub fn parse(line: &str) -> Result<Self, String> {
        let line: Line = serde_json::from_str(line).map_err(|e| e.to_string())?;
        match (line.input, line.out, line.none) {
            (Some(input), None, None) => Ok(Self::In { at: line.at, input: Box::new(input.read()?) }),
            (None, Some(out), None) if line.at.is_none() => Ok(Self::Out(out)),
            (None, None, Some(none)) if line.at.is_none() => Ok(Self::None(none)),
            _ => Err("a line has one of in (with at), out and none".into()),
        }
    }
}

/// An `in` line, without its end. Fails only on what JSON can't hold (a path that isn't text).
pub fn print_input(at: Time, input: &Input) -> Result<String, String> {
    let line = match input {
        Input::Opened { conn, principal, carriage } => InputLine::Opened { conn: *conn, principal: principal.clone(), carriage: *carriage },
        Input::Message { conn, route, bytes } => InputLine::Message(MessageLine::new(*conn, *route, bytes)),
        Input::TooLong { conn, route } => InputLine::TooLong(Place { conn: *conn, route: *route }),
        Input::Ended { conn } => InputLine::Ended { conn: *conn },
        Input::Closed { conn } => InputLine::Closed { conn: *conn },
        Input::Completed { op, outcome } => InputLine::Completed { op: *op, outcome: outcome.clone() },
        Input::Observed(observation) => InputLine::Observed(observation.clone()),
        Input::AuditWritten(result) => InputLine::AuditWritten { error: result.clone().err() },
        Input::WallClock { offset_ms } => InputLine::WallClock { offset_ms: *offset_ms },
        Input::Shutdown => InputLine::Shutdown,
        Input::Tick => InputLine::Tick,
    };
    serde_json::to_string(&InLine { at, input: &line }).map_err(|e| e.to_string())
}

/// From an `in` line.
pub fn parse_input(line: &str) -> Result<Input, String> {
    match Entry::parse(line)? {
        Entry::In { input, .. } => Ok(*input),
        _ => Err("not an in line".into()),
    }
}

/// An `out` line, without its end.
pub fn print_output(output: &Output) -> Result<String, String> {
    let line = match output {
        Output::Fence(generation) => OutputLine::Fence(*generation),
        Output::Send { conn, route, body } => OutputLine::Send(MessageLine::new(*conn, *route, &body.to_vec())),
        Output::Start { op, effect, deadline, generation } => {
            OutputLine::Start { op: *op, effect, deadline: *deadline, generation: *generation }
        }
        Output::Cancel { op } => OutputLine::Cancel { op: *op },
        Output::EndStream { conn, route, retry_ms } => OutputLine::EndStream { conn: *conn, route: *route, retry_ms: *retry_ms },
        Output::Audit(line) => OutputLine::Audit(line),
        Output::Close { conn } => OutputLine::Close { conn: *conn },
    };
    serde_json::to_string(&OutLine { out: &line }).map_err(|e| e.to_string())
}

impl InputLine {
    fn read(self) -> Result<Input, String> {
        Ok(match self {
            Self::Opened { conn, principal, carriage } => Input::Opened { conn, principal, carriage },
            Self::Message(message) => message.read()?,
            Self::TooLong(Place { conn, route }) => Input::TooLong { conn, route },
            Self::Ended { conn } => Input::Ended { conn },
            Self::Closed { conn } => Input::Closed { conn },
            Self::Completed { op, outcome } => Input::Completed { op, outcome },
            Self::Observed(observation) => Input::Observed(observation),
            Self::AuditWritten { error } => Input::AuditWritten(error.map_or(Ok(()), Err)),
            Self::WallClock { offset_ms } => Input::WallClock { offset_ms },
            Self::Shutdown => Input::Shutdown,
            Self::Tick => Input::Tick,
        })
    }
}

impl MessageLine {
    fn new(conn: Conn, route: Route, bytes: &[u8]) -> Self {
        let empty = Self { conn, route, json: None, text: None, hex: None };
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Self { hex: Some(to_hex(bytes)), ..empty };
        };
        // A raw value is kept as it stands, so a line break within it would break the line.
        let whole = !text.contains(['\n', '\r']) && text.trim() == text;
        match RawValue::from_string(text.to_string()) {
            Ok(json) if whole => Self { json: Some(json), ..empty },
            _ => Self { text: Some(text.to_string()), ..empty },
        }
    }

    fn read(self) -> Result<Input, String> {
        let bytes = match (self.json, self.text, self.hex) {
            (Some(json), None, None) => Bytes::copy_from_slice(json.get().as_bytes()),
            (None, Some(text), None) => Bytes::from(text),
            (None, None, Some(hex)) => Bytes::from(from_hex(&hex).ok_or("hex must be pairs of hexadecimal digits")?),
            _ => return Err("a message has one of json, text and hex".into()),
        };
        Ok(Input::Message { conn: self.conn, route: self.route, bytes })
    }
}

pub(super) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.bytes().map(|b| char::from(b).to_digit(16)).collect::<Option<Vec<u32>>>()?;
    digits.len().is_multiple_of(2).then(|| digits.chunks_exact(2).filter_map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok()).collect())
}

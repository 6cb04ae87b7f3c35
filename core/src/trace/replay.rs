//! Replays a trace through a fresh core and compares what comes out.

use serde_json::Value;

use super::entry::{Entry, print_output};
use super::header::{FORMAT, Header, Matching};
use super::pattern;
use crate::engine::core::Core;
use crate::engine::io::{Input, Output};
use crate::time::Time;
use crate::tools::toolset::Toolset;

/// Why a trace doesn't replay. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The file isn't a trace that this version reads.
    #[error("line {line}: {why}")]
    Malformed { line: usize, why: String },
    /// An output differs, is missing or is one too many.
    #[error("line {line}:\n  expected: {expected}\n  got:      {got}")]
    Mismatch { line: usize, expected: String, got: String },
}

/// A trace that was read.
#[derive(Debug)]
pub struct Trace {
    pub header: Header,
    header_line: String,
    pub steps: Vec<Step>,
}

/// An input and what is said of its outputs.
#[derive(Debug)]
pub struct Step {
    /// The input's line.
    pub line: usize,
    pub at: Time,
    pub input: Input,
    text: String,
    expected: Vec<Expected>,
}

#[derive(Debug)]
struct Expected {
    line: usize,
    text: String,
    /// The output's JSON text, or a pattern that none may fit.
    what: Result<String, Value>,
}

impl Trace {
    pub fn parse(text: &str) -> Result<Self, ReplayError> {
        let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line)).filter(|(_, line)| !line.trim().is_empty());
        let Some((line, first)) = lines.next() else {
            return Err(ReplayError::Malformed { line: 1, why: "the trace is empty".into() });
        };
        let malformed = |line, why: String| ReplayError::Malformed { line, why };
        let header: Header = serde_json::from_str(first).map_err(|e| malformed(line, format!("the header: {e}")))?;
        if header.deskhand_trace != FORMAT {
            return Err(malformed(line, format!("format {} isn't read by this version, which reads {FORMAT}", header.deskhand_trace)));
        }
        let mut steps: Vec<Step> = Vec::new();
        for (line, text) in lines {
            let what = match Entry::parse(text).map_err(|why| malformed(line, why))? {
                Entry::In { at, input } => {
                    let at = at.unwrap_or_else(|| steps.last().map_or(header.now, |s| s.at));
                    steps.push(Step { line, at, input: *input, text: text.to_string(), expected: Vec::new() });
                    continue;
                }
                Entry::Out(json) => Ok(json.get().to_string()),
                Entry::None(pattern) => Err(pattern),
            };
            let Some(step) = steps.last_mut() else {
                return Err(malformed(line, "an output stands before the first input".into()));
            };
            if header.matching == Matching::Exact && what.is_err() {
                return Err(malformed(line, "none is for traces that match by subset".into()));
            }
            step.expected.push(Expected { line, text: text.to_string(), what });
        }
        Ok(Self { header, header_line: first.to_string(), steps })
    }

    /// Feeds every input to a fresh core and hands each step's outputs over.
    pub fn run(
        &self,
        lookup: impl Fn(&str) -> Option<&'static Toolset>,
        mut each: impl FnMut(&Step, &[Output], &Core) -> Result<(), ReplayError>,
    ) -> Result<(), ReplayError> {
        let mut core = self.header.core(lookup).map_err(|why| ReplayError::Malformed { line: 1, why })?;
        for step in &self.steps {
            core.handle_input(step.at, step.input.clone());
            let outputs: Vec<Output> = std::iter::from_fn(|| core.poll_output()).collect();
            each(step, &outputs, &core)?;
        }
        Ok(())
    }

    /// Whether `UPDATE_TRACES=1` may write it anew.
    pub fn is_exact(&self) -> bool {
        self.header.matching == Matching::Exact
    }
}

/// Replays a trace; the first difference is the error. `lookup` finds a toolset by its name.
pub fn replay(text: &str, lookup: impl Fn(&str) -> Option<&'static Toolset>) -> Result<(), ReplayError> {
    let trace = Trace::parse(text)?;
    trace.run(lookup, |step, outputs, _| {
        let printed = printed(step, outputs)?;
        match trace.header.matching {
            Matching::Exact => exactly(step, &printed),
            Matching::Subset => by_subset(step, &printed, trace.header.extra),
        }
    })
}

/// The trace with the outputs that its inputs cause now; a trace that matches by subset comes back as an exact one.
pub fn regenerate(text: &str, lookup: impl Fn(&str) -> Option<&'static Toolset>) -> Result<String, ReplayError> {
    let trace = Trace::parse(text)?;
    let mut out = if trace.is_exact() {
        trace.header_line.clone()
    } else {
        let header = Header { matching: Matching::Exact, extra: true, ..trace.header.clone() };
        serde_json::to_string(&header).map_err(|e| ReplayError::Malformed { line: 1, why: e.to_string() })?
    };
    out.push('\n');
    trace.run(lookup, |step, outputs, _| {
        out.push_str(&step.text);
        out.push('\n');
        for line in printed(step, outputs)? {
            out.push_str(&line);
            out.push('\n');
        }
        Ok(())
    })?;
    Ok(out)
}

fn printed(step: &Step, outputs: &[Output]) -> Result<Vec<String>, ReplayError> {
    outputs.iter().map(|o| print_output(o).map_err(|why| ReplayError::Malformed { line: step.line, why })).collect()
}

const NOTHING: &str = "no output";

fn exactly(step: &Step, printed: &[String]) -> Result<(), ReplayError> {
    for i in 0..step.expected.len().max(printed.len()) {
        let (wanted, got) = (step.expected.get(i), printed.get(i));
        if wanted.map(|e| e.text.as_str()) == got.map(String::as_str) {
            continue;
        }
        return Err(ReplayError::Mismatch {
            line: wanted.or(step.expected.last()).map_or(step.line, |e| e.line),
            expected: wanted.map_or(NOTHING, |e| e.text.as_str()).to_string(),
            got: got.map_or(NOTHING, String::as_str).to_string(),
        });
    }
    Ok(())
}

fn by_subset(step: &Step, printed: &[String], extra: bool) -> Result<(), ReplayError> {
    let malformed = |line: usize, e: serde_json::Error| ReplayError::Malformed { line, why: e.to_string() };
    let outputs: Vec<Value> = printed
        .iter()
        .map(|text| serde_json::from_str::<Value>(text).map(|v| v.get("out").cloned().unwrap_or_default()))
        .collect::<Result<_, _>>()
        .map_err(|e| malformed(step.line, e))?;
    let mut next = 0;
    for expected in &step.expected {
        let pattern = match &expected.what {
            Ok(text) => serde_json::from_str::<Value>(text).map_err(|e| malformed(expected.line, e))?,
            Err(none) => {
                if let Some(at) = outputs.iter().position(|o| is_of(none, o)) {
                    return Err(mismatch(expected, format!("{} (none may come)", printed[at])));
                }
                continue;
            }
        };
        let candidates = outputs.get(next..).unwrap_or_default();
        let candidates = if extra { candidates } else { candidates.get(..1).unwrap_or_default() };
        match candidates.iter().position(|o| pattern::fits(&pattern, o).is_ok()) {
            Some(at) => next += at + 1,
            None => return Err(mismatch(expected, nearest(&pattern, candidates))),
        }
    }
    if !extra && next < printed.len() {
        let line = step.expected.last().map_or(step.line, |e| e.line);
        return Err(ReplayError::Mismatch { line, expected: NOTHING.into(), got: printed[next].clone() });
    }
    Ok(())
}

/// A kind by its name, or a pattern.
fn is_of(none: &Value, output: &Value) -> bool {
    match none {
        Value::String(kind) => output.get(kind).is_some(),
        pattern => pattern::fits(pattern, output).is_ok(),
    }
}

fn mismatch(expected: &Expected, got: String) -> ReplayError {
    ReplayError::Mismatch { line: expected.line, expected: expected.text.clone(), got }
}

/// What there was instead, with the reason why it doesn't fit.
fn nearest(pattern: &Value, candidates: &[Value]) -> String {
    if candidates.is_empty() {
        return NOTHING.into();
    }
    let told: Vec<String> = candidates
        .iter()
        .map(|c| format!("{c}\n            ({})", pattern::fits(pattern, c).err().unwrap_or_default()))
        .collect();
    told.join("\n            ")
}

//! The agent's session: each call as it is made, what came back, and whether it was right.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::Client;
use super::desk::Desk;
use super::picture::{keep, png_size};
use super::{Interrupt, say};

/// What goes into the terminal's file, and into the editor.
const NOTE: &str = "héllo Wörld, привет, ½ price: €5 {}[]|~";
const LETTER: &str = "Dear reader,\nthis was typed by an agent: naïve façade, Ελληνικά, ¿qué tal?";

const READY: Duration = Duration::from_secs(10);
const SAVED: Duration = Duration::from_secs(5);

/// Gives the path of the screenshot that is kept.
pub fn tell(desk: &mut Desk, interrupt: &Interrupt, pictures: &Path) -> Result<PathBuf, String> {
    let (input, output) = desk.start_server()?;
    let mut story = Story { client: Client::new(input, output, interrupt.clone()), interrupt: interrupt.clone() };
    story.greet()?;
    story.call("acquire_desktop", json!({"request_key": "try"}), |r| {
        format!("the lease is {}'s; it ends at {} unless it is used", plain(&r["holder"]), plain(&r["expires_at"]))
    })?;
    let terminal = story.in_the_terminal(desk)?;
    let editor = story.in_the_editor(desk)?;
    let picture = story.picture(desk, pictures)?;
    for window in [editor, terminal] {
        story.call("close_window", json!({"window_id": window}), |r| format!("observed: {}", word(r)))?;
    }
    story.call("release_desktop", json!({}), |r| format!("released: {}", r["released"]))?;
    story.audit(desk)?;
    story.client.close();
    story.check("the server ended with its input, with exit code 0", desk.server_ended())?;
    Ok(picture)
}

struct Story {
    client: Client,
    interrupt: Interrupt,
}

impl Story {
    fn greet(&mut self) -> Result<(), String> {
        let began = Instant::now();
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "deskhand-try", "version": env!("CARGO_PKG_VERSION")}});
        say("-> initialize\n");
        let server = self.client.request("initialize", hello)?;
        self.client.notify("notifications/initialized")?;
        let info = &server["serverInfo"];
        answer(began, &format!("{} {}, MCP {}", plain(&info["name"]), plain(&info["version"]), plain(&server["protocolVersion"])));
        // The desktop is looked for while the first answers are given.
        let (client, interrupt) = (&mut self.client, self.interrupt.clone());
        let mut last = Value::Null;
        let ready = interrupt.wait("readiness", READY, || {
            last = call(client, "status", json!({}))?;
            Ok((last["ready"] == true).then_some(()))
        });
        ready.map_err(|why| format!("{why}; blockers: {}", last["blockers"]))?;
        self.call("status", json!({}), |r| {
            format!("ready; {} {}; presets: {}", plain(&r["compositor"]["name"]), plain(&r["compositor"]["version"]), r["policy"]["presets"])
        })?;
        let began = Instant::now();
        say("-> tools/list\n");
        let list = self.client.request("tools/list", json!({}))?;
        let names: Vec<String> = list["tools"].as_array().into_iter().flatten().map(|tool| plain(&tool["name"])).collect();
        answer(began, &format!("{} tools: {}", names.len(), names.join(", ")));
        Ok(())
    }

    fn in_the_terminal(&mut self, desk: &Desk) -> Result<u64, String> {
        let opened = self.call("launch", json!({"preset": "terminal"}), |r| format!("observed: {}; {}", word(r), changes(r)))?;
        let window = only_window(&opened)?;
        let command = format!("printf '%s' '{NOTE}' > ~/note.txt; cat ~/note.txt; printf '\\033]2;written\\007'");
        self.call("type_text", json!({"text": command, "submit": true, "expect": {"window_id": window}}), |r| {
            format!("typed {} characters and Enter; {}", r["typed"], changes(r))
        })?;
        let waited = self.call("wait_for", json!({"until": {"title": {"window_id": window, "contains": "written"}}, "timeout_ms": 5000}), |r| {
            format!("observed: {} after {} ms", word(r), r["waited_ms"])
        })?;
        self.check("the shell ran the command to its end", waited["observed"] == "met")?;
        let written = std::fs::read_to_string(desk.home().join("note.txt")).unwrap_or_default();
        self.check("the shell's file holds exactly what was typed", written == NOTE)?;
        Ok(window)
    }

    fn in_the_editor(&mut self, desk: &Desk) -> Result<u64, String> {
        let opened = self.call("launch", json!({"preset": "editor"}), |r| format!("observed: {}; {}", word(r), changes(r)))?;
        let window = only_window(&opened)?;
        self.call("wait_for", json!({"until": "screen_stable", "timeout_ms": 5000}), |r| format!("observed: {}", word(r)))?;
        let shot = self.call("screenshot", json!({}), |r| {
            format!("{}: {}x{}, {} kB as JPEG", plain(&r["screenshot_ref"]), r["width"], r["height"], r["image_bytes"].as_u64().unwrap_or(0) / 1000)
        })?;
        let state = self.call("desktop_state", json!({}), windows)?;
        let (x, y) = middle(&state, window, &shot).ok_or("the editor's place on the screenshot can't be told")?;
        let clicked = self.call("click", json!({"x": x, "y": y, "screenshot_ref": shot["screenshot_ref"], "expect": {"window_id": window}}), |r| {
            format!("observed: {}, at {}", word(r), r["point"])
        })?;
        self.check("the click went out", clicked["observed"] == "sent")?;
        let typed = self.call("type_text", json!({"text": LETTER, "expect": {"window_id": window}}), |r| {
            format!("typed {} characters; {}", r["typed"], changes(r))
        })?;
        self.check("nobody interfered", typed["observed"] == "sent")?;
        self.call("key", json!({"keys": ["ctrl+s"], "expect": {"window_id": window}}), |r| format!("pressed {}; {}", r["pressed"], changes(r)))?;
        let path = desk.home().join("letter.txt");
        // An editor ends the last line of what it saves, or doesn't.
        let saved = || std::fs::read_to_string(&path).unwrap_or_default().trim_end_matches('\n') == LETTER;
        let right = self.interrupt.wait("the saved letter", SAVED, || Ok(saved().then_some(()))).is_ok();
        self.interrupt.check()?;
        self.check("the editor's file holds exactly what was typed", right)?;
        Ok(window)
    }

    fn picture(&mut self, desk: &Desk, pictures: &Path) -> Result<PathBuf, String> {
        let saved = self.call("screenshot", json!({"save": "desk.png"}), |r| format!("saved as {}", plain(&r["saved"])))?;
        let bytes = std::fs::read(desk.captures().join("desk.png")).map_err(|e| format!("the saved screenshot can't be read: {e}"))?;
        let size = png_size(&bytes).map(|(width, height)| json!([width, height]));
        self.check("it is a PNG of the whole output", size == Some(json!([saved["width"], saved["height"]])))?;
        keep(&bytes, pictures)
    }

    fn audit(&mut self, desk: &Desk) -> Result<(), String> {
        let log = std::fs::read_to_string(desk.audit_log()).map_err(|e| format!("the audit log can't be read: {e}"))?;
        let secret = ["héllo", "Wörld", "Dear reader", "naïve"].iter().any(|part| log.contains(part));
        self.check(&format!("the audit log has {} lines, and none of the text typed", log.lines().count()), !secret && !log.is_empty())
    }

    /// Shows a call and, by `short`, what came back.
    fn call(&mut self, tool: &str, arguments: Value, short: impl Fn(&Value) -> String) -> Result<Value, String> {
        say(&format!("-> {tool} {}\n", cut(&arguments.to_string(), 100)));
        let began = Instant::now();
        let result = call(&mut self.client, tool, arguments);
        if let Ok(facts) = &result {
            answer(began, &short(facts));
        }
        result
    }

    fn check(&self, what: &str, right: bool) -> Result<(), String> {
        say(&format!("   {}  {what}\n", if right { "ok    " } else { "failed" }));
        if right { Ok(()) } else { Err(format!("it isn't so that {what}")) }
    }
}

/// A tool's facts; with an image, `image_bytes` beside them.
fn call(client: &mut Client, tool: &str, arguments: Value) -> Result<Value, String> {
    let result = client.request("tools/call", json!({"name": tool, "arguments": arguments}))?;
    let blocks = || result["content"].as_array().into_iter().flatten();
    let text = blocks().find_map(|block| block["text"].as_str()).unwrap_or_default();
    if result["isError"] == true {
        return Err(format!("{tool}: {text}"));
    }
    let mut facts = match result.get("structuredContent") {
        Some(facts) => facts.clone(),
        None => serde_json::from_str(text).map_err(|e| format!("{tool}: the text isn't JSON: {e}"))?,
    };
    if let Some(image) = blocks().find_map(|block| block["data"].as_str()) {
        facts["image_bytes"] = json!(image.len() / 4 * 3);
    }
    Ok(facts)
}

fn answer(began: Instant, text: &str) {
    say(&format!("   {} ({} ms)\n", cut(text, 300), began.elapsed().as_millis()));
}

fn only_window(launched: &Value) -> Result<u64, String> {
    launched["windows"][0].as_u64().ok_or_else(|| format!("no window came: {launched}"))
}

/// The pixel of the screenshot in the middle of a window.
fn middle(state: &Value, window: u64, shot: &Value) -> Option<(u64, u64)> {
    let found = state["windows"].as_array()?.iter().find(|w| w["id"] == window)?;
    let shown = &shot["rectangle"];
    let pixel = |axis: usize, from: &str, length: &str, pixels: &str| {
        let middle = found["position"][axis].as_f64()? + found["size"][axis].as_f64()? / 2.0 - shown[from].as_f64()?;
        let pixel = middle * shot[pixels].as_f64()? / shown[length].as_f64()?;
        (pixel >= 0.0).then_some(pixel as u64)
    };
    Some((pixel(0, "x", "width", "width")?, pixel(1, "y", "height", "height")?))
}

/// `changes`, in a few words.
fn changes(result: &Value) -> String {
    let Some(changes) = result["changes"].as_object() else { return "the compositor saw nothing change".into() };
    let list = |key: &str| changes.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut told: Vec<String> = list("opened").iter().map(|w| format!("window {} ({}) opened", w["id"], plain(&w["app_id"]))).collect();
    told.extend(list("closed").iter().map(|id| format!("window {id} closed")));
    if let Some(focus) = changes.get("focus") {
        told.push(format!("focus {} -> {}", focus["from"], focus["to"]));
    }
    for w in list("windows") {
        match w["title"].as_str() {
            Some(title) => told.push(format!("window {} is titled {:?}", w["id"], cut(title, 40))),
            None => told.push(format!("window {} changed", w["id"])),
        }
    }
    if told.is_empty() { Value::Object(changes.clone()).to_string() } else { told.join(", ") }
}

fn windows(state: &Value) -> String {
    let window = |w: &Value| format!("{} {} {}", w["id"], plain(&w["app_id"]), if w["focused"] == true { "(focused)" } else { "" }).trim_end().to_string();
    let all: Vec<String> = state["windows"].as_array().into_iter().flatten().map(window).collect();
    format!("{} windows: {}", all.len(), all.join(", "))
}

fn word(result: &Value) -> String {
    plain(&result["observed"])
}

/// A text without its quotes, anything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

fn cut(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_string();
    }
    text.chars().take(characters).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_window_is_mapped_to_the_screenshots_pixels() {
        let state = json!({"windows": [{"id": 3, "position": [2560.0, 100.0], "size": [400, 200]}]});
        let shot = json!({"rectangle": {"x": 1920, "y": 0, "width": 1920, "height": 1080}, "width": 1280, "height": 720});
        assert_eq!(middle(&state, 3, &shot), Some((560, 133)));
        assert_eq!(middle(&state, 4, &shot), None);
        assert_eq!(middle(&json!({"windows": [{"id": 3, "position": null, "size": [4, 2]}]}), 3, &shot), None);
    }

    #[test]
    fn changes_are_told_in_words() {
        let told = changes(&json!({"changes": {"opened": [{"id": 7, "app_id": "foot"}], "focus": {"from": null, "to": 7}, "windows": [{"id": 7, "title": "*a"}]}}));
        assert_eq!(told, "window 7 (foot) opened, focus null -> 7, window 7 is titled \"*a\"");
        assert!(changes(&json!({})).contains("nothing"));
    }
}

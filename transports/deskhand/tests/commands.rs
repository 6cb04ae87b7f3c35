//! The commands that need no compositor, run as a person runs them.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A home with a runtime directory, and nothing else.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        fs::DirBuilder::new().mode(0o700).create(home.path().join("run")).unwrap();
        home
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_deskhand"));
        command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.path()).env("XDG_RUNTIME_DIR", self.path().join("run"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What lies in it, in order.
    fn files(&self) -> Vec<String> {
        fn walk(path: &Path, all: &mut Vec<String>) {
            for entry in fs::read_dir(path).unwrap().flatten() {
                all.push(entry.path().display().to_string());
                if entry.path().is_dir() {
                    walk(&entry.path(), all);
                }
            }
        }
        let mut all = Vec::new();
        walk(self.path(), &mut all);
        all.sort();
        all
    }
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn tools_are_listed_in_both_forms() {
    let home = Home::new();
    let json: Value = serde_json::from_str(&out(&home.run(&["tools", "--format", "json"]))).unwrap();
    let markdown = out(&home.run(&["tools"]));
    let tools = json["tools"].as_array().unwrap();
    assert!(tools.len() >= 16);
    for tool in tools {
        assert!(markdown.contains(&format!("| `{}` |", tool["name"].as_str().unwrap())));
        assert_eq!(tool["inputSchema"]["additionalProperties"], false);
    }
    assert_eq!(out(&home.run(&["tools", "--json"])), out(&home.run(&["tools", "--format", "json"])));
}

#[test]
fn every_shell_gets_completions() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let done = home.run(&["completions", shell]);
        assert!(done.status.success() && out(&done).contains("recover"), "{shell}");
        assert!(!out(&done).contains("--parent"), "{shell}: what people don't use isn't offered");
    }
}

#[test]
fn tokens_are_made_shown_and_taken_back() {
    let home = Home::new();
    let first = out(&home.run(&["token"]));
    assert!(first.starts_with("dh_"));
    assert_eq!(out(&home.run(&["token", "show", "default"])), first);
    let second = out(&home.run(&["token", "add", "laptop"]));
    assert_ne!(first, second);
    assert_eq!(out(&home.run(&["token", "list"])), "default\nlaptop\n");
    out(&home.run(&["token", "remove", "laptop"]));
    assert_eq!(out(&home.run(&["token", "list"])), "default\n");
    for (arguments, code) in [(["token", "show", "laptop"], 1), (["token", "remove", "laptop"], 1), (["token", "add", "Two Words"], 2)] {
        assert_eq!(home.run(&arguments).status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn setup_prints_what_http_needs_and_no_secret() {
    let home = Home::new();
    let token = out(&home.run(&["token"])).trim().to_string();
    let text = out(&home.run(&["setup", "--http"]));
    for expected in ["--transport http", "bearer_token_env_var", "http://127.0.0.1:7333/mcp"] {
        assert!(text.contains(expected), "{expected}");
    }
    let units = out(&home.run(&["setup", "--systemd"]));
    assert!(units.contains("ExecStart=") && units.contains("ListenStream=127.0.0.1:7333"));
    assert!(!text.contains(&token) && !units.contains(&token));
    for flags in [["--systemd", "--http"], ["--write-systemd", "--systemd"]] {
        assert_eq!(home.run(&["setup", flags[0], flags[1]]).status.code(), Some(2));
    }
}

#[test]
fn setup_prints_and_changes_nothing() {
    let home = Home::new();
    let before = home.files();
    let text = out(&home.run(&["setup"]));
    for expected in ["allow-when-locked=true", "bindsym --locked", "claude mcp add", "[mcp_servers.deskhand]", "\"mcpServers\"", "#lease_idle_minutes = 10"] {
        assert!(text.contains(expected), "{expected}");
    }
    assert!(text.contains(env!("CARGO_BIN_EXE_deskhand")));
    assert_eq!(home.files(), before);
    let json: Value = serde_json::from_str(&out(&home.run(&["setup", "--client", "json"]))).unwrap();
    assert_eq!(json["mcpServers"]["deskhand"]["command"], env!("CARGO_BIN_EXE_deskhand"));
    let codex: toml::Table = out(&home.run(&["setup", "--client", "codex"])).parse().unwrap();
    assert_eq!(codex["mcp_servers"]["deskhand"]["args"][0].as_str(), Some("mcp"));
}

#[test]
fn the_policy_is_written_once_and_is_valid() {
    let home = Home::new();
    let path = home.path().join(".config/deskhand/policy.toml");
    assert!(out(&home.run(&["setup", "--write-policy"])).starts_with("Wrote"));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
    let report: Value = serde_json::from_str(&out(&home.run(&["doctor", "--json"]))).unwrap();
    assert_eq!(finding(&report, "Policy")["level"], "ok");
    fs::write(&path, "mine = true\n").unwrap();
    assert!(out(&home.run(&["setup", "--write-policy"])).contains("left as it is") || fs::read_to_string(&path).unwrap() == "mine = true\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine = true\n");
    let report: Value = serde_json::from_str(&out(&home.run(&["doctor", "--json"]))).unwrap();
    let policy = finding(&report, "Policy");
    assert!(policy["level"] == "missing" && policy["detail"].as_str().unwrap().contains("line 1"), "{policy}");
}

#[test]
fn doctor_names_what_is_missing_and_what_mends_it() {
    let home = Home::new();
    let done = home.run(&["doctor"]);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let text = out(&done);
    assert!(text.contains("missing  Wayland display") && text.contains("essential"), "{text}");
    // Neither niri nor sway is in this PATH.
    let text = out(&home.command(&["doctor"]).env("PATH", "/nowhere").output().unwrap());
    for command in ["sudo apt install sway", "sudo pacman -S niri", "sudo dnf install niri"] {
        assert!(text.contains(command), "{command}: {text}");
    }
    let report: Value = serde_json::from_str(&out(&home.run(&["doctor", "--json"]))).unwrap();
    assert_eq!(report["ready"], false);
    assert_eq!(finding(&report, "Stop flag")["level"], "ok");
    assert!(home.run(&["stop"]).status.success());
    let report: Value = serde_json::from_str(&out(&home.run(&["doctor", "--json"]))).unwrap();
    assert_eq!(finding(&report, "Stop flag")["mend"][0]["do"], "deskhand resume");
}

fn finding<'a>(report: &'a Value, name: &str) -> &'a Value {
    report["findings"].as_array().unwrap().iter().find(|f| f["name"] == name).unwrap_or_else(|| panic!("no {name}: {report}"))
}

#[test]
fn replay_tells_which_file_and_line() {
    let home = Home::new();
    let write = |name: &str, text: &str| {
        let path = home.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let header = format!(
        r#"{{"deskhand_trace":1,"revision":1,"match":"subset","seed":"{}","config":{{"toolset":"desktop","server_version":"1"}}}}"#,
        "00".repeat(32)
    );
    let ping = r#"{"in":{"opened":{"conn":1,"principal":"p"}}}
{"in":{"message":{"conn":1,"json":{"jsonrpc":"2.0","id":1,"method":"ping"}}}}"#;
    let good = write("good", &format!("{header}\n{ping}\n{{\"out\":{{\"send\":{{\"conn\":1}}}}}}\n"));
    let bad = write("bad", &format!("{header}\n{ping}\n{{\"out\":{{\"close\":{{\"conn\":1}}}}}}\n"));
    let done = home.run(&["replay", &good]);
    assert!(done.status.success() && out(&done).ends_with("good: ok\n"), "{done:?}");
    let done = home.run(&["replay", &bad, &good]);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(out(&done).contains("bad: line 4") && out(&done).contains("good: ok"), "{done:?}");
    assert!(err(&done).contains("1 of 2"), "{done:?}");
    assert_eq!(home.run(&["replay", &write("empty", "")]).status.code(), Some(1));
    assert_eq!(home.run(&["replay", "/nonexistent", &good]).status.code(), Some(4));
    assert_eq!(home.run(&["replay"]).status.code(), Some(2));
}

#[test]
fn recover_without_a_compositor_says_so() {
    let done = Home::new().run(&["recover"]);
    assert_eq!(done.status.code(), Some(3));
    assert!(err(&done).contains("WAYLAND_DISPLAY"), "{done:?}");
}

#[test]
fn recover_clears_only_on_a_typed_yes() {
    let home = Home::new();
    let run = home.path().join("run");
    // A compositor that hangs up on everybody.
    let listener = UnixListener::bind(run.join("wayland-7")).unwrap();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let answered = |answer: &str| {
        let mut command = home.command(&["recover"]);
        let mut child = command.env("WAYLAND_DISPLAY", "wayland-7").stdin(Stdio::piped()).spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(answer.as_bytes());
        child.wait_with_output().unwrap()
    };
    let done = answered("");
    assert!(done.status.success() && out(&done).contains("Nothing to recover"), "{done:?}");

    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let start = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(19).unwrap();
    let instance = run.join(format!("deskhand/wayland-7.{}.{start}", std::process::id()));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&instance).unwrap();
    let record = instance.join("recovery.json");
    fs::write(&record, r#"{"server_pid":4242,"at_wall_ms":1700000000000,"keys":[29],"modifiers":4,"buttons":[272],"reason":"it hung"}"#).unwrap();
    for (answer, cleared) in [("", false), ("y\n", false), ("no\n", false), ("yes\n", true)] {
        let done = answered(answer);
        assert_eq!(done.status.code(), Some(if cleared { 0 } else { 1 }), "{answer:?}: {done:?}");
        for expected in ["4242", "code 29", "Ctrl", "left mouse button", "it hung"] {
            assert!(out(&done).contains(expected), "{expected}: {done:?}");
        }
        assert_eq!(record.exists(), !cleared, "{answer:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let home = Home::new();
    let mut child = home.command(&["tools"]).spawn().unwrap();
    drop(child.stdout.take());
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success() && err(&done).is_empty(), "{done:?}");
}

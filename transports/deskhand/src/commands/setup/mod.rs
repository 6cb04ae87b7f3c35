//! `deskhand setup`: what a person adds to other programs' configuration, printed; and the example policy file.

mod binds;
mod clients;
mod example;
mod systemd;

use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::process::ExitCode;

use deskhand_core::desktop::event::CompositorKind;

use super::{Failed, print};
use crate::cli::{Client, Setup};
use crate::edges::compositor_kind;
use crate::environment::Place;

pub fn run(place: &Place, wish: &Setup) -> Result<ExitCode, Failed> {
    let policy_file = place.paths("").policy_file().to_owned();
    let program = this_program()?;
    let text = if wish.write_policy {
        let written = write(&policy_file, &example::text())?;
        format!("{written}{}", if written.starts_with("Wrote") { "A server reads it when it starts.\n" } else { "" })
    } else if wish.systemd {
        format!("# deskhand.service\n{}\n# deskhand.socket\n{}\n{}", systemd::service(&program), systemd::socket(), systemd::HOW)
    } else if wish.write_systemd {
        let units = place.config_home.join("systemd/user");
        let service = write(&units.join("deskhand.service"), &systemd::service(&program))?;
        let socket = write(&units.join("deskhand.socket"), systemd::socket())?;
        format!("{service}{socket}{}", systemd::HOW)
    } else {
        match wish.client {
            Some(client) if wish.http => clients::over_http(client),
            Some(client) => clients::configuration(client, &program, &forwarded()),
            None => everything(place, &program, &policy_file, wish.http),
        }
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn everything(place: &Place, program: &str, policy_file: &Path, http: bool) -> String {
    let binds = match compositor_kind(place) {
        Some(CompositorKind::Niri) => binds::niri(program),
        Some(CompositorKind::Sway) => binds::sway(program),
        None => format!("{}\n{}", binds::niri(program), binds::sway(program)),
    };
    let client = |client| if http { clients::over_http(client) } else { clients::configuration(client, program, &forwarded()) };
    let parts = [
        ("1. A key that stops every agent at once", binds),
        ("2. The client: Claude Code", client(Client::ClaudeCode)),
        ("   or Codex", client(Client::Codex)),
        ("   or any other that reads \"mcpServers\"", client(Client::Json)),
        (
            "3. The policy: what agents may do",
            format!(
                "Without a file the defaults hold: every tool, no presets to launch.\n\
                 `deskhand setup --write-policy` writes this example to {}\nif there is no file yet.\n\n{}",
                policy_file.display(),
                example::text()
            ),
        ),
        ("4. Is all that is needed there?", "deskhand doctor\n".into()),
    ];
    parts.iter().map(|(title, text)| format!("{title}\n{}\n{text}", "-".repeat(title.len()))).collect::<Vec<_>>().join("\n")
}

/// This program's absolute path, as text that other programs can hold.
fn this_program() -> Result<String, Failed> {
    let path = std::env::current_exe().map_err(|e| Failed::Not(format!("this program's own path isn't known: {e}")))?;
    path.into_os_string()
        .into_string()
        .map_err(|path| Failed::Not(format!("this program's path {path:?} isn't UTF-8 text; move it to one that is")))
}

/// The variables of this session that the server can't do without, for clients that don't hand theirs on.
fn forwarded() -> Vec<(&'static str, String)> {
    ["XDG_RUNTIME_DIR", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"]
        .into_iter()
        .filter_map(|name| Some((name, std::env::var(name).ok().filter(|value| !value.is_empty())?)))
        .collect()
}

/// Writes it unless there is a file; says which.
fn write(path: &Path, text: &str) -> Result<String, Failed> {
    let failed = |e: std::io::Error| Failed::File(format!("{} can't be written: {e}", path.display()));
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    }
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            return Ok(format!("There is a file already; {} was left as it is.\n", path.display()));
        }
        Err(e) => return Err(failed(e)),
    };
    file.write_all(text.as_bytes()).map_err(failed)?;
    Ok(format!("Wrote {}.\n", path.display()))
}

//! The checks, in the order in which one needs the other.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use deskhand_core::desktop::event::CompositorKind;
use deskhand_core::policy::{Policy, PolicyState};
use deskhand_ports::peer::{self, Display, IpcSocket};
use deskhand_session::{is_stopped, unfinished};
use deskhand_wayland::NEEDED;
use rustix::fs::Access;
use serde_json::Value;

use super::distribution::Mend;
use super::Finding;
use crate::commands::status;
use crate::environment::Place;

const COMPOSITORS: (&str, &str, &str) = ("sway", "niri", "niri");

pub fn all(place: &Place) -> Vec<Finding> {
    let mut findings = vec![runtime_directory(place)];
    let mut report = Value::Null;
    match peer::display(&place.sockets) {
        Ok(display) => {
            findings.push(Finding::ok("Wayland display", format!("{}, served by {}", display.socket.display(), process(display.peer.pid))));
            findings.extend(compositor(place, &display, &mut report));
        }
        Err(why) => findings.push(no_display(place, &why)),
    }
    findings.push(policy(place));
    findings.extend(presets(&place.policy().0));
    findings.push(audit_log(place));
    findings.push(accessibility(place, &report));
    findings.push(stop_flag(place));
    findings
}

fn runtime_directory(place: &Place) -> Finding {
    const NAME: &str = "Runtime directory";
    let by_login = || Mend::packages("libpam-systemd", "systemd", "systemd-pam");
    let Some(dir) = place.sockets.runtime_dir.as_ref() else {
        let usual = &place.runtime_dir;
        let mend = if usual.is_dir() { Mend::told(format!("export XDG_RUNTIME_DIR={}", usual.display())) } else { by_login() };
        return Finding::missing(NAME, "XDG_RUNTIME_DIR is not set; a login session sets it", mend);
    };
    let meta = match fs::metadata(dir) {
        Ok(meta) if meta.is_dir() => meta,
        Ok(_) => return Finding::missing(NAME, format!("{} is no directory", dir.display()), Mend::told("correct XDG_RUNTIME_DIR")),
        Err(e) => return Finding::missing(NAME, format!("{}: {e}", dir.display()), by_login()),
    };
    let us = rustix::process::geteuid().as_raw();
    if meta.uid() != us {
        return Finding::missing(
            NAME,
            format!("{} belongs to user {}, and this is user {us}", dir.display(), meta.uid()),
            Mend::told("run deskhand as the user whose desktop it is"),
        );
    }
    if meta.mode() & 0o077 != 0 {
        return Finding::missing(NAME, format!("others may enter {}", dir.display()), Mend::told(format!("chmod 700 {}", dir.display())));
    }
    Finding::ok(NAME, dir.display().to_string())
}

fn no_display(place: &Place, why: &str) -> Finding {
    let (debian, arch, fedora) = COMPOSITORS;
    let mend = match display_sockets(&place.runtime_dir).first() {
        Some(name) if place.sockets.wayland_display.is_none() => Mend::told(format!("export WAYLAND_DISPLAY={name}")),
        Some(name) => Mend::told(format!("WAYLAND_DISPLAY names another socket than {name}, which answers")),
        None => match ["niri", "sway"].into_iter().find(|name| is_there(name)) {
            Some(installed) => Mend::told(format!("log in to {installed}, and run deskhand inside that session")),
            None => Mend::packages(debian, arch, fedora),
        },
    };
    Finding::missing("Wayland display", why, mend)
}

/// The sockets in the runtime directory behind which somebody answers.
fn display_sockets(runtime_dir: &Path) -> Vec<String> {
    let names = fs::read_dir(runtime_dir).into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let is_display = |name: &String| name.strip_prefix("wayland-").is_some_and(|n| n.chars().all(|c| c.is_ascii_digit()));
    let mut names: Vec<String> = names.filter(is_display).filter(|name| peer::peer_of(&runtime_dir.join(name)).is_ok()).collect();
    names.sort();
    names
}

fn process(pid: i32) -> String {
    match fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("process {pid} ({})", name.trim()),
        Err(_) => format!("process {pid}"),
    }
}

/// `report` becomes what `status` tells.
fn compositor(place: &Place, display: &Display, report: &mut Value) -> Vec<Finding> {
    let (kind, socket) = ipc(place);
    let mut findings = Vec::new();
    *report = match socket {
        Ok(socket) => {
            findings.push(match socket.matches {
                Ok(()) => Finding::ok("IPC socket", socket.path.display().to_string()),
                Err(why) => Finding::missing("IPC socket", why, Mend::told("start the server in the session that it is to drive")),
            });
            status::ask(place.clone()).unwrap_or_default()
        }
        Err(why) => {
            let (debian, arch, fedora) = COMPOSITORS;
            findings.push(Finding::missing("IPC socket", why, Mend::packages(debian, arch, fedora)));
            Value::Null
        }
    };
    if !report.is_null() {
        findings.insert(0, version(&report["compositor"]));
    }
    findings.extend(globals(&display.socket));
    if !report.is_null() {
        findings.push(lock(&report["lock"], kind));
    }
    findings.push(leftover(place, display));
    findings
}

/// niri's socket, unless it is sway whose socket belongs to the display.
fn ipc(place: &Place) -> (CompositorKind, Result<IpcSocket, String>) {
    let (niri, sway) = (deskhand_niri::find(&place.sockets), deskhand_sway::find(&place.sockets));
    let fits = |found: &Result<IpcSocket, String>| found.as_ref().is_ok_and(|socket| socket.matches.is_ok());
    if !fits(&niri) && (fits(&sway) || niri.is_err() && sway.is_ok()) {
        (CompositorKind::Sway, sway)
    } else {
        (CompositorKind::Niri, niri)
    }
}

fn version(compositor: &Value) -> Finding {
    const NAME: &str = "Compositor";
    let text = |key: &str| compositor[key].as_str().unwrap_or("unknown").to_string();
    let update = || Mend::packages(COMPOSITORS.0, COMPOSITORS.1, COMPOSITORS.2);
    if compositor["reachable"] != true {
        return Finding::missing(NAME, format!("doesn't answer: {}", text("why_not")), Mend::told("start the compositor again"));
    }
    if compositor["compatible"] != true {
        return Finding::missing(NAME, text("why_not"), update());
    }
    Finding::ok(NAME, format!("{} {}", text("name"), text("version")))
}

fn globals(socket: &Path) -> Vec<Finding> {
    let probe = match deskhand_wayland::probe(socket) {
        Ok(probe) => probe,
        Err(why) => return vec![Finding::missing("Wayland globals", why, Mend::told("start the compositor again"))],
    };
    let outside = || Mend::told("use niri or sway, and start deskhand outside of sandboxes");
    let mut findings: Vec<Finding> = NEEDED
        .iter()
        .map(|(interface, needed, _)| {
            let name = title(interface);
            let found = probe.globals.iter().filter(|(global, _)| global == interface).map(|(_, version)| *version).max();
            match found {
                Some(found) if found >= *needed => Finding::ok(name, format!("{interface} {found}")),
                Some(found) => Finding::missing(
                    name,
                    format!("{interface} is version {found}, needed is {needed}"),
                    Mend::packages(COMPOSITORS.0, COMPOSITORS.1, COMPOSITORS.2),
                ),
                None => Finding::missing(name, format!("the compositor offers no {interface}"), outside()),
            }
        })
        .collect();
    findings.push(match probe.clipboard {
        Some(interface) => Finding::ok("Clipboard", interface),
        None => Finding::warning("Clipboard", "the compositor offers no data control, so clipboard_read and paste say niri_unavailable", outside()),
    });
    findings.push(match probe.outputs.as_slice() {
        [] => Finding::missing("Outputs", "none is on", Mend::told("switch an output on")),
        names => Finding::ok("Outputs", names.join(", ")),
    });
    findings
}

fn title(interface: &str) -> &'static str {
    match interface {
        "wl_shm" => "Shared memory",
        "zwlr_screencopy_manager_v1" => "Screen captures",
        "wl_seat" => "Seat",
        "zwlr_virtual_pointer_manager_v1" => "Virtual pointer",
        "zwp_virtual_keyboard_manager_v1" => "Virtual keyboard",
        _ => "Wayland global",
    }
}

fn lock(lock: &Value, kind: CompositorKind) -> Finding {
    const NAME: &str = "Lock state";
    let source = lock["source"].as_str().unwrap_or_default();
    match (lock["state"].as_str(), lock["assumed_unlocked"].as_bool()) {
        (Some("unlocked"), _) => Finding::ok(NAME, format!("unlocked, by {source}")),
        (Some("locked"), _) => Finding::warning(NAME, format!("locked, by {source}"), Mend::told("unlock the screen")),
        (_, Some(true)) => Finding::ok(NAME, format!("not known ({source}); the policy takes it for unlocked")),
        _ => {
            let mend = match kind {
                CompositorKind::Sway => "on a headless or nested sway: assume_unlocked = true in the policy file",
                CompositorKind::Niri => "log in by niri-session, or choose niri in the display manager; on a nested niri: assume_unlocked = true in the policy file",
            };
            Finding::missing(NAME, format!("not known, so it counts as locked: {source}"), Mend::told(mend))
        }
    }
}

fn leftover(place: &Place, display: &Display) -> Finding {
    const NAME: &str = "Leftover input";
    match unfinished(&place.paths(&display.instance)) {
        None => Finding::ok(NAME, "none"),
        Some(left) => Finding::missing(NAME, format!("a dead server's keys or buttons: {}", left.reason), Mend::told("deskhand recover")),
    }
}

fn policy(place: &Place) -> Finding {
    const NAME: &str = "Policy";
    let path = place.paths("").policy_file().to_owned();
    match place.policy().1 {
        PolicyState::Missing => Finding::ok(NAME, "no file, so the defaults hold; `deskhand setup --write-policy` writes one"),
        PolicyState::Invalid(why) => {
            Finding::missing(NAME, format!("{}: {why}", path.display()), Mend::told(format!("correct {}; until then the server only looks", path.display())))
        }
        PolicyState::Loaded => match fs::metadata(&path) {
            Ok(meta) if meta.mode() & 0o022 != 0 => Finding::warning(
                NAME,
                format!("others may change {}", path.display()),
                Mend::told(format!("chmod 600 {}", path.display())),
            ),
            _ => Finding::ok(NAME, path.display().to_string()),
        },
    }
}

/// Nothing to say when there are none.
fn presets(policy: &Policy) -> Option<Finding> {
    const NAME: &str = "Presets";
    let program = |preset: &deskhand_core::policy::Preset| preset.argv.first().cloned().unwrap_or_default();
    let lacking: Vec<String> =
        policy.presets.iter().filter(|p| !is_there(&program(p))).map(|p| format!("{} ({})", p.name, program(p))).collect();
    if policy.presets.is_empty() {
        None
    } else if lacking.is_empty() {
        Some(Finding::ok(NAME, policy.presets.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ")))
    } else {
        Some(Finding::warning(NAME, format!("the program isn't there: {}", lacking.join(", ")), Mend::told("install it, or correct the preset's argv")))
    }
}

/// An absolute path, or a name in `PATH`.
fn is_there(program: &str) -> bool {
    let executable = |path: PathBuf| fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    if program.contains('/') {
        return program.starts_with('/') && executable(program.into());
    }
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.is_absolute() && executable(dir.join(program))))
}

fn audit_log(place: &Place) -> Finding {
    const NAME: &str = "Audit log";
    let paths = place.paths("");
    let log = paths.audit_log();
    // What doesn't exist yet is made below what does.
    let Some(nearest) = log.ancestors().find(|path| path.symlink_metadata().is_ok()) else {
        return Finding::missing(NAME, format!("{} can't be reached", log.display()), Mend::told("correct XDG_STATE_HOME"));
    };
    let rights = if nearest == log { Access::WRITE_OK } else { Access::WRITE_OK | Access::EXEC_OK };
    let fits = if nearest == log { log.is_file() } else { nearest.is_dir() };
    if fits && rustix::fs::access(nearest, rights).is_ok() {
        return Finding::ok(NAME, log.display().to_string());
    }
    Finding::missing(
        NAME,
        format!("{} can't be written, so the server would only look", nearest.display()),
        Mend::told(format!("sudo chown -R \"$USER\" {}", nearest.display())),
    )
}

/// What the server found; without a compositor to report it, whether anybody listens where the bus usually is.
fn accessibility(place: &Place, report: &Value) -> Finding {
    const NAME: &str = "Accessibility bus";
    let package = || Mend::packages("at-spi2-core", "at-spi2-core", "at-spi2-core");
    let told = &report["accessibility"];
    match (told["available"].as_bool(), told["switched_on"].as_bool()) {
        (Some(true), Some(true)) => return Finding::ok(NAME, "there, and switched on for all apps"),
        (Some(true), _) => {
            let mend = Mend::told("accessibility = \"enable\" in the policy file, for the elements of Qt and Chromium apps");
            return Finding::warning(NAME, "there, but not switched on: GTK apps show their elements, Qt and Chromium don't", mend);
        }
        (Some(false), _) => {
            let why = told["why_not"].as_str().unwrap_or_default();
            let mend = if why.contains("enable") { Mend::told("accessibility = \"enable\" in the policy file") } else { package() };
            return Finding::warning(NAME, format!("no tool for elements is listed: {why}"), mend);
        }
        _ => {}
    }
    let names = fs::read_dir(place.runtime_dir.join("at-spi")).into_iter().flatten().flatten();
    match names.map(|entry| entry.path()).find(|path| peer::peer_of(path).is_ok()) {
        Some(path) => Finding::ok(NAME, path.display().to_string()),
        None => Finding::warning(NAME, "none, so no tool for elements is listed", package()),
    }
}

fn stop_flag(place: &Place) -> Finding {
    const NAME: &str = "Stop flag";
    if is_stopped(&place.paths("")) {
        return Finding::warning(NAME, "set: no agent sees or acts", Mend::told("deskhand resume"));
    }
    Finding::ok(NAME, "not set")
}

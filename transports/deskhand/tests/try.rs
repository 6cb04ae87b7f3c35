//! `deskhand try`, where its programs are installed: the whole of it, and cut short.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// `None` when something is missing on this machine.
fn command(temporary: &Path) -> Option<Command> {
    let there = |program: &str| ["/usr/local/bin", "/usr/bin", "/bin"].iter().any(|dir| Path::new(dir).join(program).is_file());
    if !["sway", "foot", "dbus-daemon", "l3afpad"].into_iter().all(there) {
        eprintln!("skipped: the programs of `deskhand try` are not installed");
        return None;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_deskhand"));
    // Another user must be able to enter it.
    fs::set_permissions(temporary, std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
    command.args(["try", "--no-install"]).env("TMPDIR", temporary).stdin(Stdio::null());
    Some(command)
}

/// Processes whose environment names this directory.
fn left_in(directory: &Path) -> Vec<String> {
    let wanted = directory.to_str().unwrap().as_bytes();
    let has_it = |pid: &String| {
        fs::read(format!("/proc/{pid}/environ")).is_ok_and(|all| {
            all.split(|b| *b == 0).any(|one| one.starts_with(b"XDG_RUNTIME_DIR=") && one.windows(wanted.len()).any(|w| w == wanted))
        })
    };
    let names = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.bytes().all(|b| b.is_ascii_digit())).filter(has_it).collect()
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn an_agents_session_works_from_end_to_end() {
    let (temporary, pictures) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(mut command) = command(temporary.path()) else { return };
    let done = command.args(["--out", pictures.path().to_str().unwrap()]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}\n{err}");
    let picture = pictures.path().join("deskhand-try.png");
    assert!(fs::read(&picture).unwrap().starts_with(b"\x89PNG"));
    assert!(out.contains(&format!("The screenshot: {}", fs::canonicalize(&picture).unwrap().display())), "{out}");
    assert!(is_empty(temporary.path()), "the temporary directory is left");
    assert_eq!(left_in(temporary.path()), Vec::<String>::new());
}

#[test]
fn ctrl_c_ends_all_that_was_started() {
    interrupted("-INT", true);
}

#[test]
fn even_killed_it_leaves_no_process() {
    interrupted("-KILL", false);
}

fn interrupted(signal: &str, tidy: bool) {
    let temporary = tempfile::tempdir().unwrap();
    let Some(mut command) = command(temporary.path()) else { return };
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let reached = lines.by_ref().map_while(Result::ok).any(|line| line.starts_with("-> type_text"));
    assert!(reached, "it ended before it typed");
    assert!(!left_in(temporary.path()).is_empty());
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), if tidy { Some(1) } else { None });
    let end = Instant::now() + Duration::from_secs(if tidy { 0 } else { 5 });
    while !left_in(temporary.path()).is_empty() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(left_in(temporary.path()), Vec::<String>::new());
    if tidy {
        assert!(is_empty(temporary.path()), "the temporary directory is left");
    }
}

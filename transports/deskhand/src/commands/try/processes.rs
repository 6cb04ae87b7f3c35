//! Starting and ending processes: each in a group of its own, ended by its id, and never left behind.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::commands::Failed;

/// `deskhand child`: becomes the program, which gets SIGTERM when its parent dies.
pub fn child(parent: u32, argv: &[OsString]) -> Result<ExitCode, Failed> {
    let failed = |e: std::io::Error| Failed::Not(format!("{argv:?} can't be started: {e}"));
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM)).map_err(|e| failed(e.into()))?;
    // It may have died before that.
    let alive = rustix::process::getppid().is_some_and(|pid| pid.as_raw_nonzero().get().unsigned_abs() == parent);
    match argv.split_first() {
        Some((program, rest)) if alive => Err(failed(Command::new(program).args(rest).exec())),
        _ => Ok(ExitCode::FAILURE),
    }
}

/// Who the processes belong to, and what they see.
#[derive(Clone)]
pub struct Owner {
    /// User and group when this process is root.
    pub user: Option<(u32, u32)>,
    pub environment: Vec<(String, String)>,
    pub home: PathBuf,
    /// This program, where the owner may execute it.
    pub deskhand: PathBuf,
}

impl Owner {
    /// The program as it is, for one that ends with its input.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.environment.iter().map(|(k, v)| (k, v))).current_dir(&self.home).stdin(Stdio::null()).process_group(0);
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }

    /// A program that ends with this process, even when this process is killed.
    pub fn spawn(&self, argv: &[&str], log: &Path) -> Result<Child, String> {
        let failed = |e: std::io::Error| format!("{} can't be started: {e}", argv.join(" "));
        let file = File::create(log).map_err(failed)?;
        let mut command = self.command(&self.deskhand);
        command.args(["child", "--parent", &std::process::id().to_string(), "--"]).args(argv);
        command.stdout(file.try_clone().map_err(failed)?).stderr(file);
        command.spawn().map_err(failed)
    }
}

/// Asks the process and its group to end, then insists.
pub fn end(child: &mut Child, patience: Duration) {
    let pid = Pid::from_child(child);
    for signal in [Signal::TERM, Signal::KILL] {
        let _ = rustix::process::kill_process_group(pid, signal);
        if has_ended(child, patience) {
            break;
        }
    }
    // What else is in the group, if anything; gone, this finds nobody.
    let _ = rustix::process::kill_process_group(pid, Signal::KILL);
}

pub fn has_ended(child: &mut Child, patience: Duration) -> bool {
    let end = Instant::now() + patience;
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => return false,
            Ok(Some(_)) | Err(_) => return true,
        }
    }
}

/// Ends whatever still runs with this runtime directory in its environment: only the desktop's own programs have it.
pub fn sweep(runtime_dir: &Path) {
    for signal in [Signal::TERM, Signal::KILL] {
        let end = Instant::now() + Duration::from_secs(1);
        let mut told = BTreeSet::new();
        loop {
            let left = with_runtime_dir(runtime_dir);
            if left.is_empty() {
                return;
            }
            for pid in left {
                if told.insert(pid)
                    && let Some(pid) = Pid::from_raw(pid)
                {
                    let _ = rustix::process::kill_process(pid, signal);
                }
            }
            if Instant::now() > end {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn with_runtime_dir(runtime_dir: &Path) -> Vec<i32> {
    let mut variable = OsString::from("XDG_RUNTIME_DIR=");
    variable.push(runtime_dir);
    let has_it = |pid: &i32| {
        fs::read(format!("/proc/{pid}/environ")).is_ok_and(|all| all.split(|b| *b == 0).any(|one| OsStr::from_bytes(one) == variable))
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(has_it).collect()
}

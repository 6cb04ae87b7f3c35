//! Starting a program with the session's environment, detached from us.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use deskhand_core::desktop::effect::{Failure, FailureKind};
use rustix::process::{Pid, PidfdFlags};

use crate::readiness;

/// A whole environment: the launched program gets these variables and no others.
pub type Variables = Vec<(OsString, OsString)>;

/// Starts `argv` directly (no shell) in its own process group with no open files but `/dev/null`; `extra` is added to
/// `environment`. Returns its process id.
pub(crate) async fn launch(
    argv: Vec<String>,
    extra: Vec<(String, String)>,
    environment: Variables,
) -> Result<u32, Failure> {
    // Finding and executing a file may wait for a disk.
    let spawned = tokio::task::spawn_blocking(move || spawn(&argv, &extra, environment)).await;
    let child =
        spawned.map_err(|e| Failure::new(FailureKind::Unavailable, format!("the launch was interrupted: {e}")))??;
    let pid = child.id();
    reap(child);
    Ok(pid)
}

fn spawn(argv: &[String], extra: &[(String, String)], mut environment: Variables) -> Result<Child, Failure> {
    let refused = |detail: String| Failure::new(FailureKind::Refused, detail);
    let Some((program, arguments)) = argv.split_first().filter(|(program, _)| !program.is_empty()) else {
        return Err(refused("the preset names no program; give its argv in the policy file".into()));
    };
    if argv.iter().any(|argument| argument.contains('\0')) {
        return Err(refused(format!("an argument of {program} holds a NUL byte; remove it from the policy file")));
    }
    for (name, value) in extra {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(refused(format!("the environment variable {name:?} of the preset is no valid one")));
        }
        environment.retain(|(known, _)| known != OsStr::new(name));
        environment.push((name.into(), value.into()));
    }
    environment.retain(|(name, value)| {
        !name.is_empty()
            && !name.as_bytes().contains(&b'=')
            && !name.as_bytes().contains(&0)
            && !value.as_bytes().contains(&0)
    });

    let variable =
        |wanted: &str| environment.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_os_str());
    let path = find(program, variable("PATH"))?;
    let home = variable("HOME").map(PathBuf::from).filter(|home| home.is_dir());
    let mut command = Command::new(&path);
    command
        .arg0(program)
        .args(arguments)
        .env_clear()
        .envs(environment)
        .current_dir(home.unwrap_or_else(|| "/".into()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    command.spawn().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Failure::new(
            FailureKind::NotFound,
            format!("{} can't be started: its interpreter or loader is missing ({e}); reinstall it", path.display()),
        ),
        io::ErrorKind::PermissionDenied => {
            refused(format!("{} may not be executed ({e}); check its permissions", path.display()))
        }
        _ => refused(format!("{} can't be started: {}", path.display(), crate::files::with_remedy(&e))),
    })
}

/// The executable that the name means: an absolute path as it is, a bare name in the `PATH`'s absolute directories.
fn find(program: &str, search: Option<&OsStr>) -> Result<PathBuf, Failure> {
    let executable =
        |path: &Path| path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    let missing = |detail: String| Err(Failure::new(FailureKind::NotFound, detail));
    if program.contains('/') {
        let path = PathBuf::from(program);
        if !path.is_absolute() {
            return missing(format!(
                "{program} is a relative path; name the program by its absolute path in the policy file"
            ));
        }
        return match path.metadata() {
            Err(e) => missing(format!("{program} can't be found ({e}); install it or correct the preset's argv")),
            Ok(_) if executable(&path) => Ok(path),
            Ok(_) => Err(Failure::new(
                FailureKind::Refused,
                format!("{program} is not an executable file; correct the preset's argv"),
            )),
        };
    }
    let search = search.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    let found = std::env::split_paths(search)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(|path| executable(path));
    match found {
        Some(path) => Ok(path),
        None => missing(format!(
            "there is no program {program} in the PATH ({}); install it or name its absolute path in the policy file",
            search.to_string_lossy()
        )),
    }
}

/// Waits for the child's end beside everything else, so that it doesn't stay as a zombie.
fn reap(mut child: Child) {
    let watched = Pid::from_raw(child.id() as i32)
        .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok())
        .and_then(|pidfd| readiness::of(pidfd).ok());
    match watched {
        Some(pidfd) => {
            tokio::spawn(async move {
                let _ = pidfd.readable().await;
                let _ = child.wait();
            });
        }
        // A kernel without pidfds.
        None => {
            let _ = std::thread::Builder::new().name("reap".into()).spawn(move || child.wait());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_the_given_path_only() {
        assert_eq!(find("/bin/sh", None).unwrap(), Path::new("/bin/sh"));
        assert!(find("sh", Some(OsStr::new("/usr/bin:/bin"))).unwrap().is_absolute());
        let error = find("no-such-program", Some(OsStr::new("/usr/bin"))).unwrap_err();
        assert_eq!(error.kind, FailureKind::NotFound);
        assert!(error.detail.contains("install it"));
        assert_eq!(find("./sh", None).unwrap_err().kind, FailureKind::NotFound);
        assert_eq!(find("/etc/passwd", None).unwrap_err().kind, FailureKind::Refused);
        assert_eq!(find("/nope/x", None).unwrap_err().kind, FailureKind::NotFound);
        assert_eq!(find("sh", Some(OsStr::new("relative:"))).unwrap_err().kind, FailureKind::NotFound);
    }

    #[test]
    fn bad_presets_are_refused() {
        let kind = |argv: &[&str], extra: &[(&str, &str)]| {
            let argv: Vec<String> = argv.iter().map(|s| (*s).to_owned()).collect();
            let extra: Vec<_> = extra.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            spawn(&argv, &extra, Vec::new()).unwrap_err().kind
        };
        assert_eq!(kind(&[], &[]), FailureKind::Refused);
        assert_eq!(kind(&[""], &[]), FailureKind::Refused);
        assert_eq!(kind(&["/bin/true", "a\0b"], &[]), FailureKind::Refused);
        assert_eq!(kind(&["/bin/true"], &[("A=B", "1")]), FailureKind::Refused);
    }
}

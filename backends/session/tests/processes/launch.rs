use std::fs;

use deskhand_core::desktop::effect::{FailureKind, Outcome, Reply, SessionRequest};
use deskhand_ports::Session as _;
use deskhand_session::Session;

use crate::helper::{LONG, Seen, block_on, paths, runtime_dir, ticket};

async fn launch(session: &Session, argv: &[&str], env: &[(&str, &str)]) -> Outcome {
    let request = SessionRequest::Launch {
        argv: argv.iter().map(|s| (*s).to_owned()).collect(),
        env: env.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
    };
    session.request(request, ticket()).await
}

async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + LONG;
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "in vain waited for {what}");
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

#[test]
fn a_program_gets_the_given_environment_and_leaves_no_zombie() {
    let root = runtime_dir();
    block_on(async {
        let environment = vec![
            ("PATH".into(), "/usr/bin:/bin".into()),
            ("HOME".into(), root.path().into()),
            ("WAYLAND_DISPLAY".into(), "wayland-7".into()),
            ("A".into(), "session".into()),
        ];
        let session = Session::start(paths(root.path()), Seen::default().observe(), None, environment);
        let script = "cut -d' ' -f5 /proc/$$/stat > group; env > env.new; mv env.new env";
        let Ok(Reply::Launched { pid }) = launch(&session, &["sh", "-c", script], &[("A", "preset")]).await else {
            panic!("not launched")
        };
        eventually("the program", || root.path().join("env").exists()).await;
        let environment = fs::read_to_string(root.path().join("env")).unwrap();
        assert!(
            environment.contains("WAYLAND_DISPLAY=wayland-7\n") && environment.contains("A=preset\n"),
            "{environment}"
        );
        assert!(!environment.contains("CARGO"), "{environment}");
        assert_eq!(fs::read_to_string(root.path().join("group")).unwrap().trim(), pid.to_string());
        eventually("the program's end", || !fs::exists(format!("/proc/{pid}")).unwrap()).await;
    });
}

#[test]
fn a_program_gets_no_open_file_but_the_null_device() {
    let root = runtime_dir();
    block_on(async {
        let session = Session::start(paths(root.path()), Seen::default().observe(), None, Vec::new());
        let Ok(Reply::Launched { pid }) = launch(&session, &["sleep", "30"], &[]).await else { panic!("not launched") };
        // Its loader opens and closes some of its own.
        eventually("three files", || {
            let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
            let files: Vec<_> = entries.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok()).collect();
            files == ["/dev/null"; 3].map(std::path::PathBuf::from)
        })
        .await;
        let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    });
}

#[test]
fn what_can_not_be_started_says_why() {
    let root = runtime_dir();
    block_on(async {
        let environment = vec![("PATH".into(), "/usr/bin:/bin".into())];
        let session = Session::start(paths(root.path()), Seen::default().observe(), None, environment);
        let failure = launch(&session, &["no-such-program"], &[]).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::NotFound);
        assert!(failure.detail.contains("install it"), "{}", failure.detail);

        let script = root.path().join("script");
        fs::write(&script, "#!/no/such/interpreter\n").unwrap();
        fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let failure = launch(&session, &[script.to_str().unwrap()], &[]).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::NotFound);
        assert!(failure.detail.contains("interpreter"), "{}", failure.detail);

        fs::write(&script, "not a program").unwrap();
        let failure = launch(&session, &[script.to_str().unwrap()], &[]).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Refused, "{}", failure.detail);
    });
}

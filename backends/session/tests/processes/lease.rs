use std::fs;

use deskhand_core::desktop::effect::{FailureKind, Holder, Reply};
use deskhand_core::desktop::event::Observation;
use deskhand_session::Session;

use crate::helper::{HELD, Seen, Server, block_on, give_back, paths, runtime_dir, take, ticket, wait_until};

fn other(seen: &Observation) -> Option<Option<Holder>> {
    match seen {
        Observation::OtherHolder(holder) => Some(holder.clone()),
        _ => None,
    }
}

#[test]
fn another_process_keeps_us_out_and_its_taking_and_giving_back_is_seen() {
    let root = runtime_dir();
    block_on(async {
        let seen = Seen::default();
        let session = Session::start(paths(root.path()), seen.observe(), None, Vec::new());
        seen.wait("nobody", |seen| other(seen)?.is_none().then_some(())).await;
        let server = tokio::task::spawn_blocking({
            let root = root.path().to_owned();
            move || Server::start(&root, "unguarded", "ok")
        });
        let (_, holder) = seen.wait("the other", |seen| other(seen)?.filter(|holder| holder.pid != 0)).await;
        let server = server.await.unwrap();
        assert_eq!(holder, Holder { label: "helper".into(), since_wall_ms: 1234, pid: server.pid() });

        let failure = take(&session, "us").await.unwrap_err();
        assert_eq!((failure.kind, failure.holder), (FailureKind::Refused, Some(holder)));
        assert!(failure.detail.contains("helper"), "{}", failure.detail);

        seen.forget();
        let pid = server.pid();
        drop(server);
        seen.wait("nobody again", |seen| other(seen)?.is_none().then_some(())).await;
        assert_eq!(take(&session, "us").await, Ok(Reply::Done), "after process {pid} was killed");
        assert_eq!(take(&session, "us again").await, Ok(Reply::Done));
        give_back(&session).await;
        give_back(&session).await;
    });
}

#[test]
fn the_lock_stays_taken_until_the_guard_has_released() {
    let root = runtime_dir();
    let mut server = Server::start(root.path(), "hold", "slow");
    block_on(async {
        let seen = Seen::default();
        let session = Session::start(paths(root.path()), seen.observe(), None, Vec::new());
        seen.wait("the holder", other).await;
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        wait_until("the release's begin", || server.released().is_some());
        assert_eq!(take(&session, "too early").await.unwrap_err().kind, FailureKind::Refused);
        seen.wait("the lock's freedom", |seen| other(seen)?.is_none().then_some(())).await;
        assert_eq!(take(&session, "in time").await, Ok(Reply::Done));
    });
    assert_eq!(server.released().unwrap().1, HELD);
}

#[test]
fn a_replaced_or_removed_lock_file_is_a_lost_lease() {
    let root = runtime_dir();
    let paths = paths(root.path());
    block_on(async {
        let seen = Seen::default();
        let session = Session::start(paths.clone(), seen.observe(), None, Vec::new());
        seen.wait("the start", other).await;
        let lost = |seen: &Observation| match seen {
            Observation::LeaseLost { detail } => Some(detail.clone()),
            _ => None,
        };

        assert_eq!(take(&session, "one").await, Ok(Reply::Done));
        fs::write(root.path().join("new"), "").unwrap();
        fs::rename(root.path().join("new"), paths.lock_file()).unwrap();
        assert!(seen.wait("the loss", lost).await.1.contains("replaced"));

        seen.forget();
        assert_eq!(take(&session, "two").await, Ok(Reply::Done));
        fs::remove_file(paths.lock_file()).unwrap();
        assert!(seen.wait("the loss", lost).await.1.contains("removed"));

        seen.forget();
        assert_eq!(take(&session, "three").await, Ok(Reply::Done));
        fs::remove_dir_all(paths.shared()).unwrap();
        seen.wait("the loss", lost).await;
        assert_eq!(take(&session, "four").await, Ok(Reply::Done));
        give_back(&session).await;
    });
}

#[test]
fn two_watchers_and_two_takers_never_keep_each_other_out_for_nothing() {
    let root = runtime_dir();
    block_on(async {
        let (left, right) = (Seen::default(), Seen::default());
        let one = Session::start(paths(root.path()), left.observe(), None, Vec::new());
        let two = Session::start(paths(root.path()), right.observe(), None, Vec::new());
        for round in 0..50 {
            let (session, rival) = if round % 2 == 0 { (&one, &two) } else { (&two, &one) };
            assert_eq!(take(session, "turn").await, Ok(Reply::Done), "round {round}");
            assert_eq!(take(rival, "rival").await.unwrap_err().kind, FailureKind::Refused);
            give_back(session).await;
        }
    });
}

#[test]
fn a_passed_fence_takes_nothing() {
    let root = runtime_dir();
    block_on(async {
        use deskhand_core::desktop::effect::SessionRequest;
        use deskhand_ports::Session as _;
        let session = Session::start(paths(root.path()), Seen::default().observe(), None, Vec::new());
        let late = ticket();
        late.fence.raise(1);
        let request = SessionRequest::Lock { label: "late".into(), since_wall_ms: 0 };
        assert_eq!(session.request(request, late).await.unwrap_err().kind, FailureKind::Fenced);
        assert_eq!(deskhand_session::current_holder(&paths(root.path())), None);
    });
}

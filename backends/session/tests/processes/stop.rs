use std::fs;
use std::time::{Duration, Instant};

use deskhand_core::desktop::event::Observation;
use deskhand_session::{Session, resume, stop};

use crate::helper::{Seen, block_on, paths, runtime_dir};

fn is(set: bool) -> impl Fn(&Observation) -> Option<()> {
    move |seen| (*seen == Observation::Stop { set }).then_some(())
}

#[test]
fn a_stop_is_seen_within_20_ms() {
    let root = runtime_dir();
    let paths = paths(root.path());
    block_on(async {
        let seen = Seen::default();
        let _session = Session::start(paths.clone(), seen.observe(), None, Vec::new());
        seen.wait("the first state", is(false)).await;
        let mut latencies = Vec::new();
        for _ in 0..21 {
            seen.forget();
            let person = paths.clone();
            let before = std::thread::spawn(move || {
                let before = Instant::now();
                stop(&person).unwrap();
                before
            });
            let (at, ()) = seen.wait("the stop", is(true)).await;
            latencies.push(at - before.join().unwrap());
            resume(&paths).unwrap();
            seen.wait("the resume", is(false)).await;
        }
        latencies.sort();
        println!("stop seen after: median {:?}, longest {:?}", latencies[10], latencies[20]);
        assert!(latencies[10] < Duration::from_millis(20), "{latencies:?}");
    });
}

#[test]
fn the_first_state_is_what_is_there() {
    let root = runtime_dir();
    let paths = paths(root.path());
    stop(&paths).unwrap();
    block_on(async {
        let seen = Seen::default();
        let _session = Session::start(paths, seen.observe(), None, Vec::new());
        seen.wait("the stop", is(true)).await;
        assert_eq!(seen.all()[0], Observation::Stop { set: true });
    });
}

#[test]
fn a_removed_directory_is_made_and_followed_again() {
    let root = runtime_dir();
    let paths = paths(root.path());
    block_on(async {
        let seen = Seen::default();
        let _session = Session::start(paths.clone(), seen.observe(), None, Vec::new());
        seen.wait("the first state", is(false)).await;
        fs::remove_dir_all(paths.shared()).unwrap();
        stop(&paths).unwrap();
        seen.wait("the stop", is(true)).await;
    });
}

#[test]
fn a_directory_that_is_not_ours_alone_counts_as_stopped() {
    let root = runtime_dir();
    let paths = paths(root.path());
    block_on(async {
        std::os::unix::fs::symlink("/tmp", paths.shared()).unwrap();
        let seen = Seen::default();
        let _session = Session::start(paths.clone(), seen.observe(), None, Vec::new());
        let unwatched = |o: &Observation| match o {
            Observation::StopUnwatched { detail } => Some(detail.clone()),
            _ => None,
        };
        let (_, why) = seen.wait("that it can't be watched", unwatched).await;
        assert!(!why.is_empty());
        fs::remove_file(paths.shared()).unwrap();
        seen.wait("the end of it", is(false)).await;
    });
}

#[test]
fn a_resume_and_a_stop_at_once_are_two_observations() {
    let root = runtime_dir();
    let paths = paths(root.path());
    stop(&paths).unwrap();
    block_on(async {
        let seen = Seen::default();
        let _session = Session::start(paths.clone(), seen.observe(), None, Vec::new());
        seen.wait("the stop", is(true)).await;
        seen.forget();
        // The watcher has no chance to look in between: this thread is the runtime's only one.
        resume(&paths).unwrap();
        stop(&paths).unwrap();
        seen.wait("the second stop", is(true)).await;
        assert_eq!(seen.all(), [Observation::Stop { set: false }, Observation::Stop { set: true }]);
    });
}

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deskhand_core::desktop::effect::FailureKind;
use deskhand_core::desktop::event::Observation;
use deskhand_ports::{PressJournal, Pressed};
use deskhand_session::{Guard, Session, clear_unfinished, resume, stop, unfinished};
use rustix::process::{Pid, Signal, kill_process};

use crate::helper::{HELD, Seen, Server, block_on, ended, now_ns, paths, runtime_dir, wait_until};

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

/// It leads its session and has set up its signals, so it is about to watch.
fn wait_until_up(guard: u32) {
    wait_until("the guard", || {
        let status = fs::read_to_string(format!("/proc/{guard}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        let stat = fs::read_to_string(format!("/proc/{guard}/stat")).unwrap();
        // The session is the sixth field; before setsid it may be 0, a session outside this PID namespace.
        let session = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(3).unwrap().to_owned();
        let leads = session == guard.to_string();
        leads && u64::from_str_radix(caught.trim(), 16).unwrap() & 0x4003 == 0x4003
    });
}

fn no_journal(root: &Path) -> bool {
    fs::read_dir(paths(root).instance())
        .unwrap()
        .all(|entry| !entry.unwrap().file_name().to_string_lossy().contains("pressed-"))
}

#[test]
fn after_kill_9_what_is_held_is_released_within_100_ms() {
    let mut latencies = Vec::new();
    for _ in 0..9 {
        let root = runtime_dir();
        let mut server = Server::start(root.path(), "hold", "ok");
        let guard = server.guard_pid();
        wait_until_up(guard);
        let before = now_ns();
        server.child.kill().unwrap();
        wait_until("the release", || server.released().is_some());
        let (at, what) = server.released().unwrap();
        latencies.push(Duration::from_nanos((at - before) as u64));
        assert_eq!(what, HELD);
        wait_until("the guard's end", || ended(guard));
        assert_eq!(unfinished(&paths(root.path())), None);
        assert!(no_journal(root.path()) && !paths(root.path()).holder_file().exists());
        server.child.wait().unwrap();
    }
    latencies.sort();
    println!("released after kill -9: {latencies:?}");
    assert!(latencies[4] < Duration::from_millis(100), "{latencies:?}");
}

#[test]
fn a_hung_server_is_killed_when_it_leaves_a_stop_unanswered() {
    for stopped_by_a_signal in [false, true] {
        let root = runtime_dir();
        let server = Server::start(root.path(), if stopped_by_a_signal { "hold" } else { "hang" }, "ok");
        let (pid, guard) = (server.pid(), server.guard_pid());
        if stopped_by_a_signal {
            kill(pid, Signal::STOP);
        }
        let before = now_ns();
        stop(&paths(root.path())).unwrap();
        wait_until("the release", || server.released().is_some());
        let (at, what) = server.released().unwrap();
        let took = Duration::from_nanos((at - before) as u64);
        println!("released after the unanswered stop: {took:?}");
        assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(2), "{took:?}");
        assert_eq!(what, HELD);
        assert!(ended(pid));
        wait_until("the guard's end", || ended(guard));
    }
}

#[test]
fn a_server_that_answers_is_left_alone() {
    let root = runtime_dir();
    let paths = paths(root.path());
    let server = Server::start(root.path(), "answer", "ok");
    let guard = server.guard_pid();
    for _ in 0..3 {
        stop(&paths).unwrap();
        std::thread::sleep(Duration::from_millis(500));
        assert!(!ended(server.pid()) && !ended(guard) && server.released().is_none());
        resume(&paths).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_server_with_nothing_at_stake_is_left_alone() {
    let root = runtime_dir();
    stop(&paths(root.path())).unwrap();
    let server = Server::start(root.path(), "idle", "ok");
    std::thread::sleep(Duration::from_millis(500));
    assert!(!ended(server.pid()) && !ended(server.guard_pid()));
}

#[test]
fn a_resume_in_time_spares_a_slow_server() {
    let root = runtime_dir();
    let paths = paths(root.path());
    let server = Server::start(root.path(), "hang", "ok");
    stop(&paths).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    resume(&paths).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert!(!ended(server.pid()) && !ended(server.guard_pid()));
}

#[test]
fn a_failed_release_is_left_to_recover() {
    for (release, reason) in [("fail", "the display is gone"), ("panic", "the guard failed")] {
        let root = runtime_dir();
        let paths = paths(root.path());
        let mut server = Server::start(root.path(), "hold", release);
        let (pid, guard) = (server.pid(), server.guard_pid());
        block_on(async {
            let seen = Seen::default();
            let _session = Session::start(paths.clone(), seen.observe(), None, Vec::new());
            let state = |seen: &Observation| match seen {
                Observation::Unfinished(state) => Some(state.clone()),
                _ => None,
            };
            assert_eq!(seen.wait("nothing unfinished", state).await.1, None);
            seen.forget();
            server.child.kill().unwrap();
            server.child.wait().unwrap();
            let text = seen.wait("the record", state).await.1.unwrap();
            assert!(text.contains(reason) && text.contains(&pid.to_string()), "{text}");
            let record = unfinished(&paths).unwrap();
            assert_eq!(record.pressed, [Pressed::Key(30), Pressed::Modifiers(4), Pressed::Button(272)]);
            seen.forget();
            clear_unfinished(&paths).unwrap();
            assert_eq!(seen.wait("the clearing", state).await.1, None);
        });
        wait_until("the guard's end", || ended(guard));
        assert!(no_journal(root.path()));
    }
}

#[test]
fn a_release_that_hangs_is_given_up_and_left_to_recover() {
    let root = runtime_dir();
    let mut server = Server::start(root.path(), "hold", "hang");
    let guard = server.guard_pid();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    wait_until("the guard's end", || ended(guard));
    assert!(unfinished(&paths(root.path())).unwrap().reason.contains("did not answer"));
    wait_until("the lock's freedom", || deskhand_session::current_holder(&paths(root.path())).is_none());
}

#[test]
fn when_both_die_the_next_server_finds_what_was_held() {
    let root = runtime_dir();
    let mut server = Server::start(root.path(), "hold", "ok");
    let guard = server.guard_pid();
    // Stopped first, so that neither can act on the other's end.
    kill(guard, Signal::STOP);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    kill(guard, Signal::KILL);
    wait_until("the guard's end", || ended(guard));
    block_on(async {
        let seen = Seen::default();
        let _session = Session::start(paths(root.path()), seen.observe(), None, Vec::new());
        let found = |seen: &Observation| match seen {
            Observation::Unfinished(state) => state.clone(),
            _ => None,
        };
        assert!(seen.wait("the record", found).await.1.contains("its guard died too"));
    });
    assert!(server.released().is_none() && no_journal(root.path()));
}

#[test]
fn a_clean_end_releases_nothing_and_leaves_no_guard() {
    let root = runtime_dir();
    let mut server = Server::start(root.path(), "goodbye", "ok");
    let guard = server.guard_pid();
    assert!(server.child.wait().unwrap().success());
    wait_until("the guard's end", || ended(guard));
    assert!(server.released().is_none() && no_journal(root.path()));
}

#[test]
fn an_exit_without_goodbye_is_a_death() {
    let root = runtime_dir();
    let mut server = Server::start(root.path(), "exit", "ok");
    let guard = server.guard_pid();
    server.child.wait().unwrap();
    wait_until("the guard's end", || ended(guard));
    assert_eq!(server.released().unwrap().1, HELD);
}

#[test]
fn a_server_that_drops_its_guard_with_keys_held_is_ended() {
    let root = runtime_dir();
    let mut server = Server::start(root.path(), "drop", "ok");
    let guard = server.guard_pid();
    server.child.wait().unwrap();
    wait_until("the guard's end", || ended(guard));
    assert_eq!(server.released().unwrap().1, HELD);
    assert_eq!(unfinished(&paths(root.path())), None);
}

#[test]
fn the_guard_keeps_no_output_of_the_server_open_and_leads_its_own_session() {
    let root = runtime_dir();
    let mut server = Server::start(root.path(), "hold", "slow");
    let guard = server.guard_pid();
    wait_until_up(guard);
    server.child.kill().unwrap();
    let before = Instant::now();
    let mut output = Vec::new();
    server.child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
    assert!(before.elapsed() < Duration::from_millis(700), "{:?}", before.elapsed());
    assert!(!ended(guard), "the guard is still releasing");
    wait_until("the guard's end", || ended(guard));
}

#[test]
fn polite_signals_do_not_end_the_guard_before_its_server() {
    let root = runtime_dir();
    let mut server = Server::start(root.path(), "hold", "ok");
    let guard = server.guard_pid();
    wait_until_up(guard);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        kill(guard, signal);
    }
    std::thread::sleep(Duration::from_millis(50));
    assert!(!ended(guard));
    server.child.kill().unwrap();
    wait_until("the release", || server.released().is_some());
}

#[test]
fn without_a_guard_nothing_is_pressed_and_a_new_one_is_started() {
    let root = runtime_dir();
    let args = ["60"];
    let guard = Arc::new(Guard::spawn(Path::new("/bin/sleep"), &args, &paths(root.path())).unwrap());
    guard.pressing(Pressed::Key(30)).unwrap();
    let first = guard.pid().unwrap();
    kill(first, Signal::KILL);
    wait_until("the guard's end", || ended(first));
    // Refused until the new one is there.
    let mut refused = 0;
    wait_until("a new guard", || match guard.pressing(Pressed::Key(31)) {
        Ok(()) => true,
        Err(failure) => {
            assert_eq!(failure.kind, FailureKind::Unavailable);
            refused += 1;
            false
        }
    });
    let second = guard.pid().unwrap();
    assert_ne!(first, second);
    assert!(refused > 0);
    guard.goodbye();
    assert_eq!(guard.pressing(Pressed::Key(32)).unwrap_err().kind, FailureKind::Unavailable);
    kill(second, Signal::KILL);
    wait_until("its end", || ended(second));
}

#[test]
fn a_second_guard_knows_what_the_first_one_knew() {
    let root = runtime_dir();
    let mut server = Server::start(root.path(), "hold", "ok");
    let first = server.guard_pid();
    kill(first, Signal::KILL);
    let pid = server.pid();
    let all_children = || {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        threads.map(|t| fs::read_to_string(t.path().join("children")).unwrap_or_default()).collect::<String>()
    };
    wait_until("a new guard", || {
        all_children()
            .split_whitespace()
            .any(|child| child.parse::<u32>().is_ok_and(|child| child != first && !ended(child)))
    });
    server.child.kill().unwrap();
    wait_until("the release", || server.released().is_some());
    assert_eq!(server.released().unwrap().1, HELD);
}

#[test]
fn a_missing_guard_program_is_an_error() {
    let root = runtime_dir();
    let failure = Guard::spawn::<&str>(Path::new("/no/such/program"), &[], &paths(root.path())).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unavailable);
}

#[test]
fn noting_a_press_is_cheap() {
    let root = runtime_dir();
    let guard = Guard::spawn(Path::new("/bin/sleep"), &["60"], &paths(root.path())).unwrap();
    let before = Instant::now();
    for _ in 0..1000 {
        guard.pressing(Pressed::Key(30)).unwrap();
        guard.released(Pressed::Key(30));
    }
    println!("1000 presses and releases noted in {:?}", before.elapsed());
    assert!(before.elapsed() < Duration::from_millis(500));
    let pid = guard.pid().unwrap();
    guard.goodbye();
    kill(pid, Signal::KILL);
}

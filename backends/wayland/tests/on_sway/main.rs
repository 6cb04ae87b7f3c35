//! The whole backend on a headless sway of its own; skipped with a message where sway isn't installed.

mod canvas;
mod input;
mod screen;
mod session;
mod text;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use deskhand_core::desktop::effect::{Failure, Outcome, ScreenRequest, SeatRequest};
use deskhand_core::desktop::event::Observation;
use deskhand_ports::{Fence, PressJournal, Pressed, Screen, Seat, Ticket};
use deskhand_wayland::{WaylandScreen, WaylandSeat};
use session::Session;

pub fn ticket() -> Ticket {
    ticket_for(Duration::from_secs(20))
}

pub fn ticket_for(time: Duration) -> Ticket {
    Ticket {
        fence: Fence::default(),
        generation: 0,
        cancelled: Arc::default(),
        deadline: Instant::now() + time,
    }
}

/// What the journal heard: `true` for a press.
#[derive(Default)]
pub struct Log(pub Mutex<Vec<(bool, Pressed)>>);

impl Log {
    /// Pressed and not yet released.
    pub fn down(&self) -> Vec<Pressed> {
        let mut down = Vec::new();
        for &(pressed, what) in self.0.lock().unwrap().iter() {
            down.retain(|other| *other != what);
            if pressed {
                down.push(what);
            }
        }
        down
    }
}

impl PressJournal for Log {
    fn pressing(&self, what: Pressed) -> Result<(), Failure> {
        self.0.lock().unwrap().push((true, what));
        Ok(())
    }

    fn released(&self, what: Pressed) {
        self.0.lock().unwrap().push((false, what));
    }
}

/// Both halves of the backend on one session.
pub struct Rig {
    pub screen: WaylandScreen,
    pub seat: WaylandSeat,
    pub log: Arc<Log>,
    pub observed: Arc<Mutex<Vec<Observation>>>,
}

impl Rig {
    pub fn on(session: &Session) -> Self {
        let (log, observed) = (Arc::new(Log::default()), Arc::new(Mutex::new(Vec::new())));
        let sink = observed.clone();
        let observe: deskhand_ports::Observe =
            Arc::new(move |seen| sink.lock().unwrap().push(seen));
        let screen = WaylandScreen::start(session.socket(), observe.clone()).unwrap();
        let seat = WaylandSeat::start(session.socket(), observe, log.clone()).unwrap();
        Self {
            screen,
            seat,
            log,
            observed,
        }
    }

    pub fn look(&self, request: ScreenRequest) -> Outcome {
        block_on(self.screen.request(request, ticket()))
    }

    pub fn act(&self, request: SeatRequest) -> Outcome {
        block_on(self.seat.request(request, ticket()))
    }

    pub fn open(&self) {
        self.act(SeatRequest::Open {
            outputs: vec!["HEADLESS-1".into()],
        })
        .unwrap();
    }
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

#[test]
fn a_raised_fence_lets_nothing_through() {
    let Some(session) = Session::start("") else {
        return;
    };
    let rig = Rig::on(&session);
    let fenced = ticket();
    fenced.fence.raise(1);
    for request in [
        SeatRequest::Open {
            outputs: vec!["HEADLESS-1".into()],
        },
        SeatRequest::Text {
            text: "abc".into(),
            submit: true,
        },
        SeatRequest::Keys { chords: vec![] },
    ] {
        let outcome = block_on(rig.seat.request(request, fenced.clone()));
        assert_eq!(
            outcome.unwrap_err().kind,
            deskhand_core::desktop::effect::FailureKind::Fenced
        );
    }
    assert_eq!(rig.seat.requests_written(), 0);
    assert_eq!(rig.seat.request_counter().load(Ordering::SeqCst), 0);
}

#[test]
fn the_probe_finds_everything() {
    let Some(session) = Session::start("") else {
        return;
    };
    let found = deskhand_wayland::probe(&session.socket()).unwrap();
    assert_eq!(found.missing, Vec::<String>::new());
    assert_eq!(found.outputs, ["HEADLESS-1", "HEADLESS-2"]);
    assert!(deskhand_wayland::probe(std::path::Path::new("/nonexistent/wayland-9")).is_err());
}

//! What an observation changes: the desktop, the gates, the lease.

use std::sync::Arc;

use super::core::{Config, Core};
use super::cx::{Cx, Reason};
use super::io::{Output, TimerKind};
use super::random::Random;
use super::startup::Told;
use super::world::{StopFlag, Stream, World};
use crate::desktop::effect::{Effect, ScreenRequest, SeatRequest, SessionRequest};
use crate::desktop::event::{Availability, CompositorState, LockState, Observation};
use crate::desktop::history::History;
use crate::desktop::state::Desktop;
use crate::elements::Elements;
use crate::lease::rules::{Request, State, Table, Verdict};
use crate::shots::Shots;
use crate::time::Time;
use crate::tools::declare::LeaseNeed;
use crate::tools::facts::{Facts, Refused};

impl World {
    pub(super) fn new(config: &Config, random: Random, now: Time) -> Self {
        let waiting = "not reached yet".to_string();
        Self {
            now,
            wall_offset_ms: config.wall_offset_ms,
            desktop: Arc::new(Desktop::default()),
            history: History::default(),
            compositor: Err("no compositor was found yet".into()),
            last_kind: None,
            stream: Stream::Opening,
            stop: StopFlag::Unknown,
            stop_unwatched: None,
            lock: LockState::Unknown,
            lock_source: "nobody told yet".into(),
            session_match: Err("not checked yet".into()),
            unfinished: None,
            screen: Availability::Down { detail: waiting.clone() },
            seat: Availability::Down { detail: waiting },
            access: None,
            lease: Table::new(u64::from(config.policy.lease_idle_minutes) * 60_000),
            other_holder: None,
            users_window: None,
            users_workspace: None,
            shots: Shots::default(),
            elements: Elements::default(),
            policy: Arc::new(config.policy.clone()),
            policy_state: config.policy_state.clone(),
            abandoned: config.toolset.abandoned,
            audit_path: config.audit_path.clone(),
            audit_error: None,
            user_inputs: 0,
            generation: 1,
            binds: None,
            random,
            told: Told::default(),
        }
    }
}

impl Core {
    pub(super) fn observed(&mut self, observation: Observation) {
        self.listings.dirty = true;
        self.world_mut(|w| w.note_told(&observation));
        match observation {
            Observation::Desktop(event) => {
                if self.world_mut(|w| w.learn(&event)) {
                    self.desktop_changed();
                }
            }
            Observation::Compositor(state) => self.compositor(state),
            Observation::Stop { set } => {
                self.world_mut(|w| {
                    w.stop = if set { StopFlag::Set } else { StopFlag::Clear };
                    w.stop_unwatched = None;
                });
                if set {
                    self.stop_all();
                }
            }
            Observation::StopUnwatched { detail } => {
                self.world_mut(|w| {
                    w.stop = StopFlag::Unknown;
                    w.stop_unwatched = Some(detail);
                });
                self.stop_all();
            }
            Observation::Lock { state, source } => {
                let was = self.look(World::locked);
                let now = self.world_mut(|w| {
                    w.lock = state;
                    w.lock_source = source;
                    w.locked()
                });
                if now && !was {
                    self.raise_fence();
                    self.abandon_all(Reason::Locked, |tool| !matches!(tool.lease, LeaseNeed::No | LeaseNeed::GivesUp));
                }
            }
            Observation::LeaseLost { .. } => {
                if self.look(|w| matches!(w.lease.state, State::Held(_) | State::Acquiring(_))) {
                    self.raise_fence();
                    self.abandon_all(Reason::LeaseLost, |tool| matches!(tool.lease, LeaseNeed::Needed | LeaseNeed::NeededToLook));
                    self.revoke_lease();
                }
            }
            Observation::OtherHolder(holder) => self.world_mut(|w| w.other_holder = holder),
            Observation::Unfinished(what) => self.world_mut(|w| w.unfinished = what),
            Observation::SessionMatch(result) => self.world_mut(|w| w.session_match = result),
            Observation::Screen(state) => self.world_mut(|w| w.screen = state),
            Observation::Seat(state) => self.world_mut(|w| w.seat = state),
            Observation::Accessibility(state) => self.world_mut(|w| w.access = Some(state)),
            Observation::UserInput => self.world_mut(|w| w.user_inputs += 1),
        }
    }

    fn stop_all(&mut self) {
        self.raise_fence();
        self.abandon_all(Reason::Stopped, |_| true);
        self.revoke_lease();
    }

    fn compositor(&mut self, state: CompositorState) {
        match state {
            CompositorState::Up(info) => {
                let another = self.world_mut(|w| {
                    let another = w.compositor.as_ref().is_ok_and(|old| old.instance != info.instance);
                    w.last_kind = Some(info.kind);
                    w.compositor = Ok(info);
                    another
                });
                if another {
                    self.end_for_compositor();
                }
            }
            CompositorState::StreamLive => self.world_mut(|w| w.stream = Stream::Live),
            CompositorState::StreamLost { detail } => {
                self.world_mut(|w| w.stream = Stream::Lost(detail));
                // Waits on the desktop learn of it now, not at their deadline.
                self.wake_all_changes();
            }
            CompositorState::Down { detail } => {
                self.world_mut(|w| {
                    w.compositor = Err(detail.clone());
                    w.stream = Stream::Lost(detail);
                });
                self.end_for_compositor();
                self.wake_all_changes();
            }
        }
    }

    fn wake_all_changes(&mut self) {
        // A new seq, though nothing is known to have changed: what was seen before may not be so any more.
        self.world_mut(|w| Arc::make_mut(&mut w.desktop).seq += 1);
        let snapshot = self.look(|w| Desktop::clone(&w.desktop));
        self.world_mut(|w| w.history.push(snapshot));
        self.desktop_changed();
    }

    fn end_for_compositor(&mut self) {
        self.world_mut(|w| w.binds = None);
        if self.look(|w| matches!(w.lease.state, State::Held(_) | State::Acquiring(_))) {
            self.raise_fence();
            self.abandon_all(Reason::CompositorGone, |tool| matches!(tool.lease, LeaseNeed::Needed | LeaseNeed::NeededToLook));
            self.revoke_lease();
        }
    }

    /// From here on, what was started before must not reach the desktop.
    pub(crate) fn raise_fence(&mut self) {
        let generation = self.world_mut(|w| {
            w.generation += 1;
            w.generation
        });
        self.put(Output::Fence(generation));
    }

    pub(crate) fn revoke_lease(&mut self) {
        if self.lease(&Request::Revoke) == Verdict::GiveBack {
            self.give_back = true;
        }
    }

    pub(super) fn lease_idle(&mut self) {
        if self.lease(&Request::Expire) == Verdict::GiveBack {
            self.raise_fence();
            self.give_back = true;
        }
    }

    pub(super) fn arm_lease_timer(&mut self) {
        let expiry = self.look(|w| w.lease.expiry());
        if self.lease_timer == Some(expiry) {
            return;
        }
        self.lease_timer = Some(expiry);
        match expiry {
            Some(at) => self.timers.set(TimerKind::LeaseIdle, at),
            None => self.timers.clear(TimerKind::LeaseIdle),
        }
    }

    /// A legacy session's end is its lease's end.
    pub(crate) fn session_ended(&mut self, conn: super::io::Conn) {
        if self.lease(&Request::SessionEnded(conn)) == Verdict::GiveBack {
            self.raise_fence();
            self.give_back = true;
        }
    }

    pub(super) fn shut_down(&mut self) {
        self.shutting_down = true;
        // Who still waits for the start's end is answered by what is known.
        if self.startup.is_under_way() {
            self.end_startup();
        }
        self.raise_fence();
        self.abandon_all(Reason::ShuttingDown, |_| true);
        self.revoke_lease();
        let conns: Vec<_> = self.connections.keys().copied().collect();
        for conn in conns {
            self.end_all_subscriptions(conn);
        }
    }
}

/// Devices first, so that nobody else holds the lock while ours can still press.
pub(crate) async fn give_lease_back(cx: Cx) -> Result<Facts, Refused> {
    let frames = cx.world(|w| {
        w.users_window = None;
        w.users_workspace = None;
        w.binds = None;
        w.elements.end_lease();
        w.shots.end_lease()
    });
    let _ = cx.run(Effect::Seat(SeatRequest::Close), 1000).await;
    if !frames.is_empty() {
        let _ = cx.run(Effect::Screen(ScreenRequest::Forget(frames)), 1000).await;
    }
    let _ = cx.run(Effect::Session(SessionRequest::Unlock), 1000).await;
    cx.lease(&Request::Released);
    Ok(Facts::default())
}

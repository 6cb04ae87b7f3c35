//! The machine itself: one input at a time, each to a fixpoint; outputs in one queue, whose order is part of the contract.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use super::call_table::Calls;
use super::cx::lock;
use super::io::{Conn, Input, Output, TimerKind};
use super::random::Random;
use super::startup::Startup;
use super::timers::Timers;
use super::world::World;
use crate::policy::{Policy, PolicyState};
use crate::protocol::connection::Connection;
use crate::protocol::asking::Asks;
use crate::protocol::listing::Listings;
use crate::protocol::revision::Revision;
use crate::protocol::state::States;
use crate::time::Time;
use crate::tools::toolset::Toolset;

/// Everything ambient, passed in.
pub struct Config {
    pub toolset: &'static Toolset,
    pub server_version: String,
    pub policy: Policy,
    pub policy_state: PolicyState,
    pub audit_path: Option<std::path::PathBuf>,
    pub wall_offset_ms: u64,
    pub limits: Limits,
}

/// Past a bound the answer is an error, never growth.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Limits {
    pub calls_per_connection: usize,
    pub calls: usize,
    pub connections: usize,
    pub batch: usize,
    pub subscriptions_per_connection: usize,
    #[serde(default = "subscribed_resources")]
    pub subscribed_resources: usize,
    /// Over all connections of one principal.
    #[serde(default = "calls_per_principal")]
    pub calls_per_principal: usize,
}

fn subscribed_resources() -> usize {
    Limits::default().subscribed_resources
}

fn calls_per_principal() -> usize {
    Limits::default().calls_per_principal
}

impl Default for Limits {
    fn default() -> Self {
        Self { calls_per_connection: 64, calls: 256, connections: 1024, batch: 100, subscriptions_per_connection: 8, subscribed_resources: 1024, calls_per_principal: 128 }
    }
}

/// What the core keeps for its clients. Once nothing is under way, only connections and subscriptions are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    pub connections: usize,
    pub calls: usize,
    /// Requests to clients that wait for their answers.
    pub asks: usize,
    pub batches: usize,
    /// `subscriptions/listen`, and resources that a session subscribed to.
    pub subscriptions: usize,
}

/// How many steps one input may cause before something is surely wrong.
const STEP_CAP: usize = 100_000;

pub struct Core {
    pub(crate) toolset: &'static Toolset,
    pub(crate) server_version: String,
    /// `_meta` of every modern result, as JSON.
    pub(crate) modern_meta: Box<str>,
    pub(crate) limits: Limits,
    pub(crate) now: Time,
    pub(crate) outputs: VecDeque<Output>,
    pub(crate) timers: Timers,
    pub(crate) connections: BTreeMap<Conn, Connection>,
    pub(crate) calls: Calls,
    pub(crate) world: Arc<Mutex<World>>,
    pub(crate) listings: Listings,
    /// Set once a lease is to be given back and no call does it yet.
    pub(crate) give_back: bool,
    pub(crate) shutting_down: bool,
    pub(crate) startup: Startup,
    /// What the lease's timer is set to; `None` when it isn't known.
    pub(crate) lease_timer: Option<Option<Time>>,
    pub(crate) asks: Asks,
    pub(crate) states: States,
}

impl Core {
    /// `seed` is 32 bytes of the system's randomness; `now` is on the clock of all later inputs.
    pub fn new(config: Config, seed: [u8; 32], now: Time) -> Self {
        let random = Random::new(seed);
        let states = States::new(&random);
        let world = World::new(&config, random, now);
        let mut core = Self {
            listings: Listings::new(config.toolset),
            toolset: config.toolset,
            server_version: config.server_version,
            modern_meta: Box::default(),
            limits: config.limits,
            now,
            outputs: VecDeque::new(),
            timers: Timers::default(),
            connections: BTreeMap::new(),
            calls: Calls::default(),
            world: Arc::new(Mutex::new(world)),
            give_back: false,
            shutting_down: false,
            startup: Startup::default(),
            lease_timer: None,
            asks: Asks::default(),
            states,
        };
        core.modern_meta = core.result_meta(Revision::MODERN[0]).to_string().into();
        core.begin_startup(now);
        core
    }

    /// Due timers first, in order, each to a fixpoint; then the input, to a fixpoint.
    pub fn handle_input(&mut self, now: Time, input: Input) {
        self.now = self.now.max(now);
        lock(&self.world).now = self.now;
        let mut left = STEP_CAP;
        while left > 0
            && let Some(kind) = self.timers.pop_due(self.now)
        {
            left -= 1;
            self.timer_fired(kind);
            self.settle();
        }
        // A connection that opens moves nothing.
        let moves = !matches!(input, Input::Opened { .. });
        self.take(input);
        if moves {
            self.settle();
        }
    }

    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The next time to be woken at, and why.
    pub fn poll_timeout(&self) -> Option<(Time, TimerKind)> {
        self.timers.next()
    }

    /// A look at what the core knows.
    pub fn look<R>(&self, look: impl FnOnce(&World) -> R) -> R {
        look(&lock(&self.world))
    }

    /// Whether nothing is under way: no call, no lease being given back.
    pub fn is_idle(&self) -> bool {
        self.calls.is_empty() && !self.give_back
    }

    /// What a legacy session settled on.
    pub fn session_revision(&self, conn: Conn) -> Option<Revision> {
        self.connections.get(&conn)?.legacy.as_ref().map(|legacy| legacy.revision)
    }

    /// Calls of this connection that have no answer yet.
    pub fn in_flight(&self, conn: Conn) -> usize {
        self.calls.of(conn) + self.startup.of(conn)
    }

    pub fn kept(&self) -> Kept {
        let of = |count: fn(&Connection) -> usize| self.connections.values().map(count).sum();
        Kept {
            connections: self.connections.len(),
            calls: self.calls.requests(),
            asks: self.asks.len(),
            batches: of(|c| c.batches.len()),
            subscriptions: of(|c| c.subscriptions.len() + c.legacy.as_ref().map_or(0, |l| l.subscribed.len())),
        }
    }

    pub(crate) fn world_mut<R>(&self, change: impl FnOnce(&mut World) -> R) -> R {
        change(&mut lock(&self.world))
    }

    pub(crate) fn put(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Opened { conn, principal, carriage } => self.open_connection(conn, principal, carriage),
            Input::Message { conn, route, bytes } => self.message(conn, route, &bytes),
            Input::TooLong { conn, route } => self.too_long(conn, route),
            Input::Ended { conn } => self.input_ended(conn),
            Input::Closed { conn } => self.close_connection(conn),
            Input::Completed { op, outcome } => self.completed(op, outcome),
            Input::Observed(observation) => self.observed(observation),
            Input::AuditWritten(result) => self.world_mut(|w| w.audit_error = result.err()),
            Input::WallClock { offset_ms } => self.world_mut(|w| w.wall_offset_ms = offset_ms),
            Input::Shutdown => self.shut_down(),
            Input::Tick => {}
        }
    }

    fn timer_fired(&mut self, kind: TimerKind) {
        match kind {
            TimerKind::Wait { call, key } => self.wait_over(call, key),
            TimerKind::Overdue { op } => self.overdue(op),
            TimerKind::GiveUp { call } => self.give_up(call),
            TimerKind::LeaseIdle => {
                self.lease_timer = None;
                self.lease_idle();
            }
            TimerKind::Startup => self.end_startup(),
        }
    }

    /// Until nothing is ready: handlers, the lane, the lease's end, what changed for the lists.
    pub(super) fn settle(&mut self) {
        self.end_startup_if_ready();
        for _ in 0..STEP_CAP {
            let moved = self.poll_ready() || self.advance_lane() || self.start_giving_back();
            if !moved {
                break;
            }
        }
        self.arm_lease_timer();
        self.announce_list_changes();
    }
}

//! After a bug: a new machine that keeps what was observed and nothing that was under way.

use std::collections::BTreeSet;

use super::call_table::Calls;
use super::core::Core;
use super::cx::lock;
use super::io::{Conn, Output};
use super::random::Random;
use super::timers::Timers;
use crate::lease::rules::{State, Table};
use crate::protocol::carriage::Carriage;
use crate::protocol::connection::Connection;
use crate::protocol::listing::Listings;
use crate::protocol::state::States;
use crate::rpc::body::{Nature, error_response};
use crate::rpc::error::{INTERNAL_ERROR, RpcError};

impl Core {
    /// Answers what was in flight with an internal error, revokes the lease, and goes on with fresh randomness.
    pub fn restart(&mut self, seed: [u8; 32]) {
        let error = RpcError::new(INTERNAL_ERROR, "Internal error: the server met a bug of its own and started anew; leases are revoked, what was pressed is released");
        self.withdraw_all_asks();
        let (answers, ops) = std::mem::take(&mut self.calls).into_open();
        // What was answered stays answered; what wasn't started yet never is.
        self.outputs.retain(|output| !matches!(output, Output::Start { .. }));
        self.timers = Timers::default();
        self.lease_timer = None;
        self.calls = Calls::starting_after(answers.last_call);
        self.listings = Listings::new(self.toolset);
        {
            let mut world = lock(&self.world);
            world.random = Random::new(seed);
            self.states = States::new(&world.random);
            // A lock may be out without a lease (one that was being taken or given back), so it is given back in any case.
            world.lease = Table { state: State::Releasing, idle_ms: world.lease.idle_ms };
        }
        self.raise_fence();
        for op in ops {
            self.put(Output::Cancel { op });
        }
        let waiting = self.startup.take();
        for (to, id) in answers.requests.into_iter().chain(waiting) {
            self.reply(to.conn, to.route, to.batch, Some(error_response(Some(&id), &error)));
        }
        self.end_batches();
        self.close_unanswered_exchanges();
        self.give_back = true;
        self.begin_startup(self.now);
        self.settle();
    }

    /// A request that was being read when the bug struck has no call yet; its POST would wait for ever.
    fn close_unanswered_exchanges(&mut self) {
        let answered: BTreeSet<Conn> = self
            .outputs
            .iter()
            .filter_map(|output| match output {
                Output::Send { conn, body, .. } if matches!(body.nature(), Nature::Answer { .. }) => Some(*conn),
                _ => None,
            })
            .collect();
        let waiting = |(conn, connection): &(&Conn, &Connection)| {
            connection.carriage == Carriage::Exchange && connection.subscriptions.is_empty() && !answered.contains(conn)
        };
        let conns: Vec<Conn> = self.connections.iter().filter(waiting).map(|(conn, _)| *conn).collect();
        for conn in conns {
            self.put(Output::Close { conn });
        }
    }
}

//! Bounds, and what is waited for how long.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a request's body; a larger one is answered with 413.
    pub body: usize,
    /// Bytes of a request's head; a larger one is answered with 431.
    pub head: usize,
    /// From a head's first byte to its last; then the connection is closed.
    pub head_timeout: Duration,
    /// From the head to the body's end; then 408.
    pub body_timeout: Duration,
    /// How long a client may take nothing of what is written to it; then the connection is closed.
    pub write_timeout: Duration,
    /// How long a connection may stay open between two requests.
    pub idle_connection: Duration,
    /// More wait in the system's backlog. Fewer when the process may not open that many descriptors.
    pub connections: usize,
    /// Past it the one that has been idle longest gives way; when none is idle, 503.
    pub sessions: usize,
    pub session_idle: Duration,
    /// Bytes of events that a session keeps for clients that come back.
    pub replay: usize,
    /// Bytes that wait for one stream's reader, beyond the first message; then its connection is closed.
    pub stream_queue: usize,
    /// How often a comment is sent on a stream on which nothing else is.
    pub keep_alive: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 8 << 20,
            head: 32 << 10,
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            idle_connection: Duration::from_secs(300),
            connections: 512,
            sessions: 64,
            session_idle: Duration::from_secs(30 * 60),
            replay: 2 << 20,
            stream_queue: 2 << 20,
            keep_alive: Duration::from_secs(15),
        }
    }
}

impl Limits {
    /// How often the sweep looks while there are connections: the shortest of what it enforces, in parts.
    pub(crate) fn sweep_every(&self) -> Duration {
        let shortest = self.head_timeout.min(self.body_timeout).min(self.write_timeout).min(self.idle_connection).min(self.session_idle);
        (shortest / 4).clamp(Duration::from_millis(20), Duration::from_secs(1))
    }
}

//! One look a second at what has taken too long, in place of a timer for each request.

use std::sync::Arc;
use std::time::Duration;

use crate::link::{Ending, Phase};
use crate::server::Server;

/// Without connections only sessions can be over, and tokens gone.
const SELDOM: Duration = Duration::from_secs(5);

pub(crate) async fn sweep(server: Arc<Server>) {
    let often = server.limits.sweep_every();
    loop {
        let came = server.links.came.notified();
        match (server.links.is_empty(), server.sessions.is_empty()) {
            (true, true) => came.await,
            (true, false) => {
                let _ = tokio::time::timeout(SELDOM.min(often * 5), came).await;
            }
            (false, _) => tokio::time::sleep(often).await,
        }
        server.end_of_removed_tokens();
        links(&server);
        server.sessions.sweep(&server.limits, server.clock.now_ms());
    }
}

fn links(server: &Server) {
    let now = server.clock.now_ms();
    let limits = &server.limits;
    let over = |since: u64, limit: Duration| u128::from(now.saturating_sub(since)) > limit.as_millis();
    for link in server.links.all() {
        if link.stuck_since().is_some_and(|since| over(since, limits.write_timeout)) {
            link.end(Ending::Now);
        }
        match link.phase() {
            (Phase::Head, since) if over(since, limits.head_timeout) => link.end(Ending::Now),
            (Phase::Body, since) if over(since, limits.body_timeout) => link.expire_body(),
            _ if link.idle_since().is_some_and(|since| over(since, limits.idle_connection)) => link.end(Ending::Soon),
            _ => {}
        }
    }
}

//! Waiting until an output stops changing: damage wakes us, the pixels say whether it counts.

use std::time::{Duration, Instant};

use deskhand_core::desktop::effect::{Failure, FailureKind, Reply};

use crate::connection::Link;
use crate::frames::RawImage;
use crate::grab::{GrabError, Grabbed, Grabs};

/// What a blinking caret may change, in logical pixels.
const CARET_AREA: f64 = 4.0 * 40.0;
/// Between captures where the compositor is too old to report damage.
const POLL: Duration = Duration::from_millis(50);
const MOST_FAILURES: u32 = 5;

/// One wait under way.
pub(crate) struct Settle {
    output: String,
    quiet: Duration,
    started: Instant,
    give_up: Instant,
    /// The newest pixels; until there are any, nothing can be said.
    seen: Option<RawImage>,
    /// When something that counts last changed.
    changed: Instant,
    grab: Option<u64>,
    /// Proves that the compositor is alive and has nothing more to tell.
    confirm: Option<u64>,
    next_grab: Instant,
    failures: u32,
}

impl Settle {
    pub fn new(output: String, quiet_ms: u32, max_ms: u32) -> Self {
        let now = Instant::now();
        Self {
            output,
            quiet: Duration::from_millis(quiet_ms.into()),
            started: now,
            give_up: now + Duration::from_millis(max_ms.into()),
            seen: None,
            changed: now,
            grab: None,
            confirm: None,
            next_grab: now,
            failures: 0,
        }
    }

    /// When it must be looked at again even without an event.
    pub fn wake_at(&self) -> Instant {
        let quiet_at = if self.confirm.is_none() {
            self.changed + self.quiet
        } else {
            self.give_up
        };
        let grab_at = if self.grab.is_none() {
            self.next_grab
        } else {
            self.give_up
        };
        quiet_at.min(grab_at).min(self.give_up)
    }

    /// The outcome, once there is one.
    pub fn advance(
        &mut self,
        grabs: &mut Grabs,
        link: &mut Link,
    ) -> Option<Result<Reply, Failure>> {
        if let Some(key) = self.grab
            && let Some(result) = grabs.take(link, key)
        {
            self.grab = None;
            match result {
                Ok(grabbed) => self.look(grabbed, link),
                Err(GrabError::Final(failure)) => return Some(Err(failure)),
                Err(GrabError::Failed | GrabError::Region) => {
                    self.failures += 1;
                    self.changed = Instant::now();
                    self.next_grab = self.changed + POLL;
                    if self.failures >= MOST_FAILURES {
                        return Some(Err(Failure::new(
                            FailureKind::Refused,
                            cant_copy(&self.output),
                        )));
                    }
                }
            }
        }
        let now = Instant::now();
        let waited_ms = u32::try_from((now - self.started).as_millis()).unwrap_or(u32::MAX);
        if self.confirm.is_some_and(|key| link.is_synced(key)) {
            return Some(Ok(Reply::Settled {
                settled: true,
                waited_ms,
            }));
        }
        if now >= self.give_up {
            return Some(Ok(Reply::Settled {
                settled: false,
                waited_ms,
            }));
        }
        if self.grab.is_none() && now >= self.next_grab {
            // The first one comes at once and is what later ones are compared with.
            match grabs.start(link, &self.output, None, self.seen.is_some()) {
                Ok(key) => self.grab = Some(key),
                Err(failure) => return Some(Err(failure)),
            }
        }
        if self.seen.is_some() && self.confirm.is_none() && now >= self.changed + self.quiet {
            self.confirm = Some(link.sync());
        }
        None
    }

    pub fn abandon(&mut self, grabs: &mut Grabs, link: &mut Link) -> bool {
        self.grab.take().is_none_or(|key| grabs.abandon(link, key))
    }

    fn look(&mut self, grabbed: Grabbed, link: &Link) {
        let now = Instant::now();
        self.failures = 0;
        let damage_told = link
            .wire
            .screencopy
            .as_ref()
            .is_some_and(|manager| wayland_client::Proxy::version(manager) >= 2);
        self.next_grab = if damage_told { now } else { now + POLL };
        if self.counts(&grabbed, link) {
            self.changed = now;
            self.confirm = None;
        }
        self.seen = Some(grabbed.image);
    }

    /// Whether more than a caret changed since the last look.
    fn counts(&self, grabbed: &Grabbed, link: &Link) -> bool {
        let Some(before) = &self.seen else {
            return true;
        };
        let (Some(new), Some(old)) = (grabbed.image.pixels(), before.pixels()) else {
            return true;
        };
        if new.covers() != old.covers() {
            return true;
        }
        let scale = link.wire.outputs.find(&self.output).and_then(|entry| {
            let upright = entry.transform.upright_size(entry.mode?);
            Some(f64::from(upright.0) / f64::from(entry.logical?.0.max(1)))
        });
        let caret = (CARET_AREA * scale.unwrap_or(1.0).max(1.0).powi(2)) as i64;
        // Without a damage rectangle, or with a y-inverted one, everything is compared: never too little.
        let within = grabbed
            .damage
            .filter(|_| !grabbed.image.y_invert)
            .unwrap_or(new.covers());
        let changed = new.difference(&old, within, caret);
        changed.is_some_and(|rect| i64::from(rect.width) * i64::from(rect.height) > caret)
    }
}

/// The sentence for a frame that failed again and again.
pub(crate) fn cant_copy(output: &str) -> String {
    format!(
        "the compositor could not copy {output:?}; the output may be off or was just changed: wake it and try again"
    )
}

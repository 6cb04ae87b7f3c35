//! How fast keys may go out, so that a busy application isn't cut off.

use std::time::{Duration, Instant};

// A compositor keeps what an application hasn't read yet in its socket's buffer and in 4 KiB of its own (libwayland
// before 1.23, Smithay), and ends the application's connection when both are full. A stopped foot on sway 1.7 with
// libwayland 1.21 survived 3000 unread characters and died of 3500; of alternating capitals in calls of 100, already
// of 2000. So after one second in which an application reads nothing, at most 512 + 1000 characters wait for it.
const BURST: u32 = 512;
const PER_CHARACTER: Duration = Duration::from_millis(1);

/// A bucket of characters, kept over all calls.
pub(crate) struct Pace {
    /// When the bucket is full again.
    full_at: Instant,
}

impl Pace {
    pub fn new(now: Instant) -> Self {
        Self { full_at: now }
    }

    /// When so many more characters may go out; the past when they may at once.
    pub fn due(&self, now: Instant, characters: usize) -> Instant {
        let characters = u32::try_from(characters).unwrap_or(BURST).min(BURST);
        let full_after = self.full_at.max(now) + PER_CHARACTER * characters;
        full_after.checked_sub(PER_CHARACTER * BURST).unwrap_or(now)
    }

    /// They went out.
    pub fn spend(&mut self, now: Instant, characters: usize) {
        let characters = u32::try_from(characters).unwrap_or(u32::MAX);
        self.full_at = self.full_at.max(now) + PER_CHARACTER.saturating_mul(characters);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_and_the_rest_comes_at_the_rate() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        for _ in 0..BURST / 32 {
            assert!(pace.due(start, 32) <= start);
            pace.spend(start, 32);
        }
        assert_eq!(pace.due(start, 32), start + PER_CHARACTER * 32);
        let later = start + PER_CHARACTER * 32;
        pace.spend(later, 32);
        assert_eq!(pace.due(later, 1), later + PER_CHARACTER);
    }

    #[test]
    fn rest_fills_the_bucket_and_no_further() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        pace.spend(start, BURST as usize);
        let rested = start + PER_CHARACTER * BURST * 10;
        assert!(pace.due(rested, BURST as usize) <= rested);
        pace.spend(rested, BURST as usize);
        assert!(pace.due(rested, 1) > rested);
    }

    #[test]
    fn more_than_the_bucket_holds_needs_a_full_one() {
        let now = Instant::now();
        assert!(Pace::new(now).due(now, 5000) <= now);
    }
}

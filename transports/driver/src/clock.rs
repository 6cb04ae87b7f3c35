//! The clocks and the system's randomness.

use std::time::{SystemTime, UNIX_EPOCH};

use deskhand_core::Time;
use rustix::time::{ClockId, clock_gettime};

/// Milliseconds since boot, suspend included: idling goes on while the machine sleeps.
pub fn boot_ms() -> Time {
    let t = clock_gettime(ClockId::Boottime);
    u64::try_from(t.tv_sec).unwrap_or(0) * 1000 + u64::try_from(t.tv_nsec).unwrap_or(0) / 1_000_000
}

/// Wall time minus boot time, in milliseconds since 1970.
pub fn wall_offset_ms() -> u64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
    u64::try_from(wall).unwrap_or(0).saturating_sub(boot_ms())
}

/// 32 bytes of the system's randomness.
pub(crate) fn seed() -> [u8; 32] {
    let mut seed = [0u8; 32];
    let mut filled = 0;
    while filled < seed.len() {
        match rustix::rand::getrandom(&mut seed[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(n) => filled += n,
            Err(rustix::io::Errno::INTR) => {}
            // Without randomness tokens would be guessable; there is nothing safe to go on with.
            Err(e) => panic!("the system gives no random bytes: {e}"),
        }
    }
    seed
}

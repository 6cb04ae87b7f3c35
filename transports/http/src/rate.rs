//! How many requests a principal may make: a bucket that fills steadily.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) struct Rate {
    per_minute: NonZeroU32,
    /// As many as there are principals, which the token file bounds.
    buckets: Mutex<BTreeMap<Arc<str>, Bucket>>,
}

struct Bucket {
    left: f64,
    at_ms: u64,
}

impl Rate {
    pub fn new(per_minute: NonZeroU32) -> Self {
        Self { per_minute, buckets: Mutex::default() }
    }

    /// Takes one request at `now_ms`, or tells after how many seconds there will be one.
    pub fn take(&self, principal: &Arc<str>, now_ms: u64) -> Result<(), u64> {
        let full = f64::from(self.per_minute.get());
        let per_ms = full / 60_000.0;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = match buckets.get_mut(principal) {
            Some(bucket) => bucket,
            None => buckets.entry(principal.clone()).or_insert(Bucket { left: full, at_ms: now_ms }),
        };
        bucket.left = (bucket.left + now_ms.saturating_sub(bucket.at_ms) as f64 * per_ms).min(full);
        bucket.at_ms = now_ms;
        if bucket.left < 1.0 {
            return Err((((1.0 - bucket.left) / per_ms / 1000.0).ceil() as u64).max(1));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_empties_and_fills() {
        let rate = Rate::new(NonZeroU32::new(2).unwrap());
        let (one, two) = (Arc::from("one"), Arc::from("two"));
        assert_eq!(rate.take(&one, 0), Ok(()));
        assert_eq!(rate.take(&one, 0), Ok(()));
        assert_eq!(rate.take(&one, 0), Err(30));
        assert_eq!(rate.take(&two, 0), Ok(()));
        assert_eq!(rate.take(&one, 30_000), Ok(()));
        assert_eq!(rate.take(&one, 30_000), Err(30));
    }
}

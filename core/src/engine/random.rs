//! Unguessable names from 32 bytes that the driver took from the system.

use sha2::{Digest, Sha256};

#[derive(Clone)]
pub struct Random {
    seed: [u8; 32],
    counter: u64,
}

impl Random {
    pub fn new(seed: [u8; 32]) -> Self {
        Self { seed, counter: 0 }
    }

    /// For authenticating what leaves and comes back.
    pub fn key(&self) -> [u8; 32] {
        Sha256::new().chain_update(b"key").chain_update(self.seed).finalize().into()
    }

    /// 26 characters of lower-case base32: 130 bits.
    pub fn token(&mut self) -> String {
        const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        self.counter += 1;
        let digest = Sha256::new().chain_update(self.seed).chain_update(self.counter.to_le_bytes()).finalize();
        digest.iter().take(26).map(|b| char::from(ALPHABET[usize::from(b & 31)])).collect()
    }
}

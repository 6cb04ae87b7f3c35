//! `requestState`: what a client carries from an `input_required` result to its retry. It is the client's to see and
//! nobody's to alter: authenticated, bound to principal and request, short-lived, for one use.

use std::collections::BTreeMap;

use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::engine::random::Random;
use crate::time::Time;

const LIFE_MS: u64 = 10 * 60_000;
/// Of the answers that a state carries on.
const SIZE_MAX: usize = 256 << 10;
/// How many uses are remembered one by one; older ones are refused altogether.
const USES_MAX: usize = 4096;
const MAC_HEX: usize = 64;

/// Which request a state belongs to.
pub(crate) type Binding = [u8; 32];

pub(crate) fn binding(method: &str, subject: &str, arguments: &Value) -> Binding {
    let mut digest = Sha256::new();
    for part in [method, subject, &arguments.to_string()] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

pub(crate) struct States {
    key: [u8; 32],
    issued: u64,
    used: BTreeMap<u64, Time>,
    /// States numbered up to here are over, used or not.
    floor: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Carried {
    number: u64,
    until: Time,
    answers: Map<String, Value>,
}

impl States {
    pub fn new(random: &Random) -> Self {
        Self { key: random.key(), issued: 0, used: BTreeMap::new(), floor: 0 }
    }

    /// `None` when the answers are too large to be carried.
    pub fn seal(&mut self, now: Time, principal: &str, binding: &Binding, answers: Map<String, Value>) -> Option<String> {
        self.issued += 1;
        let carried = Carried { number: self.issued, until: now + LIFE_MS, answers };
        let json = serde_json::to_string(&carried).ok().filter(|json| json.len() <= SIZE_MAX)?;
        let mac = self.mac(principal, binding, &json)?.finalize().into_bytes();
        let hex: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(hex + &json)
    }

    /// Gives the answers carried. The error says why the state isn't taken.
    pub fn open(&mut self, now: Time, principal: &str, binding: &Binding, state: &str) -> Result<Map<String, Value>, &'static str> {
        const FORGED: &str = "it was not made by this server for this request";
        let (hex, json) = state.split_at_checked(MAC_HEX).ok_or(FORGED)?;
        let mac = from_hex(hex).ok_or(FORGED)?;
        self.mac(principal, binding, json).ok_or(FORGED)?.verify_slice(&mac).map_err(|_| FORGED)?;
        let carried: Carried = serde_json::from_str(json).map_err(|_| FORGED)?;
        if carried.until < now {
            return Err("it is older than ten minutes");
        }
        if carried.number <= self.floor || self.used.contains_key(&carried.number) {
            return Err("it was used already");
        }
        self.use_up(now, carried.number, carried.until);
        Ok(carried.answers)
    }

    fn use_up(&mut self, now: Time, number: u64, until: Time) {
        self.used.retain(|_, until| *until >= now);
        self.used.insert(number, until);
        while self.used.len() > USES_MAX {
            if let Some((oldest, _)) = self.used.pop_first() {
                self.floor = self.floor.max(oldest);
            }
        }
    }

    fn mac(&self, principal: &str, binding: &Binding, json: &str) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).ok()?;
        mac.update(&(principal.len() as u64).to_le_bytes());
        mac.update(principal.as_bytes());
        mac.update(binding);
        mac.update(json.as_bytes());
        Some(mac)
    }
}

fn from_hex(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = hex.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
    Some(digits?.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states() -> States {
        States::new(&Random::new([7; 32]))
    }

    #[test]
    fn a_state_is_taken_once_by_its_principal_for_its_request() {
        let mut states = states();
        let (this, other) = (binding("tools/call", "a", &Value::Null), binding("tools/call", "b", &Value::Null));
        let answers = Map::from_iter([("name".to_string(), Value::from("Ünal \"x\""))]);
        let sealed = states.seal(1000, "token:a", &this, answers.clone()).unwrap();
        assert!(states.open(1000, "token:b", &this, &sealed).is_err());
        assert!(states.open(1000, "token:a", &other, &sealed).is_err());
        assert!(states.open(1001 + LIFE_MS, "token:a", &this, &sealed).is_err());
        assert_eq!(states.open(1000 + LIFE_MS, "token:a", &this, &sealed), Ok(answers));
        assert!(states.open(1000, "token:a", &this, &sealed).is_err());
    }

    #[test]
    fn no_altered_byte_passes() {
        let mut states = states();
        let this = binding("tools/call", "a", &Value::Null);
        let sealed = states.seal(0, "p", &this, Map::new()).unwrap();
        for at in 0..sealed.len() {
            let mut altered = sealed.clone().into_bytes();
            altered[at] ^= 1;
            if let Ok(altered) = String::from_utf8(altered) {
                assert!(states.open(0, "p", &this, &altered).is_err(), "byte {at}");
            }
        }
        for short in ["", "ab", &sealed[..MAC_HEX], "ü".repeat(40).as_str()] {
            assert!(states.open(0, "p", &this, short).is_err());
        }
        assert!(States::new(&Random::new([8; 32])).open(0, "p", &this, &sealed).is_err());
    }

    #[test]
    fn uses_are_bounded_and_none_passes_twice() {
        let mut states = states();
        let this = binding("tools/call", "a", &Value::Null);
        let sealed: Vec<String> = (0..2 * USES_MAX as u64).map(|_| states.seal(0, "p", &this, Map::new()).unwrap()).collect();
        for state in &sealed {
            assert!(states.open(0, "p", &this, state).is_ok());
        }
        assert!(states.used.len() <= USES_MAX);
        assert!(sealed.iter().all(|state| states.open(0, "p", &this, state).is_err()));
    }
}

//! Accessible elements that a later call may name, and listings that one may ask the difference to.

use std::collections::{BTreeMap, VecDeque};

use crate::desktop::elements::Identity;
use crate::desktop::model::WindowId;

/// So many elements are remembered, over all leases.
const REMEMBERED: usize = 8192;
const LISTINGS: usize = 16;

/// One element that was told of.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    pub reference: String,
    /// The lease it was listed under (its token), if any.
    pub lease: Option<String>,
    pub window: WindowId,
    pub identity: Identity,
}

/// One listing: how each of its elements was told.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    pub id: String,
    pub lease: Option<String>,
    /// What was asked for; another question has no difference to this one.
    pub question: String,
    pub elements: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default)]
pub struct Elements {
    issued: u64,
    listed: u64,
    known: VecDeque<Known>,
    references: BTreeMap<(Option<String>, WindowId, Identity), String>,
    listings: VecDeque<Told>,
}

impl Elements {
    /// The element's reference: always the same under one lease.
    pub fn name(&mut self, lease: Option<&str>, window: WindowId, identity: &Identity) -> String {
        let key = (lease.map(str::to_string), window, identity.clone());
        if let Some(reference) = self.references.get(&key) {
            return reference.clone();
        }
        self.issued += 1;
        let reference = format!("e{}", self.issued);
        self.known.push_back(Known { reference: reference.clone(), lease: key.0.clone(), window, identity: identity.clone() });
        self.references.insert(key, reference.clone());
        while self.known.len() > REMEMBERED {
            if let Some(old) = self.known.pop_front() {
                self.references.remove(&(old.lease, old.window, old.identity));
            }
        }
        reference
    }

    pub fn find(&self, reference: &str) -> Option<&Known> {
        self.known.iter().rev().find(|known| known.reference == reference)
    }

    pub fn next_listing(&mut self) -> String {
        self.listed += 1;
        format!("list-{}", self.listed)
    }

    pub fn remember(&mut self, told: Told) {
        self.listings.push_back(told);
        while self.listings.len() > LISTINGS {
            self.listings.pop_front();
        }
    }

    pub fn listing(&self, id: &str) -> Option<&Told> {
        self.listings.iter().rev().find(|told| told.id == id)
    }

    pub fn is_known(&self, text: &str) -> bool {
        self.find(text).is_some() || self.listing(text).is_some()
    }

    /// Forgets what belonged to a lease.
    pub fn end_lease(&mut self) {
        self.known.retain(|known| known.lease.is_none());
        self.references.retain(|(lease, _, _), _| lease.is_none());
        self.listings.retain(|told| told.lease.is_none());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(path: &str, name: &str) -> Identity {
        Identity { bus: ":1.1".into(), path: path.into(), role: "push button".into(), name: name.into(), parents: Vec::new(), row: None }
    }

    #[test]
    fn a_reference_is_one_elements_under_one_lease() {
        let mut all = Elements::default();
        let first = all.name(Some("lease"), 1, &identity("/a", "OK"));
        assert_eq!(all.name(Some("lease"), 1, &identity("/a", "OK")), first);
        assert_ne!(all.name(Some("lease"), 1, &identity("/a", "Cancel")), first);
        assert_ne!(all.name(None, 1, &identity("/a", "OK")), first);
        assert_eq!(all.find(&first).map(|k| k.identity.name.as_str()), Some("OK"));
        all.end_lease();
        assert!(all.find(&first).is_none());
        // Nothing gets an old one's name.
        assert_ne!(all.name(Some("lease"), 1, &identity("/a", "OK")), first);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut all = Elements::default();
        for n in 0..REMEMBERED + 10 {
            all.name(Some("lease"), 1, &identity(&format!("/{n}"), ""));
        }
        assert_eq!((all.known.len(), all.references.len()), (REMEMBERED, REMEMBERED));
        assert!(all.find("e1").is_none() && all.find("e11").is_some());
    }
}

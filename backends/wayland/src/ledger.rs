//! What the guard is told: everything that may be down, from before its press until the compositor confirmed its release.

use std::sync::Arc;

use deskhand_core::desktop::effect::Failure;
use deskhand_ports::{PressJournal, Pressed};

/// The journal's counterpart in this process.
///
/// A key that goes up and down many times in one text is told once before its first press and once after the
/// confirmation of its last release. Until then the compositor may have read its press and not yet its release, and
/// would be left with a stuck key if this process died.
pub(crate) struct Ledger {
    journal: Arc<dyn PressJournal>,
    told: Vec<Pressed>,
    /// Released, but no sync was sent after that.
    let_go: Vec<Pressed>,
    /// Released for sure once the sync with this key comes back.
    awaiting: Vec<(u64, Pressed)>,
}

impl Ledger {
    pub fn new(journal: Arc<dyn PressJournal>) -> Self {
        Self {
            journal,
            told: Vec::new(),
            let_go: Vec::new(),
            awaiting: Vec::new(),
        }
    }

    /// Before the press is queued. An error means that it must not be.
    pub fn pressing(&mut self, what: Pressed) -> Result<(), Failure> {
        if self.told.contains(&what) {
            self.let_go.retain(|other| *other != what);
            self.awaiting.retain(|(_, other)| *other != what);
            return Ok(());
        }
        self.journal.pressing(what)?;
        self.told.push(what);
        Ok(())
    }

    /// After its release is queued.
    pub fn releasing(&mut self, what: Pressed) {
        if self.told.contains(&what) && !self.let_go.contains(&what) {
            self.let_go.push(what);
        }
    }

    /// A sync was sent after all the releases so far.
    pub fn synced(&mut self, key: u64) {
        self.awaiting
            .extend(self.let_go.drain(..).map(|what| (key, what)));
    }

    /// Tells the guard of the releases before the syncs up to this one, which came back.
    pub fn confirm_up_to(&mut self, key: u64) {
        if self.awaiting.is_empty() {
            return;
        }
        let (done, rest): (Vec<_>, Vec<_>) = self
            .awaiting
            .drain(..)
            .partition(|(awaited, _)| *awaited <= key);
        self.awaiting = rest;
        for (_, what) in done {
            self.told.retain(|other| *other != what);
            self.journal.released(what);
        }
    }

    /// The connection is gone: what may still be down.
    pub fn stranded(&mut self) -> Vec<Pressed> {
        self.let_go.clear();
        self.awaiting.clear();
        self.told.clone()
    }

    /// None of it is down any more.
    pub fn all_released(&mut self) {
        self.let_go.clear();
        self.awaiting.clear();
        for what in std::mem::take(&mut self.told) {
            self.journal.released(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Log(Mutex<Vec<String>>);

    impl PressJournal for Log {
        fn pressing(&self, what: Pressed) -> Result<(), Failure> {
            self.0.lock().unwrap().push(format!("+{what:?}"));
            Ok(())
        }

        fn released(&self, what: Pressed) {
            self.0.lock().unwrap().push(format!("-{what:?}"));
        }
    }

    #[test]
    fn told_once_until_its_last_release_is_confirmed() {
        let log = Arc::new(Log::default());
        let mut ledger = Ledger::new(log.clone());
        let key = Pressed::Key(30);
        ledger.pressing(key).unwrap();
        ledger.releasing(key);
        ledger.synced(1);
        ledger.pressing(key).unwrap();
        ledger.confirm_up_to(1);
        assert_eq!(*log.0.lock().unwrap(), ["+Key(30)"]);
        ledger.releasing(key);
        ledger.synced(2);
        ledger.confirm_up_to(2);
        assert_eq!(*log.0.lock().unwrap(), ["+Key(30)", "-Key(30)"]);
        assert!(ledger.stranded().is_empty());
    }

    #[test]
    fn what_is_not_confirmed_is_stranded() {
        let log = Arc::new(Log::default());
        let mut ledger = Ledger::new(log.clone());
        ledger.pressing(Pressed::Button(272)).unwrap();
        ledger.releasing(Pressed::Button(272));
        ledger.synced(1);
        assert_eq!(ledger.stranded(), [Pressed::Button(272)]);
        ledger.all_released();
        assert_eq!(*log.0.lock().unwrap(), ["+Button(272)", "-Button(272)"]);
    }
}

//! What the caretaker process does: saves what is copied, offers a text in its place, puts back what was there, and owns
//! it until somebody copies anew.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use deskhand_core::desktop::effect::PutBack;

use super::control::{Asked, Selection, Source};
use super::pipes::{Reader, Unread, drain, reader, serve};
use super::types::{OFFERED, PASSWORD_HINT, SECRET, is_secret, text_type};
use super::process::Server;
use super::words::{Order, Task, Word};
use crate::connection::{Link, LinkDown};
use crate::mailbox::{Inbox, Mailbox};
use crate::release::roundtrip;

/// How long the compositor may take for what is asked of it.
pub(super) const GREETING: Duration = Duration::from_secs(2);
/// All types of all selections together, in this time.
const SAVED_BYTES: usize = 16 << 20;
const SAVING: Duration = Duration::from_secs(2);
/// Clipboard managers look at once; what they read before the keys are pressed is told apart from the paste by that.
const MANAGERS: Duration = Duration::from_millis(20);
/// Some readers ask for several types, one after the other.
const QUIET: Duration = Duration::from_millis(100);
/// A manager that took the text over serves it where we can't see it.
const UNSEEN: Duration = Duration::from_secs(2);
/// For a reader that takes its time.
const SERVING: Duration = Duration::from_secs(15);
const COMPARING: Duration = Duration::from_millis(500);
const MOST_SERVED: usize = 32;

pub(super) type Content = Arc<[u8]>;

pub(super) enum Event {
    Order(Order),
    /// Of the attempt with this number.
    Saved { attempt: u64, hints: bool, contents: Result<Vec<Vec<u8>>, Unread> },
    /// A reader has all of it, or went away.
    Served { counts: bool, whole: bool },
    /// Whether what replaced the text in this selection is the same text.
    Compared { selection: usize, changes: u64, same: bool },
}

/// Whose a selection is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// Not yet ours.
    Theirs,
    Ours,
    /// Ours no more; whose text it holds is being found out.
    Asking,
    /// A clipboard manager's, with our text; the number is the change that brought it.
    Manager(u64),
    /// Copied by somebody since.
    Replaced,
}

/// One of the two selections.
struct Lending {
    primary: bool,
    /// How often it had changed when it was saved.
    saved_at: u64,
    types: Vec<String>,
    saved: Vec<Content>,
    source: Option<(u64, Source)>,
    whose: Whose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Saving,
    Saved,
    Lent,
    /// What was saved is offered again.
    Back,
    End,
}

pub(super) struct Caretaker {
    link: Link,
    mailbox: Mailbox<Event>,
    server: Server,
    text: Content,
    reader: Option<i32>,
    selections: Vec<Lending>,
    phase: Phase,
    attempt: u64,
    saving_until: Instant,
    /// What each source gives, by its number.
    sources: BTreeMap<u64, Vec<(String, Content)>>,
    next_source: u64,
    /// Replaced by another of ours, which the compositor hasn't confirmed: somebody may still be asking them.
    retired: Vec<(u64, Source)>,
    /// Threads that write for readers.
    serving: usize,
    /// Among them those that count.
    reading: usize,
    read: bool,
    last_read: Instant,
    /// Told that the text is offered: from now on an unknown reader counts.
    offered: bool,
    awaiting: Option<Instant>,
    unseen_since: Option<Instant>,
    wanted_back: bool,
}

impl Caretaker {
    pub fn new(link: Link, task: Task, text: Content, mailbox: Mailbox<Event>, server: Server) -> Self {
        let primary = task.primary && link.wire.control.has_primary();
        let selections = [false, true].into_iter().filter(|which| !which || primary).map(|primary| Lending {
            primary,
            saved_at: 0,
            types: Vec::new(),
            saved: Vec::new(),
            source: None,
            whose: Whose::Theirs,
        });
        let now = Instant::now();
        Self {
            selections: selections.collect(),
            link,
            mailbox,
            server,
            text,
            reader: task.reader,
            phase: Phase::Saving,
            attempt: 0,
            saving_until: now + SAVING,
            sources: BTreeMap::new(),
            next_source: 0,
            retired: Vec::new(),
            serving: 0,
            reading: 0,
            read: false,
            last_read: now,
            offered: false,
            awaiting: None,
            unseen_since: None,
            wanted_back: false,
        }
    }

    pub fn run(mut self, inbox: &Inbox<Event>) -> Result<(), String> {
        let outcome = self.work(inbox);
        if let Err(why) = &outcome {
            self.server.tell(&Word::Failed(why.clone()));
        }
        outcome
    }

    fn work(&mut self, inbox: &Inbox<Event>) -> Result<(), String> {
        self.save(true)?;
        while self.phase != Phase::End {
            inbox.hush();
            while let Some(event) = inbox.next() {
                self.handle(event)?;
            }
            for asked in std::mem::take(&mut self.link.wire.control.asked) {
                self.asked(asked);
            }
            if self.phase == Phase::Saving && self.changed_since_saved() && Instant::now() < self.saving_until {
                self.save(true)?;
            }
            self.notice_copies()?;
            self.answer();
            if self.wanted_back {
                self.put_back()?;
            }
            if self.phase == Phase::Back && self.serving == 0 && self.selections.iter().all(|one| one.source.is_none()) {
                return Ok(());
            }
            if self.phase != Phase::End {
                self.link.step(self.wake_at(), Some(inbox.as_fd())).map_err(|LinkDown(why)| why)?;
            }
        }
        Ok(())
    }

    fn wake_at(&self) -> Instant {
        let now = Instant::now();
        match self.awaiting {
            Some(limit) if self.read && self.reading == 0 => limit.min(self.last_read + QUIET).max(now),
            Some(limit) => limit.min(self.unseen_since.map_or(limit, |since| since + UNSEEN)).max(now),
            None => now + Duration::from_secs(3600),
        }
    }

    fn handle(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Order(Order::Offer) => self.offer()?,
            Event::Order(Order::AwaitReader { max_ms }) => self.awaiting = Some(Instant::now() + Duration::from_millis(max_ms.into())),
            Event::Order(Order::PutBack) => match self.phase {
                Phase::Saving | Phase::Saved => self.phase = Phase::End,
                Phase::Lent => self.wanted_back = true,
                Phase::Back | Phase::End => {}
            },
            Event::Saved { attempt, hints, contents } if attempt == self.attempt => self.saved(hints, contents)?,
            Event::Saved { .. } => {}
            Event::Served { counts, whole } => {
                self.serving -= 1;
                if counts {
                    self.reading -= 1;
                    self.read |= whole;
                    self.last_read = Instant::now();
                }
            }
            Event::Compared { selection, changes, same } => {
                let now = self.link.wire.control.selection(self.selections[selection].primary).changes;
                self.selections[selection].whose = match same {
                    _ if now != changes => Whose::Manager(changes),
                    true => Whose::Manager(changes),
                    false => Whose::Replaced,
                };
                if same && selection == 0 {
                    self.unseen_since.get_or_insert_with(Instant::now);
                }
            }
        }
        Ok(())
    }

    /// Asks for the password hints, or for all types, of what is copied now.
    fn save(&mut self, hints: bool) -> Result<(), String> {
        self.attempt += 1;
        let mut pipes = Vec::new();
        for at in 0..self.selections.len() {
            let one = &mut self.selections[at];
            let selection = self.link.wire.control.selection(one.primary);
            if selection.left_out {
                self.unsaved("The clipboard is offered in more than 256 types, and could not be saved.");
                return Ok(());
            }
            one.saved_at = selection.changes;
            one.types = selection.types.iter().filter(|mime| !hints || *mime == PASSWORD_HINT).cloned().collect();
            let wanted: Vec<&str> = one.types.iter().map(String::as_str).collect();
            pipes.extend(selection.receive(&wanted).map_err(|e| format!("no pipe can be made: {e}"))?);
        }
        self.link.flush().map_err(|LinkDown(why)| why)?;
        let (attempt, until) = (self.attempt, self.saving_until);
        self.in_background(move || Event::Saved { attempt, hints, contents: drain(pipes, SAVED_BYTES, until) });
        Ok(())
    }

    fn changed_since_saved(&self) -> bool {
        self.selections.iter().any(|one| self.link.wire.control.selection(one.primary).changes != one.saved_at)
    }

    fn saved(&mut self, hints: bool, contents: Result<Vec<Vec<u8>>, Unread>) -> Result<(), String> {
        let contents = match contents {
            Ok(contents) => contents,
            Err(why) => {
                self.unsaved(match why {
                    Unread::TooLarge => "What the clipboard holds has more than 16 MiB, and could not be saved.",
                    Unread::TooSlow => "The app that owns the clipboard didn't hand its content over within 2 seconds, so it could not be saved.",
                    Unread::Failed => "The clipboard's content could not be read, so it could not be saved.",
                });
                return Ok(());
            }
        };
        if hints {
            if contents.iter().any(|hint| is_secret(hint)) {
                self.unsaved("The clipboard holds a password, which stays where it is.");
                return Ok(());
            }
            return self.save(false);
        }
        let mut contents = contents.into_iter();
        for one in &mut self.selections {
            one.saved = contents.by_ref().take(one.types.len()).map(Content::from).collect();
        }
        self.phase = Phase::Saved;
        self.server.tell(&Word::Saved);
        Ok(())
    }

    fn unsaved(&mut self, why: &str) {
        self.server.tell(&Word::Unsaved(why.into()));
        self.phase = Phase::End;
    }

    fn offer(&mut self) -> Result<(), String> {
        if self.phase != Phase::Saved {
            return Ok(());
        }
        if self.changed_since_saved() {
            self.server.tell(&Word::Changed);
            self.phase = Phase::Saving;
            self.saving_until = Instant::now() + SAVING;
            return self.save(true);
        }
        for at in 0..self.selections.len() {
            let text = OFFERED.iter().map(|mime| ((*mime).to_owned(), self.text.clone()));
            let hint = [(PASSWORD_HINT.to_owned(), Content::from(SECRET))];
            self.select(at, text.chain(hint).collect());
            self.selections[at].whose = Whose::Ours;
        }
        self.phase = Phase::Lent;
        self.sync()?;
        let until = Instant::now() + MANAGERS;
        while Instant::now() < until {
            self.link.step(until, None).map_err(|LinkDown(why)| why)?;
            for asked in std::mem::take(&mut self.link.wire.control.asked) {
                self.asked(asked);
            }
        }
        self.offered = true;
        self.server.tell(&Word::Offered);
        Ok(())
    }

    /// Has a new source of ours be the selection; an empty one clears it.
    fn select(&mut self, at: usize, contents: Vec<(String, Content)>) {
        self.next_source += 1;
        let number = self.next_source;
        let control = &self.link.wire.control;
        let one = &mut self.selections[at];
        let types = contents.iter().map(|(mime, _)| mime.as_str());
        let source = if contents.is_empty() { None } else { control.make_source(types, number, &self.link.handle()) };
        control.select(one.primary, source.as_ref());
        self.retired.extend(std::mem::replace(&mut one.source, source.map(|source| (number, source))));
        self.sources.insert(number, contents);
    }

    fn sync(&mut self) -> Result<(), String> {
        roundtrip(&mut self.link, Instant::now() + GREETING)
    }

    fn asked(&mut self, Asked { source, mime, pipe }: Asked) {
        let content = self.sources.get(&source).and_then(|all| all.iter().find(|(known, _)| *known == mime)).map(|(_, content)| content.clone());
        // A pipe that is dropped tells its reader that there is nothing.
        let Some(content) = content.filter(|_| self.serving < MOST_SERVED) else { return };
        let counts = self.phase == Phase::Lent && mime != PASSWORD_HINT && {
            let ourselves = [self.link.peer, rustix::process::getpid().as_raw_nonzero().get()];
            match reader(&pipe, self.reader, &ourselves) {
                Reader::Meant => true,
                Reader::Other => false,
                Reader::Unknown => self.offered,
            }
        };
        self.serving += 1;
        if counts {
            self.reading += 1;
        }
        self.in_background(move || {
            let pipe: OwnedFd = pipe;
            Event::Served { counts, whole: serve(&pipe, &content, Instant::now() + SERVING) }
        });
    }

    /// A selection of ours that was replaced: by a manager that took the text over, or by somebody's copy?
    fn notice_copies(&mut self) -> Result<(), String> {
        let cancelled = std::mem::take(&mut self.link.wire.control.cancelled);
        let mut ours_no_more = Vec::new();
        for (at, one) in self.selections.iter_mut().enumerate() {
            let gone = one.source.as_ref().is_some_and(|(number, _)| cancelled.contains(number));
            if gone && let Some((_, source)) = one.source.take() {
                source.destroy();
            }
            let changes = self.link.wire.control.selection(one.primary).changes;
            if self.phase == Phase::Lent && (gone || matches!(one.whose, Whose::Manager(seen) if seen != changes)) {
                ours_no_more.push(at);
            }
        }
        self.sources.retain(|number, _| !cancelled.contains(number));
        let (gone, rest) = std::mem::take(&mut self.retired).into_iter().partition(|(number, _)| cancelled.contains(number));
        self.retired = rest;
        let gone: Vec<(u64, Source)> = gone;
        gone.iter().for_each(|(_, source)| source.destroy());
        if ours_no_more.is_empty() {
            return Ok(());
        }
        // What replaced it may be told after it was cancelled.
        self.sync()?;
        for at in ours_no_more {
            self.compare(at)?;
        }
        Ok(())
    }

    fn compare(&mut self, at: usize) -> Result<(), String> {
        let selection: &Selection = self.link.wire.control.selection(self.selections[at].primary);
        let changes = selection.changes;
        let pipes = text_type(&selection.types).map(|mime| selection.receive(&[mime])).transpose().unwrap_or_default().unwrap_or_default();
        if pipes.is_empty() {
            self.selections[at].whose = Whose::Replaced;
            return Ok(());
        }
        self.selections[at].whose = Whose::Asking;
        self.link.flush().map_err(|LinkDown(why)| why)?;
        let (text, until) = (self.text.clone(), Instant::now() + COMPARING);
        self.in_background(move || {
            let same = drain(pipes, text.len() + 1, until).is_ok_and(|contents| contents.concat() == *text);
            Event::Compared { selection: at, changes, same }
        });
        Ok(())
    }

    /// The answer that the server waits for, if it is due.
    fn answer(&mut self) {
        let Some(limit) = self.awaiting else { return };
        if self.phase != Phase::Lent || self.selections[0].whose == Whose::Asking {
            return;
        }
        let now = Instant::now();
        let replaced = self.selections[0].whose == Whose::Replaced && self.reading == 0;
        let quiet = self.read && self.reading == 0 && now >= self.last_read + QUIET;
        let unseen = self.unseen_since.is_some_and(|since| now >= since + UNSEEN);
        if replaced || quiet || unseen || now >= limit {
            let read = if !self.read && self.unseen_since.is_some() { None } else { Some(self.read) };
            self.server.tell(&Word::Read(read));
            self.awaiting = None;
        }
    }

    fn put_back(&mut self) -> Result<(), String> {
        if self.selections.iter().any(|one| one.whose == Whose::Asking) {
            return Ok(());
        }
        self.wanted_back = false;
        let mut outcome = PutBack::Replaced;
        for at in 0..self.selections.len() {
            if self.selections[at].whose == Whose::Replaced {
                continue;
            }
            let one = &mut self.selections[at];
            let contents: Vec<_> = std::mem::take(&mut one.types).into_iter().zip(std::mem::take(&mut one.saved)).collect();
            if at == 0 {
                outcome = if contents.is_empty() { PutBack::Cleared } else { PutBack::Restored };
            }
            self.select(at, contents);
        }
        self.phase = Phase::Back;
        self.sync()?;
        self.server.tell(&Word::PutBack(outcome));
        self.text = Content::from([]);
        Ok(())
    }

    fn in_background(&self, work: impl FnOnce() -> Event + Send + 'static) {
        let mailbox = self.mailbox.clone();
        thread::spawn(move || mailbox.send(work()));
    }
}

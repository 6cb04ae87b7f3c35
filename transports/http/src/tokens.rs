//! The tokens that clients carry, in a file of their owner's alone: one a line, a name and the token.
//!
//! Lines that begin with `#` and empty ones are passed over. The file is read again when it changed, so what is added
//! or removed by another process counts for a running server.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

const PREFIX: &str = "dh_";
const FIRST: &str = "default";
const NAME_MAX: usize = 32;
const FILE_MAX: u64 = 1 << 20;
/// How often the file's change is looked for at most.
const LOOK_MS: u64 = 1000;

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// Reading or writing failed.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// Someone else could have read it.
    #[error("{0} can be read or written by others (mode {mode:o}); make new tokens in it if somebody may have, then run: chmod 600 {0}", path.display())]
    Open { path: PathBuf, mode: u32 },
    /// It belongs to another user.
    #[error("{} belongs to another user; tokens are read only from a file of our own", path.display())]
    Foreign { path: PathBuf },
    /// A line isn't a name and a token. The line itself isn't told: it may hold one.
    #[error("{}, line {line}: {problem}", path.display())]
    Line { path: PathBuf, line: usize, problem: &'static str },
    #[error("a token's name is 1 to 32 of a-z, 0-9, _ and -")]
    Name,
    #[error("there is a token named {0} already; remove it first, or choose another name")]
    Taken(String),
    #[error("there is no token named {0}")]
    Missing(String),
}

/// A secret. Printing it takes asking for it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// 32 bytes of the system's randomness.
    fn fresh() -> io::Result<Self> {
        let encoded = base64_simd::URL_SAFE_NO_PAD.encode_to_string(random::<32>()?);
        Ok(Self(format!("{PREFIX}{encoded}")))
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

/// The token file, and what was last read from it.
pub struct Tokens {
    path: PathBuf,
    known: RwLock<Known>,
    started: Instant,
    looked_ms: AtomicU64,
    /// Principals whose token is gone, until somebody takes them.
    gone: Mutex<BTreeSet<Arc<str>>>,
}

#[derive(Default)]
struct Known {
    entries: Vec<Entry>,
    stamp: Option<Stamp>,
}

#[derive(Clone)]
struct Entry {
    name: String,
    token: Token,
    principal: Arc<str>,
    digest: [u8; 32],
}

/// What changes when the file does.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp(u64, u64, i64, i64, i64, i64);

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("path", &self.path).field("names", &self.names()).finish()
    }
}

impl Tokens {
    /// An existing file.
    pub fn load(path: &Path) -> Result<Self, TokenError> {
        let (entries, stamp) = read(path)?;
        let known = RwLock::new(Known { entries, stamp: Some(stamp) });
        Ok(Self { path: path.to_path_buf(), known, started: Instant::now(), looked_ms: AtomicU64::new(0), gone: Mutex::default() })
    }

    /// Makes the file, with one token named `default`, if there is none, and its folder.
    pub fn load_or_create(path: &Path) -> Result<Self, TokenError> {
        if let Some(folder) = path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|e| io_error(folder, e))?;
        }
        let _lock = lock_folder(path)?;
        if let Err(TokenError::Io { source, .. }) = read(path)
            && source.kind() == io::ErrorKind::NotFound
        {
            let token = Token::fresh().map_err(|e| io_error(path, e))?;
            write(path, &[(FIRST.to_string(), token)])?;
        }
        Self::load(path)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn names(&self) -> Vec<String> {
        self.known().entries.iter().map(|e| e.name.clone()).collect()
    }

    pub fn token(&self, name: &str) -> Option<Token> {
        self.known().entries.iter().find(|e| e.name == name).map(|e| e.token.clone())
    }

    /// A new token, written before it is told. The file must exist.
    pub fn add(&self, name: &str) -> Result<Token, TokenError> {
        if !is_name(name) {
            return Err(TokenError::Name);
        }
        let token = Token::fresh().map_err(|e| io_error(&self.path, e))?;
        self.change(|all| {
            if all.iter().any(|(n, _)| n == name) {
                return Err(TokenError::Taken(name.to_string()));
            }
            all.push((name.to_string(), token.clone()));
            Ok(())
        })?;
        Ok(token)
    }

    /// Its sessions end with it.
    pub fn remove(&self, name: &str) -> Result<(), TokenError> {
        self.change(|all| {
            let before = all.len();
            all.retain(|(n, _)| n != name);
            if all.len() == before { Err(TokenError::Missing(name.to_string())) } else { Ok(()) }
        })
    }

    /// The principal of a token that was presented. How much of it is right, and which one it is, the time doesn't tell.
    pub(crate) fn admit(&self, presented: &[u8]) -> Option<Arc<str>> {
        self.refresh();
        // One that was made a moment ago isn't turned away.
        self.find(presented).or_else(|| {
            self.look();
            self.find(presented)
        })
    }

    fn find(&self, presented: &[u8]) -> Option<Arc<str>> {
        let digest: [u8; 32] = Sha256::digest(presented).into();
        let known = self.known();
        let mut found = 0u32;
        for (i, entry) in (1u32..).zip(&known.entries) {
            let same: Choice = entry.digest.ct_eq(&digest);
            found.conditional_assign(&i, same);
        }
        let at = usize::try_from(found).ok()?.checked_sub(1)?;
        known.entries.get(at).map(|e| e.principal.clone())
    }

    /// Reads the file again if it changed. What can't be read leaves things as they were; without a file there is no token.
    pub(crate) fn refresh(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let looked = self.looked_ms.load(Ordering::Relaxed);
        if now < looked + LOOK_MS || self.looked_ms.compare_exchange(looked, now, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        self.look();
    }

    fn look(&self) {
        let stamp = std::fs::metadata(&self.path).ok().map(|m| stamp_of(&m));
        if stamp == self.known().stamp {
            return;
        }
        self.read_again();
    }

    /// Those whose token was removed or replaced since the last time.
    pub(crate) fn take_gone(&self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut *self.gone.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn read_again(&self) {
        let new = match read(&self.path) {
            Ok((entries, stamp)) => Known { entries, stamp: Some(stamp) },
            Err(TokenError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                tracing::error!(path = %self.path.display(), "the token file is gone: nobody is admitted");
                Known::default()
            }
            Err(e) => {
                tracing::error!("the token file changed and can't be used, the tokens before count: {e}");
                return;
            }
        };
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *known, new);
        let gone = old.entries.into_iter().filter(|o| !known.entries.iter().any(|n| n.name == o.name && n.digest == o.digest));
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).extend(gone.map(|e| e.principal));
    }

    fn change(&self, change: impl FnOnce(&mut Vec<(String, Token)>) -> Result<(), TokenError>) -> Result<(), TokenError> {
        let lock = lock_folder(&self.path)?;
        let mut all: Vec<_> = read(&self.path)?.0.into_iter().map(|e| (e.name, e.token)).collect();
        change(&mut all)?;
        write(&self.path, &all)?;
        drop(lock);
        self.read_again();
        Ok(())
    }

    fn known(&self) -> std::sync::RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Random bytes of the system.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0u8; N];
    let mut filled = 0;
    while filled < N {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(n) => filled += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(bytes)
}

pub fn is_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

fn io_error(path: &Path, source: io::Error) -> TokenError {
    TokenError::Io { path: path.to_path_buf(), source }
}

fn stamp_of(m: &std::fs::Metadata) -> Stamp {
    Stamp(m.ino(), m.size(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec())
}

fn read(path: &Path) -> Result<(Vec<Entry>, Stamp), TokenError> {
    let fail = |e| io_error(path, e);
    let file = OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed()).open(path).map_err(fail)?;
    let meta = file.metadata().map_err(fail)?;
    if !meta.is_file() {
        return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(TokenError::Foreign { path: path.to_path_buf() });
    }
    if meta.mode() & 0o077 != 0 {
        return Err(TokenError::Open { path: path.to_path_buf(), mode: meta.mode() & 0o777 });
    }
    let mut text = String::new();
    file.take(FILE_MAX).read_to_string(&mut text).map_err(fail)?;
    Ok((parse(path, &text)?, stamp_of(&meta)))
}

fn parse(path: &Path, text: &str) -> Result<Vec<Entry>, TokenError> {
    let mut entries: Vec<Entry> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let wrong = |problem| TokenError::Line { path: path.to_path_buf(), line: i + 1, problem };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.split_ascii_whitespace();
        let (Some(name), Some(token), None) = (words.next(), words.next(), words.next()) else {
            return Err(wrong("a line is a name, a space and a token"));
        };
        if !is_name(name) {
            return Err(wrong("a token's name is 1 to 32 of a-z, 0-9, _ and -"));
        }
        if token.len() < 16 || !token.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(wrong("a token is 16 or more visible ASCII characters"));
        }
        if entries.iter().any(|e| e.name == name || e.token.0 == token) {
            return Err(wrong("the same name or token stands further up"));
        }
        let digest = Sha256::digest(token.as_bytes()).into();
        entries.push(Entry { name: name.to_string(), token: Token(token.to_string()), principal: Arc::from(format!("token:{name}")), digest });
    }
    Ok(entries)
}

/// Whole or not at all.
fn write(path: &Path, all: &[(String, Token)]) -> Result<(), TokenError> {
    let fail = |e| io_error(path, e);
    let [a, b] = random::<2>().map_err(fail)?;
    let temporary = path.with_extension(format!("{}-{a:02x}{b:02x}.new", std::process::id()));
    let written = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        let mut text = String::from("# Tokens for this server: a name and a secret a line. Keep this file to yourself.\n");
        for (name, token) in all {
            text.push_str(&format!("{name} {}\n", token.0));
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)?;
        folder(path)?.sync_all()
    };
    written().map_err(|e| {
        let _ = std::fs::remove_file(&temporary);
        fail(e)
    })
}

fn folder(path: &Path) -> io::Result<File> {
    File::open(path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

/// Two that change the file at once would lose one's change.
fn lock_folder(path: &Path) -> Result<File, TokenError> {
    let folder = folder(path).map_err(|e| io_error(path, e))?;
    flock(&folder, FlockOperation::LockExclusive).map_err(|e| io_error(path, e.into()))?;
    Ok(folder)
}

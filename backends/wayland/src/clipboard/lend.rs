//! The server's side of one paste: a caretaker, and what it is told and says.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use deskhand_core::desktop::effect::{Failure, FailureKind, Outcome, PutBack, Reply};
use deskhand_ports::Ticket;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::words::{Order, Task, Word};

/// How soon a cancelled operation is noticed.
const SLICE: Duration = Duration::from_millis(10);
/// How long putting back may take.
const BACK: Duration = Duration::from_millis(1500);

/// A clipboard that is lent to a text. Dropping it has the caretaker put back what it saved.
pub(super) struct Lent {
    said: Lines<BufReader<OwnedReadHalf>>,
    orders: OwnedWriteHalf,
}

impl Lent {
    /// Returns once the text is offered; `Unsaved` when what is copied can't be saved.
    pub async fn start(program: &Path, socket: &Path, task: &Task, text: String, ticket: &Ticket) -> Result<Self, Failure> {
        let stream = spawn(program, socket).await?;
        let (said, orders) = stream.into_split();
        let mut lent = Self { said: BufReader::new(said).lines(), orders };
        match lent.offer(task, text, ticket).await {
            Ok(()) => Ok(lent),
            Err(failure) => {
                let _ = lent.put_back().await;
                Err(failure)
            }
        }
    }

    async fn offer(&mut self, task: &Task, text: String, ticket: &Ticket) -> Result<(), Failure> {
        let mut head = serde_json::to_vec(task).map_err(|e| broken(&e.to_string()))?;
        head.push(b'\n');
        self.write(&head, ticket).await?;
        self.write(text.as_bytes(), ticket).await?;
        drop(text);
        loop {
            match self.word(ticket).await? {
                Word::Saved => {
                    ticket.check()?;
                    self.order(Order::Offer).await?;
                }
                Word::Offered => return Ok(()),
                Word::Unsaved(why) => return Err(Failure::new(FailureKind::Unsaved, why)),
                Word::Failed(why) => return Err(Failure::new(FailureKind::Unavailable, why)),
                Word::Changed | Word::Read(_) | Word::PutBack(_) => {}
            }
        }
    }

    pub async fn await_reader(&mut self, max_ms: u32, ticket: &Ticket) -> Outcome {
        ticket.check()?;
        self.order(Order::AwaitReader { max_ms }).await?;
        loop {
            match self.word(ticket).await? {
                Word::Read(read) => return Ok(Reply::Read(read)),
                Word::Failed(why) => return Err(Failure::new(FailureKind::Lost, why)),
                _ => {}
            }
        }
    }

    pub async fn put_back(mut self) -> Result<PutBack, Failure> {
        self.order(Order::PutBack).await?;
        let end = tokio::time::Instant::now() + BACK;
        loop {
            let line = tokio::time::timeout_at(end, self.said.next_line()).await;
            let line = line.map_err(|_| Failure::new(FailureKind::TimedOut, "what the clipboard held before could not be put back in time"))?;
            match read(line)? {
                Word::PutBack(how) => return Ok(how),
                Word::Failed(why) => return Err(Failure::new(FailureKind::Lost, why)),
                // An answer that nobody waited for any more.
                _ => {}
            }
        }
    }

    async fn order(&mut self, order: Order) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(&order).map_err(|e| broken(&e.to_string()))?;
        line.push(b'\n');
        self.orders.write_all(&line).await.map_err(|e| broken(&e.to_string()))
    }

    async fn write(&mut self, bytes: &[u8], ticket: &Ticket) -> Result<(), Failure> {
        let end = tokio::time::Instant::from_std(ticket.deadline);
        match tokio::time::timeout_at(end, self.orders.write_all(bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) => Err(broken(&e.to_string())),
            Err(_) => Err(slow()),
        }
    }

    /// The next word, unless the operation must end.
    async fn word(&mut self, ticket: &Ticket) -> Result<Word, Failure> {
        loop {
            ticket.check()?;
            if Instant::now() >= ticket.deadline {
                return Err(slow());
            }
            if let Ok(line) = tokio::time::timeout(SLICE, self.said.next_line()).await {
                return read(line);
            }
        }
    }
}

fn read(line: std::io::Result<Option<String>>) -> Result<Word, Failure> {
    match line {
        Ok(Some(line)) => serde_json::from_str(&line).map_err(|e| broken(&e.to_string())),
        Ok(None) => Err(broken("it ended")),
        Err(e) => Err(broken(&e.to_string())),
    }
}

fn broken(why: &str) -> Failure {
    Failure::new(FailureKind::Refused, format!("the clipboard's caretaker process failed ({why}); look at the clipboard before you go on"))
}

fn slow() -> Failure {
    Failure::new(FailureKind::TimedOut, "the clipboard could not be lent in time; it is put back as it was")
}

async fn spawn(program: &Path, socket: &Path) -> Result<UnixStream, Failure> {
    let failed = |why: String| Failure::new(FailureKind::Unavailable, format!("the clipboard's caretaker process can't be started: {why}"));
    let (program, socket) = (program.to_owned(), socket.to_owned());
    let started = tokio::task::spawn_blocking(move || {
        let (ours, theirs) = StdStream::pair()?;
        let mut child = Command::new(program)
            .args(["clipboard".as_ref(), "--socket".as_ref(), socket.as_os_str()])
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        // It outlives the paste; whoever ends first, it doesn't stay as a zombie.
        std::thread::Builder::new().name("caretaker".into()).spawn(move || child.wait())?;
        ours.set_nonblocking(true)?;
        Ok(ours)
    });
    let ours: std::io::Result<StdStream> = started.await.map_err(|e| failed(e.to_string()))?;
    ours.and_then(UnixStream::from_std).map_err(|e| failed(e.to_string()))
}

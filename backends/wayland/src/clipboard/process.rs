//! The caretaker as a process: its task from the server's socket, its own connection to the compositor.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::caretaker::{Caretaker, Content, Event, GREETING};
use super::words::{Order, Task, Word};
use crate::connection::{Link, LinkDown};
use crate::mailbox::{Mailbox, mailbox};
use crate::release::{greet, roundtrip};
use crate::wire::Role;

const LARGEST_TEXT: usize = 16 << 20;
/// How long the server may take to say what the task is.
const TASK: Duration = Duration::from_secs(10);

/// The hidden `clipboard` subcommand: takes care of the clipboard for one paste of the server that started it, and
/// returns when nobody needs what it holds any more. The error is for a person who started this by hand.
pub fn care(socket: &Path) -> Result<(), String> {
    // What ends the server's process group or terminal must not end this first. Fails when we lead a group already.
    let _ = rustix::process::setsid();
    // What people copied isn't for core files.
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    let _ = std::env::set_current_dir("/");
    let by_hand = |why: String| format!("it is started by a deskhand server, not by hand ({why})");
    let stdin = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3).map_err(|e| by_hand(e.to_string()))?;
    rustix::net::sockopt::socket_type(&stdin).map_err(|e| by_hand(e.to_string()))?;
    let server = UnixStream::from(stdin);
    let mut orders = BufReader::new(server.try_clone().map_err(|e| e.to_string())?);
    let (task, text) = task(&server, &mut orders).map_err(by_hand)?;
    let (mailbox, inbox) = mailbox().map_err(|e| e.to_string())?;
    let listener = mailbox.clone();
    thread::spawn(move || listen(orders, &listener));
    let mut server = Server(server);
    match open(socket) {
        Ok(link) => Caretaker::new(link, task, text, mailbox, server).run(&inbox),
        Err(why) => {
            server.tell(&Word::Failed(why));
            Ok(())
        }
    }
}

fn task(server: &UnixStream, orders: &mut impl BufRead) -> Result<(Task, Content), String> {
    server.set_read_timeout(Some(TASK)).map_err(|e| e.to_string())?;
    let mut line = String::new();
    orders.take(4096).read_line(&mut line).map_err(|e| e.to_string())?;
    let task: Task = serde_json::from_str(&line).map_err(|e| e.to_string())?;
    if task.text_bytes > LARGEST_TEXT {
        return Err("the text is too long".into());
    }
    let mut text = vec![0; task.text_bytes];
    orders.read_exact(&mut text).map_err(|e| e.to_string())?;
    server.set_read_timeout(None).map_err(|e| e.to_string())?;
    Ok((task, text.into()))
}

fn listen(orders: BufReader<UnixStream>, mailbox: &Mailbox<Event>) {
    for line in orders.lines().map_while(Result::ok) {
        if let Ok(order) = serde_json::from_str(&line) {
            mailbox.send(Event::Order(order));
        }
    }
    mailbox.send(Event::Order(Order::PutBack));
}

fn open(socket: &Path) -> Result<Link, String> {
    let until = Instant::now() + GREETING;
    let mut link = Link::open(socket, Role::Clipboard).map_err(|LinkDown(why)| why)?;
    greet(&mut link, until)?;
    let queue = link.handle();
    link.wire.control.start(link.wire.seat.as_ref(), &queue)?;
    roundtrip(&mut link, until)?;
    Ok(link)
}

/// The server that started this process.
pub(super) struct Server(UnixStream);

impl Server {
    /// One that is gone needs no word.
    pub fn tell(&mut self, word: &Word) {
        if let Ok(mut line) = serde_json::to_vec(word) {
            line.push(b'\n');
            let _ = self.0.write_all(&line);
        }
    }
}

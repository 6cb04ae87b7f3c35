//! MCP over stdin and stdout: newline-delimited JSON, one connection, which ends with the input.
//!
//! Reads and writes go straight to the descriptors without blocking, whatever a client passed: pipes are opened anew
//! so that the client's own end keeps its flags, sockets are asked not to wait, anything else gets a thread.

mod input;
mod output;
mod readiness;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use deskhand_core::rpc::lines::{Line, LineFramer};
use deskhand_core::{Carriage, Conn, Input, Route};
use deskhand_driver::Driver;
use tokio::time::Instant;

use input::Reader;
use output::Writer;

/// A longer line is dropped and answered with an error.
pub const LINE_LIMIT: usize = 8 << 20;
/// At the end of input: how long answers in flight are waited for, then those of calls that were ended, then writing.
const ANSWERS: Duration = Duration::from_millis(500);
const ENDED: Duration = Duration::from_millis(200);
const WRITING: Duration = Duration::from_millis(200);
/// A client that ended its input may still read; one that takes nothing for this long doesn't.
const STALLED: Duration = Duration::from_millis(300);
const ROUTE: Route = Route(0);

/// Serves one client until its input ends, nobody reads its output any more, or `asked_to_end`. The core is shut down
/// with it, so that what is under way gets an answer.
pub async fn serve(
    driver: Arc<Driver>,
    input: OwnedFd,
    output: OwnedFd,
    principal: &str,
    asked_to_end: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut reader = Reader::new(input)?;
    let writer = Writer::new(output)?;
    let conn = driver.open(principal, Carriage::Stdio, writer.clone());
    let flusher = tokio::spawn(writer.clone().run());
    let to_the_end = async {
        let result = read_all(&driver, conn, &mut reader, &writer).await;
        driver.handle(Input::Ended { conn });
        if writer.is_read() {
            driver.wait_until(ANSWERS, |core| core.in_flight(conn) == 0).await;
        }
        result
    };
    let result = tokio::select! {
        result = to_the_end => result,
        () = asked_to_end => Ok(()),
    };
    driver.handle(Input::Shutdown);
    if writer.is_read() {
        driver.wait_until(ENDED, |core| core.in_flight(conn) == 0).await;
        writer.drained(WRITING).await;
    }
    driver.close(conn);
    flusher.abort();
    result
}

async fn read_all(driver: &Driver, conn: Conn, reader: &mut Reader, writer: &Writer) -> io::Result<()> {
    let mut framer = LineFramer::new(LINE_LIMIT);
    let to_input = |line| match line {
        Line::Text(bytes) => Input::Message { conn, route: ROUTE, bytes },
        Line::TooLong => Input::TooLong { conn, route: ROUTE },
    };
    loop {
        if !room(reader, writer).await {
            return Ok(());
        }
        let read = tokio::select! {
            read = reader.read_into(framer.buffer_mut()) => read?,
            () = writer.broken() => return Ok(()),
        };
        if read == 0 {
            driver.handle_all(framer.finish().map(to_input));
            writer.flush();
            return Ok(());
        }
        while let Some(line) = framer.next_line() {
            driver.handle(to_input(line));
            if writer.is_full() {
                writer.flush();
                if !room(reader, writer).await {
                    return Ok(());
                }
            }
        }
        writer.flush();
    }
}

/// A client that doesn't read isn't read from either: waits while too much is unwritten. False when it never will be.
async fn room(reader: &Reader, writer: &Writer) -> bool {
    let mut unwritten = writer.unwritten();
    let mut taken_at = Instant::now();
    while writer.is_full() && writer.is_read() {
        writer.moved(Duration::from_millis(50)).await;
        let now = writer.unwritten();
        if std::mem::replace(&mut unwritten, now) > now {
            taken_at = Instant::now();
        } else if taken_at.elapsed() > STALLED && reader.is_at_its_end() {
            writer.give_up();
        }
    }
    writer.is_read()
}

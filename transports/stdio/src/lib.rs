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
use deskhand_core::{Conn, Input, Route};
use deskhand_driver::Driver;

use input::Reader;
use output::Writer;

/// A longer line is dropped and answered with an error.
pub const LINE_LIMIT: usize = 8 << 20;
/// At the end of input: how long answers in flight are waited for, and then written.
const ANSWERS: Duration = Duration::from_millis(600);
const WRITING: Duration = Duration::from_millis(200);
const ROUTE: Route = Route(0);

/// Serves one client until its input ends or nobody reads its output any more.
pub async fn serve(driver: Arc<Driver>, input: OwnedFd, output: OwnedFd, principal: &str) -> io::Result<()> {
    let mut reader = Reader::new(input)?;
    let writer = Writer::new(output)?;
    let conn = driver.open(principal, writer.clone());
    let flusher = tokio::spawn(writer.clone().run());
    let result = read_all(&driver, conn, &mut reader, &writer).await;
    driver.handle(Input::Ended { conn });
    driver.wait_until(ANSWERS, |core| core.in_flight(conn) == 0).await;
    writer.drained(WRITING).await;
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
        // A client that doesn't read isn't read from either.
        writer.writable_enough().await;
        if writer.is_broken() {
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
                writer.writable_enough().await;
                if writer.is_broken() {
                    return Ok(());
                }
            }
        }
        writer.flush();
    }
}

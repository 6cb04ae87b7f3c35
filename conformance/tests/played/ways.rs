//! The ways by which a trace's clients reach the driver: its own door, stdio, HTTP.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use deskhand_core::rpc::body::Body;
use deskhand_core::toolsets::desktop::DESKTOP;
use deskhand_core::{Carriage, Conn, Input, Route};
use deskhand_driver::{Driver, Sink};
use deskhand_http::{Doors, Limits, Listener, Mount, Tokens};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{Notify, watch};

use crate::posts::Web;

/// How many messages the core has taken.
#[derive(Clone)]
pub struct Taken(pub watch::Receiver<usize>);

impl Taken {
    pub fn count(&self) -> usize {
        *self.0.borrow()
    }

    pub async fn more_than(&self, before: usize) {
        let _ = self.0.clone().wait_for(|count| *count > before).await;
    }
}

#[derive(Default)]
pub struct Client {
    got: Mutex<VecDeque<Value>>,
    came: Notify,
}

impl Sink for Client {
    fn send(&self, _: Route, body: Body) {
        self.take(serde_json::from_slice(&body.to_vec()).unwrap());
    }

    fn close(&self) {}
}

impl Client {
    pub fn take(&self, message: Value) {
        self.got.lock().unwrap().push_back(message);
        self.came.notify_one();
    }

    pub async fn next(&self) -> Value {
        loop {
            if let Some(message) = self.got.lock().unwrap().pop_front() {
                return message;
            }
            tokio::time::timeout(Duration::from_secs(5), self.came.notified())
                .await
                .expect("an answer in five seconds");
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    Driver,
    Stdio,
    Http,
}

/// What the clients of one trace share.
pub enum Door {
    Driver(Arc<Driver>),
    Stdio(Arc<Driver>),
    /// A server with a token for each principal.
    Http {
        address: std::net::SocketAddr,
        tokens: BTreeMap<String, String>,
        _folder: tempfile::TempDir,
    },
}

/// A client's end of its connection.
pub enum End {
    Driver(Arc<Driver>, Conn),
    Stdio(OwnedWriteHalf),
    Http(Web),
}

impl Door {
    pub fn open(way: Way, driver: &Arc<Driver>, principals: &[String]) -> Self {
        match way {
            Way::Driver => Self::Driver(driver.clone()),
            Way::Stdio => Self::Stdio(driver.clone()),
            Way::Http => {
                let folder = tempfile::tempdir().unwrap();
                let file = Tokens::load_or_create(&folder.path().join("tokens")).unwrap();
                let named = |(i, principal): (usize, &String)| {
                    (
                        principal.clone(),
                        file.add(&format!("p{i}")).unwrap().expose().to_string(),
                    )
                };
                let tokens = principals.iter().enumerate().map(named).collect();
                let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
                let address = listener.local_addr().unwrap();
                let mount = Mount {
                    paths: vec!["/mcp".into()],
                    driver: driver.clone(),
                    toolset: &DESKTOP,
                };
                let doors = Doors {
                    tokens: Some(file),
                    ..Doors::default()
                };
                tokio::spawn(deskhand_http::serve(
                    vec![Listener::Tcp(listener)],
                    vec![mount],
                    doors,
                    Limits::default(),
                    std::future::pending(),
                ));
                Self::Http {
                    address,
                    tokens,
                    _folder: folder,
                }
            }
        }
    }

    pub fn connect(&self, principal: &str, client: &Arc<Client>) -> End {
        match self {
            Self::Driver(driver) => End::Driver(
                driver.clone(),
                driver.open(principal, Carriage::Stdio, client.clone()),
            ),
            Self::Stdio(driver) => End::Stdio(over_stdio(driver, principal, client)),
            Self::Http {
                address, tokens, ..
            } => End::Http(Web::new(
                *address,
                tokens[principal].clone(),
                client.clone(),
            )),
        }
    }
}

impl End {
    pub async fn send(&mut self, route: Route, bytes: Bytes, taken: &Taken) {
        match self {
            Self::Driver(driver, conn) => driver.handle(Input::Message {
                conn: *conn,
                route,
                bytes,
            }),
            Self::Stdio(stream) => {
                let mut line = bytes.to_vec();
                line.push(b'\n');
                stream.write_all(&line).await.unwrap();
            }
            Self::Http(web) => web.send(&bytes, taken).await,
        }
    }

    pub async fn close(self) {
        match self {
            Self::Driver(driver, conn) => driver.close(conn),
            // Dropping the writing half ends the server's input.
            Self::Stdio(_) => {}
            Self::Http(web) => web.close().await,
        }
    }
}

fn over_stdio(driver: &Arc<Driver>, principal: &str, client: &Arc<Client>) -> OwnedWriteHalf {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let (input, output) = (
        OwnedFd::from(theirs.try_clone().unwrap()),
        OwnedFd::from(theirs),
    );
    let (driver, principal) = (driver.clone(), principal.to_string());
    tokio::spawn(async move {
        deskhand_stdio::serve(driver, input, output, &principal, std::future::pending()).await
    });
    let (reading, writing) = tokio::net::UnixStream::from_std(ours).unwrap().into_split();
    let client = client.clone();
    tokio::spawn(async move {
        let mut lines = BufReader::new(reading).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            client.take(serde_json::from_str(&line).unwrap());
        }
    });
    writing
}

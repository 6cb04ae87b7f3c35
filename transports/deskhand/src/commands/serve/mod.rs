//! `deskhand serve`: serves clients over HTTP, on a TCP port, a Unix socket, or what systemd hands over.

mod sockets;

use std::process::ExitCode;
use std::time::Duration;

use deskhand_core::toolsets::desktop::DESKTOP;
use deskhand_http::{Doors, Limits, Listener, Mount, Tokens};

use super::signals::{asked_to_end, log_to_stderr};
use super::{Failed, print, recording, runtime};
use crate::cli::Serve;
use crate::edges::{Edges, Setting};
use crate::environment::Place;

/// How long giving the lease back may take at the end.
const ENDING: Duration = Duration::from_millis(400);
const PATHS: [&str; 2] = ["/mcp", "/mcp/desktop"];

pub fn run(place: Place, options: Serve) -> Result<ExitCode, Failed> {
    log_to_stderr();
    let listening = sockets::open(&options)?;
    let doors = doors(&place, &options, &listening)?;
    let tap = options.record.as_deref().map(|file| recording::start(&place, file)).transpose()?;
    runtime()?.block_on(async move {
        let edges = Edges::start(place, Setting { audit: true, acts: true, tap });
        let mount = Mount { paths: PATHS.map(str::to_string).to_vec(), driver: edges.driver.clone(), toolset: &DESKTOP };
        for place in listening.places() {
            print(&format!("{place}\n"))?;
        }
        let served = deskhand_http::serve(listening.listeners, vec![mount], doors, Limits::default(), asked_to_end()).await;
        edges.end(ENDING).await;
        drop(listening.files);
        served.map_err(|e| Failed::Not(format!("serving failed: {e}")))
    })?;
    // Threads that wait for a hung compositor must not keep the process.
    std::process::exit(0);
}

fn doors(place: &Place, options: &Serve, listening: &sockets::Listening) -> Result<Doors, Failed> {
    let on_tcp = listening.listeners.iter().any(|l| matches!(l, Listener::Tcp(_)));
    if options.no_auth && on_tcp {
        return Err(Failed::Usage(
            "--no-auth would let every user of this machine drive the desktop by TCP; give --unix PATH, whose file mode is the door, or leave --no-auth out".into(),
        ));
    }
    if let Some(remote) = listening.remote()
        && !options.allow_remote
    {
        return Err(Failed::Usage(format!(
            "{remote} can be reached from other machines, and the token would travel unencrypted; put a reverse proxy with TLS before a loopback address, or say --allow-remote"
        )));
    }
    let tokens = if options.no_auth { None } else { Some(Tokens::load_or_create(&super::token::file(place)).map_err(super::token::failed)?) };
    if tokens.as_ref().is_some_and(|t| t.names().is_empty()) {
        eprintln!("deskhand: there is no token, so nobody is admitted; `deskhand token add NAME` makes one");
    }
    Ok(Doors {
        tokens,
        allowed_hosts: options.allow_host.clone(),
        allowed_origins: options.allow_origin.clone(),
        authorization_server: options.authorization_server.clone(),
        requests_per_minute: options.requests_per_minute,
    })
}

//! `deskhand try`: an agent's session on a private headless desktop, shown as it happens. Nothing of the person's own
//! desktop is touched, and all that was started is ended.

mod client;
mod desk;
mod packages;
mod picture;
mod processes;
mod story;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use self::desk::Desk;
use super::Failed;

pub use self::processes::child;

pub fn run(out: Option<PathBuf>, no_install: bool) -> Result<ExitCode, Failed> {
    let interrupt = Interrupt::on_signals()?;
    let pictures = out.unwrap_or_else(std::env::temp_dir);
    packages::provide(no_install).map_err(Failed::Not)?;
    let began = Instant::now();
    say("A private headless desktop; nothing of yours is touched.\n");
    let mut desk = Desk::start(&interrupt).map_err(Failed::Not)?;
    say(&format!("sway, a session bus and a policy of its own, in {}\n\n", desk.base().display()));
    let told = story::tell(&mut desk, &interrupt, &pictures);
    let log = desk.logs();
    desk.end();
    match told {
        Ok(picture) => {
            say(&format!("\nAll of it worked, in {:.1} s.\nThe screenshot: {}\n", began.elapsed().as_secs_f64(), picture.display()));
            Ok(ExitCode::SUCCESS)
        }
        Err(why) if interrupt.came() => Err(Failed::Not(format!("interrupted; all that was started is ended ({why})"))),
        Err(why) => Err(Failed::Not(format!("failed: {why}{log}"))),
    }
}

/// To stdout, whether or not somebody still reads it: what was started must be ended all the same.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Ctrl+C, SIGTERM or SIGHUP.
#[derive(Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    fn on_signals() -> Result<Self, Failed> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, flag.clone()).map_err(|e| Failed::Not(format!("signals can't be caught: {e}")))?;
        }
        Ok(Self(flag))
    }

    pub fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub fn check(&self) -> Result<(), String> {
        if self.came() { Err("a signal came".into()) } else { Ok(()) }
    }

    /// The first value that `look` gives, or an error that says what didn't come in time.
    pub fn wait<T>(&self, what: &str, limit: Duration, mut look: impl FnMut() -> Result<Option<T>, String>) -> Result<T, String> {
        let end = Instant::now() + limit;
        loop {
            self.check()?;
            if let Some(found) = look()? {
                return Ok(found);
            }
            if Instant::now() > end {
                return Err(format!("{what} didn't come within {} s", limit.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

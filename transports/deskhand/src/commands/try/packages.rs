//! What the private desktop needs of this machine, and installing what is missing.

use std::path::Path;
use std::process::{Command, Stdio};

use super::say;
use crate::commands::doctor::distribution::{Distribution, Mend};

/// Where the desktop's programs are looked for.
pub const SEARCH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A GTK 3 text editor that needs no service beside it.
pub const EDITOR: &str = "l3afpad";

struct Need {
    what_for: &'static str,
    there: fn() -> bool,
    debian: &'static str,
    arch: &'static str,
    fedora: &'static str,
}

const NEEDS: &[Need] = &[
    Need { what_for: "the desktop", there: || has("sway"), debian: "sway", arch: "sway", fedora: "sway" },
    Need { what_for: "its terminal", there: || has("foot"), debian: "foot", arch: "foot", fedora: "foot" },
    Need { what_for: "its GTK app, a text editor", there: || has(EDITOR), debian: EDITOR, arch: EDITOR, fedora: EDITOR },
    Need { what_for: "its session bus", there: || has("dbus-daemon"), debian: "dbus-daemon", arch: "dbus", fedora: "dbus-daemon" },
    Need {
        what_for: "letters to draw",
        there: || fonts(Path::new("/usr/share/fonts"), 4) || fonts(Path::new("/usr/local/share/fonts"), 4),
        debian: "fonts-dejavu-core",
        arch: "ttf-dejavu",
        fedora: "dejavu-sans-mono-fonts",
    },
];

/// Sees to it that all is there. The error says what is missing and which command installs it.
pub fn provide(no_install: bool) -> Result<(), String> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = missing.iter().map(|need| format!("  {:<18}{}", need.debian, need.what_for)).collect();
    let here = Distribution::here();
    let names = |of: fn(&Need) -> &'static str| missing.iter().map(|need| of(need)).collect::<Vec<_>>();
    let debian = names(|need| need.debian);
    if here != Distribution::Debian {
        let mend = Mend::packages(debian.join(" "), names(|need| need.arch).join(" "), names(|need| need.fedora).join(" "));
        let commands: Vec<String> = mend
            .commands(here)
            .into_iter()
            .map(|(on, command)| format!("  {:<8}{command}", on.map_or(String::new(), |on| format!("{}:", on.name()))))
            .collect();
        return Err(format!("these are missing on this machine:\n{}\ninstall them and try again:\n{}", list.join("\n"), commands.join("\n")));
    }
    let by_hand = format!("sudo apt-get install --no-install-recommends {}", debian.join(" "));
    if no_install {
        return Err(format!("these packages are missing:\n{}\ninstall them:\n  {by_hand}", list.join("\n")));
    }
    let Some(sudo) = privileges() else {
        return Err(format!(
            "these packages are missing, and only root can install them (sudo isn't there, or asks for a password):\n{}\ninstall them and try again:\n  {by_hand}",
            list.join("\n")
        ));
    };
    say(&format!("These packages are missing and are installed now, which can take a minute:\n{}\n\n", list.join("\n")));
    install(sudo, &debian)?;
    match self::missing().first() {
        None => Ok(()),
        Some(need) => Err(format!("{} was installed, and yet {} isn't there", need.debian, need.what_for)),
    }
}

fn missing() -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| !(need.there)()).collect()
}

fn has(program: &str) -> bool {
    SEARCH.split(':').any(|dir| Path::new(dir).join(program).is_file())
}

/// Whether a font's file is somewhere below.
fn fonts(dir: &Path, depth: u32) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_font = |path: &Path| path.extension().is_some_and(|e| e.eq_ignore_ascii_case("ttf") || e.eq_ignore_ascii_case("otf") || e.eq_ignore_ascii_case("ttc"));
    entries.map(|entry| entry.path()).any(|path| is_font(&path) || (depth > 0 && path.is_dir() && fonts(&path, depth - 1)))
}

/// What goes before a command that needs root; nothing for root.
fn privileges() -> Option<&'static [&'static str]> {
    if rustix::process::geteuid().is_root() {
        return Some(&[]);
    }
    let sudo = Command::new("sudo").args(["-n", "true"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    sudo.is_ok_and(|status| status.success()).then_some(&["sudo", "-n"])
}

fn install(sudo: &[&str], packages: &[&str]) -> Result<(), String> {
    let mut command = vec!["apt-get", "install", "-y", "-qq", "-o", "DPkg::Lock::Timeout=120", "--no-install-recommends"];
    command.extend(packages);
    if lists_are_there() && run(sudo, &command).is_ok() {
        return Ok(());
    }
    // Without lists, or with old ones, nothing is found.
    run(sudo, &["apt-get", "update", "-qq"])?;
    run(sudo, &command)
}

fn lists_are_there() -> bool {
    let entries = std::fs::read_dir("/var/lib/apt/lists").into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().contains("_Packages"))
}

fn run(sudo: &[&str], command: &[&str]) -> Result<(), String> {
    let all: Vec<&str> = sudo.iter().chain(["env", "DEBIAN_FRONTEND=noninteractive"].iter()).chain(command).copied().collect();
    let shown = sudo.iter().chain(command).copied().collect::<Vec<_>>().join(" ");
    say(&format!("$ {shown}\n"));
    // What goes wrong is on stderr.
    match Command::new(all[0]).args(&all[1..]).stdin(Stdio::null()).stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` failed ({status})")),
        Err(e) => Err(format!("`{shown}` can't be started: {e}")),
    }
}

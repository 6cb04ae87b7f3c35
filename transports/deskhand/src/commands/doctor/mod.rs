//! `deskhand doctor`: whether this machine has all that the server needs, each finding with what mends it.

mod checks;
pub mod distribution;

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::{Value, json};

use self::distribution::{Distribution, Mend};
use super::{Failed, print};
use crate::environment::Place;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Ok,
    /// The server works, and something is worth knowing.
    Warning,
    /// Without it the server can't look or can't act.
    Missing,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Missing => "missing",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Finding {
    pub name: &'static str,
    pub level: Level,
    pub detail: String,
    pub mend: Option<Mend>,
}

impl Finding {
    pub fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, level: Level::Ok, detail: detail.into(), mend: None }
    }

    pub fn warning(name: &'static str, detail: impl Into<String>, mend: Mend) -> Self {
        Self { name, level: Level::Warning, detail: detail.into(), mend: Some(mend) }
    }

    pub fn missing(name: &'static str, detail: impl Into<String>, mend: Mend) -> Self {
        Self { name, level: Level::Missing, detail: detail.into(), mend: Some(mend) }
    }
}

pub fn run(place: Result<Place, Failed>, as_json: bool) -> Result<ExitCode, Failed> {
    let here = Distribution::here();
    let findings = match place {
        Ok(place) => checks::all(&place),
        Err(why) => vec![Finding::missing("Home", why.to_string(), Mend::told("log in as a user with a home directory"))],
    };
    let ready = findings.iter().all(|f| f.level != Level::Missing);
    print(&if as_json { format!("{:#}\n", told(&findings, here, ready)) } else { for_a_person(&findings, here) })?;
    Ok(if ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn told(findings: &[Finding], here: Distribution, ready: bool) -> Value {
    let finding = |f: &Finding| {
        let mend: Vec<Value> =
            f.mend.iter().flat_map(|m| m.commands(here)).map(|(on, what)| json!({"on": on.map(Distribution::name), "do": what})).collect();
        json!({"name": f.name, "level": f.level.word(), "detail": f.detail, "mend": mend})
    };
    json!({"ready": ready, "distribution": here.name(), "findings": findings.iter().map(finding).collect::<Vec<_>>()})
}

fn for_a_person(findings: &[Finding], here: Distribution) -> String {
    const LEVEL: usize = 9;
    let name = findings.iter().map(|f| f.name.len()).max().unwrap_or(0) + 2;
    let mut out = String::new();
    for f in findings {
        let _ = writeln!(out, "{:<LEVEL$}{:<name$}{}", f.level.word(), f.name, f.detail);
        for (on, what) in f.mend.iter().flat_map(|m| m.commands(here)) {
            let on = on.map_or(String::new(), |on| format!("{:<8}", format!("{}:", on.name())));
            let _ = writeln!(out, "{:indent$}-> {on}{what}", "", indent = LEVEL + name);
        }
    }
    let missing = findings.iter().filter(|f| f.level == Level::Missing).count();
    out.push_str(&match missing {
        0 => "\nNothing essential is missing.\n".to_string(),
        1 => "\nOne essential thing is missing.\n".to_string(),
        n => format!("\n{n} essential things are missing.\n"),
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Vec<Finding> {
        vec![
            Finding::ok("Runtime directory", "/run/user/1000"),
            Finding::missing("Compositor", "none runs", Mend::packages("sway", "niri", "niri")),
            Finding::warning("Stop flag", "set", Mend::told("deskhand resume")),
        ]
    }

    #[test]
    fn the_own_distributions_command_comes_first() {
        let text = for_a_person(&findings(), Distribution::Fedora);
        let order: Vec<usize> = ["dnf", "apt", "pacman"].iter().map(|w| text.find(w).unwrap()).collect();
        assert!(order.is_sorted(), "{text}");
        assert!(text.contains("One essential thing is missing."));
        assert!(text.contains("-> deskhand resume"));
        assert!(text.lines().all(|line| line.len() < 100), "{text}");
    }

    #[test]
    fn json_has_the_same_facts() {
        let json = told(&findings(), Distribution::Debian, false);
        assert_eq!(json["ready"], false);
        assert_eq!(json["findings"][1]["level"], "missing");
        assert_eq!(json["findings"][1]["mend"][0], json!({"on": "Debian", "do": "sudo apt install sway"}));
        assert_eq!(json["findings"][0]["mend"], json!([]));
    }
}

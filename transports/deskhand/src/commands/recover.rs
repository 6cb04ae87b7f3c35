//! `deskhand recover`: shows what a dead server left pressed, releases it, and forgets it once a person said yes.

use std::fmt::Write as _;
use std::io::BufRead;
use std::process::ExitCode;

use deskhand_core::engine::world::rfc3339;
use deskhand_ports::Pressed;
use deskhand_session::{Unfinished, clear_unfinished, unfinished};

use super::{Failed, print};
use crate::environment::Place;

pub fn run(place: &Place) -> Result<ExitCode, Failed> {
    let paths = place.current_paths()?;
    let socket = place.sockets.wayland_socket().map_err(Failed::Unreachable)?;
    let Some(left) = unfinished(&paths) else {
        print("Nothing to recover: no server left input unfinished on this desktop.\n")?;
        return Ok(ExitCode::SUCCESS);
    };
    print(&told(&left))?;
    match deskhand_wayland::release_pressed(&socket, &to_release(&left)) {
        Ok(()) => print("Released.\n\n")?,
        Err(why) => print(&format!("It could not be released: {why}.\nPress and release each of these yourself before you go on.\n\n"))?,
    }
    print("Is nothing held down any more? Type yes to clear this and let agents act again: ")?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(|e| Failed::Not(format!("the answer can't be read: {e}")))?;
    if answer.trim() != "yes" {
        return Err(Failed::Not("not cleared; until it is, no agent acts on this desktop".into()));
    }
    clear_unfinished(&paths).map_err(Failed::File)?;
    print("Cleared.\n")?;
    Ok(ExitCode::SUCCESS)
}

fn told(left: &Unfinished) -> String {
    let who = if left.server_pid == 0 { "A server".to_string() } else { format!("The server with process id {}", left.server_pid) };
    let when = if left.at_wall_ms == 0 { String::new() } else { format!(" at {}", rfc3339(left.at_wall_ms)) };
    let mut out = format!("{who} died{when} and left held down:\n");
    for what in &left.pressed {
        let _ = writeln!(out, "  - {}", name(*what));
    }
    if left.pressed.is_empty() {
        out.push_str("  - what, isn't known\n");
    }
    let _ = writeln!(out, "Its guard could not release it: {}.\n", left.reason.trim_end_matches('.'));
    out
}

/// Of what isn't known, the modifiers at least can be cleared.
fn to_release(left: &Unfinished) -> Vec<Pressed> {
    if left.pressed.is_empty() { vec![Pressed::Modifiers(0)] } else { left.pressed.clone() }
}

fn name(what: Pressed) -> String {
    match what {
        Pressed::Key(code) => format!("the key with code {code}"),
        Pressed::Modifiers(mask) => format!("the modifiers {}", modifiers(mask)),
        Pressed::Button(0x110) => "the left mouse button".into(),
        Pressed::Button(0x111) => "the right mouse button".into(),
        Pressed::Button(0x112) => "the middle mouse button".into(),
        Pressed::Button(code) => format!("the mouse button with code {code:#x}"),
    }
}

/// XKB's real modifiers, in the order of their bits.
fn modifiers(mask: u32) -> String {
    const NAMES: [&str; 8] = ["Shift", "Caps Lock", "Ctrl", "Alt", "Num Lock", "Mod3", "Super", "AltGr"];
    let held: Vec<&str> = NAMES.iter().enumerate().filter(|(bit, _)| mask & (1 << bit) != 0).map(|(_, name)| *name).collect();
    if held.is_empty() { format!("{mask:#x}") } else { held.join("+") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_told_in_words() {
        let left = Unfinished {
            server_pid: 42,
            at_wall_ms: 1_700_000_000_000,
            pressed: vec![Pressed::Key(30), Pressed::Modifiers(0b100_0101), Pressed::Button(0x110)],
            reason: "the compositor doesn't answer; it may hang".into(),
        };
        let text = told(&left);
        for expected in ["process id 42", "2023-11-14T22:13:20", "code 30", "Shift+Ctrl+Super", "left mouse button", "may hang."] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert_eq!(to_release(&left), left.pressed);
    }

    #[test]
    fn of_an_unreadable_record_the_modifiers_are_cleared() {
        let left = Unfinished { server_pid: 0, at_wall_ms: 0, pressed: Vec::new(), reason: "the record can't be read".into() };
        assert!(told(&left).contains("isn't known"));
        assert_eq!(to_release(&left), [Pressed::Modifiers(0)]);
    }
}

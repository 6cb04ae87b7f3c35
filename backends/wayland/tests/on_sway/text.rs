//! Typed text arrives exactly, whatever the person's layout is.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use deskhand_core::desktop::effect::{FailureKind, Reply, SeatRequest};

use crate::Rig;
use crate::session::{Session, wait_for};

const MIXED: &str = "héllo Wörld привет 日本 😀 {}[]|~ ?!\"'\\";

fn ascii(length: usize) -> String {
    (' '..='~').cycle().take(length).collect()
}

fn many_symbols() -> String {
    (0x4e00..0x4e00 + 230).filter_map(char::from_u32).collect()
}

fn type_text(rig: &Rig, text: &str, submit: bool) -> Duration {
    let begun = Instant::now();
    let outcome = rig.act(SeatRequest::Text {
        text: text.into(),
        submit,
    });
    assert_eq!(
        outcome,
        Ok(Reply::Typed {
            characters: text.chars().count()
        })
    );
    begun.elapsed()
}

fn wait_text(path: &PathBuf, expected: &str) {
    let until = Instant::now() + Duration::from_secs(10);
    let read = || std::fs::read_to_string(path).unwrap_or_default();
    while read() != expected && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(read(), expected);
}

#[test]
fn in_a_terminal_under_three_layouts() {
    for layout in ["us", "de", "fr"] {
        let Some(mut session) = Session::start(&format!("input * xkb_layout {layout}")) else {
            return;
        };
        let rig = Rig::on(&session);
        rig.open();
        let file = session.path("typed");
        let mut foot = session.command("foot");
        foot.args(["--app-id=foot", "sh", "-c"]).arg(format!(
            "stty -icanon -echo; touch {0}; cat > {0}",
            file.display()
        ));
        session.spawn(foot);
        session.wait_focused("foot");
        wait_for("the reader", || file.exists());
        type_text(&rig, MIXED, true);
        let mut expected = format!("{MIXED}\n");
        wait_text(&file, &expected);
        let took = type_text(&rig, &ascii(500), true);
        eprintln!("{layout}: 500 characters in {took:?}");
        expected += &format!("{}\n", ascii(500));
        wait_text(&file, &expected);
        assert!(
            took < Duration::from_millis(200),
            "wtype takes 10 s, this took {took:?}"
        );
        type_text(&rig, &many_symbols(), false);
        expected += &many_symbols();
        wait_text(&file, &expected);
        assert_eq!(rig.log.down(), [], "all that was journaled is released");
        assert_intact(&session, &rig, &file, &expected, layout);
    }
}

/// What the person's own keyboard types afterwards: another virtual keyboard stands for it, with wtype's keymap.
fn assert_intact(session: &Session, rig: &Rig, file: &PathBuf, so_far: &str, layout: &str) {
    let status = session.command("wtype").arg("yzß").status().unwrap();
    assert!(status.success());
    let mut expected = format!("{so_far}yzß");
    wait_text(file, &expected);
    type_text(rig, "zyü", false);
    expected += "zyü";
    wait_text(file, &expected);
    let inputs = session.swaymsg(&["-t", "get_inputs", "-r"]);
    assert!(
        !inputs.contains("\"xkb_active_layout_name\": null"),
        "{layout}: {inputs}"
    );
}

#[test]
fn in_text_fields_of_both_gtk_generations() {
    for (version, layout) in [
        ("3", "us"),
        ("4", "us"),
        ("3", "de"),
        ("4", "de"),
        ("3", "fr"),
        ("4", "fr"),
    ] {
        let Some(mut session) = Session::start(&format!("input * xkb_layout {layout}")) else {
            return;
        };
        let there = Command::new("/usr/bin/python3")
            .args([
                "-c",
                &format!("import gi; gi.require_version('Gtk', '{version}.0')"),
            ])
            .status();
        if !there.is_ok_and(|status| status.success()) {
            eprintln!("skipped: GTK {version} for Python is not installed");
            continue;
        }
        let rig = Rig::on(&session);
        rig.open();
        let file = session.path("entry");
        let mut entry = session.command("/usr/bin/python3");
        entry
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/on_sway/entry.py"
            ))
            .arg(version)
            .arg(&file);
        session.spawn(entry);
        session.wait_focused(&format!("org.deskhand.Entry{version}"));
        wait_for("the text field", || file.exists());
        let text = format!("{MIXED}\t{}\n{}", ascii(500), many_symbols());
        let took = type_text(&rig, &text, true);
        eprintln!(
            "GTK {version} {layout}: {} characters in {took:?}",
            text.chars().count()
        );
        wait_text(&file, &format!("{text}\n"));
    }
}

#[test]
fn what_no_keyboard_has_is_refused_before_the_first_key() {
    let Some(session) = Session::start("") else {
        return;
    };
    let rig = Rig::on(&session);
    rig.open();
    let before = rig.seat.requests_written();
    let error = rig
        .act(SeatRequest::Text {
            text: "fine\u{1b}[2J".into(),
            submit: true,
        })
        .unwrap_err();
    assert_eq!(
        (error.kind, error.typed),
        (FailureKind::Unmappable, Some(0))
    );
    assert_eq!(rig.seat.requests_written(), before);
}

//! Key combinations: `ctrl+shift+t`, `Return`, `alt+F4`, `+`.

use crate::desktop::effect::{Chord, Modifiers};

/// Reads one combination: modifiers joined by `+`, then an XKB keysym name, a common name or one character.
pub fn parse(text: &str) -> Result<Chord, String> {
    let mut modifiers = Modifiers::default();
    let mut rest = text;
    loop {
        // A `+` at the end or alone is the key itself.
        let (head, tail) = match rest.find('+') {
            Some(at) if at > 0 && at + 1 < rest.len() => (&rest[..at], Some(&rest[at + 1..])),
            _ => (rest, None),
        };
        let modifier = modifier_named(head);
        match (modifier, tail) {
            (Some(set), Some(tail)) => {
                set(&mut modifiers);
                rest = tail;
            }
            (Some(set), None) => {
                set(&mut modifiers);
                return Ok(Chord { modifiers, keysym: None });
            }
            (None, None) => {
                let keysym = keysym(head).ok_or_else(|| format!("{text:?}: {head:?} is no key; use an XKB keysym name such as Return, F5, Left or comma, or one character"))?;
                return Ok(Chord { modifiers, keysym: Some(keysym) });
            }
            (None, Some(_)) => {
                return Err(format!("{text:?}: {head:?} is no modifier; they are ctrl, shift, alt and super"));
            }
        }
    }
}

fn modifier_named(name: &str) -> Option<fn(&mut Modifiers)> {
    Some(match name.to_ascii_lowercase().as_str() {
        "ctrl" | "control" | "control_l" => |m| m.ctrl = true,
        "shift" | "shift_l" => |m| m.shift = true,
        "alt" | "alt_l" | "option" => |m| m.alt = true,
        "super" | "super_l" | "meta" | "logo" | "win" | "mod4" | "cmd" => |m| m.super_ = true,
        _ => return None,
    })
}

pub fn modifiers(names: &[&str]) -> Modifiers {
    let mut modifiers = Modifiers::default();
    for set in names.iter().filter_map(|n| modifier_named(n)) {
        set(&mut modifiers);
    }
    modifiers
}

/// An XKB keysym by its name, a common name, or a character.
pub fn keysym(name: &str) -> Option<u32> {
    let mut chars = name.chars();
    if let (Some(c), None) = (chars.next(), chars.next()) {
        return char_keysym(c);
    }
    if let Some(found) = NAMED.iter().find(|(known, _)| *known == name).or_else(|| NAMED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))) {
        return Some(found.1);
    }
    if let Some(n) = name.strip_prefix(['F', 'f']).and_then(|n| n.parse::<u32>().ok()).filter(|n| (1..=24).contains(n)) {
        return Some(0xffbe + n - 1);
    }
    if let Some(n) = name.strip_prefix("KP_").and_then(|n| n.parse::<u32>().ok()).filter(|n| *n <= 9) {
        return Some(0xffb0 + n);
    }
    let code = name.strip_prefix(['U', 'u']).filter(|hex| hex.len() >= 4).and_then(|hex| u32::from_str_radix(hex, 16).ok())?;
    char_keysym(char::from_u32(code)?)
}

/// Latin-1 stands for itself; other characters have the Unicode range.
pub fn char_keysym(c: char) -> Option<u32> {
    let code = u32::from(c);
    match code {
        0x0a | 0x0d => Some(0xff0d),
        0x09 => Some(0xff09),
        0x20..=0x7e | 0xa0..=0xff => Some(code),
        _ if c.is_control() => None,
        _ => Some(0x0100_0000 + code),
    }
}

/// Whether the combination names keys rather than typing a character: only such may stand in the audit log.
pub fn is_named(text: &str) -> bool {
    let Ok(chord) = parse(text) else { return false };
    let commands = chord.modifiers.ctrl || chord.modifiers.alt || chord.modifiers.super_;
    commands || chord.keysym.is_none_or(|k| (0xfe00..0x0100_0000).contains(&k) || k > 0x0111_0000)
}

/// The combination in one spelling, lower case, modifiers in fixed order: `ctrl+alt+shift+super+key`.
pub fn normal(chord: &Chord) -> String {
    let m = chord.modifiers;
    let mut parts: Vec<String> = [(m.ctrl, "ctrl"), (m.alt, "alt"), (m.shift, "shift"), (m.super_, "super")]
        .iter()
        .filter(|(held, _)| *held)
        .map(|(_, name)| (*name).to_string())
        .collect();
    parts.extend(chord.keysym.map(key_name));
    parts.join("+")
}

fn key_name(keysym: u32) -> String {
    if let 0xffbe..=0xffd5 = keysym {
        return format!("f{}", keysym - 0xffbe + 1);
    }
    if let Some((name, _)) = NAMED.iter().find(|(_, k)| *k == keysym) {
        return name.to_ascii_lowercase();
    }
    let code = if keysym > 0x0100_0000 { keysym - 0x0100_0000 } else { keysym };
    char::from_u32(code).map_or_else(|| format!("{keysym:#x}"), |c| c.to_lowercase().collect())
}

/// XKB's name first where a key has several.
const NAMED: &[(&str, u32)] = &[
    ("Return", 0xff0d), ("Enter", 0xff0d), ("Escape", 0xff1b), ("Esc", 0xff1b), ("Tab", 0xff09), ("ISO_Left_Tab", 0xfe20), ("BackSpace", 0xff08),
    ("Delete", 0xffff), ("Del", 0xffff), ("Insert", 0xff63), ("Ins", 0xff63), ("Home", 0xff50), ("End", 0xff57),
    ("Page_Up", 0xff55), ("Prior", 0xff55), ("PageUp", 0xff55), ("PgUp", 0xff55), ("Page_Down", 0xff56), ("Next", 0xff56), ("PageDown", 0xff56), ("PgDn", 0xff56),
    ("Left", 0xff51), ("Up", 0xff52), ("Right", 0xff53), ("Down", 0xff54), ("space", 0x20), ("Menu", 0xff67), ("Print", 0xff61), ("PrintScreen", 0xff61),
    ("Pause", 0xff13), ("Scroll_Lock", 0xff14), ("Caps_Lock", 0xffe5), ("Num_Lock", 0xff7f), ("Sys_Req", 0xff15), ("Clear", 0xff0b), ("Help", 0xff6a),
    ("Undo", 0xff65), ("Redo", 0xff66), ("Find", 0xff68), ("Cancel", 0xff69), ("Multi_key", 0xff20), ("ISO_Level3_Shift", 0xfe03), ("AltGr", 0xfe03),
    ("KP_Enter", 0xff8d), ("KP_Add", 0xffab), ("KP_Subtract", 0xffad), ("KP_Multiply", 0xffaa), ("KP_Divide", 0xffaf), ("KP_Decimal", 0xffae),
    ("exclam", 0x21), ("quotedbl", 0x22), ("numbersign", 0x23), ("dollar", 0x24), ("percent", 0x25), ("ampersand", 0x26), ("apostrophe", 0x27),
    ("parenleft", 0x28), ("parenright", 0x29), ("asterisk", 0x2a), ("plus", 0x2b), ("comma", 0x2c), ("minus", 0x2d), ("period", 0x2e), ("slash", 0x2f),
    ("colon", 0x3a), ("semicolon", 0x3b), ("less", 0x3c), ("equal", 0x3d), ("greater", 0x3e), ("question", 0x3f), ("at", 0x40),
    ("bracketleft", 0x5b), ("backslash", 0x5c), ("bracketright", 0x5d), ("asciicircum", 0x5e), ("underscore", 0x5f), ("grave", 0x60),
    ("braceleft", 0x7b), ("bar", 0x7c), ("braceright", 0x7d), ("asciitilde", 0x7e),
    ("adiaeresis", 0xe4), ("odiaeresis", 0xf6), ("udiaeresis", 0xfc), ("ssharp", 0xdf), ("eacute", 0xe9), ("egrave", 0xe8), ("agrave", 0xe0), ("ccedilla", 0xe7),
    ("EuroSign", 0x0100_20ac), ("section", 0xa7), ("degree", 0xb0),
    ("XF86AudioRaiseVolume", 0x1008_ff13), ("XF86AudioLowerVolume", 0x1008_ff11), ("XF86AudioMute", 0x1008_ff12), ("XF86AudioMicMute", 0x1008_ffb2),
    ("XF86AudioPlay", 0x1008_ff14), ("XF86AudioStop", 0x1008_ff15), ("XF86AudioPrev", 0x1008_ff16), ("XF86AudioNext", 0x1008_ff17),
    ("XF86MonBrightnessUp", 0x1008_ff02), ("XF86MonBrightnessDown", 0x1008_ff03), ("XF86Back", 0x1008_ff26), ("XF86Forward", 0x1008_ff27),
    ("XF86Reload", 0x1008_ff29), ("XF86Search", 0x1008_ff1b), ("XF86HomePage", 0x1008_ff18), ("XF86Copy", 0x1008_ff57), ("XF86Cut", 0x1008_ff58), ("XF86Paste", 0x1008_ff6d),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations() {
        let m = |ctrl, shift, alt, super_| Modifiers { shift, ctrl, alt, super_ };
        for (text, modifiers, keysym) in [
            ("ctrl+shift+t", m(true, true, false, false), Some(0x74)),
            ("Return", m(false, false, false, false), Some(0xff0d)),
            ("alt+F4", m(false, false, true, false), Some(0xffc1)),
            ("+", m(false, false, false, false), Some(0x2b)),
            ("ctrl++", m(true, false, false, false), Some(0x2b)),
            ("super", m(false, false, false, true), None),
            ("Ctrl+page_down", m(true, false, false, false), Some(0xff56)),
            ("é", m(false, false, false, false), Some(0xe9)),
            ("U20AC", m(false, false, false, false), Some(0x0100_20ac)),
            ("KP_7", m(false, false, false, false), Some(0xffb7)),
        ] {
            assert_eq!(parse(text), Ok(Chord { modifiers, keysym }), "{text}");
        }
        for bad in ["", "ctrl+", "hyper+t", "ctrl+nokey", "+t", "F25", "ctrl+\u{7}"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(normal(&parse("Shift+CTRL+T").unwrap()), "ctrl+shift+t");
    }

    #[test]
    fn only_names_may_be_logged() {
        for named in ["ctrl+c", "Return", "F5", "shift+Tab", "super", "XF86AudioMute"] {
            assert!(is_named(named), "{named}");
        }
        for typed in ["a", "A", "shift+a", "é", "日", "comma", "U65E5", "space"] {
            assert!(!is_named(typed), "{typed}");
        }
    }
}

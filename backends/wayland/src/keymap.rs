//! Keymaps of our own: the US layout, with what a text needs besides on its third and fourth levels.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::layout::{ALIASES, Key, PRINTED, RETURN, SPARE_OTHER, SPARE_PRINTED, TAB, keys};

pub(crate) const SHIFT: u32 = 1;
pub(crate) const CTRL: u32 = 1 << 2;
pub(crate) const ALT: u32 = 1 << 3;
pub(crate) const SUPER: u32 = 1 << 6;
/// Mod5, the level-three shift.
const LEVEL3: u32 = 1 << 7;

/// How many symbols beyond the US layout's one keymap holds.
pub(crate) const MOST_EXTRAS: usize = PRINTED.len() * 2;

/// What to press: an evdev code while these modifiers are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stroke {
    pub code: u32,
    pub modifiers: u32,
}

/// What distinguishes one of our keymaps from another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keymap {
    /// Keysyms on the printed keys' third, then fourth levels; sorted, so that their order tells nothing of the text.
    extras: Vec<u32>,
    /// A keysym that stands on a spare key, for one chord.
    spare: Option<(u32, u32)>,
}

impl Keymap {
    /// With these characters besides the US layout's own; at most [`MOST_EXTRAS`] of them.
    pub fn with_extras(extras: &BTreeSet<char>) -> Self {
        Self {
            extras: extras
                .iter()
                .take(MOST_EXTRAS)
                .map(|&c| keysym_of(c))
                .collect(),
            spare: None,
        }
    }

    /// With this keysym on a spare key.
    pub fn with_spare(keysym: u32) -> Self {
        let key = if printable(keysym) {
            &SPARE_PRINTED
        } else {
            &SPARE_OTHER
        };
        Self {
            extras: Vec::new(),
            spare: Some((key.code, keysym)),
        }
    }

    /// How to type the character with this keymap.
    pub fn character(&self, c: char) -> Option<Stroke> {
        match c {
            '\n' => {
                return Some(Stroke {
                    code: RETURN,
                    modifiers: 0,
                });
            }
            '\t' => {
                return Some(Stroke {
                    code: TAB,
                    modifiers: 0,
                });
            }
            _ => {}
        }
        if let Some(stroke) = us_character(c) {
            return Some(stroke);
        }
        let at = self
            .extras
            .iter()
            .position(|&extra| extra == keysym_of(c))?;
        let (key, level) = (&PRINTED[at % PRINTED.len()], at / PRINTED.len());
        Some(Stroke {
            code: key.code,
            modifiers: if level == 0 { LEVEL3 } else { LEVEL3 | SHIFT },
        })
    }

    /// How to press the keysym with this keymap, with the Shift that it takes.
    pub fn keysym(&self, keysym: u32) -> Option<Stroke> {
        if let Some((code, spare)) = self.spare
            && spare == keysym
        {
            return Some(Stroke { code, modifiers: 0 });
        }
        // The spare keys' own symbols stand on other keys too (or, for F24, only while it isn't lent).
        let own = |key: &&Key| {
            key.code != SPARE_PRINTED.code && self.spare.is_none_or(|(code, _)| code != key.code)
        };
        let find = |wanted: fn(&Key) -> u32, modifiers| {
            let key = keys().filter(own).find(|key| wanted(key) == keysym)?;
            Some(Stroke {
                code: key.code,
                modifiers,
            })
        };
        let alias = ALIASES
            .iter()
            .find(|(alias, _)| *alias == keysym)
            .map(|&(_, code)| Stroke { code, modifiers: 0 });
        find(|key| key.plain, 0)
            .or_else(|| find(|key| key.shifted, SHIFT))
            .or(alias)
    }

    /// The keymap in XKB's text format, complete in itself.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(12 << 10);
        text.push_str("xkb_keymap \"deskhand\" {\nxkb_keycodes \"deskhand\" {\nminimum = 8;\nmaximum = 255;\n");
        for key in keys() {
            let _ = writeln!(text, "<{}> = {};", key.name, key.code + 8);
        }
        text.push_str("};\n");
        text.push_str(TYPES_AND_COMPAT);
        text.push_str("xkb_symbols \"deskhand\" {\nname[Group1] = \"Deskhand\";\n");
        for (at, key) in keys().enumerate() {
            let spare = self
                .spare
                .filter(|(code, _)| *code == key.code)
                .map(|(_, keysym)| keysym);
            let (plain, shifted) =
                spare.map_or((key.plain, key.shifted), |keysym| (keysym, keysym));
            let third = self.extras.get(at).filter(|_| at < PRINTED.len());
            let fourth = self
                .extras
                .get(at + PRINTED.len())
                .filter(|_| at < PRINTED.len());
            let _ = match (third, fourth) {
                (None, _) if plain == shifted => {
                    writeln!(
                        text,
                        "key <{}> {{ type = \"ONE_LEVEL\", [ {plain:#x} ] }};",
                        key.name
                    )
                }
                (None, _) => writeln!(
                    text,
                    "key <{}> {{ type = \"TWO_LEVEL\", [ {plain:#x}, {shifted:#x} ] }};",
                    key.name
                ),
                (Some(third), fourth) => writeln!(
                    text,
                    "key <{}> {{ type = \"FOUR_LEVEL\", [ {plain:#x}, {shifted:#x}, {third:#x}, {:#x} ] }};",
                    key.name,
                    fourth.unwrap_or(third)
                ),
            };
        }
        text.push_str(MODIFIER_MAP);
        text.push_str("};\n};\n");
        text
    }
}

/// Splits a text into the stretches that one keymap each can type. `Err` is the first character that no keymap holds.
pub(crate) fn plan(text: &str, current: &Keymap) -> Result<Vec<(Keymap, String)>, char> {
    if let Some(bad) = text.chars().find(|&c| !typable(c)) {
        return Err(bad);
    }
    if text.chars().all(|c| current.character(c).is_some()) {
        return Ok(vec![(current.clone(), text.to_owned())]);
    }
    let mut parts = Vec::new();
    let (mut extras, mut part) = (BTreeSet::new(), String::new());
    for c in text.chars() {
        if us_character(c).is_none() && !matches!(c, '\n' | '\t') && !extras.contains(&c) {
            if extras.len() == MOST_EXTRAS {
                parts.push((Keymap::with_extras(&extras), std::mem::take(&mut part)));
                extras.clear();
            }
            extras.insert(c);
        }
        part.push(c);
    }
    if !part.is_empty() {
        parts.push((Keymap::with_extras(&extras), part));
    }
    Ok(parts)
}

/// XKB has keysyms for all of Unicode but control characters and noncharacters.
fn typable(c: char) -> bool {
    let code = c as u32;
    matches!(c, '\n' | '\t')
        || !(c.is_control() || code & 0xfffe == 0xfffe || (0xfdd0..=0xfdef).contains(&code))
}

fn us_character(c: char) -> Option<Stroke> {
    let code = c as u32;
    if !c.is_ascii() || c.is_control() {
        return None;
    }
    if c == ' ' {
        return Some(Stroke {
            code: 57,
            modifiers: 0,
        });
    }
    PRINTED.iter().find_map(|key| match code {
        _ if key.plain == code => Some(Stroke {
            code: key.code,
            modifiers: 0,
        }),
        _ if key.shifted == code => Some(Stroke {
            code: key.code,
            modifiers: SHIFT,
        }),
        _ => None,
    })
}

/// Latin-1 characters are their own keysyms, others stand at an offset.
fn keysym_of(c: char) -> u32 {
    let code = c as u32;
    if code < 0x100 {
        code
    } else {
        0x100_0000 + code
    }
}

fn printable(keysym: u32) -> bool {
    // Latin-1, the older national blocks below the function keys, and Unicode.
    (0x20..0xfd00).contains(&keysym) || (0x100_0100..=0x110_ffff).contains(&keysym)
}

const TYPES_AND_COMPAT: &str = r#"xkb_types "deskhand" {
virtual_modifiers NumLock,Alt,LevelThree,Super,Meta,Hyper;
type "ONE_LEVEL" { modifiers = none; level_name[Level1] = "Any"; };
type "TWO_LEVEL" { modifiers = Shift; map[Shift] = Level2; level_name[Level1] = "Base"; level_name[Level2] = "Shift"; };
type "FOUR_LEVEL" {
modifiers = Shift+LevelThree;
map[Shift] = Level2; map[LevelThree] = Level3; map[Shift+LevelThree] = Level4;
level_name[Level1] = "Base"; level_name[Level2] = "Shift"; level_name[Level3] = "Third"; level_name[Level4] = "Fourth";
};
};
xkb_compatibility "deskhand" {
virtual_modifiers NumLock,Alt,LevelThree,Super,Meta,Hyper;
interpret.useModMapMods = AnyLevel;
interpret.repeat = False;
interpret Num_Lock+AnyOf(all) { virtualModifier = NumLock; action = LockMods(modifiers=NumLock); };
interpret ISO_Level3_Shift+AnyOf(all) { virtualModifier = LevelThree; useModMapMods = level1; action = SetMods(modifiers=LevelThree,clearLocks); };
interpret Alt_L+AnyOf(all) { virtualModifier = Alt; action = SetMods(modifiers=modMapMods,clearLocks); };
interpret Super_L+AnyOf(all) { virtualModifier = Super; action = SetMods(modifiers=modMapMods,clearLocks); };
interpret Super_R+AnyOf(all) { virtualModifier = Super; action = SetMods(modifiers=modMapMods,clearLocks); };
interpret Caps_Lock+AnyOf(all) { action = LockMods(modifiers=Lock); };
interpret Any+Exactly(Lock) { action = LockMods(modifiers=Lock); };
interpret Any+AnyOf(all) { action = SetMods(modifiers=modMapMods,clearLocks); };
};
"#;

const MODIFIER_MAP: &str = r#"modifier_map Shift { <LFSH>, <RTSH> };
modifier_map Lock { <CAPS> };
modifier_map Control { <LCTL>, <RCTL> };
modifier_map Mod1 { <LALT> };
modifier_map Mod2 { <NMLK> };
modifier_map Mod4 { <LWIN>, <RWIN> };
modifier_map Mod5 { <LVL3> };
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_needs_one_keymap_and_no_level_beyond_shift() {
        let text: String = (' '..='~').chain(['\n', '\t']).collect();
        let base = Keymap::default();
        assert_eq!(plan(&text, &base), Ok(vec![(base.clone(), text.clone())]));
        for c in text.chars() {
            assert!(base.character(c).unwrap().modifiers & !SHIFT == 0, "{c:?}");
        }
        assert_eq!(
            base.character('\n'),
            Some(Stroke {
                code: RETURN,
                modifiers: 0
            })
        );
    }

    #[test]
    fn every_character_of_a_part_has_its_own_stroke() {
        let text: String = (0x4e00..0x4e00 + 250)
            .filter_map(char::from_u32)
            .chain("aé".chars())
            .collect();
        let parts = plan(&text, &Keymap::default()).unwrap();
        assert_eq!(parts.len(), 3);
        assert_eq!(
            parts
                .iter()
                .map(|(_, part)| part.as_str())
                .collect::<String>(),
            text
        );
        for (keymap, part) in &parts {
            let mut seen = std::collections::BTreeMap::new();
            for c in part.chars() {
                let stroke = keymap.character(c).unwrap();
                assert!(
                    PRINTED.iter().any(|key| key.code == stroke.code),
                    "only printable positions"
                );
                assert_eq!(*seen.entry((stroke.code, stroke.modifiers)).or_insert(c), c);
            }
            assert!(seen.len() <= MOST_EXTRAS + 1);
        }
    }

    #[test]
    fn a_keymap_that_already_holds_the_text_stays() {
        let keymap = Keymap::with_extras(&"éß".chars().collect());
        assert_eq!(
            plan("Fuß", &keymap),
            Ok(vec![(keymap.clone(), "Fuß".into())])
        );
    }

    #[test]
    fn control_and_noncharacters_are_refused() {
        for bad in [
            '\0',
            '\u{1b}',
            '\r',
            '\u{7f}',
            '\u{85}',
            '\u{fffe}',
            '\u{1ffff}',
            '\u{fdd0}',
        ] {
            assert_eq!(plan(&format!("ok{bad}"), &Keymap::default()), Err(bad));
        }
        assert!(plan("\u{ad}\u{200d}\u{301}\u{fffd}", &Keymap::default()).is_ok());
    }

    #[test]
    fn keysyms_find_their_keys() {
        let base = Keymap::default();
        assert_eq!(
            base.keysym('t' as u32),
            Some(Stroke {
                code: 20,
                modifiers: 0
            })
        );
        assert_eq!(
            base.keysym('T' as u32),
            Some(Stroke {
                code: 20,
                modifiers: SHIFT
            })
        );
        assert_eq!(
            base.keysym('+' as u32),
            Some(Stroke {
                code: 13,
                modifiers: SHIFT
            })
        );
        assert_eq!(
            base.keysym('<' as u32),
            Some(Stroke {
                code: 51,
                modifiers: SHIFT
            })
        );
        assert_eq!(
            base.keysym(0xff0d),
            Some(Stroke {
                code: RETURN,
                modifiers: 0
            })
        );
        assert_eq!(base.keysym(0xff95), None);
        let home = Keymap::with_spare(0xff95);
        assert_eq!(
            home.keysym(0xff95),
            Some(Stroke {
                code: SPARE_OTHER.code,
                modifiers: 0
            })
        );
        assert_eq!(
            Keymap::with_spare(0xe9).keysym(0xe9),
            Some(Stroke {
                code: SPARE_PRINTED.code,
                modifiers: 0
            })
        );
    }

    #[test]
    fn codes_and_names_are_unique_and_fit() {
        // XWayland takes no codes beyond 255 - 8.
        assert!(keys().all(|key| key.code <= 247 && key.name.len() <= 4));
        let mut codes: Vec<u32> = keys().map(|key| key.code).collect();
        let mut names: Vec<&str> = keys().map(|key| key.name).collect();
        let count = codes.len();
        codes.sort_unstable();
        codes.dedup();
        names.sort_unstable();
        names.dedup();
        assert_eq!((codes.len(), names.len()), (count, count));
    }
}

//! The key combinations that sway's running configuration binds.
//!
//! sway gives the configuration's text; what was bound later by a command, or in included files that it doesn't give,
//! can't be known.

use std::collections::BTreeSet;

use serde_json::Value;

/// From the answer to `GET_CONFIG`: `ctrl+alt+shift+super+key`, lower case, sorted; `bindcode`s as `code:NN`. Those of
/// all modes are in it.
pub fn binds(answer: &Value) -> Option<Vec<String>> {
    let main = answer.get("config")?.as_str()?;
    let included = answer.get("included_configs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut reading = Reading::default();
    let included: Vec<&str> =
        included.iter().filter_map(|file| file.get("raw_contents")?.as_str()).filter(|text| *text != main).collect();
    // Variables may be set in an included file and used in the main one, or the other way round.
    for text in included.iter().chain([&main]) {
        reading.text(text, true);
    }
    for text in included.iter().chain([&main]) {
        reading.text(text, false);
    }
    Some(reading.combinations.into_iter().collect())
}

#[derive(Default)]
struct Reading {
    /// With their `$`; the longest names first, as sway tries them.
    variables: Vec<(String, String)>,
    combinations: BTreeSet<String>,
}

/// What an open brace began.
enum Block {
    /// `bindsym {` or `bindcode {`: each line is a combination and its command.
    Binds {
        code: bool,
    },
    Other,
}

impl Reading {
    fn text(&mut self, text: &str, only_variables: bool) {
        let mut blocks: Vec<Block> = Vec::new();
        for line in logical_lines(text) {
            let words = words(&line);
            let Some(first) = words.first() else { continue };
            if first == "}" {
                blocks.pop();
                continue;
            }
            let opens = words.last().is_some_and(|word| word == "{");
            match blocks.last() {
                Some(Block::Binds { code }) if !only_variables => self.bind(&words, *code),
                Some(Block::Binds { .. }) => {}
                _ => self.command(&words, only_variables),
            }
            if opens {
                blocks.push(match keyword(first) {
                    Keyword::Bind { code } => Block::Binds { code },
                    _ => Block::Other,
                });
            }
        }
    }

    fn command(&mut self, words: &[String], only_variables: bool) {
        match (keyword(&words[0]), only_variables) {
            (Keyword::Set, _) => self.set(&words[1..]),
            (Keyword::Bind { code }, false) => self.bind(&words[1..], code),
            (Keyword::Unbind { code }, false) => {
                if let Some(combination) = self.combination(&words[1..], code) {
                    self.combinations.remove(&combination);
                }
            }
            // `mode NAME bindsym ...`
            (Keyword::Mode, false) => {
                if let Some(at) = words.iter().position(|word| matches!(keyword(word), Keyword::Bind { .. })) {
                    self.command(&words[at..], only_variables);
                }
            }
            _ => {}
        }
    }

    fn set(&mut self, words: &[String]) {
        let Some((name, value)) = words.split_first() else { return };
        if !name.starts_with('$') {
            return;
        }
        let value = self.substitute(&value.join(" "));
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.clone(), value));
        self.variables.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    }

    fn bind(&mut self, words: &[String], code: bool) {
        if let Some(combination) = self.combination(words, code) {
            self.combinations.insert(combination);
        }
    }

    /// The combination that follows the options; `None` for mouse buttons and for nothing at all.
    fn combination(&self, words: &[String], code: bool) -> Option<String> {
        let combination = words.iter().find(|word| !word.starts_with("--") && *word != "{")?;
        normal(&self.substitute(combination), code)
    }

    fn substitute(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("$$") {
                out.push('$');
                rest = after;
            } else if let Some((name, value)) = self.variables.iter().find(|(name, _)| rest.starts_with(name.as_str()))
            {
                out.push_str(value);
                rest = &rest[name.len()..];
            } else {
                out.push('$');
                rest = &rest[1..];
            }
        }
        out.push_str(rest);
        out
    }
}

enum Keyword {
    Set,
    Bind { code: bool },
    Unbind { code: bool },
    Mode,
    Other,
}

fn keyword(word: &str) -> Keyword {
    match word.to_ascii_lowercase().as_str() {
        "set" => Keyword::Set,
        "bindsym" => Keyword::Bind { code: false },
        "bindcode" => Keyword::Bind { code: true },
        "unbindsym" => Keyword::Unbind { code: false },
        "unbindcode" => Keyword::Unbind { code: true },
        "mode" => Keyword::Mode,
        _ => Keyword::Other,
    }
}

/// Modifiers in the order ctrl, alt, shift, super, others; then the keys.
fn normal(combination: &str, code: bool) -> Option<String> {
    let mut modifiers = BTreeSet::new();
    let mut keys = Vec::new();
    for part in combination.split('+').map(str::trim).filter(|part| !part.is_empty()) {
        let part = part.to_lowercase();
        match part.as_str() {
            "control" | "ctrl" => _ = modifiers.insert((0, "ctrl")),
            "mod1" | "alt" => _ = modifiers.insert((1, "alt")),
            "shift" => _ = modifiers.insert((2, "shift")),
            "mod4" | "super" | "logo" => _ = modifiers.insert((3, "super")),
            "lock" | "caps" => _ = modifiers.insert((4, "lock")),
            "mod2" => _ = modifiers.insert((5, "mod2")),
            "mod3" => _ = modifiers.insert((6, "mod3")),
            "mod5" => _ = modifiers.insert((7, "mod5")),
            "group1" | "group2" | "group3" | "group4" => {}
            button if button.starts_with("button") || button.starts_with("btn_") => return None,
            _ if code && part.parse::<u32>().is_ok_and(|code| (0x110..0x160).contains(&code)) => return None,
            _ if code => keys.push(format!("code:{part}")),
            _ => keys.push(part),
        }
    }
    if modifiers.is_empty() && keys.is_empty() {
        return None;
    }
    let modifiers = modifiers.into_iter().map(|(_, name)| name.to_owned());
    Some(modifiers.chain(keys).collect::<Vec<_>>().join("+"))
}

/// Lines without comments, continued ones joined.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for part in text.lines() {
        if line.is_empty() && part.trim_start().starts_with('#') {
            continue;
        }
        if let Some(continued) = part.strip_suffix('\\') {
            line.push_str(continued);
            continue;
        }
        line.push_str(part);
        lines.push(std::mem::take(&mut line));
    }
    lines.push(line);
    lines
}

/// Words between spaces, quotes taken off. A brace that stands alone is a word of its own.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(config: &str) -> Vec<String> {
        binds(&json!({ "config": config })).unwrap()
    }

    #[test]
    fn variables_options_and_modes() {
        let config = r#"
            # bindsym Mod4+c comment
            set $mod Mod4
            set $model Mod1
            set $both "$mod+Shift"
            bindsym $mod+Return exec foot
            bindsym --release --locked $both+Q kill
            bindsym $model+F4 exec true
            bindsym --input-device=1:2:kb Control+Alt+T \
                exec long
            bindsym --whole-window $mod+button4 workspace prev
            mode "resize" {
                bindsym Left resize shrink width 10px
                bindsym {
                    Right resize grow width 10px
                    Escape mode "default"
                }
            }
            mode other bindsym Down nop
            bindsym Print exec grim
            bindcode --to-code $mod+38 exec x
            bindcode 272 nop
            bindsym Mod4+z nop
            unbindsym Mod4+z
            bindsym Group2+Lock+x nop
        "#;
        let expected = [
            "alt+f4",
            "code:38",
            "ctrl+alt+t",
            "down",
            "escape",
            "left",
            "lock+x",
            "print",
            "right",
            "shift+super+q",
            "super+code:38",
            "super+return",
        ];
        let expected: Vec<&str> = expected.into_iter().filter(|bind| *bind != "code:38").collect();
        assert_eq!(of(config), expected);
    }

    #[test]
    fn bind_blocks_with_options() {
        assert_eq!(
            of("bindsym --locked {\n  XF86AudioMute exec x\n  \"Mod4+a\" nop\n}\nbindsym b nop"),
            ["b", "super+a", "xf86audiomute"]
        );
    }

    #[test]
    fn odd_text_is_no_fault() {
        for odd in [
            "",
            "}",
            "bindsym",
            "bindsym --x",
            "set",
            "set $a",
            "mode",
            "bindsym +",
            "bindsym \"open",
            "\\",
            "bindsym $",
            "set $a $a\nbindsym $a$a nop",
        ] {
            of(odd);
        }
        assert_eq!(of("bindsym $nope+x nop"), ["$nope+x"]);
        assert_eq!(binds(&json!({})), None);
    }

    #[test]
    fn included_files_that_are_given_count() {
        let answer = json!({"config": "bindsym $mod+a nop", "included_configs": [
            {"path": "/a", "raw_contents": "set $mod Mod4\nbindsym $mod+b nop"}]});
        assert_eq!(binds(&answer).unwrap(), ["super+a", "super+b"]);
    }
}

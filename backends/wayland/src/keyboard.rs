//! Keyboard requests: chords and text.

use deskhand_core::desktop::effect::{Chord, Failure, FailureKind, Modifiers, Outcome, Reply};
use deskhand_ports::{Pressed, Ticket};

use crate::keymap::{self, ALT, CTRL, Keymap, SHIFT, SUPER, Stroke};
use crate::layout::{LEFT_ALT, LEFT_CTRL, LEFT_SHIFT, LEFT_SUPER, RETURN};
use crate::seat::Input;

/// Characters that go out in one write: under 4 KiB, so that the kernel takes it whole.
const CHUNK: usize = 32;

impl Input {
    /// Presses and releases each chord; all of them are looked up before any is pressed.
    pub(crate) fn press_chords(&mut self, chords: &[Chord], ticket: &Ticket) -> Outcome {
        self.gate(ticket)?;
        self.make_keyboard()?;
        let current = self.hands.keymap();
        let planned: Vec<(Modifiers, Option<(Stroke, Keymap)>)> = chords
            .iter()
            .map(|chord| {
                Ok((
                    chord.modifiers,
                    chord
                        .keysym
                        .map(|keysym| stroke_for(keysym, &current))
                        .transpose()?,
                ))
            })
            .collect::<Result<_, Failure>>()?;
        for (modifiers, stroke) in planned {
            // A held modifier makes as many events as two characters.
            self.keep_pace(1 + 2 * modifier_keys(modifiers).len(), ticket)?;
            if let Some((_, keymap)) = &stroke
                && self.hands.use_keymap(keymap)?
            {
                self.confirm_all(ticket)?;
                self.gate(ticket)?;
            }
            let queued = self.queue_chord(modifiers, stroke.map(|(stroke, _)| stroke));
            if queued.is_err() {
                self.let_go_of_all();
            }
            self.send_chunk(ticket)?;
            queued?;
        }
        self.confirm_all(ticket)?;
        Ok(Reply::Done)
    }

    fn queue_chord(
        &mut self,
        mut modifiers: Modifiers,
        stroke: Option<Stroke>,
    ) -> Result<(), Failure> {
        modifiers.shift |= stroke.is_some_and(|stroke| stroke.modifiers & SHIFT != 0);
        let (held, held_mask) = (self.hands.keys.clone(), self.hands.modifiers);
        let presses: Vec<u32> = modifier_keys(modifiers)
            .into_iter()
            .filter(|code| !held.contains(code))
            .collect();
        let mut mask = held_mask;
        for &code in &presses {
            self.ledger.pressing(Pressed::Key(code))?;
            self.hands.key(code, true);
            mask |= mask_of_key(code);
            self.change_modifiers(mask)?;
        }
        if let Some(Stroke { code, .. }) = stroke {
            self.ledger.pressing(Pressed::Key(code))?;
            self.hands.key(code, true);
            self.hands.key(code, false);
            self.ledger.releasing(Pressed::Key(code));
        }
        for &code in presses.iter().rev() {
            self.hands.key(code, false);
            self.ledger.releasing(Pressed::Key(code));
            mask &= !mask_of_key(code);
            self.change_modifiers(mask | held_mask)?;
        }
        Ok(())
    }

    /// Types the text; a failure says how many characters went out.
    pub(crate) fn type_text(&mut self, text: &str, submit: bool, ticket: &Ticket) -> Outcome {
        self.gate(ticket)?;
        let parts = keymap::plan(text, &self.hands.keymap()).map_err(|bad| {
            let detail = format!(
                "no keyboard can type {bad:?} (U+{:04X}); leave it out, or paste the text",
                bad as u32
            );
            Failure {
                typed: Some(0),
                ..Failure::new(FailureKind::Unmappable, detail)
            }
        })?;
        let mut typed = 0;
        match self.type_parts(&parts, submit, ticket, &mut typed) {
            Ok(()) => Ok(Reply::Typed { characters: typed }),
            Err(failure) => Err(Failure {
                typed: Some(typed),
                ..failure
            }),
        }
    }

    fn type_parts(
        &mut self,
        parts: &[(Keymap, String)],
        submit: bool,
        ticket: &Ticket,
        typed: &mut usize,
    ) -> Result<(), Failure> {
        self.make_keyboard()?;
        // Held modifiers would turn letters into shortcuts.
        self.let_go_of_all();
        for (keymap, part) in parts {
            self.gate(ticket)?;
            if self.hands.use_keymap(keymap)? {
                self.confirm_all(ticket)?;
            }
            let strokes: Vec<Stroke> = part.chars().filter_map(|c| keymap.character(c)).collect();
            for chunk in strokes.chunks(CHUNK) {
                self.keep_pace(chunk.len(), ticket)?;
                self.send_strokes(chunk, ticket)?;
                *typed += chunk.len();
            }
        }
        if submit {
            self.gate(ticket)?;
            self.send_strokes(
                &[Stroke {
                    code: RETURN,
                    modifiers: 0,
                }],
                ticket,
            )?;
        }
        self.confirm_all(ticket)
    }

    /// One chunk: all its presses are journaled first, and nothing is down after it.
    fn send_strokes(&mut self, strokes: &[Stroke], ticket: &Ticket) -> Result<(), Failure> {
        for stroke in strokes {
            self.ledger.pressing(Pressed::Key(stroke.code))?;
            if stroke.modifiers != 0 {
                self.ledger.pressing(Pressed::Modifiers(stroke.modifiers))?;
            }
        }
        for stroke in strokes {
            self.hands.set_modifiers(stroke.modifiers);
            self.hands.key(stroke.code, true);
            self.hands.key(stroke.code, false);
        }
        self.hands.set_modifiers(0);
        for stroke in strokes {
            self.ledger.releasing(Pressed::Key(stroke.code));
            self.ledger.releasing(Pressed::Modifiers(stroke.modifiers));
        }
        self.send_chunk(ticket)
    }
}

/// The keymap to press the keysym with, the current one if it will do.
fn stroke_for(keysym: u32, current: &Keymap) -> Result<(Stroke, Keymap), Failure> {
    for keymap in [
        current.clone(),
        Keymap::default(),
        Keymap::with_spare(keysym),
    ] {
        if let Some(stroke) = keymap.keysym(keysym)
            && keysym != 0
        {
            return Ok((stroke, keymap));
        }
    }
    Err(Failure::new(
        FailureKind::Unmappable,
        format!("no key can be made for keysym {keysym:#x}"),
    ))
}

/// The XKB mask of these modifiers in our keymaps.
pub(crate) fn mask_of(modifiers: Modifiers) -> u32 {
    modifier_keys(modifiers)
        .into_iter()
        .map(mask_of_key)
        .fold(0, |mask, bit| mask | bit)
}

/// The keys of these modifiers, in the order of pressing.
pub(crate) fn modifier_keys(modifiers: Modifiers) -> Vec<u32> {
    let keys = [
        (modifiers.ctrl, LEFT_CTRL),
        (modifiers.alt, LEFT_ALT),
        (modifiers.super_, LEFT_SUPER),
        (modifiers.shift, LEFT_SHIFT),
    ];
    keys.into_iter()
        .filter(|(held, _)| *held)
        .map(|(_, code)| code)
        .collect()
}

fn mask_of_key(code: u32) -> u32 {
    match code {
        LEFT_SHIFT => SHIFT,
        LEFT_CTRL => CTRL,
        LEFT_ALT => ALT,
        LEFT_SUPER => SUPER,
        _ => 0,
    }
}

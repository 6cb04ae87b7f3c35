//! Pointer requests: moves, buttons, the wheel, held modifiers.

use deskhand_core::desktop::effect::{
    Failure, FailureKind, Outcome, PointerRequest, PointerStep, Reply,
};
use deskhand_ports::{Pressed, Ticket};

use crate::keyboard::{mask_of, modifier_keys};
use crate::seat::Input;

/// Steps that go out in one write; each is a few dozen bytes.
const CHUNK: usize = 32;
/// More than any screen; larger numbers would overflow the protocol's.
const MOST_PIXELS: u32 = 1 << 20;

impl Input {
    pub(crate) fn point(&mut self, request: &PointerRequest, ticket: &Ticket) -> Outcome {
        check(request)?;
        self.gate(ticket)?;
        self.make_pointer(&request.output)?;
        if request
            .steps
            .iter()
            .any(|step| matches!(step, PointerStep::Modifiers { .. }))
        {
            self.make_keyboard()?;
        }
        let mut queued = 0;
        for step in &request.steps {
            if queued == 0 {
                self.gate(ticket)?;
            }
            queued += 1;
            let done = self.queue_step(request, step);
            let pause = match step {
                PointerStep::Pause { ms } => Some(*ms),
                _ => None,
            };
            if done.is_err() || queued >= CHUNK {
                self.send_chunk(ticket)?;
                queued = 0;
            }
            done?;
            match pause {
                Some(0) => {
                    self.confirm_all(ticket)?;
                    queued = 0;
                }
                // A confirmation takes a whole frame on a slow compositor: a timed pause waits for none.
                Some(ms) => {
                    self.flush(ticket)?;
                    self.pause(ms, ticket)?;
                    queued = 0;
                }
                None => {}
            }
        }
        self.confirm_all(ticket)?;
        Ok(Reply::Done)
    }

    fn queue_step(&mut self, request: &PointerRequest, step: &PointerStep) -> Result<(), Failure> {
        let output = &request.output;
        match *step {
            PointerStep::Move { x, y } => self.hands.motion(output, (x, y), request.extent),
            PointerStep::Button {
                code,
                pressed: true,
            } => {
                self.ledger.pressing(Pressed::Button(code))?;
                self.hands.button(output, code, true);
            }
            PointerStep::Button {
                code,
                pressed: false,
            } => {
                // Only what we pressed: a release of the person's own button would end their drag.
                let Some((_, pressed_on)) = self
                    .hands
                    .buttons
                    .iter()
                    .find(|(down, _)| *down == code)
                    .cloned()
                else {
                    return Ok(());
                };
                self.hands.button(&pressed_on, code, false);
                self.ledger.releasing(Pressed::Button(code));
            }
            PointerStep::Wheel { x, y } => {
                (0..y.unsigned_abs()).for_each(|_| self.hands.notch(output, true, y));
                (0..x.unsigned_abs()).for_each(|_| self.hands.notch(output, false, x));
            }
            PointerStep::Modifiers { held } => {
                let wanted = modifier_keys(held);
                for code in self
                    .hands
                    .keys
                    .clone()
                    .into_iter()
                    .rev()
                    .filter(|code| !wanted.contains(code))
                {
                    self.hands.key(code, false);
                    self.ledger.releasing(Pressed::Key(code));
                }
                for code in wanted {
                    if !self.hands.keys.contains(&code) {
                        self.ledger.pressing(Pressed::Key(code))?;
                        self.hands.key(code, true);
                    }
                }
                self.change_modifiers(mask_of(held))?;
            }
            PointerStep::Pause { .. } => {}
        }
        Ok(())
    }

    /// Journals and queues a change of the modifiers.
    pub(crate) fn change_modifiers(&mut self, mask: u32) -> Result<(), Failure> {
        let before = self.hands.modifiers;
        if before == mask {
            return Ok(());
        }
        if mask != 0 {
            self.ledger.pressing(Pressed::Modifiers(mask))?;
        }
        self.hands.set_modifiers(mask);
        if before != 0 {
            self.ledger.releasing(Pressed::Modifiers(before));
        }
        Ok(())
    }
}

/// Everything is checked before anything is sent.
fn check(request: &PointerRequest) -> Result<(), Failure> {
    let refuse = |detail: String| Err(Failure::new(FailureKind::Refused, detail));
    let (width, height) = request.extent;
    if width == 0 || height == 0 || width > MOST_PIXELS || height > MOST_PIXELS {
        return refuse(format!(
            "an output of {width}x{height} pixels can't be aimed at; take a fresh screenshot"
        ));
    }
    for step in &request.steps {
        match step {
            PointerStep::Move { x, y } if *x >= width || *y >= height => {
                return refuse(format!(
                    "({x}, {y}) lies outside the output's {width}x{height} pixels"
                ));
            }
            PointerStep::Wheel { x, y } if x.unsigned_abs().max(y.unsigned_abs()) > 100 => {
                return refuse("more than 100 notches at once; scroll in smaller steps".into());
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(extent: (u32, u32), step: PointerStep) -> PointerRequest {
        PointerRequest {
            output: "A".into(),
            extent,
            steps: vec![step],
        }
    }

    #[test]
    fn points_outside_are_refused() {
        assert!(check(&request((10, 10), PointerStep::Move { x: 9, y: 9 })).is_ok());
        assert!(check(&request((10, 10), PointerStep::Move { x: 10, y: 9 })).is_err());
        assert!(check(&request((0, 10), PointerStep::Pause { ms: 1 })).is_err());
        assert!(
            check(&request(
                (u32::MAX, 10),
                PointerStep::Move {
                    x: u32::MAX - 1,
                    y: 9
                }
            ))
            .is_err()
        );
        assert!(check(&request((10, 10), PointerStep::Wheel { x: 0, y: i32::MIN })).is_err());
    }
}

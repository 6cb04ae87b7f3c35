//! Captures, the virtual pointer and keyboard, and the clipboard, over the compositor's Wayland socket.
//!
//! [`WaylandScreen`], [`WaylandSeat`] and [`WaylandClipboard`] each own a thread with its own connection. All start without waiting,
//! tell by [`Observe`](deskhand_ports::Observe) when the compositor comes and goes, and connect again by themselves.

mod capture;
mod clipboard;
mod connection;
mod encode;
mod finish;
mod frames;
mod grab;
mod hands;
mod jpeg;
mod keyboard;
mod keymap;
mod layout;
mod ledger;
mod mailbox;
mod outputs;
mod pace;
mod pixels;
mod pointing;
mod probe;
mod region;
mod release;
mod reply;
mod save;
mod seat;
mod settle;
mod shm;
mod wire;

pub use capture::WaylandScreen;
pub use clipboard::{WaylandClipboard, care as care_for_clipboard};
pub use probe::{NEEDED, Probe, probe};
pub use release::release_pressed;
pub use seat::WaylandSeat;

//! Captures, the virtual pointer and the virtual keyboard, over the compositor's Wayland socket.
//!
//! [`WaylandScreen`] and [`WaylandSeat`] each own a thread with its own connection. Both start without waiting,
//! tell by [`Observe`](deskhand_ports::Observe) when the compositor comes and goes, and connect again by themselves.

mod capture;
mod connection;
mod encode;
mod finish;
mod frames;
mod grab;
mod jpeg;
mod mailbox;
mod outputs;
mod pixels;
mod region;
mod reply;
mod save;
mod settle;
mod shm;
mod wire;

pub use capture::WaylandScreen;

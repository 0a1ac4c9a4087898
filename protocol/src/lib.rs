//! What the controller and the agent both know.
//!
//! The messages and their frames, values that know why they are unknown, the parameters of each
//! instrument with their limits, and how a report reads as JSON or as a table (the controller and
//! `probe-agent --local` show the same). No I/O, no clock, no operating-system call.

pub mod artifact;
pub mod budget;
pub mod call_tree;
pub mod error;
pub mod frame;
pub mod handshake;
pub mod histogram;
pub mod host_text;
pub mod instruments;
pub mod loss;
pub mod message;
pub mod observed;
pub mod parameter;
pub mod question;
pub mod recording;
pub mod redact;
pub mod scope;
pub mod sweep;
pub mod units;
pub mod view;

pub use instruments::{Instrument, InstrumentId, Item, Report, Request};

/// Identity of the wire format: a digest of this crate's sources.
///
/// The handshake refuses a peer with another identity before it decodes anything.
pub const WIRE_ID: &str = env!("SYSMCP_WIRE_ID");

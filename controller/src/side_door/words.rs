//! What is said at the side door: a line of JSON each way, then a recording in frames.
//!
//! Whoever asks may be of another build than a server that has run for weeks. So lines are JSON, of
//! which an older reader passes over what it does not know, and only programs of one build exchange
//! frames.

use protocol::{
    artifact::ArtifactId,
    instruments::export::{Item, Report},
};
use serde::{Deserialize, Serialize};

/// Bytes of a line at most.
pub(super) const MOST_LINE_BYTES: u64 = 64 << 10;

/// Bytes of a recording at most.
pub(super) const MOST_BYTES: usize = 64 << 20;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Question {
    /// The build of whoever asks: [`protocol::WIRE_ID`].
    pub build: String,
    /// Which recording.
    pub artifact: ArtifactId,
}

/// What is answered. [`Reply::Asking`] comes at once, and another one when that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum Reply {
    /// The server is of another build.
    OtherBuild {
        /// Its version.
        version: String,
    },
    /// It has no such recording.
    NotHere {
        /// The targets that it knows.
        targets: Vec<String>,
    },
    /// It asks the target for it.
    Asking {
        /// The target.
        target: String,
    },
    /// It did not get it.
    Refused {
        /// Why, with what to do next.
        reason: String,
        /// The exit code for it.
        exit_code: u8,
    },
    /// It follows, in frames of [`Part`].
    Recording {
        /// How many bytes.
        bytes: u64,
    },
}

/// A part of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Part {
    /// A piece, as the target sent it.
    Piece(Item),
    /// What the target says of the whole, last of all.
    Whole(Box<Report>),
}

/// A message as a line.
pub(super) fn line(message: &impl Serialize) -> Vec<u8> {
    // They are objects of texts and numbers, which JSON has.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

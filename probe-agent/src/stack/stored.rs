//! A recording with names, kept for follow-up questions: none of them samples anything again.

use super::profile::Profile;
use crate::{artifacts::Kind, call::Context};
use protocol::{artifact::ArtifactId, error::AgentError, recording::Recording};
use serde::{Deserialize, Serialize};

/// Everything that is answered from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stored {
    /// Of what it is, and how good.
    pub recording: Recording,
    /// Stacks, named.
    pub profile: Profile,
    /// Of the heaviest functions, the source lines that were executed; the heaviest first.
    pub lines: Vec<Line>,
}

/// A source line, and what was executed there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The function, by its number in the profile.
    pub function: u32,
    /// The path of the source, as the compiler was given it; escaped.
    pub file: String,
    /// Counted from 1.
    pub line: u32,
    /// The weight of stacks that end there.
    pub weight: u64,
}

impl Stored {
    /// Keeps it. `None` when it is too large to keep.
    pub fn keep(&self, context: &Context<'_>) -> Option<ArtifactId> {
        context.keep(Kind::Recording, self)
    }

    /// Reads one back.
    ///
    /// # Errors
    ///
    /// When it is not there any more, or is no recording.
    pub fn load(id: ArtifactId, context: &Context<'_>) -> Result<Self, AgentError> {
        context.kept(id, Kind::Recording)
    }
}

//! There is no side door: who may use a file or a pipe does not show here, and a door that cannot tell
//! who comes in stays shut.

use super::{NoDoor, NoRecording};
use crate::{gate::Gate, profile::Profile};
use protocol::artifact::ArtifactId;
use std::{convert::Infallible, path::PathBuf};

/// A door that is never there.
#[derive(Debug)]
pub struct Door(Infallible);

impl Door {
    /// Opens none.
    ///
    /// # Errors
    ///
    /// Always.
    pub async fn open(_folders: &[PathBuf]) -> Result<Self, NoDoor> {
        Err(NoDoor::NotHere)
    }

    /// Answers nobody.
    pub async fn serve(&self, _gate: &Gate) -> Infallible {
        self.0
    }
}

/// Asks nobody.
///
/// # Errors
///
/// Always.
pub async fn ask(
    _folders: &[PathBuf],
    _id: ArtifactId,
    _tell: &dyn Fn(&str),
) -> Result<Profile, NoRecording> {
    Err(NoRecording::NotHere)
}

//! A whole measurement, kept for follow-up questions.

use super::Measured;
use crate::{artifacts::Kind, call::Context};
use protocol::{
    artifact::ArtifactId,
    error::{AgentError, Defect},
};
use std::sync::PoisonError;

/// Keeps a measurement. `None` when it is too large to keep.
pub(super) fn keep(measured: &Measured, context: &Context<'_>) -> Option<ArtifactId> {
    let bytes = postcard::to_stdvec(measured).ok()?;
    let mut artifacts = context.artifacts.lock().unwrap_or_else(PoisonError::into_inner);
    artifacts.keep(Kind::ProcessList, bytes)
}

/// Reads a measurement back.
///
/// # Errors
///
/// When it is not there any more, or is none of this instrument.
pub(super) fn load(id: ArtifactId, context: &Context<'_>) -> Result<Measured, AgentError> {
    let found = context.artifacts.lock().unwrap_or_else(PoisonError::into_inner).find(id);
    let artifact = found.ok_or(AgentError::NoSuchArtifact { id })?;
    if artifact.kind != Kind::ProcessList {
        return Err(AgentError::OtherArtifact { id });
    }
    postcard::from_bytes(&artifact.bytes)
        .map_err(|_| AgentError::Defect(Defect::StoredResultUnreadable))
}

//! Agent side of `self_test`: counts, streams, keeps and gives back bytes, and in a build for
//! tests misbehaves.

use crate::{artifacts::Kind, call::Context, instruments::Collect};
use protocol::{
    artifact::ArtifactId,
    error::AgentError,
    handshake::Sha256,
    host_text::HostText,
    instruments::{
        Item as AnyItem,
        self_test::{Attempt, CHUNK_BYTES, Fault, Item, Report, Request, SelfTest},
    },
    loss::{Lost, Truncation},
    message::{Engine, Meta, Step},
};
use sha2::Digest as _;
use std::time::{Duration, Instant};

impl Collect for SelfTest {
    fn collect(request: Request, context: &Context<'_>) -> Result<(Report, Meta), AgentError> {
        if let Some(id) = request.artifact {
            return send_back(id, context);
        }
        let started = Instant::now();
        let attempts = misbehave(request.fault)?;
        count(&request, started, context)?;
        let (artifact, digest) = leave(request.artifact_bytes, context);
        let report = Report {
            counted: request.count,
            artifact_bytes: if artifact.is_some() { request.artifact_bytes } else { 0 },
            artifact_sha256: digest,
            attempts,
        };
        let window_ms = u64::try_from(started.elapsed().as_millis()).ok();
        let counted = u64::from(request.count);
        Ok((report, meta(Engine::Counter, window_ms, counted, artifact, context)))
    }
}

fn meta(
    engine: Engine,
    window_ms: Option<u64>,
    items: u64,
    artifact: Option<ArtifactId>,
    context: &Context<'_>,
) -> Meta {
    Meta {
        engine,
        window_ms,
        truncation: Truncation::none(items),
        artifact,
        lost: Lost::default(),
        overhead: context.overhead(),
        redacted: 0,
    }
}

fn count(request: &Request, started: Instant, context: &Context<'_>) -> Result<(), AgentError> {
    let interval = Duration::from_millis(request.interval_ms.into());
    let window = interval.saturating_mul(request.count);
    for number in 1..=request.count {
        context.wait_until(started, interval.saturating_mul(number), window)?;
        context.send(AnyItem::SelfTest(Item::Count(number)))?;
        context.progress(Step::Counting, number, request.count);
    }
    Ok(())
}

/// Leaves a result of so many bytes, each the low byte of its place.
fn leave(bytes: u32, context: &Context<'_>) -> (Option<ArtifactId>, HostText) {
    if bytes == 0 {
        return (None, HostText::default());
    }
    let content: Vec<u8> = (0..bytes).map(|place| place.to_le_bytes()[0]).collect();
    let digest = digest(&content);
    (context.artifacts().keep(Kind::SelfTest, content), digest)
}

fn digest(content: &[u8]) -> HostText {
    HostText::new(Sha256(sha2::Sha256::digest(content).into()).to_string().as_bytes())
}

/// Streams a stored result.
fn send_back(id: ArtifactId, context: &Context<'_>) -> Result<(Report, Meta), AgentError> {
    let kept = context.kept_bytes(id, Kind::SelfTest)?;
    let total = u32::try_from(kept.len()).unwrap_or(u32::MAX);
    let mut offset = 0;
    let mut items = 0;
    for chunk in kept.chunks(CHUNK_BYTES) {
        context.check()?;
        let item = Item::Bytes { offset, bytes: chunk.to_vec() };
        context.send(AnyItem::SelfTest(item))?;
        offset += u32::try_from(chunk.len()).unwrap_or_default();
        items += 1;
        context.progress(Step::Sending, offset, total);
    }
    let report = Report {
        counted: 0,
        artifact_bytes: total,
        artifact_sha256: digest(&kept),
        attempts: Vec::new(),
    };
    Ok((report, meta(Engine::Stored, None, items, Some(id), context)))
}

#[cfg(not(feature = "fault-injection"))]
fn misbehave(fault: Fault) -> Result<Vec<Attempt>, AgentError> {
    match fault {
        Fault::None => Ok(Vec::new()),
        Fault::Panic
        | Fault::PlantChild
        | Fault::PlantGrandchild
        | Fault::Hang
        | Fault::Trespass => {
            Err(AgentError::NotBuilt { what: protocol::error::Omitted::FaultInjection })
        }
    }
}

#[cfg(feature = "fault-injection")]
#[expect(clippy::panic, clippy::unnecessary_wraps, reason = "a build that misbehaves on purpose")]
fn misbehave(fault: Fault) -> Result<Vec<Attempt>, AgentError> {
    use crate::os::{spawner, trespass};
    match fault {
        Fault::None => {}
        Fault::Panic => panic!("the panic that was asked for"),
        Fault::Hang => loop {
            std::thread::sleep(Duration::from_secs(3600));
        },
        Fault::PlantChild => spawner::plant(false),
        Fault::PlantGrandchild => spawner::plant(true),
        Fault::Trespass => {
            let attempt =
                |(act, errno): (&str, i32)| Attempt { act: HostText::new(act.as_bytes()), errno };
            return Ok(trespass::try_all().into_iter().map(attempt).collect());
        }
    }
    Ok(Vec::new())
}

//! `self_test`: a counter that exercises the line between controller and agent.
//!
//! It reports progress, streams every number, can be cancelled, and leaves a result that can be
//! fetched by its handle and compared by its digest. It measures nothing on the target. A build
//! for tests can also misbehave on request, so that what is left behind can be seen.

use crate::{
    artifact::ArtifactId,
    host_text::HostText,
    instruments::{Exchange, Instrument},
    parameter::{InvalidParameter, in_range},
    view::table::Table,
};
use serde::{Deserialize, Serialize};

/// Marker for this instrument.
pub struct SelfTest;

/// Bytes of a stored result that travel in one item.
pub const CHUNK_BYTES: usize = 64 << 10;

impl Instrument for SelfTest {
    type Request = Request;
    type Item = Item;
    type Report = Report;

    fn check(request: &Request) -> Result<(), InvalidParameter> {
        in_range("count", request.count, &(0..=1_000_000))?;
        in_range("interval_ms", request.interval_ms, &(0..=10_000))?;
        in_range("artifact_bytes", request.artifact_bytes, &(0..=8 << 20))?;
        let window_ms = request.count.saturating_mul(request.interval_ms);
        in_range("count times interval_ms", window_ms, &(0..=60_000))
    }

    fn window_ms(request: &Request) -> u32 {
        request.count.saturating_mul(request.interval_ms)
    }

    fn tables(report: &Report) -> Vec<Table> {
        vec![Table::facts(
            "self test",
            [
                ("counted", report.counted.to_string()),
                ("stored bytes", report.artifact_bytes.to_string()),
                ("sha256", report.artifact_sha256.to_string()),
            ],
        )]
    }

    fn example() -> Exchange<Self> {
        Exchange {
            request: Request { count: 0, artifact: Some(ArtifactId(7)), ..Request::default() },
            item: Some(Item::Bytes { offset: 0, bytes: vec![0, 1, 2, 3] }),
            report: Report {
                counted: 0,
                artifact_bytes: 4,
                artifact_sha256: HostText::new(
                    b"054edec1d0211f624fed0cbca9d4f9400b0e491c43742af2c5b0abebf0c990d8",
                ),
                attempts: Vec::new(),
            },
        }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// Numbers to stream: 0-1000000, default 3.
    #[cfg_attr(feature = "schema", schemars(range(max = 1_000_000)))]
    pub count: u32,
    /// Pause before each number, in milliseconds: 0-10000, default 10. With `count` at most one
    /// minute.
    #[cfg_attr(feature = "schema", schemars(range(max = 10_000)))]
    pub interval_ms: u32,
    /// Bytes to leave as a stored result: 0-8388608, default 0.
    #[cfg_attr(feature = "schema", schemars(range(max = 8_388_608)))]
    pub artifact_bytes: u32,
    /// Handle of a stored result of this tool: streams its bytes instead of counting.
    #[cfg_attr(feature = "schema", schemars(with = "ArtifactId"))]
    pub artifact: Option<ArtifactId>,
    /// Deliberate misbehaviour, in a build for tests only. Default: none.
    pub fault: Fault,
}

impl Default for Request {
    fn default() -> Self {
        Self { count: 3, interval_ms: 10, artifact_bytes: 0, artifact: None, fault: Fault::None }
    }
}

/// What the agent does wrong, in a build for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Nothing.
    None,
    /// Panics in the middle of the call.
    Panic,
    /// Starts a child that sleeps for an hour, in a session of its own.
    PlantChild,
    /// Starts a child whose own child sleeps for an hour, and lets the first one end.
    PlantGrandchild,
    /// Never answers and never looks at the clock.
    Hang,
    /// Tries what the agent may not do, and tells what the kernel says to each.
    Trespass,
}

/// A piece of the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Item {
    /// The next number, from 1.
    Count(u32),
    /// The next bytes of a stored result.
    Bytes {
        /// Where they belong.
        offset: u32,
        /// The bytes.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// Numbers that were streamed.
    pub counted: u32,
    /// Bytes of the stored result, made or sent.
    pub artifact_bytes: u32,
    /// Its sha256, empty without a stored result.
    pub artifact_sha256: HostText,
    /// What was tried that may not be done; empty but in a build for tests.
    pub attempts: Vec<Attempt>,
}

/// Something that the agent may not do, tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Attempt {
    /// What.
    pub act: HostText,
    /// The kernel's error number; 0 where it was done.
    pub errno: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_would_take_hours_is_refused() {
        let request = Request { count: 1_000_000, interval_ms: 10_000, ..Request::default() };
        let error = SelfTest::check(&request).unwrap_err();
        assert!(error.to_string().contains("expected 0 to 60000"), "{error}");
    }
}

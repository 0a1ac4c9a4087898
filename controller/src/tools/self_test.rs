//! `self_test` as a tool.

use super::{Tool, Toolset, words};
use crate::verdict::Conclusion;
use protocol::{
    handshake::Sha256,
    instruments::self_test::{Item, Report, Request, SelfTest},
    message::Meta,
};
use sha2::Digest as _;

/// What arrived, to be compared with what the agent says it sent.
#[derive(Default)]
pub struct Arrived {
    numbers: u32,
    in_order: bool,
    bytes: u32,
    digest: sha2::Sha256,
}

impl Tool for SelfTest {
    const TITLE: &'static str = "Self test of the line";
    const DESCRIPTION: &'static str = "Exercises the line to the agent and measures nothing: the \
        agent counts, streams every number, reports progress, can be cancelled, and leaves a \
        stored result whose bytes can be fetched by its handle. Use it to see that a connection \
        works, not to diagnose.";
    const TOOLSET: Toolset = Toolset::SelfTest;

    type Stream = Arrived;

    fn accept(stream: &mut Arrived, item: Item) {
        match item {
            Item::Count(number) => {
                stream.in_order = number == stream.numbers + 1 && (number == 1 || stream.in_order);
                stream.numbers += 1;
            }
            Item::Bytes { offset, bytes } => {
                stream.in_order = offset == stream.bytes && (offset == 0 || stream.in_order);
                stream.bytes += u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                stream.digest.update(&bytes);
            }
        }
    }

    fn conclude(report: &Report, stream: &Arrived, _meta: &Meta) -> Conclusion {
        let mut because = Vec::new();
        if report.counted > 0 {
            because.push(format!("{} of {} numbers arrived", stream.numbers, report.counted));
        }
        let digest = Sha256(stream.digest.clone().finalize().into()).to_string();
        let fetched = stream.bytes > 0;
        if fetched {
            because.push(format!("{} of {} bytes arrived", stream.bytes, report.artifact_bytes));
        }
        let all_numbers = stream.numbers == report.counted;
        let all_bytes = !fetched || digest == report.artifact_sha256.as_str();
        let is_whole = all_numbers && all_bytes && (stream.in_order || report.counted == 0);
        let class = if is_whole { "line_works" } else { "line_loses_data" };
        Conclusion { class: Some(class.to_owned()), because, ..Conclusion::default() }
    }

    fn rest(_: &Request, _: &Meta) -> Option<Request> {
        None
    }

    fn by_hand(_: &Request) -> Vec<Vec<String>> {
        vec![words(&["true"])]
    }
}

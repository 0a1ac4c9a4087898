//! `capture` as a tool.

use super::{Tool, Toolset, words};
use crate::verdict::Conclusion;
use protocol::{
    instruments::capture::{Capture, Item, Report, Request},
    message::Meta,
};

/// What arrived, to be compared with what the agent says it sent.
#[derive(Default)]
pub struct Arrived {
    files: u32,
    bytes: u64,
}

impl Tool for Capture {
    const TITLE: &'static str = "Capture of a machine";
    const DESCRIPTION: &'static str = "Takes the files of /proc and /sys that the other tools read, \
        at both ends of a window, so that they can be asked later about this moment: with the target \
        snapshot:folder. It is for a person, with `sysmcp capture`: over MCP the files are counted \
        and not kept. Secrets are taken out, and names of people and hosts stand for others. Takes \
        the window (1 s) and a third of a second; costs up to a second of processor time on a \
        machine with thousands of processes.";
    const TOOLSET: Toolset = Toolset::Capture;

    type Stream = Arrived;

    fn accept(stream: &mut Arrived, item: Item) {
        stream.files = stream.files.saturating_add(1);
        stream.bytes = stream.bytes.saturating_add(item.bytes.len() as u64);
    }

    fn conclude(report: &Report, stream: &Arrived, _meta: &Meta) -> Conclusion {
        let is_whole = stream.files == report.files && stream.bytes == report.bytes;
        let because = vec![format!("{} of {} files arrived", stream.files, report.files)];
        let class = if is_whole { "captured" } else { "incomplete" };
        Conclusion { class: Some(class.to_owned()), because, ..Conclusion::default() }
    }

    fn rest(_: &Request, _: &Meta) -> Option<Request> {
        None
    }

    fn by_hand(_: &Request) -> Vec<Vec<String>> {
        vec![words(&["tar", "-cf", "proc.tar", "--ignore-failed-read", "/proc"])]
    }
}

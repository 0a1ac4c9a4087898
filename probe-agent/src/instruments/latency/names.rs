//! What devices are called, and processes whose name nobody took down.

use crate::proc::{Root, diskstats, host_text};
use protocol::host_text::HostText;
use std::collections::BTreeMap;

/// Names of block devices, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Devices {
    names: BTreeMap<(u32, u32), HostText>,
}

impl Devices {
    /// Those that there are now.
    pub(super) fn read(root: &Root) -> Self {
        let mut text = Vec::new();
        let _ = root.read_proc("diskstats", &mut text);
        let named = |(number, name): ((u32, u32), Vec<u8>)| (number, HostText::new(&name));
        Self { names: crate::order::map(diskstats::numbers(&text).into_iter().map(named)) }
    }

    /// The name of a device; its numbers where it is gone.
    pub(super) fn name(&self, major: u32, minor: u32) -> HostText {
        let numbers = || HostText::new(format!("{major}:{minor}").as_bytes());
        self.names.get(&(major, minor)).cloned().unwrap_or_else(numbers)
    }
}

/// Names of processes.
#[derive(Debug)]
pub(super) struct Names<'r> {
    pub(super) root: &'r Root,
}

impl Names<'_> {
    /// The name that was taken down; where none was, the one that the process has now.
    pub(super) fn of(&self, pid: u32, taken_down: &HostText) -> HostText {
        if taken_down.as_str().is_empty() { self.now(pid) } else { taken_down.clone() }
    }

    /// The name that a process has now; a question mark where it is gone.
    pub(super) fn now(&self, pid: u32) -> HostText {
        let mut text = Vec::new();
        let read = self.root.read_proc(&format!("{pid}/comm"), &mut text);
        read.map_or_else(|_| HostText::new(b"?"), |()| host_text(&text))
    }
}

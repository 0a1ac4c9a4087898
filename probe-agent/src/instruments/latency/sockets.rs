//! Which sockets are of what was asked for. A segment that is sent again is sent by the kernel, in
//! whatever runs: only the socket says whose it is.

use crate::{call::Context, instruments::sampling::Subject, stack::looks};
use protocol::recording::Scope;
use rustix::fs::{Dir, Mode, OFlags};
use std::collections::BTreeSet;

/// Sockets, by the number of their inode.
#[derive(Debug)]
pub(super) struct Sockets {
    /// `None` where all are.
    own: Option<BTreeSet<u64>>,
}

impl Sockets {
    /// Those of processes as they are now: of the ones that were watched, or of a control group.
    pub(super) fn of(subject: &Subject, watched: &[u32], context: &Context<'_>) -> Self {
        if subject.scope == Scope::Host {
            return Self { own: None };
        }
        let mut pids: BTreeSet<u32> = watched.iter().copied().collect();
        let threads = looks::threads_of(context.root, &subject.sampled);
        pids.extend(threads.into_iter().map(|(pid, _)| pid));
        Self { own: Some(pids.into_iter().flat_map(|pid| of_process(pid, context)).collect()) }
    }

    pub(super) fn has(&self, inode: u64) -> bool {
        self.own.as_ref().is_none_or(|own| own.contains(&inode))
    }
}

/// The sockets that a process has open, as far as that may be read.
fn of_process(pid: u32, context: &Context<'_>) -> Vec<u64> {
    let Some(proc) = context.root.live_proc() else { return Vec::new() };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(&proc, format!("{pid}/fd"), flags, Mode::empty());
    let Ok(folder) = folder else { return Vec::new() };
    let Ok(entries) = Dir::read_from(&folder) else { return Vec::new() };
    let inode = |name: &std::ffi::CStr| {
        let link = rustix::fs::readlinkat(&folder, name, Vec::new()).ok()?;
        inode_of(link.as_bytes())
    };
    entries.flatten().filter_map(|entry| inode(entry.file_name())).collect()
}

/// `socket:[4711]`.
fn inode_of(link: &[u8]) -> Option<u64> {
    let number = link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_have_an_inode_here() {
        for (link, want) in [
            (&b"socket:[4711]"[..], Some(4711)),
            (b"pipe:[4711]", None),
            (b"/tmp/socket:[4711]", None),
            (b"socket:[]", None),
            (b"socket:[47", None),
        ] {
            assert_eq!(inode_of(link), want);
        }
    }
}

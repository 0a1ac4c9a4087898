//! Calls that had not ended when the window did.

use super::{
    super::{call::Call, engine::Asked, seen::Pending},
    classes,
    layout::{UNDER_WAY_BYTES, UnderWay},
    subjects::Names,
};
use crate::{
    bpf::{Loaded, NoBpf},
    call::Context,
    proc::{
        Root, host_text,
        waiting::{InSyscall, SyscallLine, parse_syscall},
    },
};
use protocol::{
    host_text::HostText,
    instruments::syscall_trace::{Subject, SubjectKind},
    observed::Observed,
};
use rustix::io::Errno;
use std::{io::Read as _, time::Duration};

/// Threads of which `/proc` is asked what they are in; there may be very many.
const MOST_READ: usize = 256;

/// A call that had not ended.
pub(super) struct Row {
    call: Call,
    since: Option<Duration>,
    seen: UnderWay,
    /// What it is about, where only `/proc` tells that.
    subject: Option<Subject>,
}

impl Row {
    pub(super) fn pending(self, names: &mut Names) -> Pending {
        let own = self.subject.map(|subject| names.subjects.id(subject));
        let subject = names.id(self.seen.subject).or(own);
        let kind = subject.and_then(|id| names.subjects.get(id)).map(|subject| subject.kind);
        Pending {
            call: self.call,
            is_wait: self.call.is_wait(kind),
            pid: self.seen.tgid,
            tid: self.seen.tid,
            name: Observed::Known(host_text(&self.seen.name)),
            subject,
            since: self.since,
        }
    }
}

/// Goes through all threads.
///
/// # Errors
///
/// Why the kernel does not go through them.
pub(super) fn read(
    asked: &Asked<'_>,
    context: &Context<'_>,
    loaded: &Loaded,
    end: Duration,
) -> Result<Vec<Row>, NoBpf> {
    let mut bytes = Vec::new();
    let mut file = loaded.iterate("each_call")?;
    file.read_to_end(&mut bytes).map_err(|error| NoBpf::Failed {
        errno: Errno::from_io_error(&error).unwrap_or(Errno::IO),
    })?;
    let mut rows = Vec::new();
    let mut reads = 0;
    for seen in bytes.chunks_exact(UNDER_WAY_BYTES).filter_map(UnderWay::read) {
        // Its own thread is watched for the trial.
        if seen.tgid == std::process::id() && asked.request.pid != Some(seen.tgid) {
            continue;
        }
        let known =
            seen.is_known.then_some(Call { number: seen.number, is_32_bit: seen.is_32_bit });
        let has_to_be_read =
            known.is_none_or(|call| seen.subject.kind == 0 && call.waits_on_some());
        let line = if has_to_be_read && reads < MOST_READ {
            reads += 1;
            line_of(&seen, context.root)
        } else {
            None
        };
        let by_line = line.and_then(|line| u32::try_from(line.number.id()).ok()).map(Call::new);
        let Some(call) = known.or(by_line).filter(|call| asked.wants(*call)) else { continue };
        // By the time it is read, the thread may be in another one.
        let line = line.filter(|_| by_line == Some(call));
        let subject = line.and_then(|line| by_descriptor(&seen, line, context.root));
        let begun = Duration::from_nanos(seen.begun_ns);
        let since = seen.is_known.then(|| end.saturating_sub(begun));
        rows.push(Row { call, since, seen, subject });
    }
    Ok(rows)
}

/// The call that a thread sleeps in.
fn line_of(seen: &UnderWay, root: &Root) -> Option<InSyscall> {
    let path = format!("{}/task/{}/syscall", seen.tgid, seen.tid);
    let text = root.read_each_patiently(vec![path]).texts.into_iter().next()?.ok()?;
    match parse_syscall(&text.bytes) {
        SyscallLine::In(call) => Some(call),
        SyscallLine::Running | SyscallLine::Outside | SyscallLine::Unknown => None,
    }
}

/// What the descriptor is of that a call has first.
fn by_descriptor(seen: &UnderWay, line: InSyscall, root: &Root) -> Option<Subject> {
    if !classes::is_on_descriptor(line.number.name()) {
        return None;
    }
    let [descriptor, ..] = line.arguments;
    let link = root.link_of_proc(&format!("{}/fd/{descriptor}", seen.tgid)).ok()?;
    let (kind, name) = (kind_of(&link), HostText::new(&link));
    Some(Subject { kind, name, is_partial: false, other_end: Vec::new() })
}

/// What a descriptor is of, by the link that `/proc/PID/fd` has.
fn kind_of(link: &[u8]) -> SubjectKind {
    let kinds: [(&[u8], SubjectKind); 9] = [
        (b"socket:", SubjectKind::Socket),
        (b"pipe:", SubjectKind::Pipe),
        (b"anon_inode:[eventpoll]", SubjectKind::Poll),
        (b"anon_inode:[eventfd]", SubjectKind::Eventfd),
        (b"anon_inode:[timerfd]", SubjectKind::Timer),
        (b"anon_inode:[signalfd]", SubjectKind::Signal),
        (b"anon_inode:inotify", SubjectKind::Inotify),
        (b"/dev/pts/", SubjectKind::Terminal),
        (b"/dev/tty", SubjectKind::Terminal),
    ];
    let found = kinds.iter().find(|(start, _)| link.starts_with(start));
    found.map_or(SubjectKind::Path, |(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_told_by_its_link() {
        for (link, want) in [
            (&b"pipe:[4711]"[..], SubjectKind::Pipe),
            (b"socket:[7]", SubjectKind::Socket),
            (b"anon_inode:[eventpoll]", SubjectKind::Poll),
            (b"/dev/pts/3", SubjectKind::Terminal),
            (b"/etc/hosts", SubjectKind::Path),
        ] {
            assert_eq!(kind_of(link), want);
        }
    }
}

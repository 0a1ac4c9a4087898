//! Calls that had not ended when the window did.

use super::{
    super::{call::Call, engine::Asked, seen::Pending},
    layout::{UNDER_WAY_BYTES, UnderWay},
    subjects::Names,
};
use crate::{
    bpf::{Loaded, NoBpf},
    call::Context,
    proc::{
        Root, host_text,
        waiting::{SyscallLine, parse_syscall},
    },
};
use protocol::observed::Observed;
use rustix::io::Errno;
use std::{io::Read as _, time::Duration};

/// Threads of which it is read in what they were before the window; there may be very many.
const MOST_READ: usize = 256;

/// A call that had not ended.
pub(super) struct Row {
    call: Call,
    since: Option<Duration>,
    seen: UnderWay,
}

impl Row {
    pub(super) fn pending(self, names: &mut Names) -> Pending {
        let subject = names.id(self.seen.subject);
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
    let mut read = 0;
    for seen in bytes.chunks_exact(UNDER_WAY_BYTES).filter_map(UnderWay::read) {
        // Its own thread is watched for the trial.
        if seen.tgid == std::process::id() && asked.request.pid != Some(seen.tgid) {
            continue;
        }
        let call = if seen.is_known {
            Some(Call { number: seen.number, is_32_bit: seen.is_32_bit })
        } else if read < MOST_READ {
            read += 1;
            begun_before(&seen, context.root)
        } else {
            None
        };
        let Some(call) = call.filter(|call| asked.wants(*call)) else { continue };
        let begun = Duration::from_nanos(seen.begun_ns);
        let since = seen.is_known.then(|| end.saturating_sub(begun));
        rows.push(Row { call, since, seen });
    }
    Ok(rows)
}

/// The call that a thread sleeps in, by `/proc`.
fn begun_before(seen: &UnderWay, root: &Root) -> Option<Call> {
    let path = format!("{}/task/{}/syscall", seen.tgid, seen.tid);
    let text = root.read_each_patiently(vec![path]).texts.into_iter().next()?.ok()?;
    match parse_syscall(&text.bytes) {
        SyscallLine::In(call) => u32::try_from(call.number.id()).ok().map(Call::new),
        SyscallLine::Running | SyscallLine::Outside | SyscallLine::Unknown => None,
    }
}

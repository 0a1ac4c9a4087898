//! Trials with processes: which are seen, what their files tell, and what may be traced.

use super::refused;
use crate::{
    instruments::capabilities::{decide, situation::Situation},
    os::ptrace,
    proc::{ReadError, Root, pid_credentials, pid_stat},
};
use protocol::{
    instruments::capabilities::{
        Barrier, Capability, Check, CheckId, Measure, ReadableFiles, State,
    },
    sweep::SPAWNER,
};
use rustix::io::Errno;

pub(super) const VISIBLE: &[CheckId] =
    &[CheckId::ProcessesVisible, CheckId::PtraceChild, CheckId::PtraceSameUser];

pub(super) const FILES: &[CheckId] = &[CheckId::ProcOfOthers, CheckId::PtraceOthers];

/// Processes whose files are tried. They may be refused one by one: what decides is what each of
/// them may do.
const MOST_TRIED: usize = 8;

pub(super) fn visible(root: &Root, situation: &Situation, checks: &mut Vec<Check>) {
    checks.push(all_seen(root, situation));
    let is_filtered = !ptrace::is_answered_by_the_kernel();
    checks.push(match ptrace::trace_a_child() {
        Ok(()) => Check::new(CheckId::PtraceChild, State::Works),
        Err(errno) => {
            let barriers = decide::ptrace_of_a_child(situation, is_filtered, errno);
            refused(CheckId::PtraceChild, errno, barriers)
        }
    });
    checks.push(match ptrace::open_memory_of_a_sibling() {
        Ok(()) => Check::new(CheckId::PtraceSameUser, State::Works),
        Err(errno) => {
            let barriers = decide::ptrace_of_the_same_user(situation, errno);
            refused(CheckId::PtraceSameUser, errno, barriers)
        }
    });
}

fn all_seen(root: &Root, situation: &Situation) -> Check {
    let id = CheckId::ProcessesVisible;
    let (seen, total) = match root.count_processes() {
        Ok(counts) => counts,
        Err(ReadError { errno, .. }) => {
            let barriers = vec![Barrier::Unexplained { errno: errno.raw_os_error() }];
            return refused(id, errno, barriers);
        }
    };
    // Those that ended, or began, between the two counts.
    let total = total.map(|total| total.max(seen));
    let barriers = decide::hidden_processes(situation);
    let is_less = total.is_none_or(|total| seen < total);
    let state = if is_less && !barriers.is_empty() { State::InPart } else { State::Works };
    let barriers = if state == State::Works { Vec::new() } else { barriers };
    let measure = Some(Measure::Processes { seen, total });
    Check { measure, barriers, ..Check::new(id, state) }
}

/// Processes of others, a few: the first one of the machine, then others spread over all. For root,
/// whom no user is another to, all but the agent's own.
pub(super) fn of_others(root: &Root, situation: &Situation) -> Vec<u32> {
    let mut pids = Vec::new();
    if root.list_ids(".", &mut pids).is_err() {
        return Vec::new();
    }
    let own = [std::process::id(), parent_of_this()];
    let is_other = |pid: &u32| {
        let Ok(owner) = root.owner_uid(&pid.to_string()) else { return false };
        let other_user = situation.here.uid == 0 || owner != situation.here.uid;
        other_user && !own.contains(pid) && !is_no_other(root, *pid, own)
    };
    // A machine may have very many: enough are found among those that are looked at.
    const MOST_LOOKED_AT: usize = 400;
    let others: Vec<u32> = pids.into_iter().take(MOST_LOOKED_AT).filter(is_other).collect();
    let step = others.len().div_ceil(MOST_TRIED).max(1);
    others.into_iter().step_by(step).collect()
}

fn parent_of_this() -> u32 {
    rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs())
}

/// Whether a process is the kernel's, or the agent's own spawner.
fn is_no_other(root: &Root, pid: u32, own: [u32; 2]) -> bool {
    let mut buffer = [0; 1024];
    let text = root.read_proc_once(&format!("{pid}/stat"), &mut buffer);
    text.is_ok_and(|text| {
        pid_stat::parse(text).is_ok_and(|stat| {
            let is_spawner = stat.name == SPAWNER.to_bytes() && own.contains(&stat.parent_pid);
            stat.is_kernel_thread() || is_spawner
        })
    })
}

pub(super) fn files(root: &Root, situation: &Situation, checks: &mut Vec<Check>) {
    let others = of_others(root, situation);
    let mut files = Refusals::default();
    let mut memory = Refusals::default();
    let mut readable = ReadableFiles::default();
    for pid in others {
        let mut read = |name: &str| files.note(pid, could_read(root, pid, name));
        let counts = [read("stat"), read("io"), read("syscall"), read("stack"), read("maps")];
        let exe = root.link_of_proc(&format!("{pid}/exe")).map(drop).map_err(|error| error.errno);
        let exe = files.note(pid, exe);
        let memory_is_open = memory.note(pid, could_read(root, pid, "mem"));
        if !root.holds(&format!("proc/{pid}")) {
            // It ended meanwhile, and says nothing.
            continue;
        }
        readable.tried += 1;
        let [stat, io, syscall, stack, maps] = counts;
        for (is_readable, count) in [
            (stat, &mut readable.stat),
            (io, &mut readable.io),
            (syscall, &mut readable.syscall),
            (stack, &mut readable.stack),
            (maps, &mut readable.maps),
            (exe, &mut readable.exe),
            (memory_is_open, &mut memory.worked),
        ] {
            *count += u32::from(is_readable);
        }
    }
    checks.push(files_check(root, situation, readable, &files));
    checks.push(memory_check(root, situation, readable.tried, &memory));
}

/// Whether a file can be read. What it holds does not matter.
fn could_read(root: &Root, pid: u32, name: &str) -> Result<(), Errno> {
    let mut buffer = [0; 1024];
    match root.read_proc_once(&format!("{pid}/{name}"), &mut buffer) {
        Ok(_) => Ok(()),
        // It was opened, and there is more, or nothing at this place of it: that is no refusal.
        Err(error) if error.is_too_long() || error.errno == Errno::IO => Ok(()),
        Err(error) => Err(error.errno),
    }
}

/// What was refused first, and how often it was not.
#[derive(Default)]
struct Refusals {
    first: Option<(u32, Errno)>,
    worked: u32,
}

impl Refusals {
    /// Notes one result. Whether it worked, or was not refused at least: a kernel without a file
    /// refuses nothing.
    fn note(&mut self, pid: u32, result: Result<(), Errno>) -> bool {
        match result {
            Ok(()) => true,
            Err(errno) if super::is_refusal(errno) => {
                self.first.get_or_insert((pid, errno));
                false
            }
            Err(_) => false,
        }
    }
}

fn files_check(
    root: &Root,
    situation: &Situation,
    readable: ReadableFiles,
    refusals: &Refusals,
) -> Check {
    let id = CheckId::ProcOfOthers;
    if readable.tried == 0 {
        return Check::new(id, State::NotTried);
    }
    let measure = Some(Measure::Files(readable));
    let Some((pid, errno)) = refusals.first else {
        return Check { measure, ..Check::new(id, State::Works) };
    };
    let mut needs = vec![Capability::SYS_PTRACE, Capability::DAC_READ_SEARCH];
    if readable.stack == 0 {
        // Only `stack` takes that much.
        needs.push(Capability::SYS_ADMIN);
    }
    let other = (pid, permitted(root, pid));
    let barriers = decide::inspect(situation, &needs, other, false, errno);
    let errno = Some(errno.raw_os_error());
    Check { measure, barriers, errno, ..Check::new(id, State::InPart) }
}

fn memory_check(root: &Root, situation: &Situation, tried: u32, refusals: &Refusals) -> Check {
    let id = CheckId::PtraceOthers;
    if tried == 0 {
        return Check::new(id, State::NotTried);
    }
    let measure = Some(Measure::Tried { worked: refusals.worked, of: tried });
    let Some((pid, errno)) = refusals.first else {
        return Check { measure, ..Check::new(id, State::Works) };
    };
    let needs = [Capability::SYS_PTRACE, Capability::DAC_READ_SEARCH];
    let other = (pid, permitted(root, pid));
    let barriers = decide::inspect(situation, &needs, other, true, errno);
    let state = if refusals.worked == 0 { State::Refused } else { State::InPart };
    let errno = Some(errno.raw_os_error());
    Check { measure, barriers, errno, ..Check::new(id, state) }
}

/// The capabilities that a process may put into effect; none where it does not tell.
fn permitted(root: &Root, pid: u32) -> u64 {
    let mut text = Vec::new();
    let read = root.read_proc(&format!("{pid}/status"), &mut text);
    read.ok()
        .and_then(|()| pid_credentials::parse(&text).ok())
        .map_or(0, |credentials| credentials.permitted)
}

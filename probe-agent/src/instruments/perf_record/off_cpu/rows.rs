//! From parts of a recording of waits to rows: what threads of a process waited in the same calls for the
//! same thing is one row, and who waits for work by design is ranked apart.

use super::{subject::What, wakers};
use crate::{
    order,
    proc::waiting::{self, InSyscall, SyscallLine},
    stack::{
        naming::RUN_QUEUE,
        profile::Profile,
        waits::{
            Part, Waits,
            records::{OUTSIDE, PREEMPTED, RawSubject, UNKNOWN},
        },
    },
};
use protocol::{
    instruments::{process_inspect::WaitKind, process_list::State},
    recording::Kind,
};
use std::{cmp::Reverse, collections::BTreeMap};
use syscalls::Sysno;

/// Parts that are one row.
#[derive(Debug)]
pub(super) struct Group<'w> {
    /// Each with its share of blocked and of queued time in these calls, the longest first.
    pub(super) parts: Vec<(&'w Part, u64, u64)>,
    /// Functions, the outermost first.
    pub(super) functions: Vec<u32>,
    /// What kind of thing is waited for.
    pub(super) kind: WaitKind,
    /// The system call.
    pub(super) call: Option<&'static str>,
    /// Who ended the waits.
    pub(super) wakers: Vec<wakers::Ended>,
    /// Whether it is waiting for work.
    pub(super) is_by_design: bool,
}

impl Group<'_> {
    /// All of its time, in nanoseconds.
    pub(super) fn time(&self) -> u64 {
        self.parts.iter().map(|(_, blocked, queued)| blocked.saturating_add(*queued)).sum()
    }

    /// Blocked, and queued.
    pub(super) fn times(&self) -> (u64, u64) {
        let sum = |sum: (u64, u64), part: &(&Part, u64, u64)| {
            (sum.0.saturating_add(part.1), sum.1.saturating_add(part.2))
        };
        self.parts.iter().fold((0, 0), sum)
    }
}

/// What makes parts one row: the process, the call, the calls in user space, and what is waited for. In the
/// kernel one call waits in several places, one after the other.
type Same = (u32, i32, Vec<u32>, RawSubject);

/// What is one row, while it is put together.
#[derive(Default)]
struct Together {
    /// Blocked and queued time of each part, by its number.
    times: BTreeMap<u32, (u64, u64)>,
    /// Time of each stack.
    stacks: BTreeMap<Vec<u32>, u64>,
}

/// Everything as rows, the longest first.
pub(super) fn groups<'w>(waits: &'w Waits, profile: &Profile, is_of_host: bool) -> Vec<Group<'w>> {
    let functions = wakers::functions(waits, profile);
    let mut groups: Vec<Group<'w>> = Vec::new();
    for together in together(waits, profile).into_values() {
        let mut parts: Vec<(&Part, u64, u64)> = together
            .times
            .into_iter()
            .filter_map(|(number, (blocked, queued))| {
                Some((part_of(waits, number)?, blocked, queued))
            })
            .collect();
        let longest = |(part, blocked, queued): &(&Part, u64, u64)| {
            (Reverse(blocked.saturating_add(*queued)), part.way)
        };
        order::by_key(&mut parts, longest);
        let Some((first, ..)) = parts.first().copied() else { continue };
        let heaviest = together.stacks.into_iter().max_by_key(|(_, time)| *time);
        let of_stack = heaviest.map(|(stack, _)| stack).unwrap_or_default();
        let call = call_of(first).or_else(|| call_by_function(&of_stack, profile));
        let kind = kind_of(first, &of_stack, profile);
        let is_by_design = is_by_design(first, (call, kind), is_of_host);
        let wakers = wakers::of(&parts, waits, &functions);
        groups.push(Group { parts, functions: of_stack, kind, call, wakers, is_by_design });
    }
    order::by_key(&mut groups, |group| Reverse(group.time()));
    groups
}

fn together(waits: &Waits, profile: &Profile) -> BTreeMap<Same, Together> {
    let run_queue = run_queue_of(profile);
    let is_of_kernel = |function: &u32| {
        profile.described(*function).is_some_and(|function| function.kind == Kind::Kernel)
    };
    let mut found: BTreeMap<Same, Together> = BTreeMap::new();
    profile.each_stack(&mut |stand_in, functions, weight| {
        let Some(part) = part_of(waits, stand_in.tid) else { return };
        let (functions, is_queued) = match functions.split_last() {
            Some((last, before)) if Some(*last) == run_queue => (before, true),
            _ => (functions, false),
        };
        let in_user: Vec<u32> =
            functions.iter().copied().take_while(|function| !is_of_kernel(function)).collect();
        let same = (part.way.pid, part.way.call, in_user, subject_of(part));
        let together = found.entry(same).or_default();
        let times = together.times.entry(stand_in.tid).or_default();
        let time = if is_queued { &mut times.1 } else { &mut times.0 };
        *time = time.saturating_add(weight);
        let stack = together.stacks.entry(functions.to_vec()).or_default();
        *stack = stack.saturating_add(weight);
    });
    found
}

pub(super) fn part_of(waits: &Waits, number: u32) -> Option<&Part> {
    usize::try_from(number).ok().and_then(|at| waits.parts.get(at))
}

/// The stand-in for having no processor, where one has.
fn run_queue_of(profile: &Profile) -> Option<u32> {
    let name = std::str::from_utf8(RUN_QUEUE).unwrap_or_default();
    profile.function_by(name, Kind::Kernel)
}

/// What parts of one row have in common. A word of memory is each thread's own, unless it is a lock.
fn subject_of(part: &Part) -> RawSubject {
    let is_own =
        part.subject.kind == RawSubject::FUTEX && syscall_kind(part, None) != WaitKind::Lock;
    if is_own { RawSubject { inode: 0, ..part.subject } } else { part.subject }
}

/// The system call by name.
pub(super) fn call_of(part: &Part) -> Option<&'static str> {
    let number = usize::try_from(part.way.call).ok()?;
    Some(Sysno::new(number)?.name())
}

fn kind_of(part: &Part, functions: &[u32], profile: &Profile) -> WaitKind {
    let name = |function: &u32| profile.described(*function);
    let in_kernel = functions.iter().rev().filter_map(name).take_while(|f| f.kind == Kind::Kernel);
    let channel = in_kernel
        .map(|function| function.name.as_str().to_owned())
        .find(|name| !name.starts_with("schedule") && !name.starts_with("__schedule"));
    let kind = syscall_kind(part, channel.as_deref());
    if kind == WaitKind::Futex && part.way.call == UNKNOWN && is_below_lock(functions, profile) {
        return WaitKind::Lock;
    }
    // A socket that is waited for alone is a peer that is waited for.
    match (kind, What::of(&part.subject)) {
        (WaitKind::Poll, Some(What::Peer | What::Socket)) => WaitKind::Socket,
        (WaitKind::Poll, Some(What::Pipe)) => WaitKind::Pipe,
        (kind, _) => kind,
    }
}

/// The system call by the function of the kernel that serves it.
fn call_by_function(functions: &[u32], profile: &Profile) -> Option<&'static str> {
    const BEGIN: [&str; 4] = ["__x64_sys_", "__arm64_sys_", "__do_sys_", "ksys_"];
    let name = |function: &u32| Some(profile.described(*function)?.name.as_str().to_owned());
    functions.iter().filter_map(name).find_map(|name| {
        let call = BEGIN.iter().find_map(|begin| name.strip_prefix(begin))?;
        Some(call.parse::<Sysno>().ok()?.name())
    })
}

/// Whether a library's function for taking a lock is among the calls, where arguments do not tell.
fn is_below_lock(functions: &[u32], profile: &Profile) -> bool {
    const LOCKS: [&str; 4] = ["mutex_lock", "lll_lock_wait", "lock_contended", "rwlock"];
    functions.iter().filter_map(|function| profile.described(*function)).any(|function| {
        function.kind == Kind::User
            && LOCKS.iter().any(|lock| function.name.as_str().contains(lock))
    })
}

/// The kind by the state, the function of the kernel and the call.
fn syscall_kind(part: &Part, channel: Option<&str>) -> WaitKind {
    /// Bits of a thread's state, `include/linux/sched.h`.
    const UNINTERRUPTIBLE: u32 = 2;
    const STOPPED: u32 = 4 | 8;
    let state = if part.spent.state & STOPPED != 0 {
        State::Stopped
    } else if part.spent.state & UNINTERRUPTIBLE != 0
        // Where the state is not known, the function tells.
        || part.spent.state == 0 && channel.is_some()
    {
        State::UninterruptibleSleep
    } else {
        State::Sleeping
    };
    if part.way.call == PREEMPTED {
        return WaitKind::Running;
    }
    let [a, b, c, d] = part.spent.arguments;
    let number = usize::try_from(part.way.call).ok().and_then(Sysno::new);
    let call = match number {
        Some(number) => SyscallLine::In(InSyscall {
            number,
            arguments: [a, b, c, d, 0, 0],
            stack_pointer: part.way.sp,
        }),
        None if part.way.call == OUTSIDE => SyscallLine::Outside,
        None => SyscallLine::Unknown,
    };
    waiting::kind(state, channel.map(str::as_bytes), call)
}

/// Whether a thread waits for work: for what another thread or a client may bring at any time, for a
/// child, or for a timer of its own. Of the whole machine also who reads from a quiet peer all the time:
/// there is one for nearly every service.
fn is_by_design(part: &Part, (call, kind): (Option<&str>, WaitKind), is_of_host: bool) -> bool {
    let is_quiet =
        || part.spent.began_before > 0 && part.still_waiting > 0 && part.spent.waits <= 1;
    match kind {
        WaitKind::Futex
        | WaitKind::Poll
        | WaitKind::Completions
        | WaitKind::Timer
        | WaitKind::Child
        | WaitKind::Stopped => true,
        WaitKind::Socket => {
            call.is_some_and(|call| call.starts_with("accept"))
                || is_of_host && call != Some("connect") && is_quiet()
        }
        WaitKind::Pipe => {
            What::of(&part.subject) == Some(What::CharacterDevice)
                || is_of_host && call == Some("read") && is_quiet()
        }
        WaitKind::Other => is_of_host && is_quiet(),
        WaitKind::Running
        | WaitKind::Storage
        | WaitKind::Lock
        | WaitKind::KernelLock
        | WaitKind::Memory
        | WaitKind::TooShortToSee => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::waits::records::{Spent, Way};

    fn part(call: Sysno, arguments: [u64; 4], subject: RawSubject) -> Part {
        let way = Way {
            pid: 7,
            tid: 8,
            ip: 0x7f00_0000_0000,
            sp: 0x7ffe_0000_0000,
            kernel_stack: 1,
            call: call.id(),
            subject,
        };
        let spent = Spent { waits: 1, state: 1, arguments, ..Spent::default() };
        Part { way, number: 1, spent, still_waiting: 0, subject }
    }

    #[test]
    fn who_waits_for_work_is_told_from_who_waits_for_what_it_needs() {
        let none = RawSubject::UNKNOWN;
        let futex = RawSubject { kind: RawSubject::FUTEX, inode: 1 << 40, ..none };
        let peer = RawSubject { kind: 12, family: 2, peer_port: 53, ..none };
        let cases = [
            ("idle worker", part(Sysno::futex, [1 << 40, 0x189, 0, 0], futex), true),
            ("mutex", part(Sysno::futex, [1 << 40, 0x80, 2, 0], futex), false),
            ("accept", part(Sysno::accept4, [3, 0, 0, 0], none), true),
            ("connect", part(Sysno::connect, [3, 0, 0, 0], peer), false),
            ("event loop", part(Sysno::epoll_pwait, [3, 0, 0, 0], none), true),
            ("timer", part(Sysno::clock_nanosleep, [0; 4], none), true),
            ("answer of a peer", part(Sysno::recvfrom, [3, 0, 0, 0], peer), false),
            ("fsync", part(Sysno::fsync, [3, 0, 0, 0], none), false),
        ];
        for (name, part, want) in cases {
            let kind = kind_of(&part, &[], &Profile::default());
            assert_eq!(
                is_by_design(&part, (call_of(&part), kind), false),
                want,
                "{name}: {kind:?}"
            );
        }
        let polled = part(Sysno::ppoll, [0, 1, 5000, 0], peer);
        assert_eq!(kind_of(&polled, &[], &Profile::default()), WaitKind::Socket);
    }

    #[test]
    fn on_a_whole_machine_who_reads_from_a_quiet_peer_is_one_of_many() {
        let peer = RawSubject { kind: 12, family: 2, peer_port: 53, ..RawSubject::UNKNOWN };
        let mut quiet = part(Sysno::recvfrom, [3, 0, 0, 0], peer);
        (quiet.spent.began_before, quiet.still_waiting) = (1, 1);
        let asked =
            |is_of_host| is_by_design(&quiet, (Some("recvfrom"), WaitKind::Socket), is_of_host);
        assert!(asked(true) && !asked(false));
        assert!(!is_by_design(&quiet, (Some("connect"), WaitKind::Socket), true));
    }
}

//! Who ended waits: the thread that did, or what interrupted the one that was there.

use crate::stack::{
    profile::Profile,
    waits::{Part, Waits, records::Woken},
};
use protocol::{
    host_text::HostText,
    instruments::perf_record::{Waker, WokenBy},
    units::Percent,
};
use std::collections::HashMap;

/// Wakers of a row that are told of.
const MOST_WAKERS: usize = 3;

/// What a stack of the kernel says of a waking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doing {
    by: WokenBy,
    function: Option<HostText>,
}

/// Somebody who ended waits of a row.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    waits: u64,
    time: u64,
    pid: u32,
    tid: u32,
    name: Vec<u8>,
    doing: Doing,
}

/// Functions by which the kernel wakes, whoever wanted it.
const GENERIC: [&str; 30] = [
    "bpf_",
    "__bpf",
    "__traceiter",
    "trace_",
    "__trace",
    "perf_trace",
    "try_to_wake_up",
    "wake_up",
    "__wake_up",
    "wake_page_function",
    "default_wake_function",
    "autoremove_wake_function",
    "woken_wake_function",
    "pollwake",
    "ep_poll_callback",
    "ep_autoremove_wake_function",
    "complete",
    "swake_up",
    "rwsem_wake",
    "rwsem_mark_wake",
    "mutex_unlock",
    "__mutex_unlock",
    "sock_def_",
    "sock_wake",
    "__wake",
    "receiver_wake_function",
    "hrtimer_wakeup",
    "process_timeout",
    "bit_wake",
    "wake_bit_function",
];

/// Functions below which an interrupt is served, by how their names begin. What a thread sends to this
/// machine itself also comes to its receiver by a softirq, and is that thread's all the same.
const INTERRUPTS: [&str; 10] = [
    "asm_sysvec_",
    "asm_common_interrupt",
    "sysvec_",
    "common_interrupt",
    "irq_exit",
    "handle_irq",
    "__handle_irq",
    "el1h_64_irq",
    "el0t_64_irq",
    "gic_handle_irq",
];

/// Functions of timers.
const TIMERS: [&str; 5] =
    ["hrtimer_wakeup", "process_timeout", "hrtimer_run_queues", "__hrtimer_run", "call_timer_fn"];

/// What each stack that woke was in, by the stack's number.
pub(super) fn functions(waits: &Waits, profile: &Profile) -> HashMap<u64, Doing> {
    let mut by_stand_in: HashMap<u32, Vec<u32>> = HashMap::new();
    profile.each_stack(&mut |stand_in, functions, _| {
        by_stand_in.insert(stand_in.tid, functions.to_vec());
    });
    let doing = |(stack, number): (&u64, &u32)| {
        let functions = by_stand_in.get(number)?;
        let names: Vec<String> = functions
            .iter()
            .filter_map(|function| Some(profile.described(*function)?.name.as_str().to_owned()))
            .collect();
        Some((*stack, doing(&names)))
    };
    waits.waker_stacks.iter().filter_map(doing).collect()
}

/// What functions of the kernel, the outermost first, say of a waking.
fn doing(names: &[String]) -> Doing {
    let begins = |name: &String, with: &[&str]| with.iter().any(|start| name.starts_with(start));
    let is_hidden = names.iter().all(|name| name.starts_with('['));
    let innermost = names.iter().rev();
    let own = innermost.clone().find(|name| !begins(name, &GENERIC));
    let by = if names.is_empty() || is_hidden {
        WokenBy::NotKnown
    } else if names.iter().any(|name| begins(name, &TIMERS)) {
        WokenBy::Timer
    } else if names.iter().any(|name| begins(name, &INTERRUPTS)) {
        WokenBy::Interrupt
    } else {
        WokenBy::Thread
    };
    let function = own.filter(|_| !is_hidden).map(|name| HostText::escaped(name.clone()));
    Doing { by, function }
}

/// Who ended the waits of parts, for most time first.
pub(super) fn of(
    parts: &[(&Part, u64, u64)],
    waits: &Waits,
    functions: &HashMap<u64, Doing>,
) -> Vec<Ended> {
    let mut found: Vec<Ended> = Vec::new();
    for woken in parts.iter().filter_map(|(part, ..)| waits.wakers.get(&part.number)).flatten() {
        let Woken { kernel_stack, pid, tid, waits, time, name, .. } = woken;
        let unknown = || Doing { by: WokenBy::NotKnown, function: None };
        let doing = functions.get(kernel_stack).cloned().unwrap_or_else(unknown);
        // An interrupt is nobody's: whoever it came upon had nothing to do with it.
        let is_own = matches!(doing.by, WokenBy::Thread | WokenBy::NotKnown);
        let (pid, tid) = if is_own { (*pid, *tid) } else { (0, 0) };
        let name = if is_own { name.clone() } else { Vec::new() };
        let same = |other: &&mut Ended| (other.tid, &other.doing) == (tid, &doing);
        match found.iter_mut().find(same) {
            Some(same) => {
                same.waits = same.waits.saturating_add(*waits);
                same.time = same.time.saturating_add(*time);
            }
            None => found.push(Ended { waits: *waits, time: *time, pid, tid, name, doing }),
        }
    }
    crate::order::by_key(&mut found, |ended| std::cmp::Reverse(ended.time));
    found
}

/// The foremost, as an answer has them. Shares are of the time of their row.
pub(super) fn told(ended: &[Ended], time: u64) -> Vec<Waker> {
    let waker = |ended: &Ended| Waker {
        pct: Percent::of(ended.time.min(time) as f64, time as f64).unwrap_or_default(),
        waits: ended.waits,
        by: ended.doing.by,
        pid: ended.pid,
        tid: ended.tid,
        name: HostText::new(&ended.name),
        function: ended.doing.function.clone(),
    };
    ended.iter().take(MOST_WAKERS).map(waker).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waking_is_by_who_wanted_it_and_not_by_how_it_is_done() {
        let cases = [
            (
                &["do_syscall_64", "futex_wake", "wake_up_q", "try_to_wake_up"][..],
                WokenBy::Thread,
                Some("futex_wake"),
            ),
            (
                &[
                    "kthread",
                    "kjournald2",
                    "jbd2_journal_commit_transaction",
                    "__wake_up",
                    "autoremove_wake_function",
                    "try_to_wake_up",
                ],
                WokenBy::Thread,
                Some("jbd2_journal_commit_transaction"),
            ),
            (
                &["asm_sysvec_apic_timer_interrupt", "__hrtimer_run_queues", "hrtimer_wakeup"],
                WokenBy::Timer,
                Some("__hrtimer_run_queues"),
            ),
            (
                &["asm_common_interrupt", "blk_mq_complete_request", "wake_up_page_bit"],
                WokenBy::Interrupt,
                Some("blk_mq_complete_request"),
            ),
            (&["[hidden]"], WokenBy::NotKnown, None),
            (&[], WokenBy::NotKnown, None),
        ];
        for (names, by, function) in cases {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let found = doing(&names);
            assert_eq!(found.by, by, "{names:?}");
            assert_eq!(found.function.as_ref().map(HostText::as_str), function, "{names:?}");
        }
    }
}

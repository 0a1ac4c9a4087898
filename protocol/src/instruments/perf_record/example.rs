//! A recording of a worker that hashes.

use super::{Holder, Missed, OffCpu, Report, WaitRow, Waker, WokenBy};
use crate::{
    host_text::HostText,
    instruments::{
        capabilities::{Barrier, CheckId, Here, Refusal},
        process_inspect::WaitKind,
        syscall_trace::{Subject, SubjectKind},
    },
    observed::Observed,
    recording::{self, FunctionRow, Kind, ProcessRow, StackRow},
    units::Percent,
};

pub(super) fn report() -> Report {
    let percent = |part| Percent::of(part, 100.0).unwrap_or_default();
    let text = |text: &str| HostText::new(text.as_bytes());
    Report {
        recording: recording::example(),
        cpu_pct: Observed::Known(percent(100.2)),
        kernel_pct: Observed::Known(percent(2.2)),
        has_ended: false,
        functions: vec![
            FunctionRow {
                name: text("hash_block"),
                module: Some(text("worker")),
                kind: Kind::User,
                self_pct: percent(71.3),
                total_pct: percent(71.3),
                line: Some(text("hash.c:118")),
            },
            FunctionRow {
                name: text("copy_user_generic"),
                module: Some(text("[kernel]")),
                kind: Kind::Kernel,
                self_pct: percent(2.2),
                total_pct: percent(2.2),
                line: None,
            },
        ],
        stacks: vec![StackRow {
            pct: percent(50.1),
            calls_left_out: 0,
            calls: ["_start (worker)", "main (worker)", "serve (worker)", "hash_block (worker)"]
                .map(text)
                .to_vec(),
        }],
        processes: vec![ProcessRow { pid: 4711, name: text("worker 1"), pct: percent(100.0) }],
        refused: vec![Refusal {
            id: CheckId::HardwareCounters,
            errno: Some(2),
            barriers: vec![Barrier::NoCounters { is_guest: true }],
            here: Here::default(),
            said: None,
        }],
        looks: None,
        counters: None,
        off_cpu: None,
    }
}

fn percent(part: f64) -> Percent {
    Percent::of(part, 100.0).unwrap_or_default()
}

fn text(text: &str) -> HostText {
    HostText::new(text.as_bytes())
}

/// Waits of a worker for a lock that another has.
fn lock() -> WaitRow {
    WaitRow {
        pct: percent(96.1),
        blocked_us: 4_801_220,
        run_queue_us: Observed::Known(3_410),
        waits: 118,
        longest_us: Observed::Known(40_712),
        still_waiting: 1,
        pid: 4711,
        process: text("worker"),
        threads: 3,
        tid: 4713,
        thread: text("worker 3"),
        kind: WaitKind::Lock,
        is_preempted: false,
        call: Some(text("futex")),
        subject: Some(Subject {
            kind: SubjectKind::Futex,
            name: text("0x55a84fe15260"),
            is_partial: false,
            other_end: Vec::new(),
        }),
        held_by: Some(Holder { pid: 4711, tid: 4712, name: text("worker 1") }),
        wakers: vec![Waker {
            pct: percent(99.2),
            waits: 117,
            by: WokenBy::Thread,
            pid: 4711,
            tid: 4712,
            name: text("worker 1"),
            function: Some(text("futex_wake")),
        }],
        calls_left_out: 0,
        calls: [
            "_start (worker)",
            "main (worker)",
            "take_order (worker)",
            "pthread_mutex_lock (libc.so.6)",
            "futex_do_wait ([kernel])",
        ]
        .map(text)
        .to_vec(),
    }
}

/// What is waited for in an example.
pub(super) fn waits() -> OffCpu {
    let lock = lock();
    let idle = WaitRow {
        blocked_us: 4_999_870,
        pct: percent(100.0),
        waits: 1,
        longest_us: Observed::Known(4_999_870),
        threads: 1,
        tid: 4711,
        thread: text("worker"),
        kind: WaitKind::Poll,
        call: Some(text("epoll_wait")),
        subject: None,
        held_by: None,
        wakers: Vec::new(),
        calls: ["main (worker)", "do_epoll_wait ([kernel])"].map(text).to_vec(),
        ..lock.clone()
    };
    OffCpu {
        blocked_us: Observed::Known(9_996_030),
        idle_us: Observed::Known(4_999_870),
        run_queue_us: Observed::Known(3_600),
        preempted_us: Observed::Known(190),
        waits: Observed::Known(131),
        began_before: Observed::Known(3),
        still_waiting: Observed::Known(2),
        stack_each_us: 100,
        rows: vec![lock],
        idle: vec![idle],
        missed: Missed { without_stack_us: 180, ..Missed::default() },
    }
}

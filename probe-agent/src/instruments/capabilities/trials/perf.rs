//! Trials of performance events, and of tracefs, which names tracepoints.

use super::{is_refusal, lacking, refused};
use crate::{
    instruments::capabilities::{decide, situation::Situation},
    os::clock,
    perf::{
        attr::Event,
        event::{self, OpenEvent},
        ring::Ring,
        trial::{self, Ask, Of},
    },
    proc::{Root, parse},
};
use protocol::instruments::capabilities::{Barrier, Check, CheckId, Lacking, Measure, State};
use rustix::io::Errno;
use std::time::Duration;

pub(super) const IDS: &[CheckId] = &[
    CheckId::PerfOwnUser,
    CheckId::PerfOwnKernel,
    CheckId::PerfOthers,
    CheckId::PerfSystemWide,
    CheckId::PerfRing,
    CheckId::Tracefs,
    CheckId::PerfTracepoint,
    CheckId::ContextSwitches,
    CheckId::HardwareCounters,
];

/// What a profiler wants for each processor.
const RING_KIB: u32 = 4096;

/// Less holds too few samples with whole stacks.
const LEAST_RING_KIB: u32 = 32;

const OWN: Ask =
    Ask { event: Event::CpuClock, of: Of::ThisThread, with_kernel: false, with_fields: false };

pub(super) fn run(root: &Root, situation: &Situation, checks: &mut Vec<Check>) {
    let perf = Perf { situation, is_filtered: !event::is_answered_by_the_kernel() };
    let clock = |ask| trial::open(ask).and_then(|counter| counted_time(&counter));
    checks.push(perf.check(CheckId::PerfOwnUser, 2, clock(OWN)));
    let with_kernel = Ask { with_kernel: true, ..OWN };
    checks.push(perf.check(CheckId::PerfOwnKernel, 1, clock(with_kernel)));
    checks.push(perf.others(root));
    let wide = Ask { of: Of::FirstProcessor, ..with_kernel };
    checks.push(perf.check(CheckId::PerfSystemWide, 0, trial::open(wide).map(drop)));
    checks.push(perf.ring());
    let (tracefs, tracepoint) = tracefs(root, situation);
    checks.push(perf.tracepoint(&tracefs, tracepoint));
    checks.push(tracefs);
    let switches = Ask { event: Event::ContextSwitches, ..with_kernel };
    let switched = trial::open(switches).and_then(|counter| counted_switches(&counter));
    checks.push(perf.check(CheckId::ContextSwitches, 1, switched));
    checks.push(perf.hardware());
}

/// Whether time passes for a counter of processor time.
fn counted_time(counter: &OpenEvent) -> Result<(), Errno> {
    let started = clock::thread_cpu();
    while clock::thread_cpu().saturating_sub(started) < Duration::from_micros(200) {}
    if counter.read()? > 0 { Ok(()) } else { Err(Errno::NODATA) }
}

fn counted_switches(counter: &OpenEvent) -> Result<(), Errno> {
    std::thread::sleep(Duration::from_millis(1));
    if counter.read()? > 0 { Ok(()) } else { Err(Errno::NODATA) }
}

/// What decides about performance events.
struct Perf<'s> {
    situation: &'s Situation,
    /// Whether something answers before the kernel does.
    is_filtered: bool,
}

impl Perf<'_> {
    fn check(&self, id: CheckId, needs: i64, result: Result<(), Errno>) -> Check {
        match result {
            Ok(()) => Check::new(id, State::Works),
            // A filter may pretend that there is no such call.
            Err(Errno::NOSYS) if !self.is_filtered => {
                lacking(id, Some(Errno::NOSYS), Barrier::Kernel(Lacking::PerfEvents))
            }
            Err(errno) if self.is_filtered || is_refusal(errno) => {
                refused(id, errno, decide::perf(self.situation, needs, self.is_filtered, errno))
            }
            Err(errno) => {
                refused(id, errno, vec![Barrier::Unexplained { errno: errno.raw_os_error() }])
            }
        }
    }

    fn others(&self, root: &Root) -> Check {
        let id = CheckId::PerfOthers;
        let candidates = super::processes::of_others(root, self.situation);
        let Some(pid) = candidates.first() else { return Check::new(id, State::NotTried) };
        match trial::open(Ask { of: Of::Process(*pid), ..OWN }) {
            Err(errno) if self.is_filtered || is_refusal(errno) => {
                let barriers = decide::perf_of_others(self.situation, self.is_filtered, errno);
                refused(id, errno, barriers)
            }
            result => self.check(id, 2, result.map(drop)),
        }
    }

    /// How much memory for samples can be had: as much as is wanted, else half of it, and so on.
    fn ring(&self) -> Check {
        let id = CheckId::PerfRing;
        let counter = match trial::open(OWN) {
            Ok(counter) => counter,
            Err(errno) => return self.check(id, 2, Err(errno)),
        };
        let mut first_error = None;
        let mut kib = RING_KIB;
        while kib >= LEAST_RING_KIB {
            match Ring::map(&counter, kib).map(drop) {
                Ok(()) => break,
                Err(errno) => first_error.get_or_insert(errno),
            };
            kib /= 2;
        }
        let measure = Some(Measure::Memory {
            kib: if kib < LEAST_RING_KIB { 0 } else { kib },
            wanted_kib: RING_KIB,
        });
        let Some(errno) = first_error else {
            return Check { measure, ..Check::new(id, State::Works) };
        };
        let state = if kib < LEAST_RING_KIB { State::Refused } else { State::InPart };
        let barriers = decide::ring(self.situation, RING_KIB, errno);
        Check { measure, barriers, errno: Some(errno.raw_os_error()), ..Check::new(id, state) }
    }

    /// A tracepoint with its fields, of the own thread. Without tracefs it has no number to ask by.
    fn tracepoint(&self, tracefs: &Check, number: Result<u64, Errno>) -> Check {
        let id = CheckId::PerfTracepoint;
        match number {
            Ok(number) => {
                let event = Event::Tracepoint(number);
                let ask = Ask { event, with_kernel: true, with_fields: true, ..OWN };
                self.check(id, -1, trial::open(ask).map(drop))
            }
            Err(_) if tracefs.state == State::NotInKernel => Check { id, ..tracefs.clone() },
            Err(errno) if tracefs.state == State::Works => {
                lacking(id, Some(errno), Barrier::Kernel(Lacking::Tracepoint))
            }
            Err(_) => {
                let mut barriers = tracefs.barriers.clone();
                if self.is_filtered {
                    barriers.extend(decide::perf(self.situation, -1, true, Errno::PERM));
                } else {
                    barriers.extend(decide::paranoid(self.situation, -1, Errno::PERM));
                }
                Check { id, barriers, ..tracefs.clone() }
            }
        }
    }

    /// Cycles in user space, so that the kernel's part decides nothing.
    fn hardware(&self) -> Check {
        let id = CheckId::HardwareCounters;
        let ask = Ask { event: Event::Cycles, ..OWN };
        let is_guest = self.situation.is_guest;
        match trial::open(ask).and_then(|counter| counted_time(&counter)) {
            Err(
                errno @ (Errno::NOENT
                | Errno::OPNOTSUPP
                | Errno::NODEV
                | Errno::INVAL
                | Errno::NODATA),
            ) if !self.is_filtered => lacking(id, Some(errno), Barrier::NoCounters { is_guest }),
            result => self.check(id, 2, result),
        }
    }
}

/// Tracefs, and the number of a tracepoint that every kernel with tracepoints has.
fn tracefs(root: &Root, situation: &Situation) -> (Check, Result<u64, Errno>) {
    let id = CheckId::Tracefs;
    let Some(mount) = situation.tracefs else {
        let mut systems = Vec::new();
        let is_known = root.read_proc("filesystems", &mut systems).is_ok()
            && parse::lines(&systems).any(|(_, line)| line.ends_with(b"\ttracefs"));
        let check = if is_known {
            let barriers = decide::tracefs(situation, None);
            Check { barriers, ..Check::new(id, State::Refused) }
        } else {
            lacking(id, None, Barrier::Kernel(Lacking::Tracefs))
        };
        return (check, Err(Errno::NOENT));
    };
    let mut text = Vec::new();
    let number = root
        .read(&format!("{mount}/events/sched/sched_switch/id"), &mut text)
        .map_err(|error| error.errno)
        .and_then(|()| parse::only_number(&text).map_err(|_| Errno::NOENT));
    let check = match root.read(&format!("{mount}/available_tracers"), &mut text) {
        Ok(()) => Check::new(id, State::Works),
        Err(error) => refused(id, error.errno, decide::tracefs(situation, Some(error.errno))),
    };
    (check, number)
}

//! From what was counted to the rows of an answer: ranked, then cut.

use super::{
    names::{Devices, Names},
    tallies::{Connected, Counted, Lasting, Moved, Peer, ProcessKey, Sort},
    traced::{self, Seen},
};
use crate::{order, rank};
use protocol::{
    instruments::latency::{
        Block, BlockDevice, Connect, Mechanism, OffCpu, Outcome, Queued, Ran, Resent, RunQueue,
        Sleeper, Submitter, SubmitterKind, Tcp,
    },
    loss::{CutBy, Truncation},
    observed::Observed,
    units::{Bytes, Percent},
};
use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

/// Processes that had the processors, in an answer.
pub(super) const MOST_RAN: usize = 5;

/// Makes rows: how many of each list, and what they are called.
pub(super) struct Maker<'m> {
    pub(super) limit: usize,
    pub(super) names: &'m Names<'m>,
    pub(super) devices: &'m Devices,
    /// Rows in the answer, and rows there were.
    pub(super) shown: u64,
    pub(super) total: u64,
}

impl Maker<'_> {
    /// The heaviest of a list.
    pub(super) fn top<T>(&mut self, rows: Vec<T>, weight: impl Fn(&T) -> u64) -> Vec<T> {
        let page = rank::page(rows, |row| Observed::Known(weight(row) as f64), 0, self.limit);
        self.shown = self.shown.saturating_add(page.truncation.shown);
        self.total = self.total.saturating_add(page.truncation.total);
        page.rows
    }

    /// What was cut. Lists of different things have no weight together.
    pub(super) const fn truncation(&self) -> Truncation {
        let is_cut = self.shown < self.total;
        Truncation {
            shown: self.shown,
            total: self.total,
            weight_cut_pct: None,
            cut_by: if is_cut { CutBy::Limit } else { CutBy::Nothing },
        }
    }

    /// Waits for a processor.
    pub(super) fn run_queue(&mut self, seen: &Seen, of: &traced::Processor) -> RunQueue {
        let now = nanos(seen.ended);
        let (mut all, mut open) = (Counted::default(), Lasting::default());
        for (_, process) in &of.processes {
            all.merge(&process.for_processor.ended);
            open.add(process.for_processor.open(now));
        }
        let waited = |sort: &Sort| sort.ended.count() > 0 || sort.open(now).count > 0;
        let rows = of.processes.iter().filter(|(_, process)| waited(&process.for_processor));
        let rows = self.top(rows.collect(), |(_, process)| weight(&process.for_processor, now));
        RunQueue {
            measured_by: Mechanism::Ebpf,
            all: all.waits(),
            open: Observed::Known(open.shown()),
            processes: rows
                .into_iter()
                .map(|(key, process)| Queued {
                    pid: key.pid,
                    name: self.names.of(key.pid, &process.ran.name),
                    waits: process.for_processor.ended.waits(),
                    open: Observed::Known(process.for_processor.open(now).shown()),
                })
                .collect(),
            ran: self.ran(seen, of),
        }
    }

    /// Who had the processors, whoever was asked for.
    fn ran(&self, seen: &Seen, of: &traced::Processor) -> Vec<Ran> {
        let mut all: BTreeMap<ProcessKey, (u64, _)> = BTreeMap::new();
        let watched = of.processes.iter().map(|(key, process)| (key, &process.ran));
        for (key, ran) in watched.chain(of.others.iter().map(|(key, ran)| (key, ran))) {
            let place = all.entry(*key).or_insert_with(|| (0, ran.name.clone()));
            place.0 = place.0.saturating_add(ran.ns);
        }
        for occupant in &of.occupants {
            let until_end = nanos(seen.ended).saturating_sub(occupant.since_ns);
            let is_process =
                occupant.process.pid != 0 && !seen.apart.contains(&occupant.process.pid);
            if is_process && occupant.since_ns > 0 {
                let place = all.entry(occupant.process).or_default();
                place.0 = place.0.saturating_add(until_end);
            }
        }
        let mut all: Vec<_> = all.into_iter().collect();
        order::by_key(&mut all, |(_, (ns, _))| Reverse(*ns));
        let window = seen.ended.saturating_sub(seen.began);
        let share = |ns| Percent::of_time(Duration::from_nanos(ns), window).unwrap_or_default();
        all.into_iter()
            .map(|(key, (ns, name))| Ran {
                pid: key.pid,
                name: self.names.of(key.pid, &name),
                cpu_pct: share(ns),
            })
            .filter(|ran| ran.cpu_pct.get() > 0.0)
            .take(MOST_RAN)
            .collect()
    }

    /// Waits off the processor. Who only slept is no row: it may have had nothing to do.
    pub(super) fn off_cpu(&mut self, seen: &Seen, of: &traced::Processor) -> OffCpu {
        let now = nanos(seen.ended);
        let (mut stuck, mut asleep) = (Counted::default(), Counted::default());
        let mut open = Lasting::default();
        for (_, process) in &of.processes {
            stuck.merge(&process.uninterruptible.ended);
            asleep.merge(&process.asleep.ended);
            open.add(process.uninterruptible.open(now));
        }
        let is_only = of.processes.len() == 1;
        let waited = |sort: &Sort| sort.ended.count() > 0 || sort.open(now).count > 0;
        let rows = of.processes.iter();
        let rows = rows.filter(|(_, process)| is_only || waited(&process.uninterruptible));
        let rows = self.top(rows.collect(), |(_, process)| weight(&process.uninterruptible, now));
        OffCpu {
            measured_by: Mechanism::Ebpf,
            uninterruptible: stuck.waits(),
            open: Observed::Known(open.shown()),
            asleep: asleep.waits(),
            processes: rows
                .into_iter()
                .map(|(key, process)| Sleeper {
                    pid: key.pid,
                    name: self.names.of(key.pid, &process.ran.name),
                    uninterruptible: process.uninterruptible.ended.waits(),
                    open: Observed::Known(process.uninterruptible.open(now).shown()),
                    asleep: process.asleep.ended.waits(),
                })
                .collect(),
        }
    }

    /// Requests to block devices.
    pub(super) fn block(
        &mut self,
        seen: &Seen,
        of: &traced::Block,
        pressure_some_pct: Observed<Percent>,
    ) -> Block {
        let now = nanos(seen.ended);
        let mut all = Counted::default();
        for (_, submitted) in &of.submitters {
            all.merge(&submitted.whole);
        }
        let mut open = Lasting::default();
        for request in &of.under_way {
            let lasted = now.saturating_sub(request.since_ns);
            open.add(Lasting { count: 1, ns: lasted });
        }
        let took = |moved: &Moved| moved.queue.total_ns().saturating_add(moved.device.total_ns());
        let devices = self.top(of.devices.iter().collect(), |(_, moved)| took(moved));
        let submitters = of.submitters.iter().collect();
        let submitters = self.top(submitters, |(_, submitted)| submitted.whole.total_ns());
        Block {
            measured_by: Mechanism::Ebpf,
            all: all.waits(),
            open: Observed::Known(open.shown()),
            devices: devices
                .into_iter()
                .map(|(key, moved)| BlockDevice {
                    device: self.devices.name(key.major, key.minor),
                    operation: key.operation,
                    bytes: Bytes(moved.bytes),
                    errors: Observed::Known(moved.errors),
                    queue: moved.queue.waits(),
                    device_time: moved.device.waits(),
                })
                .collect(),
            submitters: submitters
                .into_iter()
                .map(|(key, submitted)| Submitter {
                    pid: key.process.pid,
                    name: self.names.of(key.process.pid, &submitted.name),
                    kind: if key.is_kernel_thread {
                        SubmitterKind::KernelWorker
                    } else {
                        SubmitterKind::Process
                    },
                    device: self.devices.name(key.device.major, key.device.minor),
                    operation: key.device.operation,
                    bytes: Bytes(submitted.bytes),
                    waits: submitted.whole.waits(),
                })
                .collect(),
            pressure_some_pct,
        }
    }

    /// TCP. `is_own` says whether a socket, by its inode, is of what was asked for.
    pub(super) fn tcp(
        &mut self,
        seen: &Seen,
        of: &traced::Tcp,
        is_own: impl Fn(u64) -> bool,
    ) -> Tcp {
        let now = nanos(seen.ended);
        let (mut connected, mut others) = (Counted::default(), 0_u64);
        let mut rows: BTreeMap<_, Connected> = BTreeMap::new();
        for (key, row) in &of.connects {
            if key.outcome == Outcome::Connected {
                connected.merge(&row.took);
            } else {
                others = others.saturating_add(row.took.count());
            }
            let key = (key.outcome, key.process, key.peer.0);
            let none = || Connected { name: row.name.clone(), took: Counted::default() };
            rows.entry(key).or_insert_with(none).took.merge(&row.took);
        }
        for attempt in &of.connecting {
            others = others.saturating_add(1);
            let key = (Outcome::Pending, attempt.process, attempt.peer.0);
            let none = || Connected { name: attempt.name.clone(), took: Counted::default() };
            let row = rows.entry(key).or_insert_with(none);
            row.took.add(now.saturating_sub(attempt.since_ns));
        }
        // What did not come about first, each by how long it took.
        let weight = |((outcome, _, _), row): &((Outcome, _, _), Connected)| {
            let failed = if *outcome == Outcome::Connected { 0 } else { 1 << 62 };
            row.took.total_ns().min(1 << 61) | failed
        };
        let connects = self.top(rows.into_iter().collect(), weight);
        let resent = of.resent.iter().filter(|(key, _)| is_own(key.inode));
        let resent: Vec<_> = resent.collect();
        let resent_total = resent.iter().map(|(_, count)| count).sum();
        let resent = self.top(resent, |(_, count)| *count);
        Tcp {
            measured_by: Mechanism::Ebpf,
            connected: connected.waits(),
            not_connected: Observed::Known(others),
            connects: connects
                .into_iter()
                .map(|((outcome, process, peer), row)| Connect {
                    peer: Peer(peer).shown(),
                    pid: Some(process.pid),
                    name: Some(self.names.of(process.pid, &row.name)),
                    outcome,
                    waits: row.took.waits(),
                })
                .collect(),
            resent_total: Observed::Known(resent_total),
            resent: resent
                .into_iter()
                .map(|(key, count)| Resent {
                    peer: key.peer.shown(),
                    local_port: key.local_port,
                    is_handshake: key.is_handshake,
                    count: *count,
                })
                .collect(),
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What waits weigh: those that ended, and what has lasted of the others.
fn weight(sort: &Sort, now: u64) -> u64 {
    sort.ended.total_ns().saturating_add(sort.open(now).ns)
}

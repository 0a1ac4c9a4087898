//! What was seen, grouped by call and by subject.

use super::super::{
    call::{Call, error_name},
    seen::{Knows, Seen, SubjectId, Tally, Trace},
};
use crate::{order, rank};
use protocol::{
    instruments::syscall_trace::{CallCount, CallRow, ErrorRow, Mode, Sort, SubjectRow, Timing},
    loss::Truncation,
    observed::{Observed, Reason},
    units::{Micros, Percent},
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    hash::Hash,
};

/// Errors in the row of a call.
const MOST_ERRORS: usize = 8;

/// Errors in the row of a subject.
const MOST_ERRORS_OF_SUBJECT: usize = 3;

/// Calls in the row of a subject.
const MOST_CALLS_OF_SUBJECT: usize = 5;

/// A value, where the engine can tell it.
pub(super) fn if_known<T>(is_known: bool, value: T) -> Observed<T> {
    if is_known { Observed::Known(value) } else { Observed::Unknown(Reason::NotByEngine) }
}

/// What belongs into one row.
#[derive(Debug, Default)]
struct Group {
    succeeded: Tally,
    by_error: BTreeMap<u16, Tally>,
    by_call: BTreeMap<Call, Tally>,
    pids: BTreeSet<u32>,
}

impl Group {
    fn add(&mut self, row: &Seen) {
        let tally = match row.errno {
            0 => &mut self.succeeded,
            errno => self.by_error.entry(errno).or_default(),
        };
        tally.merge(&row.tally);
        self.by_call.entry(row.call).or_default().merge(&row.tally);
        self.pids.insert(row.pid);
    }

    fn failed(&self) -> u64 {
        self.by_error.values().map(|tally| tally.count).fold(0, u64::saturating_add)
    }

    /// Those that succeeded and those that failed.
    fn all(&self) -> Tally {
        let mut all = self.succeeded;
        self.by_error.values().for_each(|tally| all.merge(tally));
        all
    }

    fn weight(&self, sort: Sort) -> f64 {
        let all = self.all();
        let weight = match sort {
            Sort::Total => all.total_ns,
            Sort::Count => all.count,
            Sort::Errors => self.failed(),
            Sort::Max => all.max_ns,
        };
        weight as f64
    }
}

/// Groups by a key, the heaviest first.
fn grouped<K: Ord + Copy + Hash>(
    seen: &[Seen],
    is_wait: bool,
    key: impl Fn(&Seen) -> Option<K>,
    sort: Sort,
) -> Ranked<K> {
    let mut groups: BTreeMap<K, Group> = BTreeMap::new();
    for row in seen.iter().filter(|row| row.is_wait == is_wait) {
        if let Some(key) = key(row) {
            groups.entry(key).or_default().add(row);
        }
    }
    let all_ns = groups.values().map(|group| group.all().total_ns).fold(0, u64::saturating_add);
    let mut groups: Vec<(K, Group, f64)> = groups
        .into_iter()
        .map(|(key, group)| {
            let weight = group.weight(sort);
            (key, group, weight)
        })
        .collect();
    // Of equal weight, what takes longer comes first: not every failure is worth the same.
    order::by(&mut groups, |(_, left, left_weight), (_, right, right_weight)| {
        let rest = || right.all().total_ns.cmp(&left.all().total_ns);
        right_weight.total_cmp(left_weight).then_with(rest)
    });
    Ranked { groups, all_ns }
}

struct Ranked<K> {
    groups: Vec<(K, Group, f64)>,
    all_ns: u64,
}

impl<K> Ranked<K> {
    /// So many rows, and what is left out.
    fn page<T>(&self, rows: usize, row: impl Fn(&K, &Group) -> T) -> (Vec<T>, Truncation) {
        let weight = |index: &usize| {
            let group = self.groups.get(*index);
            Observed::Known(group.map_or(0.0, |(_, _, weight)| *weight))
        };
        let page = rank::page((0..self.groups.len()).collect(), weight, 0, rows);
        let shown = page.rows.iter().filter_map(|index| self.groups.get(*index));
        (shown.map(|(key, group, _)| row(key, group)).collect(), page.truncation)
    }
}

/// The lists of an answer, whole.
pub(super) struct Lists<'t> {
    trace: &'t Trace,
    mode: Mode,
    calls: [Ranked<Call>; 2],
    subjects: [Ranked<SubjectId>; 2],
}

impl<'t> Lists<'t> {
    pub(super) fn of(trace: &'t Trace, (mode, sort): (Mode, Sort)) -> Self {
        let by_call = |is_wait| grouped(&trace.seen, is_wait, |row| Some(row.call), sort);
        let by_subject = |is_wait| grouped(&trace.seen, is_wait, |row| row.subject, sort);
        Self {
            trace,
            mode,
            calls: [by_call(false), by_call(true)],
            subjects: [by_subject(false), by_subject(true)],
        }
    }

    pub(super) fn calls(&self, rows: usize) -> (Vec<CallRow>, Truncation) {
        let [works, _] = &self.calls;
        works.page(rows, |call, group| call_row(*call, group, works.all_ns, self.trace.knows))
    }

    pub(super) fn waits(&self, rows: usize) -> (Vec<CallRow>, Truncation) {
        let [_, waits] = &self.calls;
        waits.page(rows, |call, group| call_row(*call, group, waits.all_ns, self.trace.knows))
    }

    /// What calls that work are about; the reason where that was not asked for, or the engine cannot
    /// tell.
    pub(super) fn subjects(&self, rows: usize) -> (Observed<Vec<SubjectRow>>, Truncation) {
        let [works, _] = &self.subjects;
        self.subject_rows(works, rows)
    }

    pub(super) fn waited_for(&self, rows: usize) -> (Observed<Vec<SubjectRow>>, Truncation) {
        let [_, waits] = &self.subjects;
        self.subject_rows(waits, rows)
    }

    fn subject_rows(
        &self,
        ranked: &Ranked<SubjectId>,
        rows: usize,
    ) -> (Observed<Vec<SubjectRow>>, Truncation) {
        let (rows, truncation) =
            ranked.page(rows, |id, group| subject_row(*id, group, ranked.all_ns, self.trace));
        let rows = rows.into_iter().flatten().collect();
        let is_known = match self.mode {
            Mode::Summary => Err(Reason::NotAskedFor),
            Mode::Detailed if !self.trace.knows.subjects => Err(Reason::NotByEngine),
            Mode::Detailed => Ok(rows),
        };
        (is_known.into(), truncation)
    }
}

/// Where times are not known, what was weighed in their place has shares all the same.
fn share(part_ns: u64, all_ns: u64, knows: Knows) -> Observed<Percent> {
    if !knows.totals && all_ns == 0 {
        return Observed::Unknown(Reason::NotByEngine);
    }
    Percent::of(part_ns as f64, all_ns as f64).ok_or(Reason::NoSamples).into()
}

fn call_row(call: Call, group: &Group, all_ns: u64, knows: Knows) -> CallRow {
    let all = group.all();
    CallRow {
        call: call.name(),
        is_32_bit: call.is_32_bit,
        count: if_known(knows.counts, all.count),
        failed: if_known(knows.counts && knows.errors, group.failed()),
        total_us: if_known(knows.totals, Micros::from_ns(all.total_ns)),
        share_pct: share(all.total_ns, all_ns, knows),
        succeeded: (group.succeeded.count > 0)
            .then(|| timing(&group.succeeded, knows.of_part(group.by_error.is_empty()))),
        errors: errors(&group.by_error, MOST_ERRORS, knows.of_part(false)),
        processes: u32::try_from(group.pids.len()).unwrap_or(u32::MAX),
    }
}

fn timing(tally: &Tally, knows: Knows) -> Timing {
    let percentiles = if_known(knows.latency, ());
    Timing {
        count: if_known(knows.counts, tally.count),
        total_us: if_known(knows.totals, Micros::from_ns(tally.total_ns)),
        max_us: if_known(knows.maxima, Micros::from_ns(tally.max_ns)),
        percentiles: percentiles
            .and_then(|()| tally.latency.percentiles(tally.max_ns).ok_or(Reason::NoSamples)),
        latency: if_known(knows.latency, tally.latency.histogram()),
    }
}

fn errors(by_error: &BTreeMap<u16, Tally>, most: usize, knows: Knows) -> Vec<ErrorRow> {
    // Several numbers may have one name.
    let mut named: BTreeMap<_, Tally> = BTreeMap::new();
    for (errno, tally) in by_error {
        named.entry(error_name(*errno)).or_default().merge(tally);
    }
    let mut named: Vec<_> = named.into_iter().collect();
    order::by_key(&mut named, |(_, tally)| Reverse(tally.count));
    let row = |(error, tally): (_, Tally)| ErrorRow {
        error,
        count: if_known(knows.counts, tally.count),
        total_us: if_known(knows.totals, Micros::from_ns(tally.total_ns)),
        max_us: if_known(knows.maxima, Micros::from_ns(tally.max_ns)),
    };
    named.into_iter().take(most).map(row).collect()
}

fn subject_row(id: SubjectId, group: &Group, all_ns: u64, trace: &Trace) -> Option<SubjectRow> {
    let knows = trace.knows;
    let all = group.all();
    let mut calls: Vec<_> = group.by_call.iter().collect();
    order::by_key(&mut calls, |(_, tally)| Reverse(tally.count));
    let calls = calls.into_iter().take(MOST_CALLS_OF_SUBJECT).map(|(call, tally)| CallCount {
        call: call.name(),
        count: if_known(knows.counts, tally.count),
        total_us: if_known(knows.totals, Micros::from_ns(tally.total_ns)),
    });
    let mut pids = group.pids.iter();
    Some(SubjectRow {
        subject: trace.subjects.get(id)?.clone(),
        count: if_known(knows.counts, all.count),
        failed: if_known(knows.counts && knows.errors, group.failed()),
        total_us: if_known(knows.totals, Micros::from_ns(all.total_ns)),
        max_us: if_known(knows.maxima, Micros::from_ns(all.max_ns)),
        share_pct: share(all.total_ns, all_ns, knows),
        calls: calls.collect(),
        errors: errors(&group.by_error, MOST_ERRORS_OF_SUBJECT, knows.of_part(false)),
        processes: u32::try_from(group.pids.len()).unwrap_or(u32::MAX),
        pid: pids.next().copied().filter(|_| pids.next().is_none()),
    })
}

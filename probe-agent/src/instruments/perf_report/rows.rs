//! Rows of answers about a recording.

use crate::stack::{
    profile::{Chain, Change, Profile, Row},
    stored::Line,
};
use protocol::{
    host_text::HostText,
    instruments::perf_report::{ChainRow, ChangeRow, LineRow, ModuleRow, ThreadRow},
    recording::{Function, FunctionRow},
    units::Percent,
};

/// A function's name with its file.
pub(in crate::instruments) fn shown(profile: &Profile, function: u32) -> HostText {
    HostText::escaped(profile.shown(function))
}

/// A function of a ranking. `all` is the weight of all samples, here and below.
pub(in crate::instruments) fn function(
    row: &Row,
    (profile, all): (&Profile, u64),
    lines: &[Line],
) -> Option<FunctionRow> {
    /// Bytes of a source's path in a row.
    const PATH_BYTES: usize = 48;
    let index = row.index?;
    let Function { name, module, kind } = profile.described(index)?;
    let line = lines.iter().filter(|line| line.function == index).max_by_key(|line| line.weight);
    let line = line.map(|line| {
        let path = HostText::escaped(line.file.clone()).end_of_path(PATH_BYTES);
        HostText::escaped(format!("{path}:{}", line.line))
    });
    let (self_pct, total_pct) = (part(row.share.own, all), part(row.share.total, all));
    Some(FunctionRow { name, module, kind, self_pct, total_pct, line })
}

pub(super) fn module(row: &Row, (profile, all): (&Profile, u64)) -> ModuleRow {
    let (self_pct, total_pct) = (part(row.share.own, all), part(row.share.total, all));
    let name = row.index.and_then(|index| profile.module_name(index));
    ModuleRow { name, self_pct, total_pct }
}

pub(super) fn thread(row: &Row, (profile, all): (&Profile, u64)) -> Option<ThreadRow> {
    let index = usize::try_from(row.index?).ok()?;
    let thread = profile.threads().get(index)?;
    Some(ThreadRow {
        pid: thread.pid,
        tid: thread.tid,
        name: HostText::escaped(thread.name.clone()),
        pct: part(row.share.own, all),
    })
}

pub(super) fn chain(chain: Chain, of_function: u64, (profile, all): (&Profile, u64)) -> ChainRow {
    ChainRow {
        of_function_pct: part(chain.weight, of_function),
        pct: part(chain.weight, all),
        calls: chain.functions.into_iter().map(|function| shown(profile, function)).collect(),
        goes_on: chain.goes_on,
    }
}

pub(super) fn line(line: Line, (profile, all): (&Profile, u64)) -> Option<LineRow> {
    Some(LineRow {
        function: profile.described(line.function)?.name,
        file: HostText::escaped(line.file),
        line: line.line,
        pct: part(line.weight, all),
    })
}

pub(super) fn change(change: &Change) -> ChangeRow {
    let percent = |part: f64| Percent::of(part, 1.0).unwrap_or_default();
    ChangeRow {
        function: HostText::escaped(change.function.clone()),
        before_total_pct: percent(change.before[1]),
        after_total_pct: percent(change.after[1]),
        before_self_pct: percent(change.before[0]),
        after_self_pct: percent(change.after[0]),
        is_significant: change.is_significant,
    }
}

fn part(part: u64, all: u64) -> Percent {
    Percent::of(part as f64, all as f64).unwrap_or_default()
}

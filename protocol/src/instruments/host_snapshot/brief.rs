//! What a brief answer does without.
//!
//! Most numbers that are 0 are not there, which the answer says of itself (`detail` is `brief`); nor
//! is what there is none of, and what only explains other numbers. A number that could not be measured stays, as `null` and with its reason:
//! that is another thing than 0.

use super::{Detail, Report};
use crate::view::nulls::Nulls;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The bytes of a brief answer, at most, with what is concluded from it.
pub const BRIEF_BYTES: usize = 1_500;

/// Of them, what is kept free for that.
pub const CONCLUSION_BYTES: usize = 340;

/// What is said also where it is 0: by these a machine is found to be well.
const SAID_ALSO_OF_ZERO: [&str; 14] = [
    "cpu.user_pct",
    "cpu.system_pct",
    "cpu.steal_pct",
    "cpu.iowait_pct",
    "pressure.cpu_some_pct",
    "pressure.io_some_pct",
    "pressure.memory_some_pct",
    "memory.oom_kills",
    "tcp.retransmitted_per_s",
    "tcp.listen_drops_per_s",
    "blocked.tasks",
    "cgroups.throttled_total",
    "cgroups.limited_total",
    "mounts.no_answer_total",
];

/// `answer` says it, where a file system has no numbers.
const SAID_ELSEWHERE: [&str; 2] = ["mounts.ranked[].used_pct", "mounts.ranked[].inodes_used_pct"];

/// What only a full answer has, as its description says: it explains other numbers, or counts what
/// `meta.truncation` counts too.
const ONLY_IN_FULL: [&str; 7] = [
    "cpu.switches_per_s",
    "memory.dirty_bytes",
    "disks_total",
    "interfaces_total",
    "tcp.segments_sent_per_s",
    "cgroups.found",
    "mounts.total",
];

/// Leaves out of a brief answer what it does without.
pub(super) fn shorten(report: &Report, fields: &mut Map<String, Value>, nulls: &mut Nulls) {
    if report.detail != Detail::Brief {
        return;
    }
    for path in SAID_ELSEWHERE {
        nulls.not_measured.remove(path);
    }
    for path in ONLY_IN_FULL {
        nulls.not_measured.remove(path);
    }
    prune(fields, "", &nulls.not_measured);
    nulls.absent.clear();
    nulls.not_measured = folded(std::mem::take(&mut nulls.not_measured));
    nulls.is_brief = true;
}

fn prune(fields: &mut Map<String, Value>, above: &str, kept_nulls: &BTreeMap<String, String>) {
    fields.retain(|name, value| {
        let path = format!("{above}{name}");
        if ONLY_IN_FULL.contains(&path.as_str()) {
            return false;
        }
        match value {
            Value::Null => kept_nulls.contains_key(&path),
            Value::Number(number) => {
                number.as_f64() != Some(0.0) || SAID_ALSO_OF_ZERO.contains(&path.as_str())
            }
            Value::Object(fields) => {
                prune(fields, &format!("{path}."), kept_nulls);
                !fields.is_empty()
            }
            Value::Array(rows) => {
                for row in rows.iter_mut().filter_map(Value::as_object_mut) {
                    prune(row, &format!("{path}[]."), kept_nulls);
                }
                !rows.is_empty()
            }
            Value::Bool(_) | Value::String(_) => true,
        }
    });
}

/// One entry for all fields of an object that are missing for the same reason.
fn folded(reasons: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let parent = |path: &str| path.rsplit_once('.').map(|(parent, _)| format!("{parent}.*"));
    let alike = |path: &str, reason: &String| {
        reasons
            .iter()
            .filter(|(other, said)| parent(other) == parent(path) && *said == reason)
            .count()
    };
    reasons
        .iter()
        .map(|(path, reason)| match parent(path) {
            Some(parent) if alike(path, reason) > 1 => (parent, reason.clone()),
            Some(_) | None => (path.clone(), reason.clone()),
        })
        .collect()
}

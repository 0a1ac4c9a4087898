//! What bpftrace writes for the fixed programs of ours: sums that it made in the kernel.
//!
//! The programs are texts of the agent; all that differs between two runs are numbers. bpftrace 0.17 and
//! later write a line of JSON for each map (`-f json`), and one for what the kernel's ring had no room for.
//!
//! Reference: `src/output.cpp` of bpftrace (`JsonOutput`).

use protocol::histogram::Log2;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Ends at once: for a trial.
pub const NOTHING: &str = "BEGIN { exit(); }";

/// Calls of some processes and of what they start.
pub const OF_PROCESSES: &str = include_str!("bpftrace/of_processes.bt");

/// Calls of all processes but a few.
pub const OF_ALL: &str = include_str!("bpftrace/of_all.bt");

/// Processes that can be named to a program.
pub const MOST_PROCESSES: usize = 32;

/// Numbers that a program takes: the processes, and calls that start one.
pub const MOST_NUMBERS: usize = MOST_PROCESSES + STARTING.len();

/// Calls that start a thread or a process, by the processor's numbers: fork, vfork, clone, clone3.
#[cfg(target_arch = "x86_64")]
pub const STARTING: [u32; 4] = [57, 58, 56, 435];
/// Calls that start a thread or a process, by the processor's numbers: clone, clone3.
#[cfg(target_arch = "aarch64")]
pub const STARTING: [u32; 4] = [220, 435, 435, 435];

/// Keys of one map. What does not fit is not counted by bpftrace 0.17, and not told either.
pub const MOST_KEYS: usize = 16_384;

/// The longest line that is read: a map of [`MOST_KEYS`] histograms is shorter.
const LONGEST_LINE: usize = 16 << 20;

/// Calls of one kind of one process that ended alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub count: u64,
    /// All together, in nanoseconds.
    pub total_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
    /// By powers of two; nothing of those that failed.
    pub latency: Log2,
}

/// Which calls a sum is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The process.
    pub pid: u32,
    /// The call's number, of this processor's own programs or of those of 32 bits: bpftrace does not tell.
    pub call: u32,
    /// The error's number; 0 for those that succeeded.
    pub errno: u16,
}

/// A call that had not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The process.
    pub pid: u32,
    /// The call's number.
    pub call: u32,
    /// How long it had taken, in nanoseconds.
    pub since_ns: u64,
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Sums, by what they are of.
    pub sums: BTreeMap<Key, Sum>,
    /// Calls that had not ended, by thread.
    pub pending: BTreeMap<u32, Pending>,
    /// Calls that ended and had begun before.
    pub begun_before: u64,
    /// Calls of which the start or the end was missed.
    pub missed: u64,
    /// Events that bpftrace says were lost.
    pub lost: u64,
    /// How long was watched, in nanoseconds; none where bpftrace was ended before it could say.
    pub window_ns: Option<u64>,
    /// A map has as many keys as there is room for, so some may not be counted.
    pub is_full: bool,
    /// Lines that were not understood.
    pub malformed: u64,
}

/// Reads what bpftrace writes, as it comes.
#[derive(Debug, Default)]
pub struct Reader {
    pending: Vec<u8>,
    is_passing_over: bool,
    has_begun: bool,
    maps: BTreeMap<String, Map<String, Value>>,
    numbers: BTreeMap<String, u64>,
    counted: Counted,
}

impl Reader {
    /// Takes what came.
    pub fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let is_whole = piece.ends_with(b"\n");
            if self.is_passing_over {
                self.is_passing_over = !is_whole;
            } else if self.pending.len().saturating_add(piece.len()) > LONGEST_LINE {
                self.pending.clear();
                self.is_passing_over = !is_whole;
                self.counted.malformed = self.counted.malformed.saturating_add(1);
            } else {
                self.pending.extend_from_slice(piece);
                if is_whole {
                    let line = std::mem::take(&mut self.pending);
                    self.line(line.trim_ascii());
                }
            }
        }
    }

    /// Whether the programs are attached.
    pub const fn has_begun(&self) -> bool {
        self.has_begun
    }

    fn line(&mut self, line: &[u8]) {
        if !line.is_empty() && self.understand(line).is_none() {
            self.counted.malformed = self.counted.malformed.saturating_add(1);
        }
    }

    fn understand(&mut self, line: &[u8]) -> Option<()> {
        let mut line: Map<String, Value> = serde_json::from_slice(line).ok()?;
        let data = line.remove("data")?;
        match line.get("type")?.as_str()? {
            "attached_probes" => self.has_begun = true,
            "lost_events" => {
                let events = data.get("events").and_then(Value::as_u64)?;
                self.counted.lost = self.counted.lost.saturating_add(events);
            }
            "map" | "hist" => {
                let Value::Object(maps) = data else { return None };
                for (name, value) in maps {
                    match value {
                        Value::Object(keys) => {
                            self.counted.is_full |= keys.len() >= MOST_KEYS;
                            self.maps.insert(name, keys);
                        }
                        Value::Null
                        | Value::Bool(_)
                        | Value::Number(_)
                        | Value::String(_)
                        | Value::Array(_) => {
                            self.numbers.insert(name, value.as_u64()?);
                        }
                    }
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// Nothing more comes.
    pub fn finish(mut self) -> Counted {
        if !self.pending.is_empty() {
            self.counted.malformed = self.counted.malformed.saturating_add(1);
        }
        let number = |name| self.numbers.get(name).copied();
        self.counted.begun_before = number("@begun_before").unwrap_or_default();
        self.counted.missed = number("@missed").unwrap_or_default();
        self.counted.window_ns = number("@window_ns");
        let now = number("@now").unwrap_or_default();
        for (name, take) in SUMS {
            for (key, value) in self.maps.remove(name).unwrap_or_default() {
                let sum = sum_key(&key).map(|key| self.counted.sums.entry(key).or_default());
                if sum.and_then(|sum| take(sum, &value)).is_none() {
                    self.counted.malformed = self.counted.malformed.saturating_add(1);
                }
            }
        }
        // A sum without a count is one of which the count did not fit.
        self.counted.sums.retain(|_, sum| sum.count > 0);
        let started = self.maps.remove("@started").unwrap_or_default();
        for (tid, began) in &started {
            let of = |map: &str| self.maps.get(map)?.get(tid)?.as_u64()?.try_into().ok();
            if let (Ok(tid), Some(pid), Some(call), Some(began)) =
                (tid.parse(), of("@process"), of("@doing"), began.as_u64())
            {
                let since_ns = now.saturating_sub(began);
                self.counted.pending.insert(tid, Pending { pid, call, since_ns });
            }
        }
        self.counted
    }
}

/// Puts a map's value into a sum.
type Take = fn(&mut Sum, &Value) -> Option<()>;

/// The maps that make sums.
const SUMS: [(&str, Take); 7] = [
    ("@ended", |sum, value| value.as_u64().map(|count| sum.count = count)),
    ("@ended_ns", |sum, value| value.as_u64().map(|ns| sum.total_ns = ns)),
    ("@ended_longest_ns", |sum, value| value.as_u64().map(|ns| sum.max_ns = ns)),
    ("@ended_hist_ns", |sum, value| {
        for bucket in value.as_array()? {
            let count = bucket.get("count")?.as_u64()?;
            // The first has no lower bound, or 0 and 1 by themselves.
            let least = bucket.get("min").and_then(Value::as_u64).unwrap_or_default();
            sum.latency.add_to(Log2::bucket_of(least), count);
        }
        Some(())
    }),
    ("@failed", |sum, value| value.as_u64().map(|count| sum.count = count)),
    ("@failed_ns", |sum, value| value.as_u64().map(|ns| sum.total_ns = ns)),
    ("@failed_longest_ns", |sum, value| value.as_u64().map(|ns| sum.max_ns = ns)),
];

/// `pid,call`, or `pid,call,-errno`.
fn sum_key(text: &str) -> Option<Key> {
    let mut parts = text.split(',');
    let (pid, call) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let errno = match parts.next() {
        Some(error) => error.strip_prefix('-')?.parse().ok()?,
        None => 0,
    };
    parts.next().is_none().then_some(Key { pid, call, errno })
}

/// The numbers for a program: processes, and calls that start one. Those for which there is no room are
/// left out, and how many that are.
pub fn numbers(pids: &BTreeSet<u32>) -> (Vec<u32>, usize) {
    let mut numbers: Vec<u32> = pids.iter().copied().take(MOST_PROCESSES).collect();
    let left_out = pids.len().saturating_sub(numbers.len());
    numbers.resize(MOST_PROCESSES, 0);
    numbers.extend(STARTING);
    (numbers, left_out)
}

#[cfg(test)]
mod tests;

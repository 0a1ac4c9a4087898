//! How long a thread ran and how long it waited for a processor, in nanoseconds.
//!
//! Source: `/proc/PID/schedstat`, `/proc/PID/task/TID/schedstat`, Linux 2.6.9 and later.
//! Kernel reference: `proc_pid_schedstat` in `fs/proc/base.c`,
//! `Documentation/scheduler/sched-stats.rst`.
//! Missing without `CONFIG_SCHED_INFO`; all zeros when `sched_info` is off.
//!
//! `/proc/PID/schedstat` is of the first thread only. A process is the sum over `task/*`.

use super::parse::{ParseError, fields, number};

/// One line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedStat {
    /// Time on a processor, in nanoseconds.
    pub running_ns: u64,
    /// Time runnable and waiting for a processor, in nanoseconds. Includes the time for which a
    /// quota held it back.
    pub run_delay_ns: u64,
    /// Times it was put on a processor.
    pub switches: u64,
}

impl SchedStat {
    /// What happened since an earlier read; `None` when a counter is smaller than it was.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        Some(Self {
            running_ns: self.running_ns.checked_sub(earlier.running_ns)?,
            run_delay_ns: self.run_delay_ns.checked_sub(earlier.run_delay_ns)?,
            switches: self.switches.checked_sub(earlier.switches)?,
        })
    }

    /// Time on a processor or waiting for one, in nanoseconds.
    pub const fn demand_ns(&self) -> u64 {
        self.running_ns.saturating_add(self.run_delay_ns)
    }

    /// Adds another thread's.
    pub const fn add(&mut self, other: &Self) {
        self.running_ns = self.running_ns.saturating_add(other.running_ns);
        self.run_delay_ns = self.run_delay_ns.saturating_add(other.run_delay_ns);
        self.switches = self.switches.saturating_add(other.switches);
    }
}

/// Parses the line.
///
/// # Errors
///
/// With fewer than three fields, or with one that is not a number.
pub fn parse(text: &[u8]) -> Result<SchedStat, ParseError> {
    let mut values = fields(text.trim_ascii());
    let mut next = |expected| {
        let field = values.next().ok_or(ParseError::MissingField { line_number: 1, expected })?;
        number(field, 1)
    };
    Ok(SchedStat {
        running_ns: next("running time")?,
        run_delay_ns: next("run delay")?,
        switches: next("time slices")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let want = SchedStat { running_ns: 12, run_delay_ns: 34, switches: 5 };
        assert_eq!(parse(b"12 34 5\n"), Ok(want));
        for wrong in ["", "12 34", "12 x 5"] {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}

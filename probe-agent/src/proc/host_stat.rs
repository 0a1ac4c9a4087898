//! The machine's processor time by mode, and how many tasks were created.
//!
//! Source: `/proc/stat`. Kernel reference: `fs/proc/stat.c`, `Documentation/filesystems/proc.rst`.
//! Always there. Counters may step back (`iowait` does, when a processor's idle accounting is
//! corrected), so every difference saturates at zero.

use super::{
    Root,
    parse::{ParseError, fields, lines, number, number_of},
};
use protocol::{
    observed::{Feature, Reason},
    units::Percent,
};

/// Processor time since boot, in clock ticks, summed over all processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostStat {
    /// In user mode, guests included.
    pub user_ticks: u64,
    /// In user mode at lowered priority.
    pub nice_ticks: u64,
    /// In the kernel.
    pub system_ticks: u64,
    /// Idle.
    pub idle_ticks: u64,
    /// Idle while a task waited for storage. Idle all the same.
    pub iowait_ticks: u64,
    /// In interrupts.
    pub irq_ticks: u64,
    /// In deferred interrupt work.
    pub softirq_ticks: u64,
    /// Taken by a hypervisor.
    pub steal_ticks: u64,
    /// Processors online.
    pub cpus: u32,
    /// Context switches since boot.
    #[doc(alias = "ctxt")]
    pub switches: Option<u64>,
    /// Tasks on a processor or waiting for one.
    #[doc(alias = "procs_running")]
    pub runnable: Option<u64>,
    /// Tasks created since boot, threads included.
    #[doc(alias = "processes")]
    pub forks: u64,
}

impl HostStat {
    /// What happened since an earlier read.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user_ticks: self.user_ticks.saturating_sub(earlier.user_ticks),
            nice_ticks: self.nice_ticks.saturating_sub(earlier.nice_ticks),
            system_ticks: self.system_ticks.saturating_sub(earlier.system_ticks),
            idle_ticks: self.idle_ticks.saturating_sub(earlier.idle_ticks),
            iowait_ticks: self.iowait_ticks.saturating_sub(earlier.iowait_ticks),
            irq_ticks: self.irq_ticks.saturating_sub(earlier.irq_ticks),
            softirq_ticks: self.softirq_ticks.saturating_sub(earlier.softirq_ticks),
            steal_ticks: self.steal_ticks.saturating_sub(earlier.steal_ticks),
            cpus: self.cpus,
            switches: self
                .switches
                .zip(earlier.switches)
                .map(|(now, before)| now.saturating_sub(before)),
            runnable: self.runnable,
            forks: self.forks.saturating_sub(earlier.forks),
        }
    }

    /// Time in which a processor did something for this machine.
    pub const fn busy_ticks(&self) -> u64 {
        self.user_ticks
            .saturating_add(self.nice_ticks)
            .saturating_add(self.system_ticks)
            .saturating_add(self.irq_ticks)
            .saturating_add(self.softirq_ticks)
    }

    /// Time in which a processor was not idle, to whomever it went.
    pub const fn not_idle_ticks(&self) -> u64 {
        self.busy_ticks().saturating_add(self.steal_ticks)
    }

    /// What all processes can have used, at most. The kernel counts a processor's time by sampling
    /// at each tick, and a process's exactly; the two differ by some ticks.
    pub fn most_ticks(&self) -> u64 {
        let ticks = self.not_idle_ticks();
        ticks.saturating_add(ticks / 10).saturating_add(4 * u64::from(self.cpus.max(1)))
    }

    /// A part of all time.
    ///
    /// # Errors
    ///
    /// When no tick passed.
    pub fn share(&self, ticks: impl FnOnce(&Self) -> u64) -> Result<Percent, Reason> {
        Percent::of(ticks(self) as f64, self.total_ticks() as f64).ok_or(Reason::EmptyWindow)
    }

    /// All time.
    pub const fn total_ticks(&self) -> u64 {
        self.not_idle_ticks().saturating_add(self.idle_ticks).saturating_add(self.iowait_ticks)
    }
}

/// Reads the file.
///
/// # Errors
///
/// Why it could not be read or understood.
pub fn read(root: &Root) -> Result<HostStat, Reason> {
    let mut text = Vec::new();
    root.read_proc("stat", &mut text).map_err(|error| error.reason_of_file(Feature::Field))?;
    parse(&text).map_err(|error| Reason::NotUnderstood(error.shown()))
}

/// Parses the file. Fields that an old kernel does not have are zero, because such a kernel does
/// not account that time apart.
///
/// # Errors
///
/// Without the line for all processors, or with a field that is not a number.
pub fn parse(text: &[u8]) -> Result<HostStat, ParseError> {
    let mut stat = HostStat {
        forks: number_of(text, "processes")?,
        switches: number_of(text, "ctxt").ok(),
        runnable: number_of(text, "procs_running").ok(),
        ..HostStat::default()
    };
    let mut found = false;
    for (line_number, line) in lines(text) {
        let Some(rest) = line.strip_prefix(b"cpu") else { continue };
        if rest.first().is_some_and(u8::is_ascii_digit) {
            stat.cpus = stat.cpus.saturating_add(1);
            continue;
        }
        let mut values = fields(rest).map(|field| number(field, line_number));
        let mut next = || values.next().unwrap_or(Ok(0));
        stat.user_ticks = next()?;
        stat.nice_ticks = next()?;
        stat.system_ticks = next()?;
        stat.idle_ticks = next()?;
        stat.iowait_ticks = next()?;
        stat.irq_ticks = next()?;
        stat.softirq_ticks = next()?;
        stat.steal_ticks = next()?;
        found = true;
    }
    if found { Ok(stat) } else { Err(ParseError::MissingLine { expected: "cpu" }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &[u8] = b"cpu  100 1 50 800 20 2 3 4 0 0\ncpu0 50 0 25 400 10 1 1 2 0 0\n\
                          cpu1 50 1 25 400 10 1 2 2 0 0\nintr 1\nctxt 9\nbtime 1\nprocesses 77\n";

    #[test]
    fn counters_at_their_limit_add_up_to_the_limit() {
        let most = u64::MAX;
        let text = format!("cpu {most} {most} {most} {most}\nprocesses {most}\n");
        let stat = parse(text.as_bytes()).unwrap();
        assert_eq!((stat.busy_ticks(), stat.total_ticks()), (most, most));
    }

    #[test]
    fn busy_and_total_are_told_apart() {
        let stat = parse(TEXT).unwrap();
        assert_eq!((stat.cpus, stat.forks), (2, 77));
        assert_eq!((stat.switches, stat.runnable), (Some(9), None));
        assert_eq!((stat.busy_ticks(), stat.total_ticks()), (156, 980));
    }

    #[test]
    fn a_counter_that_steps_back_is_no_time() {
        let later = HostStat { iowait_ticks: 19, user_ticks: 110, ..parse(TEXT).unwrap() };
        let delta = later.since(&parse(TEXT).unwrap());
        assert_eq!((delta.iowait_ticks, delta.user_ticks), (0, 10));
    }

    #[test]
    fn an_old_kernel_has_fewer_fields() {
        let stat = parse(b"cpu 1 2 3 4\ncpu0 1 2 3 4\nprocesses 5\n").unwrap();
        assert_eq!((stat.idle_ticks, stat.steal_ticks, stat.cpus), (4, 0, 1));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_file_or_an_error(text in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&text);
        }
    }
}

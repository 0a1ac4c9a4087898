//! The machine's processor time by mode, and how many tasks were created.
//!
//! Source: `/proc/stat`. Kernel reference: `fs/proc/stat.c`, `Documentation/filesystems/proc.rst`.
//! Always there. Counters may step back: `iowait` and `idle` do when a processor's idle accounting is
//! corrected, and all may when a processor was off. A difference is therefore made for each
//! processor and each field by itself, and is never negative: one processor that steps back must
//! not take away what another one did.

use super::{
    Root,
    parse::{ParseError, fields, lines, number, number_of},
};
use protocol::{
    observed::{Feature, Reason},
    units::Percent,
};

/// Processor time since boot, in clock ticks, summed over all processors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Counters that were smaller than at the earlier read; 0 in what was read.
    pub set_back: u32,
    /// The processors that are online.
    each: Vec<CpuTicks>,
}

/// The kernel's order: user, nice, system, idle, iowait, irq, softirq, steal.
type Modes = [u64; 8];

/// The time of one processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CpuTicks {
    id: u64,
    ticks: Modes,
}

impl HostStat {
    /// What happened since an earlier read, on the processors that were online at both. Where the
    /// kernel lists none of them, on all together.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut delta = Self {
            cpus: self.cpus,
            switches: self
                .switches
                .zip(earlier.switches)
                .map(|(now, before)| now.saturating_sub(before)),
            runnable: self.runnable,
            forks: self.forks.saturating_sub(earlier.forks),
            ..Self::default()
        };
        let mut sum = Modes::default();
        let mut is_any = false;
        for now in &self.each {
            // The kernel lists them in order.
            let place = earlier.each.binary_search_by_key(&now.id, |cpu| cpu.id);
            if let Some(before) = place.ok().and_then(|place| earlier.each.get(place)) {
                is_any = true;
                delta.set_back += add_growth(&mut sum, now.ticks, before.ticks);
            }
        }
        if !is_any {
            delta.set_back = add_growth(&mut sum, self.modes(), earlier.modes());
        }
        delta.set_modes(sum);
        delta
    }

    const fn modes(&self) -> Modes {
        [
            self.user_ticks,
            self.nice_ticks,
            self.system_ticks,
            self.idle_ticks,
            self.iowait_ticks,
            self.irq_ticks,
            self.softirq_ticks,
            self.steal_ticks,
        ]
    }

    const fn set_modes(&mut self, modes: Modes) {
        [
            self.user_ticks,
            self.nice_ticks,
            self.system_ticks,
            self.idle_ticks,
            self.iowait_ticks,
            self.irq_ticks,
            self.softirq_ticks,
            self.steal_ticks,
        ] = modes;
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
        let mut values = fields(rest);
        let id = match rest.first() {
            Some(digit) if digit.is_ascii_digit() => {
                Some(number(values.next().unwrap_or_default(), line_number)?)
            }
            Some(_) | None => None,
        };
        let mut ticks = Modes::default();
        for (tick, value) in ticks.iter_mut().zip(values) {
            *tick = number(value, line_number)?;
        }
        if let Some(id) = id {
            stat.cpus = stat.cpus.saturating_add(1);
            stat.each.push(CpuTicks { id, ticks });
        } else {
            stat.set_modes(ticks);
            found = true;
        }
    }
    if found { Ok(stat) } else { Err(ParseError::MissingLine { expected: "cpu" }) }
}

/// Adds how far each counter grew. Gives how many of them shrank.
fn add_growth(sum: &mut Modes, now: Modes, before: Modes) -> u32 {
    let mut set_back = 0;
    for (sum, (now, before)) in sum.iter_mut().zip(now.into_iter().zip(before)) {
        match now.checked_sub(before) {
            Some(grown) => *sum = sum.saturating_add(grown),
            None => set_back += 1,
        }
    }
    set_back
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
    fn a_difference_is_of_each_processor_by_itself_and_never_negative() {
        let first = "cpu 300 0 0 3000 50 0 0 0\ncpu0 100 0 0 1000 40 0 0 0\n\
                     cpu1 100 0 0 1000 5 0 0 0\ncpu2 100 0 0 1000 5 0 0 0\nprocesses 1\n";
        let cases = [
            (
                "waiting for storage steps back on one processor",
                "cpu 320 0 0 3100 40 0 0 0\ncpu0 110 0 0 1040 20 0 0 0\n\
                 cpu1 105 0 0 1030 15 0 0 0\ncpu2 105 0 0 1030 5 0 0 0\nprocesses 1\n",
                (20, 100, 10, 1),
            ),
            (
                "a processor went off, and the sum of all steps back",
                "cpu 215 0 0 2080 45 0 0 0\ncpu0 110 0 0 1040 40 0 0 0\n\
                 cpu2 105 0 0 1040 5 0 0 0\nprocesses 1\n",
                (15, 80, 0, 0),
            ),
            (
                "a processor came back with smaller counters",
                "cpu 225 0 0 2085 45 0 0 0\ncpu0 110 0 0 1040 40 0 0 0\n\
                 cpu1 10 0 0 5 0 0 0 0\ncpu2 105 0 0 1040 5 0 0 0\nprocesses 1\n",
                (15, 80, 0, 3),
            ),
            (
                "a processor that was not there before",
                "cpu 900 0 0 9000 50 0 0 0\ncpu0 110 0 0 1040 40 0 0 0\n\
                 cpu3 600 0 0 7000 0 0 0 0\nprocesses 1\n",
                (10, 40, 0, 0),
            ),
        ];
        let first = parse(first.as_bytes()).unwrap();
        for (name, text, want) in cases {
            let delta = parse(text.as_bytes()).unwrap().since(&first);
            let found = (delta.user_ticks, delta.idle_ticks, delta.iowait_ticks, delta.set_back);
            assert_eq!(found, want, "{name}");
            let share = delta.share(|delta| delta.user_ticks).unwrap().get();
            assert!((0.0..=100.0).contains(&share), "{name}: {share}");
        }
    }

    #[test]
    fn without_a_line_for_each_processor_all_together_count() {
        let parse = |text: &str| parse(text.as_bytes()).unwrap();
        let first = parse("cpu 100 0 0 800 20\nprocesses 1\n");
        let delta = parse("cpu 110 0 0 890 19\nprocesses 1\n").since(&first);
        assert_eq!((delta.user_ticks, delta.idle_ticks, delta.iowait_ticks), (10, 90, 0));
        assert_eq!(delta.set_back, 1);
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

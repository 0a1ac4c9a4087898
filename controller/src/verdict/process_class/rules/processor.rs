//! Rules about processors: had, waited for, kept away by a quota.

use super::{Facts, Finding, WORTH_NAMING_PCT, cannot_tell, fails};
use protocol::{
    instruments::process_inspect::Throttling,
    observed::{Observed, Reason},
    units::Percent,
};

/// How a process waited for a processor.
struct Delay {
    /// Summed over threads, in percent of the window.
    all_pct: f64,
    /// Of it, at most, because of the quota.
    by_quota_pct: f64,
    /// Threads ended and took their account with them: it was more.
    is_at_least: bool,
}

impl Facts<'_> {
    fn delay(&self) -> Result<Delay, &Reason> {
        let cpu = &self.report.cpu;
        let (all_pct, is_at_least) = match (&cpu.run_delay_pct, &cpu.run_delay_at_least_pct) {
            (Observed::Known(delay), _) => (delay.get(), false),
            (Observed::Unknown(Reason::ThreadsEnded), Observed::Known(delay))
                if delay.get() >= WORTH_NAMING_PCT =>
            {
                (delay.get(), true)
            }
            (Observed::Unknown(reason), _) => return Err(reason),
        };
        let stopped_pct = match &self.report.cgroup.throttling {
            Observed::Known(throttling) => self.stopped_pct(throttling, all_pct),
            Observed::Unknown(_) => 0.0,
        };
        // Each thread that wanted a processor waits while its run queue is stopped.
        let by_quota_pct = all_pct.min(stopped_pct * self.threads_that_wanted(all_pct));
        Ok(Delay { all_pct, by_quota_pct, is_at_least })
    }

    /// Threads that wanted a processor, on average.
    fn threads_that_wanted(&self, delay_pct: f64) -> f64 {
        let ran_pct = self.ran_pct().known().copied().unwrap_or_default();
        ((ran_pct + delay_pct) / 100.0).max(1.0)
    }

    /// The share of the window for which a run queue was stopped, at most.
    ///
    /// The kernel sums the time over processors, of which the process used as many as it has
    /// threads that wanted one. The share of periods says nothing about how long into each the
    /// stop came.
    fn stopped_pct(&self, throttling: &Throttling, delay_pct: f64) -> f64 {
        if throttling.throttled_periods == 0 || throttling.periods == 0 {
            return 0.0;
        }
        let by_periods = throttling.throttled_periods as f64 / throttling.periods as f64 * 100.0;
        let cpus = self.report.host.cpus.known().map_or(f64::MAX, |cpus| f64::from(*cpus));
        let used = self.threads_that_wanted(delay_pct).min(cpus);
        match self.window_ms {
            Some(window_ms) if window_ms > 0 => {
                let by_time = throttling.throttled_ms as f64 / window_ms as f64 * 100.0 / used;
                by_periods.min(by_time)
            }
            Some(_) | None => by_periods,
        }
    }

    /// Of the processor time that was used on the host, what other processes used.
    fn share_of_others(&self) -> Result<f64, Reason> {
        let host = &self.report.host;
        match host.cpu_busy_pct.clone().zip(host.cpus.clone()).zip(self.ran_pct()) {
            Observed::Known(((busy, cpus), ran_pct)) if busy.get() > 0.0 => {
                Ok((1.0 - ran_pct / (busy.get() * f64::from(cpus))).clamp(0.0, 1.0))
            }
            Observed::Known(_) => Ok(1.0),
            Observed::Unknown(reason) => Err(reason),
        }
    }
}

pub(super) fn throttled(facts: &Facts<'_>) -> Finding {
    let throttling = match &facts.report.cgroup.throttling {
        Observed::Known(throttling) => throttling,
        Observed::Unknown(reason) if reason.is_absence() => return fails(),
        Observed::Unknown(reason) => {
            return Finding::CannotTell { reason: reason.to_string() };
        }
    };
    let periods = format!("in {} of {} periods", throttling.throttled_periods, throttling.periods);
    let delay = match facts.delay() {
        Ok(delay) => delay,
        Err(_) if throttling.throttled_periods == 0 => return fails(),
        Err(reason) => {
            return Finding::CannotTell {
                reason: format!(
                    "its cgroup was stopped by its CPU quota {periods}; whether that kept it \
                     waiting: {reason}"
                ),
            };
        }
    };
    let time = throttling.throttled_ms;
    if delay.by_quota_pct >= WORTH_NAMING_PCT {
        let quota = facts.report.cgroup.cpu_quota_cores.known();
        let quota =
            quota.map(|cores| format!(" (quota {cores:.2} processors)")).unwrap_or_default();
        return Finding::Holds {
            weight: delay.by_quota_pct.min(100.0),
            evidence: format!(
                "its cgroup was stopped by its CPU quota {periods}, for {time} ms{quota}"
            ),
        };
    }
    let looks_like_it = delay.all_pct >= WORTH_NAMING_PCT;
    let evidence = looks_like_it
        .then(|| format!("not throttled: its cgroup was stopped {periods}, for {time} ms"));
    Finding::Fails { evidence }
}

pub(super) fn starved(facts: &Facts<'_>) -> Finding {
    let delay = match facts.delay() {
        Ok(delay) => delay,
        Err(reason) => return cannot_tell(reason),
    };
    let without_quota = delay.all_pct - delay.by_quota_pct;
    if without_quota < WORTH_NAMING_PCT {
        return fails();
    }
    // What the quota explains is not the neighbours', nor is what its own threads take from each
    // other.
    let by_others = match facts.share_of_others() {
        Ok(share) => without_quota * share,
        Err(reason) => {
            return Finding::CannotTell {
                reason: format!(
                    "its threads waited for a processor for {:.0} % of the window; who had it: \
                     {reason}",
                    delay.all_pct
                ),
            };
        }
    };
    if by_others < WORTH_NAMING_PCT {
        return fails();
    }
    let busy = facts.report.host.cpu_busy_pct.known().map_or_else(String::new, |busy| {
        format!("; the host's processors are {:.0} % busy", busy.get())
    });
    let by_quota = if delay.by_quota_pct >= 1.0 {
        format!(", {:.0} % of it by its quota", delay.by_quota_pct)
    } else {
        String::new()
    };
    let at_least = if delay.is_at_least { "at least " } else { "" };
    Finding::Holds {
        weight: by_others.min(100.0),
        evidence: format!(
            "its threads were runnable and waited for a processor for {at_least}{:.0} % of the \
             window{by_quota}{busy}",
            delay.all_pct
        ),
    }
}

pub(super) fn user_cpu(facts: &Facts<'_>) -> Finding {
    busy(facts, &facts.report.cpu.user_pct, "user mode")
}

pub(super) fn system_cpu(facts: &Facts<'_>) -> Finding {
    busy(facts, &facts.report.cpu.system_pct, "the kernel")
}

fn busy(facts: &Facts<'_>, share: &Observed<Percent>, place: &str) -> Finding {
    let share = match share {
        Observed::Known(share) => share.get(),
        Observed::Unknown(reason) => return cannot_tell(reason),
    };
    if share < WORTH_NAMING_PCT {
        return fails();
    }
    let cpu = &facts.report.cpu;
    // A thread that is blocked for longer than it runs is not held up by the processor.
    let busiest =
        cpu.busiest_thread_blocked_pct.clone().zip(cpu.busiest_thread_running_pct.clone());
    let mostly_waits = busiest.known().is_some_and(|(blocked, running)| blocked > running);
    let weight = share.min(98.0) * if mostly_waits { 0.5 } else { 1.0 };
    let running = cpu
        .running_pct
        .known()
        .map_or_else(String::new, |running| format!(", of {:.0} % that it ran", running.get()));
    Finding::Holds { weight, evidence: format!("{share:.0} % of a processor in {place}{running}") }
}

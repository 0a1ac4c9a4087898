//! The rates of the rows that are shown, as far as their counters have files of their own.

use super::{change::Change, counters::Counters};
use crate::{call::Context, os::clock};
use protocol::{
    error::AgentError,
    instruments::process_list::{Column, Request},
    observed::{Observed, Reason},
    units::{PerSecond, Percent},
};
use std::{collections::HashMap, time::Duration};

/// Counters of the processes that are likely to be shown, from early in the window.
#[derive(Debug, Default)]
pub(super) struct Details {
    /// By pid and start.
    begun: HashMap<(u32, u64), Counters>,
    /// When they were read, on the monotonic clock.
    pub(super) began: Option<Duration>,
}

impl Details {
    /// Reads the counters of the likely rows.
    ///
    /// # Errors
    ///
    /// When the call reached a limit.
    pub(super) fn begin(likely: &[Change], context: &Context<'_>) -> Result<Self, AgentError> {
        let mut begun = HashMap::with_capacity(likely.len());
        let began = Some(clock::monotonic());
        for change in likely {
            context.check()?;
            let counters = Counters::read(change.pid, change.threads, context);
            begun.insert((change.pid, change.start_ticks), counters);
        }
        Ok(Self { begun, began })
    }

    /// The counters from early in the window, if the process was among the likely ones.
    pub(super) fn of(&self, change: &Change) -> Option<&Counters> {
        self.begun.get(&(change.pid, change.start_ticks))
    }
}

/// The columns that have a file of their own.
pub(super) struct Rates {
    pub(super) run_delay_pct: Observed<Percent>,
    pub(super) read: Observed<PerSecond>,
    pub(super) write: Observed<PerSecond>,
    pub(super) voluntary: Observed<PerSecond>,
    pub(super) involuntary: Observed<PerSecond>,
}

impl Rates {
    pub(super) fn of(
        change: &Change,
        details: &Details,
        request: &Request,
        context: &Context<'_>,
    ) -> Self {
        let mut rates = match details.of(change) {
            Some(begun) => {
                Self::between(begun, &Counters::read(change.pid, change.threads, context))
            }
            None if request.artifact.is_some() => Self::unknown(&Reason::NotStored),
            None if change.born => {
                let now = Counters::read(change.pid, change.threads, context);
                Self::between(&Counters::at_birth(now.at.saturating_sub(change.window)), &now)
            }
            None => Self::unknown(&Reason::NoBaseline),
        };
        // The column that ranks was read for every process, over the whole window.
        if let Some(ranked) = change.ranked.clone() {
            let rate = |ranked: Observed<u64>| {
                ranked.and_then(|growth| {
                    PerSecond::over(growth, change.window).ok_or(Reason::EmptyWindow)
                })
            };
            match request.sort {
                Column::Read => rates.read = rate(ranked),
                Column::Write => rates.write = rate(ranked),
                Column::RunDelay => {
                    rates.run_delay_pct = ranked.and_then(|ns| delay(ns, change.window));
                }
                Column::Switches
                | Column::Cpu
                | Column::User
                | Column::System
                | Column::ChildrenCpu
                | Column::Rss
                | Column::Threads
                | Column::MinorFaults
                | Column::MajorFaults
                | Column::Youngest => {}
            }
        }
        rates
    }

    fn between(begun: &Counters, now: &Counters) -> Self {
        let window = now.at.saturating_sub(begun.at);
        let growth = |now: &Observed<u64>, begun: &Observed<u64>| {
            now.clone().zip(begun.clone()).map(|(now, begun)| now.saturating_sub(begun))
        };
        let rate = |now, begun| {
            growth(now, begun)
                .and_then(|growth| PerSecond::over(growth, window).ok_or(Reason::EmptyWindow))
        };
        Self {
            run_delay_pct: growth(&now.run_delay_ns, &begun.run_delay_ns)
                .and_then(|ns| delay(ns, window)),
            read: rate(&now.read_bytes, &begun.read_bytes),
            write: rate(&now.write_bytes, &begun.write_bytes),
            voluntary: rate(&now.voluntary, &begun.voluntary),
            involuntary: rate(&now.involuntary, &begun.involuntary),
        }
    }

    fn unknown(reason: &Reason) -> Self {
        Self {
            run_delay_pct: Observed::Unknown(reason.clone()),
            read: Observed::Unknown(reason.clone()),
            write: Observed::Unknown(reason.clone()),
            voluntary: Observed::Unknown(reason.clone()),
            involuntary: Observed::Unknown(reason.clone()),
        }
    }
}

fn delay(ns: u64, window: Duration) -> Result<Percent, Reason> {
    Percent::of_time(Duration::from_nanos(ns), window).ok_or(Reason::EmptyWindow)
}

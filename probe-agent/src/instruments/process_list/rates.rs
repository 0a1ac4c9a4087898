//! The rates of the rows that are shown, as far as their counters have files of their own.

use super::{
    change::Change,
    counters::{Counters, Used},
};
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
    begun: HashMap<(u32, u64), Result<Counters, Reason>>,
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
            let counters = Counters::read(change.pid, change.start_ticks, context);
            begun.insert((change.pid, change.start_ticks), counters);
        }
        Ok(Self { begun, began })
    }

    /// The counters from early in the window, if the process was among the likely ones.
    pub(super) fn of(&self, change: &Change) -> Option<&Result<Counters, Reason>> {
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
        let read = || Counters::read(change.pid, change.start_ticks, context);
        let mut rates = match details.of(change) {
            Some(begun) => match begun.clone().and_then(|begun| Ok(read()?.since(&begun))) {
                Ok(used) => Self::over(&used),
                Err(reason) => Self::unknown(&reason),
            },
            None if request.artifact.is_some() => Self::unknown(&Reason::NotStored),
            None if change.born => match read() {
                Ok(now) => {
                    let born = now.at.saturating_sub(change.window);
                    Self::over(&now.since(&Counters::at_birth(born, change.start_ticks)))
                }
                Err(reason) => Self::unknown(&reason),
            },
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

    fn over(used: &Used) -> Self {
        let rate = |growth: Observed<u64>| {
            growth
                .and_then(|growth| PerSecond::over(growth, used.window).ok_or(Reason::EmptyWindow))
        };
        let (io, switches) = (&used.io, &used.switches);
        Self {
            run_delay_pct: used
                .run_delay
                .clone()
                .and_then(|it| delay(it.run_delay_ns, used.window)),
            read: rate(io.clone().map(|io| io.storage_read_bytes)),
            write: rate(io.clone().map(|io| io.storage_write_bytes)),
            voluntary: rate(switches.clone().map(|lines| lines.voluntary)),
            involuntary: rate(switches.clone().map(|lines| lines.involuntary)),
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

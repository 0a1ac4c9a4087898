//! The rates of the rows that are shown, as far as their counters have files of their own.

use super::{
    change::Change,
    counters::{Counters, Key, Used},
};
use crate::call::Context;
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
    begun: HashMap<Key, Result<Counters, Reason>>,
    /// When they were read, on the monotonic clock.
    pub(super) began: Option<Duration>,
}

impl Details {
    /// Reads the counters of the likely rows.
    ///
    /// # Errors
    ///
    /// When the call reached a limit.
    pub(super) fn begin(likely: &[Key], context: &Context<'_>) -> Result<Self, AgentError> {
        let began = Some(context.root.monotonic());
        Ok(Self { begun: Counters::read_each(likely, context)?, began })
    }

    /// The counters of the rows that are shown, now, as far as there is something to compare them
    /// with.
    ///
    /// # Errors
    ///
    /// When the call reached a limit.
    pub(super) fn end(
        self,
        rows: &[Change],
        request: &Request,
        context: &Context<'_>,
    ) -> Result<BothEnds, AgentError> {
        let is_stored = request.artifact.is_some();
        let is_begun = |row: &&Change| match self.begun.get(&row.key()) {
            _ if row.did_not_run => false,
            Some(begun) => begun.is_ok(),
            None => row.born && !is_stored,
        };
        let keys: Vec<Key> = rows.iter().filter(is_begun).map(Change::key).collect();
        Ok(BothEnds { ended: Counters::read_each(&keys, context)?, begun: self.begun, is_stored })
    }
}

/// Counters of the rows that are shown, from early in the window and from its end.
pub(super) struct BothEnds {
    begun: HashMap<Key, Result<Counters, Reason>>,
    ended: HashMap<Key, Result<Counters, Reason>>,
    /// The window was another call's, so nothing was read in it.
    is_stored: bool,
}

impl BothEnds {
    fn used(&self, change: &Change) -> Result<Used, Reason> {
        let ended = || {
            let ended = self.ended.get(&change.key()).unwrap_or(&Err(Reason::NoBaseline));
            ended.as_ref().map_err(Clone::clone)
        };
        match self.begun.get(&change.key()) {
            Some(Ok(begun)) => Ok(ended()?.since(begun)),
            Some(Err(reason)) => Err(reason.clone()),
            None if self.is_stored => Err(Reason::NotStored),
            None if change.born => {
                let now = ended()?;
                let born = now.at.saturating_sub(change.window);
                Ok(now.since(&Counters::at_birth(born, change.start_ticks)))
            }
            None => Err(Reason::NoBaseline),
        }
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
        ends: &BothEnds,
        request: &Request,
        context: &Context<'_>,
    ) -> Self {
        if let Err(reason) = context.root.has_two_instants() {
            return Self::unknown(&reason);
        }
        let mut rates = match ends.used(change) {
            _ if change.did_not_run => Self::nothing(),
            Ok(used) => Self::over(&used),
            Err(reason) => Self::unknown(&reason),
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
                | Column::OpenFiles
                | Column::MinorFaults
                | Column::MajorFaults
                | Column::Youngest => {}
            }
        }
        rates
    }

    fn over(used: &Used) -> Self {
        let over = |growth: Observed<u64>, window| {
            growth.and_then(|growth| PerSecond::over(growth, window).ok_or(Reason::EmptyWindow))
        };
        let rate = |growth| over(growth, used.window);
        let (io, switches) = (&used.io, &used.switches);
        Self {
            run_delay_pct: used
                .run_delay
                .clone()
                .and_then(|it| delay(it.run_delay_ns, used.window)),
            read: over(io.clone().map(|io| io.storage_read_bytes), used.io_window),
            write: over(io.clone().map(|io| io.storage_write_bytes), used.io_window),
            voluntary: rate(switches.clone().map(|lines| lines.voluntary)),
            involuntary: rate(switches.clone().map(|lines| lines.involuntary)),
        }
    }

    /// Those of a process that did not run.
    fn nothing() -> Self {
        let none = || Observed::Known(PerSecond::default());
        Self {
            run_delay_pct: Observed::Known(Percent::default()),
            read: none(),
            write: none(),
            voluntary: none(),
            involuntary: none(),
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

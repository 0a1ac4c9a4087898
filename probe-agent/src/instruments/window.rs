//! The time between two snapshots, and what happened in it.

use protocol::{
    observed::{Observed, Reason},
    units::{PerSecond, Percent},
};
use std::time::Duration;

/// A window as it was measured, on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    length: Duration,
}

impl Window {
    /// From one time of the monotonic clock to a later one.
    pub(super) const fn between(first: Duration, last: Duration) -> Self {
        Self { length: last.saturating_sub(first) }
    }

    /// How long it is.
    pub(super) const fn length(self) -> Duration {
        self.length
    }

    /// In whole milliseconds, as answers carry it.
    pub(super) fn millis(self) -> u64 {
        u64::try_from(self.length.as_millis()).unwrap_or(u64::MAX)
    }

    /// Time, as a share of it.
    ///
    /// # Errors
    ///
    /// When it is empty.
    pub(super) fn share(self, time: Duration) -> Result<Percent, Reason> {
        Percent::of_time(time, self.length).ok_or(Reason::EmptyWindow)
    }

    /// Growth, by the time in which it happened.
    pub(super) fn rate(self, growth: Observed<u64>) -> Observed<PerSecond> {
        growth.and_then(|growth| PerSecond::over(growth, self.length).ok_or(Reason::EmptyWindow))
    }

    /// The same of a growth that is known. An empty window has no rate, and nothing grew in it.
    pub(super) fn per_second(self, growth: u64) -> PerSecond {
        PerSecond::over(growth, self.length).unwrap_or_default()
    }
}

/// How far a counter grew. One that was set back counted nothing that is known.
pub(super) fn growth(now: &Observed<u64>, before: &Observed<u64>) -> Observed<u64> {
    let both = now.clone().zip(before.clone());
    both.and_then(|(now, before)| now.checked_sub(before).ok_or(Reason::SteppedBack))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_was_set_back_grew_by_no_number() {
        let known = |count: u64| Observed::Known(count);
        let gone = || Observed::Unknown(Reason::Gone);
        let cases = [
            ("grown", known(9), known(4), known(5)),
            ("not grown", known(4), known(4), known(0)),
            ("set back", known(3), known(4), Observed::Unknown(Reason::SteppedBack)),
            ("from the largest", known(0), known(u64::MAX), Observed::Unknown(Reason::SteppedBack)),
            ("unknown", gone(), known(4), gone()),
        ];
        for (name, now, before, want) in cases {
            assert_eq!(growth(&now, &before), want, "{name}");
        }
    }

    #[test]
    fn a_window_that_runs_backwards_is_empty() {
        let window = Window::between(Duration::from_secs(5), Duration::from_secs(4));
        assert_eq!(window.length(), Duration::ZERO);
        assert_eq!(window.share(Duration::from_secs(1)), Err(Reason::EmptyWindow));
        assert_eq!(window.rate(Observed::Known(7)), Observed::Unknown(Reason::EmptyWindow));
    }
}

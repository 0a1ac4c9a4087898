//! Signs of life of an agent, by a clock that goes on while this machine sleeps.
//!
//! A timer of the runtime stands still in a suspended machine, and the agent ends itself meanwhile. So
//! whoever wants to ask something looks here first: where nothing came for longer than heartbeats
//! explain, the agent is asked for a sign of life, and gets seconds for it, not the silence limit.

use super::HEARTBEATS_PER_LIMIT;
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// When an agent was last heard, and how long it takes to answer.
#[derive(Debug)]
pub(super) struct Life {
    silence_limit: Duration,
    /// The number of the last heartbeat.
    sequence: AtomicU64,
    state: Mutex<State>,
    heard: Notify,
}

#[derive(Debug)]
struct State {
    heard_at: Duration,
    /// The last heartbeat that went out, and when.
    asked: Option<(u64, Duration)>,
    /// The longest that one of the last answers took.
    round_trip: Duration,
}

impl Life {
    /// What an answer may take at least, however near the agent is: its machine may be busy.
    const LEAST_PATIENCE: Duration = Duration::from_secs(3);
    /// By what the silence may be longer than heartbeats explain.
    const SLACK: Duration = Duration::from_secs(1);
    /// Round trips that a sign of life may take: on a full line some wait before it.
    const ROUND_TRIPS: u32 = 4;

    /// Of an agent that was just heard.
    pub(super) fn new(silence_limit: Duration) -> Self {
        let state = State { heard_at: now(), asked: None, round_trip: Duration::ZERO };
        Self {
            silence_limit,
            sequence: AtomicU64::new(0),
            state: Mutex::new(state),
            heard: Notify::new(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something came.
    pub(super) fn hear(&self) {
        self.state().heard_at = now();
        self.heard.notify_waiters();
    }

    /// Waits until something comes that has not come yet.
    pub(super) fn heard(&self) -> tokio::sync::futures::Notified<'_> {
        self.heard.notified()
    }

    /// The number of the next heartbeat, which goes out now.
    pub(super) fn ask(&self) -> u64 {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        self.state().asked = Some((sequence, now()));
        sequence
    }

    /// A heartbeat came back.
    pub(super) fn answered(&self, sequence: u64) {
        let mut state = self.state();
        if let Some((asked, at)) = state.asked
            && asked == sequence
        {
            let took = now().saturating_sub(at);
            // What was slow once is forgotten by and by.
            state.round_trip = took.max(state.round_trip / 2);
            state.asked = None;
        }
    }

    /// For how long nothing has come, where that is longer than heartbeats explain.
    pub(super) fn doubtful(&self) -> Option<Duration> {
        let State { heard_at, round_trip, .. } = &*self.state();
        let silence = now().saturating_sub(*heard_at);
        let explained = self.silence_limit / HEARTBEATS_PER_LIMIT
            + *round_trip * Self::ROUND_TRIPS
            + Self::SLACK;
        (silence > explained).then_some(silence)
    }

    /// How long to wait for a sign of life.
    pub(super) fn patience(&self) -> Duration {
        let usual = self.state().round_trip * Self::ROUND_TRIPS;
        usual.max(Self::LEAST_PATIENCE).min(self.silence_limit.max(Self::LEAST_PATIENCE))
    }

    /// As if nothing had come for some time.
    #[cfg(test)]
    pub(super) fn sleep(&self, time: Duration) {
        let mut state = self.state();
        state.heard_at = state.heard_at.saturating_sub(time);
    }
}

/// Time since some moment, also while this machine was asleep (clock_getres(2), `CLOCK_BOOTTIME`).
#[cfg(target_os = "linux")]
fn now() -> Duration {
    since_boot(rustix::time::ClockId::Boottime)
}

/// Time since some moment, also while this machine was asleep, as macOS counts it (clock_gettime(3)
/// there).
#[cfg(all(unix, not(target_os = "linux")))]
fn now() -> Duration {
    since_boot(rustix::time::ClockId::Monotonic)
}

#[cfg(unix)]
fn since_boot(clock: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanoseconds.unwrap_or_default())
}

/// Time since some moment. Windows counts the time asleep (`QueryPerformanceCounter`).
#[cfg(not(unix))]
fn now() -> Duration {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_silence_is_doubtful_once_heartbeats_do_not_explain_it() {
        let life = Life::new(30 * SECOND);
        life.sleep(9 * SECOND);
        assert_eq!(life.doubtful(), None);
        life.sleep(3 * SECOND);
        assert!(life.doubtful().is_some_and(|silence| silence >= 12 * SECOND));
        life.hear();
        assert_eq!(life.doubtful(), None);
    }

    #[test]
    fn a_slow_line_gets_more_time_and_never_more_than_the_limit() {
        let life = Life::new(30 * SECOND);
        assert_eq!(life.patience(), Life::LEAST_PATIENCE);
        for (round_trip, want) in [(2 * SECOND, 8 * SECOND), (60 * SECOND, 30 * SECOND)] {
            life.state().round_trip = round_trip;
            assert_eq!(life.patience(), want, "{round_trip:?}");
        }
    }

    #[test]
    fn only_the_answer_to_the_last_heartbeat_tells_how_long_one_takes() {
        let life = Life::new(30 * SECOND);
        let first = life.ask();
        let second = life.ask();
        life.answered(first);
        assert!(life.state().asked.is_some());
        life.answered(second);
        assert!(life.state().asked.is_none());
    }
}

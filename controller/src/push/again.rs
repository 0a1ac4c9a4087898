//! A login that is tried again: where the host closed the connection before it said what it is, as one
//! does that is asked by too many at once. Nobody was let in by then, so nothing is done twice.

use super::{PushError, Pushed, Settings, once, script::Task};
use crate::{
    reporter::{Reporter, Stage},
    target::Target,
    transport::Failure,
};
use std::time::Duration;
use tokio::time::Instant;

/// How often it is tried again.
const RETRIES: u32 = 3;

/// The least and the most that is waited before the first time; twice as much each time after.
const PAUSE_MS: (u64, u64) = (500, 1500);
/// No pause is longer.
const LONGEST: Duration = Duration::from_secs(4);

/// As [`push`](super::push), for an agent that may be to do something else than to serve a session. It
/// is tried again where that may help and there is time for it.
///
/// # Errors
///
/// As for [`push`](super::push).
pub async fn push_for(
    target: &Target,
    task: Task,
    settings: &Settings,
    reporter: &dyn Reporter,
) -> Result<Pushed, PushError> {
    let until = Instant::now() + settings.patience;
    let mut retry = 0;
    loop {
        let pushed = once(target, task, settings, until, reporter).await;
        let Err(PushError::Ssh(Failure::ClosedEarly { host, said, .. })) = pushed else {
            return pushed;
        };
        retry += 1;
        let pause = pause(retry, getrandom::u32().unwrap_or_default());
        if retry > RETRIES || Instant::now() + pause >= until {
            return Err(PushError::Ssh(Failure::ClosedEarly { host, said, attempts: retry }));
        }
        reporter.stage(&Stage::ClosedEarly { host, pause, retry, of: RETRIES });
        tokio::time::sleep(pause).await;
    }
}

/// How long to wait before a retry, the first of which has number 1. By chance, because whoever was
/// turned away at the same time comes again too.
fn pause(retry: u32, random: u32) -> Duration {
    let (least, most) = PAUSE_MS;
    let grown = 1 << retry.saturating_sub(1).min(8);
    let ms = least * grown + u64::from(random) % ((most - least) * grown);
    Duration::from_millis(ms).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_stay_within_half_a_second_and_four() {
        let ms = |retry, random| pause(retry, random).as_millis();
        assert_eq!([ms(1, 0), ms(1, 999), ms(1, 1000)], [500, 1499, 500]);
        assert_eq!([ms(2, 0), ms(2, 1999)], [1000, 2999]);
        assert_eq!([ms(3, 0), ms(3, 3999)], [2000, 4000]);
    }
}

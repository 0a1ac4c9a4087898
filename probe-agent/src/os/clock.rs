//! Clocks. Windows are measured on the monotonic clock, so that a step of the wall clock changes
//! nothing; ages on the one that also counts while the machine sleeps, as the kernel does.

#![expect(unsafe_code, reason = "getrusage has no safe form")]

use super::sysconf;
use rustix::time::{ClockId, clock_gettime};
use std::{mem::MaybeUninit, time::Duration};

/// Time since boot, time asleep included: the zero point of a process's start.
pub fn since_boot() -> Duration {
    read(ClockId::Boottime)
}

/// Monotonic time, for windows.
pub fn monotonic() -> Duration {
    read(ClockId::Monotonic)
}

/// The wall clock, as time since 1970.
pub fn wall() -> Duration {
    read(ClockId::Realtime)
}

/// Processor time of the calling thread so far.
pub fn thread_cpu() -> Duration {
    read(ClockId::ThreadCPUTime)
}

/// Processor time of all children that have ended and were waited for.
pub fn children_cpu() -> Duration {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills the structure, whose type is the one that it expects, or says that it
    // did not.
    let usage = unsafe {
        if libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) != 0 {
            return Duration::ZERO;
        }
        usage.assume_init()
    };
    let time = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let micros = u64::try_from(time.tv_usec).unwrap_or_default();
        Duration::from_secs(seconds) + Duration::from_micros(micros)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// The length of a clock tick, the unit of `/proc/PID/stat`: `USER_HZ`, 10 ms nearly everywhere.
pub fn tick() -> Duration {
    Duration::from_nanos(1_000_000_000 / sysconf::ticks_per_second())
}

/// A number of clock ticks as time.
pub fn ticks(count: u64) -> Duration {
    let nanos = u128::from(count) * tick().as_nanos();
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_move_forward_and_ticks_do_not_overflow() {
        let before = monotonic();
        assert!(monotonic() >= before && since_boot() > Duration::ZERO);
        assert_eq!(ticks(100), Duration::from_secs(1));
        assert_eq!(ticks(u64::MAX), Duration::from_nanos(u64::MAX));
    }
}

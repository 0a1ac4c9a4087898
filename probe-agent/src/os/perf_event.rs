//! Opening performance events.
//!
//! Kernel reference: `include/uapi/linux/perf_event.h`, `man 2 perf_event_open`. The description of
//! an event is that of the first kernels that had any (`PERF_ATTR_SIZE_VER0`): every kernel takes it.

#![expect(unsafe_code, reason = "perf_event_open and mmap have no safe form")]

use super::sysconf;
use rustix::{
    fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    io::Errno,
};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Processor time, by a timer of the kernel.
    CpuClock,
    /// Context switches.
    ContextSwitches,
    /// Cycles, by the processor's own counters.
    Cycles,
    /// A tracepoint, by its number in tracefs.
    Tracepoint(u64),
}

impl Event {
    /// `type` and `config`.
    const fn kind(self) -> (u32, u64) {
        match self {
            Self::CpuClock => (1, 0),
            Self::ContextSwitches => (1, 3),
            Self::Cycles => (0, 0),
            Self::Tracepoint(id) => (2, id),
        }
    }
}

/// Of what it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// The calling thread.
    ThisThread,
    /// Another process's first thread.
    Process(u32),
    /// Everything that runs on the first processor.
    FirstProcessor,
}

/// How it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What.
    pub event: Event,
    /// Of what.
    pub of: Of,
    /// Whether what the kernel does counts too.
    pub with_kernel: bool,
    /// Whether samples hold the fields of a tracepoint.
    pub with_fields: bool,
}

/// `struct perf_event_attr`, `PERF_ATTR_SIZE_VER0`.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

const SIZE: u32 = 64;
const _: () = assert!(size_of::<Attributes>() == SIZE as usize);

const SAMPLE_IP: u64 = 1;
const SAMPLE_RAW: u64 = 1 << 10;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// An event that counts.
#[derive(Debug)]
pub struct Counter(OwnedFd);

/// Opens an event. It counts from then on.
///
/// # Errors
///
/// What the kernel, or a filter before it, answered.
pub fn open(ask: Ask) -> Result<Counter, Errno> {
    let (kind, config) = ask.event.kind();
    let samples = ask.with_fields || matches!(ask.event, Event::CpuClock);
    let attributes = Attributes {
        kind,
        size: SIZE,
        config,
        // A sample each 100 ms, or for each event. Nobody reads them: it is the right that counts.
        sample_period: match (samples, ask.event) {
            (false, _) => 0,
            (true, Event::CpuClock) => 100_000_000,
            (true, Event::ContextSwitches | Event::Cycles | Event::Tracepoint(_)) => 1,
        },
        sample_type: SAMPLE_IP | if ask.with_fields { SAMPLE_RAW } else { 0 },
        read_format: 0,
        flags: EXCLUDE_HYPERVISOR | if ask.with_kernel { 0 } else { EXCLUDE_KERNEL },
        wakeup_events: 0,
        bp_type: 0,
        config1: 0,
    };
    let (pid, cpu) = match ask.of {
        Of::ThisThread => (0, -1),
        Of::Process(pid) => (libc::pid_t::try_from(pid).map_err(|_| Errno::SRCH)?, -1),
        Of::FirstProcessor => (-1, 0),
    };
    call(&raw const attributes, pid, cpu, CLOSE_ON_EXEC).map(Counter)
}

/// Asks for what no kernel grants, and every kernel refuses with the same error before it looks at
/// anybody's rights. Another answer is that of a filter before the kernel.
pub fn is_answered_by_the_kernel() -> bool {
    let nowhere = std::ptr::null();
    call(nowhere, 0, -1, libc::c_ulong::MAX).err() == Some(Errno::INVAL)
}

fn call(
    attributes: *const Attributes,
    pid: libc::pid_t,
    cpu: libc::c_int,
    flags: libc::c_ulong,
) -> Result<OwnedFd, Errno> {
    let no_group: libc::c_int = -1;
    // SAFETY: the kernel only reads the description, whose size is in it; a null pointer is answered
    // with an error.
    let answer =
        unsafe { libc::syscall(libc::SYS_perf_event_open, attributes, pid, cpu, no_group, flags) };
    owned(answer)
}

/// The descriptor that a system call returned, or its error.
pub(super) fn owned(answer: libc::c_long) -> Result<OwnedFd, Errno> {
    match i32::try_from(answer) {
        // SAFETY: the kernel has just made this descriptor, and nobody else knows it.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        Ok(_) | Err(_) => Err(last_errno()),
    }
}

/// The error of the last system call of this thread.
pub(super) fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

impl Counter {
    /// How much was counted.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn read(&self) -> Result<u64, Errno> {
        let mut bytes = [0; 8];
        let length = rustix::io::read(&self.0, &mut bytes)?;
        if length == bytes.len() { Ok(u64::from_ne_bytes(bytes)) } else { Err(Errno::IO) }
    }

    /// Whether so much memory can be had for samples: a power of two in KiB, and a page before it.
    ///
    /// # Errors
    ///
    /// What the kernel answered; `EPERM` where the limit of locked memory does not allow it.
    pub fn map(&self, kib: u32) -> Result<(), Errno> {
        let bytes = u64::from(kib) * 1024 + sysconf::page_bytes();
        let length = usize::try_from(bytes).map_err(|_| Errno::NOMEM)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses; nothing points into it, and
        // it is unmapped at once, with the length it was mapped with.
        unsafe {
            let nowhere = std::ptr::null_mut();
            let descriptor = self.0.as_raw_fd();
            let place = libc::mmap(nowhere, length, protection, libc::MAP_SHARED, descriptor, 0);
            if place == libc::MAP_FAILED {
                return Err(last_errno());
            }
            libc::munmap(place, length);
        }
        Ok(())
    }
}

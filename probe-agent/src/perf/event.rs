//! Opening an event, switching it on and off, and reading it.

#![expect(unsafe_code, reason = "perf_event_open and its ioctls have no safe form")]

use super::attr::Attributes;
use crate::os::answer::{last_errno, owned};
use rustix::{
    fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
    io::Errno,
};
use std::ffi::CStr;

/// Of what it is counted.
#[derive(Clone, Copy, Debug)]
pub enum Of<'f> {
    /// The calling thread, wherever it runs.
    ThisThread,
    /// A thread, by its number in our namespace; on one processor, or wherever it runs.
    Thread(u32, Option<u32>),
    /// Everything that runs on a processor.
    Processor(u32),
    /// What runs on a processor of a cgroup, whose folder this is.
    Cgroup(BorrowedFd<'f>, u32),
}

const IS_CGROUP: libc::c_ulong = 4;
const CLOSE_ON_EXEC: libc::c_ulong = 8;
const NO_GROUP: libc::c_int = -1;

/// An event that is open.
#[derive(Debug)]
pub struct OpenEvent(OwnedFd);

/// Opens an event.
///
/// # Errors
///
/// What the kernel, or a filter before it, answered.
pub fn open(attributes: Attributes, of: Of<'_>) -> Result<OpenEvent, Errno> {
    open_in_group(attributes, of, None)
}

/// Opens an event that counts when another one does, which must be of the same target.
///
/// # Errors
///
/// What the kernel, or a filter before it, answered.
pub fn open_in_group(
    attributes: Attributes,
    of: Of<'_>,
    leader: Option<&OpenEvent>,
) -> Result<OpenEvent, Errno> {
    let cpu_of = |cpu: u32| libc::c_int::try_from(cpu).map_err(|_| Errno::INVAL);
    let (pid, cpu, flags) = match of {
        Of::ThisThread => (0, -1, 0),
        Of::Thread(tid, cpu) => {
            let tid = libc::pid_t::try_from(tid).map_err(|_| Errno::SRCH)?;
            (tid, cpu.map_or(Ok(-1), cpu_of)?, 0)
        }
        Of::Processor(cpu) => (-1, cpu_of(cpu)?, 0),
        Of::Cgroup(folder, cpu) => (folder.as_raw_fd(), cpu_of(cpu)?, IS_CGROUP),
    };
    let attributes = attributes.sized();
    let group = leader.map_or(NO_GROUP, |leader| leader.0.as_raw_fd());
    call(&raw const attributes, (pid, cpu), group, flags | CLOSE_ON_EXEC).map(OpenEvent)
}

/// Asks for what no kernel grants, and every kernel refuses with the same error before it looks at
/// anybody's rights. Another answer is that of a filter before the kernel.
pub fn is_answered_by_the_kernel() -> bool {
    let nowhere = std::ptr::null();
    call(nowhere, (0, -1), NO_GROUP, libc::c_ulong::MAX).err() == Some(Errno::INVAL)
}

fn call(
    attributes: *const Attributes,
    (pid, cpu): (libc::pid_t, libc::c_int),
    group: libc::c_int,
    flags: libc::c_ulong,
) -> Result<OwnedFd, Errno> {
    // SAFETY: the kernel only reads the description, whose size is in it; a null pointer is answered
    // with an error.
    let answer =
        unsafe { libc::syscall(libc::SYS_perf_event_open, attributes, pid, cpu, group, flags) };
    owned(answer)
}

/// `_IO('$', …)`, the same on all processors that there are agents for.
const ENABLE: u16 = 0x2400;
const DISABLE: u16 = 0x2401;
const SET_OUTPUT: u16 = 0x2405;

/// `_IOW('$', 6, char *)`, `PERF_EVENT_IOC_SET_FILTER`: only those events of a tracepoint whose fields are so.
const SET_FILTER: libc::Ioctl = 0x4008_2406;

impl OpenEvent {
    /// Counts from now on, with what it was inherited by.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn enable(&self) -> Result<(), Errno> {
        self.ioctl(ENABLE, 0)
    }

    /// Counts no more.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn disable(&self) -> Result<(), Errno> {
        self.ioctl(DISABLE, 0)
    }

    /// Writes its samples where another one does, which must be of the same processor.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn write_with(&self, other: &Self) -> Result<(), Errno> {
        self.ioctl(SET_OUTPUT, other.0.as_raw_fd())
    }

    /// Takes only those events of a tracepoint whose fields are as an expression says: `id == 0 || id == 1`.
    /// At most a page of it.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn keep_only(&self, expression: &CStr) -> Result<(), Errno> {
        // SAFETY: the kernel reads a text that ends with a zero, and keeps no pointer to it.
        let answer = unsafe { libc::ioctl(self.0.as_raw_fd(), SET_FILTER, expression.as_ptr()) };
        if answer == 0 { Ok(()) } else { Err(last_errno()) }
    }

    fn ioctl(&self, request: u16, argument: libc::c_int) -> Result<(), Errno> {
        // SAFETY: these requests take a number, and touch no memory of ours.
        let answer = unsafe { libc::ioctl(self.0.as_raw_fd(), request.into(), argument) };
        if answer == 0 { Ok(()) } else { Err(last_errno()) }
    }

    /// How much was counted.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn read(&self) -> Result<u64, Errno> {
        self.read_values().map(|[count]| count)
    }

    /// How many samples were lost; of an event that was asked to tell by
    /// [`super::attr::FORMAT_LOST`].
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn read_lost(&self) -> Result<u64, Errno> {
        self.read_values().map(|[_, lost]| lost)
    }

    /// How much was counted, for how many nanoseconds it was to be, and for how many it was: less where
    /// the counters are too few and took turns. Of an event that was asked to tell by
    /// [`super::attr::FORMAT_TIMES`].
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn read_with_times(&self) -> Result<[u64; 3], Errno> {
        self.read_values()
    }

    fn read_values<const N: usize>(&self) -> Result<[u64; N], Errno> {
        let mut values = [0; N];
        let mut bytes = [0; 24];
        let room = bytes.get_mut(..N * 8).ok_or(Errno::INVAL)?;
        if rustix::io::read(&self.0, &mut *room)? != room.len() {
            return Err(Errno::IO);
        }
        for (value, bytes) in values.iter_mut().zip(room.as_chunks::<8>().0) {
            *value = u64::from_ne_bytes(*bytes);
        }
        Ok(values)
    }
}

impl AsFd for OpenEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

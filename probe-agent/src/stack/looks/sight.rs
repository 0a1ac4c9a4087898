//! What the kernel shows of one thread: its state, the system call it is in, and the function of the
//! kernel that it waits in.
//!
//! Sources: `/proc/PID/task/TID/stat`, for everybody; `syscall`, `wchan` and the memory for whoever may
//! trace the process; `stack` with `CAP_SYS_ADMIN`. `syscall` and `stack` take a lock that the process
//! may hold for good, so they are read on a thread that can be left behind, all in one go: the stack
//! belongs to the call only if the call is still the same after it.

use crate::{
    abandonable::{Crew, Outcome},
    proc::{
        PATIENCE, Root,
        parse::fields,
        waiting,
        waiting::{InSyscall, SyscallLine},
    },
};
use rustix::{
    fd::OwnedFd,
    fs::{Mode, OFlags},
    io::Errno,
};
use std::time::Duration;

/// What is looked for: a thread by process and number.
pub(in crate::stack) type Id = (u32, u32);

/// What a thread that waits shows beside its state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::stack) struct Wait {
    /// The system call, by name.
    pub(super) call: Option<&'static str>,
    /// The function that it waits in, or functions of the kernel, the outermost first.
    pub(in crate::stack) kernel: Vec<Vec<u8>>,
    /// The same with its arguments.
    pub(in crate::stack) entered: Option<InSyscall>,
    /// Where its stack and its code are, and the top of its stack.
    pub(in crate::stack) user: Option<UserPart>,
    /// What the kernel answered for the first file that is not for everybody.
    pub(in crate::stack) refused: Option<Errno>,
}

/// Where a thread in a system call left user space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::stack) struct UserPart {
    pub(in crate::stack) stack_pointer: u64,
    pub(in crate::stack) instruction_pointer: u64,
    pub(in crate::stack) stack: Vec<u8>,
    /// Whether it has all bytes that were wanted.
    pub(in crate::stack) is_full: bool,
}

/// Reads on threads that can be left behind.
pub(in crate::stack) struct Reader {
    crew: Option<Crew<Id, Wait>>,
    pub(in crate::stack) cpu: Duration,
}

impl Reader {
    pub(in crate::stack) fn new(root: &Root, dump_bytes: u32) -> Self {
        let dump = usize::try_from(dump_bytes).unwrap_or_default();
        let crew =
            root.live_proc().map(|proc| Crew::new(PATIENCE, move |id: &Id| read(&proc, *id, dump)));
        Self { crew, cpu: Duration::ZERO }
    }

    /// Of each thread, in the order asked. What does not return in time shows nothing.
    pub(in crate::stack) fn read_each(&mut self, ids: Vec<Id>) -> Vec<Wait> {
        let Some(crew) = self.crew.as_ref().filter(|_| !ids.is_empty()) else {
            return ids.iter().map(|_| Wait::default()).collect();
        };
        let done = crew.each(ids);
        self.cpu += done.cpu;
        let wait = |outcome| match outcome {
            Outcome::Returned(wait) => wait,
            Outcome::Hangs | Outcome::NotTried => Wait::default(),
        };
        done.outcomes.into_iter().map(wait).collect()
    }
}

/// Everything of one thread.
fn read(proc: &OwnedFd, (pid, tid): Id, dump: usize) -> Wait {
    let folder = format!("{pid}/task/{tid}");
    let mut room = vec![0; 4096];
    let mut wait = Wait::default();
    let line = match text(proc, &format!("{folder}/syscall"), &mut room) {
        Ok(line) => line.to_vec(),
        Err(errno) => {
            wait.refused = Some(errno).filter(|errno| !is_gone(*errno));
            return wait;
        }
    };
    if let SyscallLine::In(call) = waiting::parse_syscall(&line) {
        wait.call = Some(call.number.name());
        wait.entered = Some(call);
    }
    wait.user = ends_of(&line).map(|(stack_pointer, instruction_pointer)| {
        let mut stack = vec![0; dump];
        let length = memory(proc, pid, stack_pointer, &mut stack).unwrap_or(0);
        stack.truncate(length);
        UserPart { stack_pointer, instruction_pointer, stack, is_full: length == dump }
    });
    if let Ok(found) = text(proc, &format!("{folder}/stack"), &mut room) {
        wait.kernel = kernel_stack(found);
    }
    if wait.kernel.is_empty()
        && let Ok(found) = text(proc, &format!("{folder}/wchan"), &mut room)
        && !matches!(found, b"" | b"0")
    {
        wait.kernel = vec![found.to_vec()];
    }
    // It went on meanwhile: what was copied is of no moment.
    if text(proc, &format!("{folder}/syscall"), &mut room) != Ok(line.as_slice()) {
        return Wait { refused: wait.refused, ..Wait::default() };
    }
    wait
}

const fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::SRCH)
}

/// With one read: the kernel prints these in one piece.
fn text<'r>(proc: &OwnedFd, path: &str, room: &'r mut [u8]) -> Result<&'r [u8], Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(proc, path, flags, Mode::empty())?;
    let length = rustix::io::read(&file, &mut *room)?;
    Ok(room.get(..length).unwrap_or_default())
}

/// As much as there is of what a process has at an address.
pub(in crate::stack) fn memory(
    proc: &OwnedFd,
    pid: u32,
    start: u64,
    room: &mut [u8],
) -> Result<usize, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(proc, format!("{pid}/mem"), flags, Mode::empty())?;
    let mut length = 0;
    while let Some(rest) = room.get_mut(length..).filter(|rest| !rest.is_empty()) {
        let at = start.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        match rustix::io::pread(&file, rest, at) {
            Ok(0) | Err(_) if length > 0 => break,
            Ok(0) => return Err(Errno::IO),
            Ok(read) => length += read,
            Err(errno) => return Err(errno),
        }
    }
    Ok(length)
}

/// The last two numbers of a line of `syscall`: stack pointer and instruction pointer. A line of a
/// running thread has none, and that of a program of 32 bits has no use for them here.
fn ends_of(line: &[u8]) -> Option<(u64, u64)> {
    const LIMIT_OF_32_BIT: u64 = 1 << 32;
    let numbers: Vec<&[u8]> = fields(line.trim_ascii()).collect();
    let [.., sp, ip] = numbers.as_slice() else { return None };
    let hexadecimal = |field: &[u8]| {
        let digits = std::str::from_utf8(field.strip_prefix(b"0x")?).ok()?;
        u64::from_str_radix(digits, 16).ok()
    };
    let (sp, ip) = (hexadecimal(sp)?, hexadecimal(ip)?);
    (sp >= LIMIT_OF_32_BIT).then_some((sp, ip))
}

/// Functions of the kernel, the outermost first: lines as `[<0>] futex_do_wait+0x38/0x60`.
fn kernel_stack(text: &[u8]) -> Vec<Vec<u8>> {
    const MOST_FUNCTIONS: usize = 64;
    const MOST_NAME_BYTES: usize = 128;
    let name = |line: &[u8]| {
        let after = line.iter().position(|byte| *byte == b' ')? + 1;
        let name = line.get(after..)?.split(|byte| *byte == b'+').next()?.trim_ascii();
        let is_name = !name.is_empty() && !name.starts_with(b"0x");
        is_name.then(|| name.get(..MOST_NAME_BYTES).unwrap_or(name).to_vec())
    };
    let mut names: Vec<Vec<u8>> =
        text.split(|byte| *byte == b'\n').filter_map(name).take(MOST_FUNCTIONS).collect();
    names.reverse();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_place_in_user_space_is_at_the_end_of_a_line() {
        let cases: [(&[u8], _); 5] = [
            (
                b"202 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffd00000010 0x7f0000000020\n",
                Some((0x7ffd_0000_0010, 0x7f00_0000_0020)),
            ),
            (b"-1 0x7ffd00000010 0x7f0000000020\n", Some((0x7ffd_0000_0010, 0x7f00_0000_0020))),
            (b"running\n", None),
            (b"7 0x1 0x2 0x3 0x4 0x5 0x6 0xffe00000 0xf7000000\n", None),
            (b"", None),
        ];
        for (line, want) in cases {
            assert_eq!(ends_of(line), want, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn a_stack_of_the_kernel_is_read_from_its_outermost_function() {
        let text = b"[<0>] futex_do_wait+0x38/0x60\n[<0>] __futex_wait+0x91/0x110\n[<0>] 0xffff\n";
        assert_eq!(kernel_stack(text), [b"__futex_wait".to_vec(), b"futex_do_wait".to_vec()]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_line_and_a_stack(text in prop::collection::vec(any::<u8>(), 0..300)) {
            ends_of(&text);
            kernel_stack(&text);
        }
    }
}

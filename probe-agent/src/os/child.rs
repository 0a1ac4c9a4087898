//! A question to the kernel that is put by a child process, because it may never be answered.
//!
//! Whoever asks a file system whose server is gone may wait where not even `SIGKILL` ends the wait:
//! so with FUSE, once the server has read the request (`request_wait_answer` in `fs/fuse/dev.c`). A
//! thread that waits there keeps its whole process from ending, and every file of it open, the
//! channel to the controller among them. A child that has nothing open keeps nobody.

#![expect(unsafe_code, reason = "fork has no safe form")]

use crate::proc::file_system::{self, Place, Space};
use rustix::{
    fd::{AsRawFd as _, OwnedFd},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
    process::{Pid, Signal, WaitOptions},
};

/// An error number, or 0, and the five numbers of [`Space`].
const ANSWER_BYTES: usize = 6 * 8;

/// Asks a file system for its space, and waits for as long as that takes.
///
/// # Errors
///
/// What the kernel answered to the child, or that there is none.
pub fn space_of(top: &OwnedFd, place: &Place) -> Result<Space, Errno> {
    let (answer, child_end) = pipe_with(PipeFlags::CLOEXEC)?;
    // SAFETY: the child calls the kernel alone, through functions that allocate nothing and take no
    // lock, whatever other threads held when it was made; then it ends without returning.
    let child = match unsafe { libc::fork() } {
        -1 => return Err(last_error()),
        0 => in_child(top, &child_end, place),
        child => child,
    };
    drop(child_end);
    let read = read_answer(&answer);
    if let Some(child) = Pid::from_raw(child) {
        // It has answered, and ends by itself.
        let _ = rustix::process::waitpid(Some(child), WaitOptions::empty());
    }
    read
}

/// What the child does.
fn in_child(top: &OwnedFd, answer: &OwnedFd, place: &Place) -> ! {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let _ = rustix::thread::set_name(c"sysmcp-ask");
    close_all_but(top.as_raw_fd(), answer.as_raw_fd());
    let found = file_system::space(top, place);
    let mut bytes = [0; ANSWER_BYTES];
    let numbers = match found {
        Ok(space) => {
            [0, space.blocks, space.free, space.available, space.inodes, space.inodes_free]
        }
        Err(errno) => [u64::from(errno.raw_os_error().unsigned_abs()), 0, 0, 0, 0, 0],
    };
    for (room, number) in bytes.chunks_exact_mut(8).zip(numbers) {
        room.copy_from_slice(&number.to_ne_bytes());
    }
    // A pipe takes so little at once, or nobody reads it any more.
    let _ = rustix::io::write(answer, &bytes);
    // SAFETY: _exit takes any number and does not return.
    unsafe { libc::_exit(0) }
}

/// Closes every other file that the child has from its parent.
fn close_all_but(one: i32, other: i32) {
    /// On kernels without `close_range` (before 5.9).
    const MOST: u32 = 1024;
    let [first, second] = [one.min(other).unsigned_abs(), one.max(other).unsigned_abs()];
    let ranges = [(0, first), (first + 1, second), (second + 1, u32::MAX)];
    for (from, to) in ranges.into_iter().filter(|(from, to)| from < to) {
        let last = if to == u32::MAX { to } else { to - 1 };
        // SAFETY: the call takes three numbers. What is closed is not used again: the child has
        // its two files, and ends without running anything else.
        let closed = unsafe { libc::syscall(libc::SYS_close_range, from, last, 0) };
        if closed != 0 {
            for file in from..to.min(MOST) {
                // SAFETY: as above.
                unsafe { libc::close(file.cast_signed()) };
            }
        }
    }
}

fn read_answer(answer: &OwnedFd) -> Result<Space, Errno> {
    let mut bytes = [0; ANSWER_BYTES];
    let read = rustix::io::retry_on_intr(|| rustix::io::read(answer, &mut bytes))?;
    let mut numbers = [0; 6];
    for (number, chunk) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
        *number = chunk.try_into().map_or(0, u64::from_ne_bytes);
    }
    let [errno, blocks, free, available, inodes, inodes_free] = numbers;
    match i32::try_from(errno) {
        // It was killed.
        _ if read < ANSWER_BYTES => Err(Errno::INTR),
        Ok(0) => Ok(Space { blocks, free, available, inodes, inodes_free }),
        Ok(errno) => Err(Errno::from_raw_os_error(errno)),
        Err(_) => Err(Errno::IO),
    }
}

fn last_error() -> Errno {
    let error = std::io::Error::last_os_error();
    Errno::from_io_error(&error).unwrap_or(Errno::NOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(path: &str, device: Option<(u32, u32)>) -> Result<Space, Errno> {
        let top = std::fs::File::open("/").unwrap();
        space_of(&OwnedFd::from(top), &Place::new(path.as_bytes(), device).unwrap())
    }

    #[test]
    fn a_child_answers_as_its_parent_would() {
        let top = OwnedFd::from(std::fs::File::open("/").unwrap());
        let place = Place::new(b"/", None).unwrap();
        let own = file_system::space(&top, &place).unwrap();
        let found = asked("/", None).unwrap();
        assert_eq!((found.blocks, found.inodes), (own.blocks, own.inodes));
        assert_eq!(asked("/no/such/folder", None), Err(Errno::NOENT));
        // Something else is mounted there.
        assert_eq!(asked("/", Some((99, 99))), Err(Errno::NOENT));
    }
}

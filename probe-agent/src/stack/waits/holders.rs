//! Who has what a thread waits for: the owner of a mutex, whoever has a pipe's other end open.
//!
//! All of it is what a process wrote, or may write at any time. So a number is a thread only where the
//! process has such a thread, and nothing is followed.

use crate::{
    proc::{Root, parse},
    stack::{fold::inner_pid, looks::sight::memory},
};
use protocol::{host_text::HostText, instruments::perf_record::Holder};

/// Holders that are told of.
const MOST_HOLDERS: usize = 3;

/// Threads of a process among which an owner is looked for.
const MOST_THREADS: usize = 4_096;

/// Open descriptors of all processes among which a pipe's ends are looked for.
const MOST_DESCRIPTORS: usize = 100_000;

/// How a futex is waited on, `FUTEX_CMD_MASK` and the commands of `include/uapi/linux/futex.h`.
const FUTEX_COMMAND: u64 = 0x7f;
const FUTEX_WAIT: u64 = 0;
const FUTEX_LOCK_PI: u64 = 6;
const FUTEX_LOCK_PI2: u64 = 13;

/// The part of a word that is its owner, where it has one.
const FUTEX_TID_MASK: u32 = 0x3fff_ffff;

/// The owner of the mutex at an address, which a thread waits for by a futex call with these arguments.
/// It is known of those of glibc, and of those by which threads inherit priority.
pub fn owner_of_mutex(root: &Root, pid: u32, arguments: [u64; 4]) -> Option<Holder> {
    let [address, operation, value, _] = arguments;
    let mut words = [0; 16];
    let proc = root.live_proc()?;
    if memory(&proc, pid, address, &mut words).ok()? < words.len() {
        return None;
    }
    let inner = match operation & FUTEX_COMMAND {
        FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => word(&words, 0)? & FUTEX_TID_MASK,
        FUTEX_WAIT if value == 2 => glibc_owner(&words)?,
        _ => return None,
    };
    let (tid, name) = thread_by_inner_number(root, pid, inner)?;
    Some(Holder { pid, tid, name })
}

/// `__owner` of `struct __pthread_mutex_s`: the fourth word counts who holds it, so it is at least 1. The
/// first is 2 as long as somebody waits.
fn glibc_owner(words: &[u8; 16]) -> Option<u32> {
    let (lock, owner, users) = (word(words, 0)?, word(words, 2)?, word(words, 3)?);
    (lock == 2 && owner > 0 && (1..=0xffff).contains(&users)).then_some(owner)
}

fn word(words: &[u8; 16], at: usize) -> Option<u32> {
    words.get(at * 4..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

/// A thread by its number in its process's own namespace.
fn thread_by_inner_number(root: &Root, pid: u32, inner: u32) -> Option<(u32, HostText)> {
    let mut tids = Vec::new();
    root.list_ids(&format!("{pid}/task"), &mut tids).ok()?;
    tids.truncate(MOST_THREADS);
    let mut text = Vec::new();
    let is_it = |tid: &u32, text: &mut Vec<u8>| {
        root.read_proc(&format!("{pid}/task/{tid}/status"), text).is_ok()
            && inner_pid(text).map_or(*tid == inner, |number| number == inner)
    };
    // Mostly both numbers are the same.
    let same = tids.iter().find(|tid| **tid == inner && is_it(tid, &mut text)).copied();
    let tid = same.or_else(|| tids.into_iter().find(|tid| is_it(tid, &mut text)))?;
    Some((tid, name_of(root, pid, tid)))
}

fn name_of(root: &Root, pid: u32, tid: u32) -> HostText {
    let mut room = [0; 64];
    let name = root.read_proc_once(&format!("{pid}/task/{tid}/comm"), &mut room);
    crate::proc::host_text(name.unwrap_or_default())
}

/// Processes that have the other end of a pipe open than one who reads or writes. The one who waits is
/// left out, unless nobody else has it.
pub fn other_ends(root: &Root, inode: u64, (pid, reads): (u32, bool)) -> Vec<HostText> {
    let wanted = format!("pipe:[{inode}]");
    let mut pids = Vec::new();
    if root.list_ids(".", &mut pids).is_err() {
        return Vec::new();
    }
    let (mut found, mut own) = (Vec::new(), Vec::new());
    let mut left = MOST_DESCRIPTORS;
    for other in pids {
        if found.len() >= MOST_HOLDERS || left == 0 {
            break;
        }
        if !has_end(root, other, wanted.as_bytes(), reads, &mut left) {
            continue;
        }
        let name = name_of(root, other, other);
        let holder = HostText::escaped(format!("{other} {name}"));
        if other == pid { own.push(holder) } else { found.push(holder) }
    }
    if found.is_empty() { own } else { found }
}

fn has_end(root: &Root, pid: u32, wanted: &[u8], reads: bool, left: &mut usize) -> bool {
    let mut numbers = Vec::new();
    root.list_ids(&format!("{pid}/fd"), &mut numbers).is_ok()
        && numbers.into_iter().any(|number| {
            *left = left.saturating_sub(1);
            *left > 0
                && root.link_of_proc(&format!("{pid}/fd/{number}")).as_deref() == Ok(wanted)
                && is_other_end(root, pid, number, reads)
        })
}

/// Whether a descriptor is for what the other side does.
fn is_other_end(root: &Root, pid: u32, number: u32, reads: bool) -> bool {
    const READ_ONLY: u64 = 0;
    const WRITE_ONLY: u64 = 1;
    let mut text = Vec::new();
    if root.read_proc(&format!("{pid}/fdinfo/{number}"), &mut text).is_err() {
        return false;
    }
    let mode = parse::line_of(&text, "flags").and_then(|(_, line)| {
        let digits = std::str::from_utf8(line.trim_ascii()).ok()?;
        u64::from_str_radix(digits, 8).ok()
    });
    mode.is_some_and(|mode| mode & 3 != if reads { READ_ONLY } else { WRITE_ONLY })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: [u32; 4]) -> [u8; 16] {
        let mut bytes = [0; 16];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn an_owner_is_one_only_of_a_mutex_that_is_held_and_waited_for() {
        let cases = [
            ("held", [2, 0, 4711, 1], Some(4711)),
            ("held recursively", [2, 3, 4711, 1], Some(4711)),
            ("given back meanwhile", [0, 0, 0, 0], None),
            ("nobody waits", [1, 0, 4711, 1], None),
            ("no mutex", [2, 0x7f00, 4711, 0xdead_beef], None),
            ("no owner", [2, 0, 0, 1], None),
        ];
        for (name, found, want) in cases {
            assert_eq!(glibc_owner(&words(found)), want, "{name}");
        }
    }
}

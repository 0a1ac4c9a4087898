//! What the arguments of a call point to, copied while its thread stands still before it.

#![expect(unsafe_code, reason = "process_vm_readv has no safe form")]

use super::requests::Tid;
use syscalls::Sysno;

/// A piece of memory that an argument points to. Arguments are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    /// A path: all until a zero.
    Text(usize),
    /// An address of a socket, whose length is in another argument.
    Socket(usize, usize),
}

/// The longest path that the kernel takes, `PATH_MAX`.
const MOST_TEXT_BYTES: usize = 4096;

/// `struct sockaddr_storage`.
const MOST_SOCKET_BYTES: usize = 128;

/// What a call's arguments point to; without what only holds data.
fn pieces(call: Sysno) -> &'static [Piece] {
    use Piece::{Socket, Text};
    match call.name() {
        "open" | "creat" | "stat" | "lstat" | "access" | "readlink" | "chdir" | "mkdir"
        | "rmdir" | "unlink" | "truncate" | "statfs" | "chmod" | "chown" | "lchown" | "execve"
        | "mknod" | "getxattr" | "lgetxattr" | "listxattr" | "utime" | "utimes" | "chroot"
        | "acct" | "swapon" | "swapoff" | "umount2" | "uselib" | "symlink" => &[Text(0)],
        "openat" | "openat2" | "newfstatat" | "statx" | "faccessat" | "faccessat2"
        | "readlinkat" | "mkdirat" | "unlinkat" | "mknodat" | "fchmodat" | "fchmodat2"
        | "fchownat" | "utimensat" | "futimesat" | "execveat" | "inotify_add_watch"
        | "name_to_handle_at" | "open_tree" => &[Text(1)],
        "rename" | "link" | "pivot_root" | "mount" => &[Text(0), Text(1)],
        "renameat" | "renameat2" | "linkat" | "move_mount" => &[Text(1), Text(3)],
        "symlinkat" => &[Text(2)],
        "connect" | "bind" => &[Socket(1, 2)],
        "sendto" => &[Socket(4, 5)],
        _ => &[],
    }
}

/// Copies it, as far as it can be read.
pub(super) fn copy(tid: Tid, number: u64, arguments: &[u64; 6]) -> Vec<Vec<u8>> {
    let call = usize::try_from(number).ok().and_then(Sysno::new);
    let argument = |at: usize| arguments.get(at).copied().unwrap_or_default();
    let pieces = call.map_or(&[][..], pieces).iter();
    let copied = pieces.map(|piece| match *piece {
        Piece::Text(at) => text(tid, argument(at)),
        Piece::Socket(at, length) => {
            let length = usize::try_from(argument(length)).unwrap_or(usize::MAX);
            bytes(tid, argument(at), length.min(MOST_SOCKET_BYTES))
        }
    });
    copied.collect()
}

/// All until a zero. Read no further than to the end of a page at once: the next one may not be there.
fn text(tid: Tid, start: u64) -> Vec<u8> {
    const AT_ONCE: u64 = 256;
    let (mut text, mut at) = (Vec::new(), start);
    while at != 0 && text.len() < MOST_TEXT_BYTES {
        let length = AT_ONCE.min(4096 - at % 4096);
        let piece = bytes(tid, at, usize::try_from(length).unwrap_or_default());
        if piece.is_empty() {
            break;
        }
        if let Some(end) = piece.iter().position(|byte| *byte == 0) {
            text.extend(piece.iter().take(end));
            break;
        }
        text.extend(piece);
        at = at.saturating_add(length);
    }
    text.truncate(MOST_TEXT_BYTES);
    text
}

fn bytes(tid: Tid, start: u64, length: usize) -> Vec<u8> {
    let Ok(start) = usize::try_from(start) else { return Vec::new() };
    if start == 0 || length == 0 {
        return Vec::new();
    }
    let mut copied = vec![0; length];
    let here = libc::iovec { iov_base: copied.as_mut_ptr().cast(), iov_len: length };
    let there = libc::iovec { iov_base: std::ptr::without_provenance_mut(start), iov_len: length };
    // SAFETY: the kernel writes no more than the length of `here`, which is that of the buffer, and
    // looks at the other address in the other process only.
    let read = unsafe { libc::process_vm_readv(tid, &raw const here, 1, &raw const there, 1, 0) };
    copied.truncate(usize::try_from(read).unwrap_or(0));
    copied
}

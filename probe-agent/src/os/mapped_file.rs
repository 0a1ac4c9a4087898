//! Files of others, mapped for reading.
//!
//! Whoever may write such a file may cut it while it is mapped; then the kernel sends `SIGBUS` to
//! whoever reads what is not there any more (`man 2 mmap`). For files mapped here, such a page reads as
//! zeros from then on.

#![expect(unsafe_code, reason = "mmap, and what signals do, have no safe form")]

use super::{answer::last_errno, sysconf};
use rustix::{
    fd::{AsFd, AsRawFd as _},
    io::Errno,
};
use std::{
    fmt,
    ops::Deref,
    ptr::NonNull,
    sync::{
        Once,
        atomic::{AtomicUsize, Ordering},
    },
};

/// A whole file in memory. It stays what it was when it is deleted, and its inode is not used anew.
pub struct MappedFile {
    base: NonNull<u8>,
    bytes: usize,
    place: &'static Guarded,
}

// SAFETY: the memory is read only, and this process's whichever thread looks at it.
unsafe impl Send for MappedFile {}
// SAFETY: as above.
unsafe impl Sync for MappedFile {}

/// How many files may be mapped at once.
const MOST_FILES: usize = 4096;

/// Addresses of a mapping; both 0 where there is none.
struct Guarded {
    start: AtomicUsize,
    end: AtomicUsize,
}

static GUARDED: [Guarded; MOST_FILES] =
    [const { Guarded { start: AtomicUsize::new(0), end: AtomicUsize::new(0) } }; MOST_FILES];

/// Stands in a place that is being taken. No mapping begins there.
const TAKEN: usize = 1;

impl MappedFile {
    /// Maps all of a file.
    ///
    /// # Errors
    ///
    /// What the kernel answered, `EINVAL` for an empty file; `ENFILE` where as many are mapped as may
    /// be.
    pub fn map(file: impl AsFd) -> Result<Self, Errno> {
        static WITH_HANDLER: Once = Once::new();
        WITH_HANDLER.call_once(handle_missing_pages);
        let size = rustix::fs::fstat(&file)?.st_size;
        let bytes = usize::try_from(size).map_err(|_| Errno::FBIG)?;
        let take = |place: &&Guarded| {
            let taken = place.start.compare_exchange(0, TAKEN, Ordering::AcqRel, Ordering::Relaxed);
            taken.is_ok()
        };
        let place = GUARDED.iter().find(take).ok_or(Errno::NFILE)?;
        let descriptor = file.as_fd().as_raw_fd();
        let (nowhere, protection) = (std::ptr::null_mut(), libc::PROT_READ);
        // SAFETY: a new mapping at an address that the kernel chooses, which nothing writes to.
        let base =
            unsafe { libc::mmap(nowhere, bytes, protection, libc::MAP_SHARED, descriptor, 0) };
        let base = if base == libc::MAP_FAILED { None } else { NonNull::new(base.cast::<u8>()) };
        let Some(base) = base else {
            let errno = last_errno();
            place.start.store(0, Ordering::Release);
            return Err(errno);
        };
        let start = base.addr().get();
        place.end.store(start.saturating_add(bytes), Ordering::Release);
        place.start.store(start, Ordering::Release);
        Ok(Self { base, bytes, place })
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped with this length as long as this lives. Others may write to the file: what is
        // read here is bytes from outside, that nobody relies on to stay the same.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.bytes) }
    }
}

impl fmt::Debug for MappedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedFile").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        self.place.end.store(0, Ordering::Release);
        // SAFETY: mapped with this length, and nothing borrowed from it is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
        self.place.start.store(0, Ordering::Release);
    }
}

fn handle_missing_pages() {
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = put_zeros;
    // SAFETY: the structure is whole, of zeros and the fields set here; the handler is of the form
    // that the flags say, and makes system calls only.
    unsafe {
        let mut action = std::mem::zeroed::<libc::sigaction>();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}

/// Puts a page of zeros where one is missing of a mapping made here. Elsewhere the signal does what it
/// does without a handler, when the instruction is tried again.
extern "C" fn put_zeros(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives the structure, and for this signal the address in it.
    let address = unsafe { (*info).si_addr() }.addr();
    let is_inside = |place: &Guarded| {
        let start = place.start.load(Ordering::Acquire);
        start > TAKEN && address >= start && address < place.end.load(Ordering::Acquire)
    };
    let page = usize::try_from(sysconf::page_bytes()).unwrap_or(4096);
    let start = address - address % page;
    let mut is_put = false;
    if GUARDED.iter().any(is_inside) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let place = std::ptr::without_provenance_mut(start);
        // SAFETY: within a mapping of ours, which is unmapped with it.
        let put = unsafe { libc::mmap(place, page, libc::PROT_READ, flags, -1, 0) };
        is_put = put != libc::MAP_FAILED;
    }
    if !is_put {
        // SAFETY: it takes numbers.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
    }
}

/// The code that the kernel puts into every process, as it is in this one: the same in all of the same
/// width. Kernel reference: `man 7 vdso`.
pub fn vdso() -> Option<&'static [u8]> {
    const MOST_BYTES: usize = 64 << 10;
    const HEADER: usize = 64;
    // SAFETY: it takes a number, and answers 0 where there is none.
    let place = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
    let place = NonNull::new(std::ptr::without_provenance_mut::<u8>(usize::try_from(place).ok()?))?;
    // SAFETY: the kernel maps at least a page there, for as long as the process lives, and never
    // writes to it.
    let header = unsafe { std::slice::from_raw_parts(place.as_ptr(), HEADER) };
    let number = |at: usize| header.get(at..)?.first_chunk::<8>().map(|it| u64::from_le_bytes(*it));
    let count = header.get(60..)?.first_chunk::<2>().map(|it| u16::from_le_bytes(*it))?;
    // The table of sections is what it ends with.
    let bytes = usize::try_from(number(40)?).ok()?.checked_add(usize::from(count) * 64)?;
    if !header.starts_with(b"\x7fELF") || bytes > MOST_BYTES {
        return None;
    }
    // SAFETY: as above: the file is mapped whole.
    Some(unsafe { std::slice::from_raw_parts(place.as_ptr(), bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_file_that_is_cut_while_it_is_mapped_reads_as_zeros() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; 10_000]).unwrap();
        let mapped = MappedFile::map(&file).unwrap();
        assert_eq!((mapped.len(), mapped[9_999]), (10_000, 7));
        file.set_len(100).unwrap();
        assert_eq!((mapped[50], mapped[9_999], mapped[5_000]), (7, 0, 0));
        drop(mapped);
        file.set_len(20_000).unwrap();
        assert_eq!(MappedFile::map(&file).unwrap().len(), 20_000);
        file.set_len(0).unwrap();
        assert_eq!(MappedFile::map(&file).err(), Some(Errno::INVAL));
    }

    #[test]
    fn the_kernel_s_own_code_is_a_file() {
        assert!(vdso().unwrap().starts_with(b"\x7fELF"));
    }
}

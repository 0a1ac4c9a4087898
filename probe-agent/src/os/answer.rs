//! What a system call without a safe form answers: a descriptor, or an error.

#![expect(unsafe_code, reason = "a number becomes a descriptor that is closed")]

use rustix::{
    fd::{FromRawFd as _, OwnedFd},
    io::Errno,
};

/// The descriptor that a system call returned, or its error.
///
/// # Errors
///
/// What the kernel answered to the last call of this thread.
pub(crate) fn owned(answer: libc::c_long) -> Result<OwnedFd, Errno> {
    match i32::try_from(answer) {
        // SAFETY: the kernel has just made this descriptor, and nobody else knows it.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        Ok(_) | Err(_) => Err(last_errno()),
    }
}

/// The error of the last system call of this thread.
pub(crate) fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

//! Stdout without the buffer and the lock of the standard library: both processes of the agent write
//! to it, and one of them comes from a fork.

use rustix::io::Errno;
use std::time::Duration;

/// Writes bytes to stdout.
///
/// # Errors
///
/// What the kernel answered.
pub fn write_all(bytes: &[u8]) -> Result<(), Errno> {
    let stdout = rustix::stdio::stdout();
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(stdout, rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            // Somebody made the pipe non-blocking; it drains or it closes.
            Err(Errno::AGAIN) => std::thread::sleep(Duration::from_millis(1)),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

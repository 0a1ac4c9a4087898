//! Questions to whoever sits at the terminal, whatever stdin and stdout are.

#[cfg(unix)]
#[path = "terminal/unix.rs"]
mod system;
#[cfg(windows)]
#[path = "terminal/windows.rs"]
mod system;

pub(super) use system::is_there;

use std::io;
use system::Keyboard;
use zeroize::Zeroizing;

/// Whether what is typed appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// It does.
    On,
    /// It does not: it is a secret.
    Off,
}

/// Bytes of an answer that are taken. Nobody types more.
const LONGEST: usize = 4096;

/// An answer for the library, which wants it as a string and wipes passwords itself.
pub(super) fn into_string(mut typed: Zeroizing<String>) -> String {
    std::mem::take(&mut *typed)
}

/// Asks, and reads a line, of which no other copy stays in memory.
///
/// # Errors
///
/// When there is no terminal, or it ends.
pub(super) async fn ask(question: &str, echo: Echo) -> io::Result<Zeroizing<String>> {
    let mut keyboard = Keyboard::ask(question, echo)?;
    let mut bytes = Zeroizing::new([0; 256]);
    // Room for all of it from the start: one that grows leaves copies behind.
    let mut line = Zeroizing::new(Vec::with_capacity(LONGEST + bytes.len()));
    while !line.ends_with(b"\n") && line.len() < LONGEST {
        let read = keyboard.read(bytes.as_mut_slice()).await?;
        line.extend_from_slice(bytes.get(..read).unwrap_or_default());
        if read == 0 && line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if read == 0 {
            break;
        }
    }
    while line.last().is_some_and(|byte| b"\r\n".contains(byte)) {
        line.pop();
    }
    let text = String::from_utf8(std::mem::take(&mut *line)).map_err(|error| {
        drop(Zeroizing::new(error.into_bytes()));
        io::Error::from(io::ErrorKind::InvalidData)
    })?;
    Ok(Zeroizing::new(text))
}

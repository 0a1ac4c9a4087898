//! Questions to whoever sits at the terminal, whatever stdin and stdout are.

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::{
    fs::OpenOptions,
    io::{self, Write as _},
};
use tokio::{io::AsyncReadExt as _, net::unix::pipe};
use zeroize::Zeroizing;

/// Whether what is typed appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// It does.
    On,
    /// It does not: it is a secret.
    Off,
}

const TERMINAL: &str = "/dev/tty";

/// The terminal, set back as it was when dropped, also where nobody waits for the answer any more.
struct Keyboard {
    /// Opened as a pipe is: any file that can be waited for serves, and nothing here blocks.
    reader: pipe::Receiver,
    before: Termios,
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.reader, OptionalActions::Flush, &self.before);
    }
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
    let reader = pipe::OpenOptions::new().unchecked(true).open_receiver(TERMINAL)?;
    let before = tcgetattr(&reader)?;
    let mut keyboard = Keyboard { reader, before };
    if echo == Echo::Off {
        let mut hidden = keyboard.before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        hidden.local_modes.insert(LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG);
        tcsetattr(&keyboard.reader, OptionalActions::Flush, &hidden)?;
    }
    // Over the line of progress that may stand there.
    let mut screen = OpenOptions::new().write(true).open(TERMINAL)?;
    write!(screen, "\r\x1b[K{question}")?;
    let mut bytes = Zeroizing::new([0; 256]);
    // Room for all of it from the start: one that grows leaves copies behind.
    let mut line = Zeroizing::new(Vec::with_capacity(LONGEST + bytes.len()));
    while !line.ends_with(b"\n") && line.len() < LONGEST {
        let read = keyboard.reader.read(bytes.as_mut_slice()).await?;
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

//! The terminal that this process belongs to.

use super::Echo;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
};

/// Its name for every process that has one.
const TERMINAL: &str = "/dev/tty";

/// Whether there is one.
pub fn is_there() -> bool {
    File::open(TERMINAL).is_ok()
}

/// The terminal, set back as it was when dropped, also where nobody waits for the answer any more.
pub struct Keyboard {
    typed: Typed,
    before: Termios,
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.typed.0, OptionalActions::Flush, &self.before);
    }
}

impl Keyboard {
    /// Shows a question, over the line of progress that may stand there.
    ///
    /// # Errors
    ///
    /// When there is no terminal.
    pub fn ask(question: &str, echo: Echo) -> io::Result<Self> {
        let typed = Typed::open()?;
        let before = tcgetattr(&typed.0)?;
        let keyboard = Self { typed, before };
        if echo == Echo::Off {
            let mut hidden = keyboard.before.clone();
            hidden.local_modes.remove(LocalModes::ECHO);
            hidden.local_modes.insert(LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG);
            tcsetattr(&keyboard.typed.0, OptionalActions::Flush, &hidden)?;
        }
        let mut screen = OpenOptions::new().write(true).open(TERMINAL)?;
        write!(screen, "\r\x1b[K{question}")?;
        Ok(keyboard)
    }

    /// Waits for what is typed. Gives how many bytes that were.
    ///
    /// # Errors
    ///
    /// When the terminal is gone.
    pub async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.typed.read(into).await
    }
}

/// Opened as a pipe is: any file that can be waited for serves, and nothing here blocks.
#[cfg(target_os = "linux")]
struct Typed(tokio::net::unix::pipe::Receiver);

#[cfg(target_os = "linux")]
impl Typed {
    fn open() -> io::Result<Self> {
        let mut options = tokio::net::unix::pipe::OpenOptions::new();
        options.unchecked(true).open_receiver(TERMINAL).map(Self)
    }

    async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        tokio::io::AsyncReadExt::read(&mut self.0, into).await
    }
}

/// Looked at again and again: elsewhere than on Linux it cannot be waited for by this name (`kevent`
/// on macOS fails with `EINVAL`, tokio-rs/mio#1377).
#[cfg(not(target_os = "linux"))]
struct Typed(std::os::fd::OwnedFd);

#[cfg(not(target_os = "linux"))]
impl Typed {
    fn open() -> io::Result<Self> {
        use rustix::fs::{Mode, OFlags};
        let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(TERMINAL, how, Mode::empty())?))
    }

    async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        use rustix::io::Errno;
        /// Too short to be noticed by whoever types.
        const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);
        loop {
            match rustix::io::read(&self.0, &mut *into) {
                Err(Errno::AGAIN | Errno::INTR) => tokio::time::sleep(PAUSE).await,
                result => return Ok(result?),
            }
        }
    }
}

//! The console of Windows, at which nobody is asked: what is typed would be seen, because only calls
//! that have no safe form hide it.

use super::Echo;
use std::io;

/// Whether there is one to ask at.
pub const fn is_there() -> bool {
    false
}

/// Never there.
pub enum Keyboard {}

impl Keyboard {
    /// Asks nobody.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn ask(_question: &str, _echo: Echo) -> io::Result<Self> {
        let why = "on Windows nobody is asked; use an ssh-agent, or rules that need no password";
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }

    /// Never called.
    ///
    /// # Errors
    ///
    /// None.
    pub async fn read(&mut self, _into: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }
}

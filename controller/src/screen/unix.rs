//! A terminal of Unix.

use std::{
    io::{IsTerminal, Stdout},
    os::fd::AsFd as _,
};

/// Whether a stream is a terminal, on which colours and lines that are written over can be shown.
pub fn is_steerable(stream: &impl IsTerminal) -> bool {
    stream.is_terminal()
}

/// Its columns, where it says how many it has.
pub fn width(stdout: &Stdout) -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(stdout.as_fd()).ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}

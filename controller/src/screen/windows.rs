//! A console of Windows. It shows sequences as text until it is told to follow them, and only calls
//! without a safe form tell it so; how wide it is, too.

use std::io::{IsTerminal, Stdout};

/// Whether colours and lines that are written over can be shown: never here.
pub const fn is_steerable(_stream: &impl IsTerminal) -> bool {
    false
}

/// Its columns, which nobody says.
pub const fn width(_stdout: &Stdout) -> Option<u16> {
    None
}

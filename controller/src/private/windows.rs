//! What a user's profile is for, as Windows sets it up: its files are for that user, the system and
//! the machine's administrators, and what is made in it inherits that. Who may do what with another
//! file is in its list, which the standard library does not show.

use std::{
    fs::{DirBuilder, Metadata, OpenOptions},
    io,
    path::Path,
};

/// Makes a folder, with those above it that are missing. It is as private as the folder it is in.
///
/// # Errors
///
/// When it cannot be made.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(folder)
}

/// How to open a file that, where it is made, is as private as the folder it is in.
pub fn options() -> OpenOptions {
    OpenOptions::new()
}

/// Why a file is not taken for a private key; `None` where it is. Who may read it does not show, and
/// whoever can take a key away can do so whether it is used or not.
pub const fn why_no_key(_file: &Metadata) -> Option<&'static str> {
    None
}

/// Why a file is not taken for a part of an SSH configuration. Whoever may write to it decides what is
/// run, and who that is does not show; Windows brings an `ssh` that looks.
pub const fn why_no_configuration(_file: &Metadata) -> Option<&'static str> {
    Some("who may write to it does not show on Windows")
}

/// Why a folder is not this user's alone. Who may use it does not show.
pub const fn why_not_alone(_folder: &Metadata) -> Option<&'static str> {
    Some("who may use it does not show on Windows")
}

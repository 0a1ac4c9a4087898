//! Modes and owners.

use std::{
    fs::{DirBuilder, Metadata, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

/// Makes a folder, with those above it that are missing, for this user alone. One that is there stays
/// as it is.
///
/// # Errors
///
/// When it cannot be made.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// How to open a file that, where it is made, is for this user alone.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Why a file is not taken for a private key; `None` where it is. As `sshkey_perm_ok` in OpenSSH's
/// authfile.c: only the user's own is looked at.
pub fn why_no_key(file: &Metadata) -> Option<&'static str> {
    const OF_OTHERS: u32 = 0o077;
    (is_ours(file) && file.mode() & OF_OTHERS != 0)
        .then_some("others may read it, so it is not used: chmod 600 it")
}

/// Why a file is not taken for a part of an SSH configuration; `None` where it is. As
/// `read_config_file_depth` in OpenSSH's readconf.c.
pub fn why_no_configuration(file: &Metadata) -> Option<&'static str> {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    let is_own = file.uid() == 0 || is_ours(file);
    (!is_own || file.mode() & WRITABLE_BY_OTHERS != 0)
        .then_some("others may write to it (chmod go-w), or own it")
}

/// Why a folder is not this user's alone; `None` where it is. A link to one is none.
pub fn why_not_alone(folder: &Metadata) -> Option<&'static str> {
    const OF_OTHERS: u32 = 0o077;
    if !folder.is_dir() {
        return Some("it is no folder");
    }
    let is_alone = folder.uid() == rustix::process::geteuid().as_raw();
    (!is_alone || folder.mode() & OF_OTHERS != 0).then_some("others may use it, or own it")
}

fn is_ours(file: &Metadata) -> bool {
    file.uid() == rustix::process::getuid().as_raw()
}

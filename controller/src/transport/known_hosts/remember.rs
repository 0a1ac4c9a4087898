//! Adds a key to a known_hosts file.
//!
//! `add_host_to_hostfile` and `format_host_entry` in OpenSSH's hostfile.c, `check_host_key` in
//! sshconnect.c.

use super::{
    Name,
    names::{HASH_BYTES, hashed},
};
use crate::private;
use protocol::host_text::HostText;
use russh::keys::PublicKey;
use std::{
    io::{Error, ErrorKind, Read as _, Result, Seek as _, SeekFrom, Write as _},
    path::Path,
};

/// What no name may have in it that is written: it would be read as something else. The first of
/// these is the list in `check_host_key`.
const NOT_IN_A_NAME: &[u8] = b"@?*#[]|'\"\\,!";

/// How much of a name is repeated to a reader.
const SHOWN_BYTES: usize = 255;

/// Adds a key to a known_hosts file, which is made if it is missing, with the folder it is in.
///
/// The line is for the name, with its port where that is not 22, and for the address too where the
/// name has one: give one only if nothing is known about it yet, see
/// [`super::KnownHosts::is_address_new`]. All is written at once, at the end of the file.
///
/// # Errors
///
/// When it cannot be written, when there is no randomness for a hash, or when the name has a
/// character that means something else in such a file.
pub fn remember(file: &Path, name: &Name, key: &PublicKey, is_hashed: bool) -> Result<()> {
    if name.host.is_empty() || name.host.bytes().any(is_special) {
        let host = HostText::capped(name.host.as_bytes(), SHOWN_BYTES);
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!(
                "the name \"{}\" has a character that means something else there",
                host.as_str()
            ),
        ));
    }
    let key = PublicKey::from(key.key_data().clone()).to_openssh().map_err(Error::other)?;
    let host = name.lookup();
    let names = std::iter::once(host).chain(name.lookup_of_address());
    let lines = if is_hashed {
        let mut lines = String::new();
        for name in names {
            lines.push_str(&format!("{} {key}\n", hashed(&name, &salt()?)));
        }
        lines
    } else {
        format!("{} {key}\n", names.collect::<Vec<_>>().join(","))
    };
    append(file, &lines)
}

/// Puts lines behind the last, which is ended first if it is not.
fn append(file: &Path, lines: &str) -> Result<()> {
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        private::make_folder(folder)?;
    }
    let mut file = private::options().read(true).append(true).create(true).open(file)?;
    let mut last = [b'\n'];
    if file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    let newline = if last == [b'\n'] { "" } else { "\n" };
    // One write, so that what another program adds at the same time is not torn.
    file.write_all(format!("{newline}{lines}").as_bytes())
}

fn is_special(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7f || NOT_IN_A_NAME.contains(&byte)
}

fn salt() -> Result<[u8; HASH_BYTES]> {
    let mut salt = [0; HASH_BYTES];
    getrandom::fill(&mut salt).map_err(|_| Error::other("the system gives no random bytes"))?;
    Ok(salt)
}

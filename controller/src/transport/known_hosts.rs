//! Whether a host is the one it says it is, decided as `ssh` decides it.
//!
//! Format and order of decisions: sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT", and OpenSSH's
//! hostfile.c and sshconnect.c. The library's own check is not used: it accepts a revoked key.

use russh::keys::{Algorithm, PublicKey, PublicKeyOrCertificate};
use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

/// What a host is looked up as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Its name, or the alias that the configuration gives it.
    pub host: String,
    /// Its port; none where an alias stands for both.
    pub port: Option<u16>,
    /// Its address, where that has to be known with the same key too.
    pub address: Option<IpAddr>,
}

/// All that the files say.
#[derive(Clone, Debug, Default)]
pub struct KnownHosts {
    _entries: Vec<()>,
}

/// What the files say about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It is the host's.
    Known,
    /// An authority that is known for the host vouches for it.
    Vouched,
    /// Nothing is known about the host, at least not of this type.
    Unknown,
    /// The host is known by another key.
    Changed {
        /// The file that says so.
        file: PathBuf,
        /// The line's number.
        line: usize,
    },
    /// The key, or that of the authority, is revoked.
    Revoked {
        /// The file that says so.
        file: PathBuf,
        /// The line's number.
        line: usize,
    },
    /// The certificate cannot be accepted, and its key is not known by itself either.
    BadCertificate {
        /// Why.
        why: String,
    },
}

impl KnownHosts {
    /// Reads the files, the user's first. One that is missing says nothing, as does a line that is
    /// not understood.
    pub fn read(files: &[PathBuf]) -> Self {
        let _ = files;
        todo!()
    }

    /// The types of key by which a host is known, and whether authorities are known for it: what to
    /// ask the host for first.
    pub fn known_types(&self, name: &Name) -> KnownTypes {
        let _ = name;
        todo!()
    }

    /// What to ask a host for: types of keys, and of certificates.
    pub fn preferred(&self, name: &Name, allowed: &[String]) -> (Vec<Algorithm>, Vec<Algorithm>) {
        let _ = (name, allowed);
        todo!()
    }

    /// What the files say about the key that a host showed. `now` is in seconds since 1970;
    /// `authority_signatures` are the signature algorithms that an authority may use.
    pub fn check(
        &self,
        name: &Name,
        shown: &PublicKeyOrCertificate,
        now: u64,
        authority_signatures: &[String],
    ) -> Finding {
        let _ = (name, shown, now, authority_signatures);
        todo!()
    }
}

/// By what a host is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownTypes {
    /// Types of its keys.
    pub keys: Vec<Algorithm>,
    /// Whether an authority is known for it.
    pub has_authority: bool,
}

/// Adds a key to a known_hosts file, which is made if it is missing.
///
/// # Errors
///
/// When it cannot be written.
pub fn remember(file: &Path, name: &Name, key: &PublicKey, is_hashed: bool) -> std::io::Result<()> {
    let _ = (file, name, key, is_hashed);
    todo!()
}

//! Whether a host is the one it says it is, decided as `ssh` decides it.
//!
//! Format and order of decisions: sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT", and OpenSSH's
//! hostfile.c and sshconnect.c. The library's own check is not used: it accepts a revoked key.
//!
//! Never is more accepted than `ssh` with strict checking accepts. These are refused beyond that:
//!
//! - A revoked key whose marker ends with a tab, which `ssh` overlooks.
//! - A key that is revoked for the host's address, or a certificate whose authority is revoked for
//!   the name without its port.
//! - A certificate that names no host, or only by a wildcard: releases of OpenSSH differ.
//! - A certificate with a signature that the library cannot verify, even if the key in it is known.
//! - A key that is known for the name without its port, if the name with its port is known by
//!   another key. `ssh` says so too, but not where the host has a certificate.
//! - The same, if that other key is of a type that this `ssh` does not know.
//! - A host whose address is known by another key, also where it has a certificate.
//! - Every key, while one of the files is larger than 64 MiB.
//! - A certificate where the configuration wants a plain key first.

mod about;
mod certificate;
mod line;
mod names;
mod preference;
mod remember;
#[cfg(test)]
mod tests;

pub use preference::{is_allowed, is_same_type};
pub use remember::remember;

use about::{About, Said, Status};
use line::Line;
use russh::keys::{Algorithm, Certificate, PublicKeyOrCertificate, ssh_key::public::KeyData};
use std::{
    fs::File,
    io::{ErrorKind, Read as _},
    net::IpAddr,
    path::{Path, PathBuf},
};

/// The largest file that is taken in, in bytes. Ten thousand hosts with three keys each need a
/// fifteenth of it.
const LARGEST_FILE: u64 = 64 << 20;
/// The port that names are kept without.
const USUAL_PORT: u16 = 22;

/// What a host is looked up as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Its name, or the alias that the configuration gives it.
    pub host: String,
    /// Its port; none where an alias stands for both.
    pub port: Option<u16>,
    /// Its address, where that has to be known with the same key too: `CheckHostIP`, for a
    /// connection without a proxy. An address of this machine's own loopback is never looked up.
    pub address: Option<IpAddr>,
}

impl Name {
    /// What files and certificates call it: in lower case, as `ssh` makes a name and an alias, or an
    /// address in its usual form (`main` in OpenSSH's ssh.c).
    fn own(&self) -> String {
        let address = self.port.and_then(|_| self.host.parse::<IpAddr>().ok());
        address.map_or_else(|| self.host.to_ascii_lowercase(), |address| address.to_string())
    }

    /// The form in which the files have it: `host`, or `[host]:port` for a port other than 22.
    fn lookup(&self) -> String {
        with_port(&self.own(), self.port.unwrap_or(USUAL_PORT))
    }

    /// The form without the port, where `ssh` looks for that too.
    fn lookup_without_port(&self) -> Option<String> {
        let is_unusual = self.port.is_some_and(|port| port != USUAL_PORT);
        is_unusual.then(|| self.own())
    }

    fn lookup_of_address(&self) -> Option<String> {
        let address = self.address.filter(|address| !address.is_loopback())?;
        Some(with_port(&address.to_string(), self.port.unwrap_or(USUAL_PORT)))
    }
}

/// A host and its port, as the files have them.
pub fn with_port(host: &str, port: u16) -> String {
    if port == USUAL_PORT { host.to_owned() } else { format!("[{host}]:{port}") }
}

/// All that the files say.
#[derive(Clone, Debug, Default)]
pub struct KnownHosts {
    files: Vec<PathBuf>,
    entries: Vec<Entry>,
    problems: Vec<Problem>,
}

/// A line, and where it stands.
#[derive(Clone, Debug)]
struct Entry {
    /// The index of its file.
    file: usize,
    /// Its number, from 1.
    number: usize,
    line: Line,
}

/// A file that could not be read, or not all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// Why.
    pub why: String,
    /// Whether nothing can be decided without it. A file that cannot be opened is passed over, as
    /// `ssh` passes over it.
    pub is_fatal: bool,
}

/// What the files say about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It is the host's. Where the host showed a certificate, the key in it is known by itself.
    Known,
    /// An authority that is known for the host vouches for it.
    Vouched,
    /// Nothing is known about the host.
    Unknown,
    /// The host, or its address, is known by another key, perhaps of another type.
    Changed {
        /// The file that says so.
        file: PathBuf,
        /// The line's number, from 1.
        line: usize,
    },
    /// The key, or that of the authority, is revoked.
    Revoked {
        /// The file that says so.
        file: PathBuf,
        /// The line's number, from 1.
        line: usize,
    },
    /// The certificate cannot be accepted, and its key is not known by itself either.
    BadCertificate {
        /// Why, as the end of a sentence that begins with the certificate.
        why: String,
    },
    /// It is an RSA key of less than 1024 bits, which OpenSSH takes from nobody.
    TooSmall {
        /// Its size.
        bits: usize,
    },
    /// A file could not be taken in, and what it says could decide: see [`Problem::is_fatal`].
    Undecided {
        /// The file.
        file: PathBuf,
        /// Why.
        why: String,
    },
}

/// By what a host is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownTypes {
    /// Types of its keys, without those that are revoked; RSA without a hash.
    pub keys: Vec<Algorithm>,
    /// Whether an authority is known for it.
    pub has_authority: bool,
}

impl KnownHosts {
    /// Reads the files, the user's first. One that is missing says nothing, as does a line that is
    /// not understood. What could not be read is in [`Self::problems`].
    ///
    /// This blocks as long as reading does.
    pub fn read(files: &[PathBuf]) -> Self {
        Self::read_up_to(files, LARGEST_FILE)
    }

    fn read_up_to(files: &[PathBuf], largest: u64) -> Self {
        let mut hosts = Self { files: files.to_vec(), ..Self::default() };
        for (file, path) in files.iter().enumerate() {
            match bytes_of(path, largest) {
                Ok(bytes) => hosts.add(file, &bytes),
                Err(Unread::Missing) => {}
                Err(Unread::Failed(why)) => {
                    hosts.problems.push(Problem { file: path.clone(), why, is_fatal: false });
                }
                Err(Unread::TooLarge) => {
                    let why = format!("it has more than {largest} bytes");
                    hosts.problems.push(Problem { file: path.clone(), why, is_fatal: true });
                }
            }
        }
        hosts
    }

    fn add(&mut self, file: usize, bytes: &[u8]) {
        for (number, raw) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            if let Some(line) = Line::parse(raw) {
                self.entries.push(Entry { file, number, line });
            }
        }
    }

    /// Files that could not be read, or not all of them.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The types of key by which a host is known, and whether authorities are known for it: what to
    /// ask the host for first. As for `ssh`, what is known without the port does not count here.
    pub fn known_types(&self, name: &Name) -> KnownTypes {
        self.about(&name.lookup()).types()
    }

    /// The algorithms to ask a host for, best first: for plain keys, and for certificates, which go
    /// before all plain keys. `allowed` are names as `HostKeyAlgorithms` has them, best first; what
    /// the library does not understand is left out.
    ///
    /// As `order_hostkeyalgs` in OpenSSH's sshconnect2.c: what is known goes first. Certificates are
    /// asked for even if no authority is known, again as `ssh` does, because a line may revoke the
    /// authority of the host's certificate; [`Self::check`] then looks at the key in it. Left out are
    /// those that `ssh` would take a plain key before.
    ///
    /// `ssh` does not sort a list that the configuration gives in full. This always sorts.
    pub fn preferred(&self, name: &Name, allowed: &[String]) -> (Vec<Algorithm>, Vec<Algorithm>) {
        preference::preferred(&self.known_types(name), allowed)
    }

    /// Whether the name has an address to look up about which nothing is known, so that it is to be
    /// remembered with the name.
    pub fn is_address_new(&self, name: &Name) -> bool {
        name.lookup_of_address().is_some_and(|lookup| !self.about(&lookup).has_keys())
    }

    /// What the files say about the key that a host showed. `now` is in seconds since 1970;
    /// `authority_signatures` are the signature algorithms that an authority may use.
    ///
    /// Only [`Finding::Known`] and [`Finding::Vouched`] are good, and [`Finding::Unknown`] if
    /// somebody says so. Where a certificate was shown and its key is known, see [`is_allowed`].
    pub fn check(
        &self,
        name: &Name,
        shown: &PublicKeyOrCertificate,
        now: u64,
        authority_signatures: &[String],
    ) -> Finding {
        if let Some(problem) = self.problems.iter().find(|problem| problem.is_fatal) {
            return Finding::Undecided { file: problem.file.clone(), why: problem.why.clone() };
        }
        match shown {
            PublicKeyOrCertificate::Certificate(certificate) => {
                self.check_certificate(name, certificate, now, authority_signatures)
            }
            PublicKeyOrCertificate::PublicKey { key, hash_alg: _ } => {
                if key.key_data().is_certificate() {
                    let why = "it was shown where a plain key was agreed on".to_owned();
                    return Finding::BadCertificate { why };
                }
                self.check_key(name, key.key_data())
            }
        }
    }

    /// `check_host_key` in OpenSSH's sshconnect.c, for a certificate.
    fn check_certificate(
        &self,
        name: &Name,
        certificate: &Certificate,
        now: u64,
        authority_signatures: &[String],
    ) -> Finding {
        if let Err(why) = certificate::is_sound(certificate) {
            return Finding::BadCertificate { why };
        }
        let mut refusal = None;
        for lookup in std::iter::once(name.lookup()).chain(name.lookup_without_port()) {
            match self.about(&lookup).authority(certificate) {
                Status::Revoked(index) => return self.revoked(index),
                Status::New | Status::Other(_) => {}
                Status::Found => {
                    match certificate::is_for(certificate, &name.own(), now, authority_signatures) {
                        Ok(()) => return Finding::Vouched,
                        Err(why) => refusal = Some(why),
                    }
                    break;
                }
            }
        }
        // No certificate, then; but the key in it may be known by itself.
        match (self.check_key(name, certificate.public_key()), refusal) {
            (Finding::Unknown, Some(why)) => Finding::BadCertificate { why },
            (finding, _) => finding,
        }
    }

    /// `check_host_key` in OpenSSH's sshconnect.c, for a plain key.
    fn check_key(&self, name: &Name, key: &KeyData) -> Finding {
        if let Some(bits) = line::too_few_bits(key) {
            return Finding::TooSmall { bits };
        }
        let mut addresses: Vec<String> = name.lookup_of_address().into_iter().collect();
        let mut status = self.about(&name.lookup()).plain(key);
        if let (Status::New, Some(lookup)) = (&status, name.lookup_without_port()) {
            // Without its port the host may well be another one, so that other keys say nothing.
            match self.about(&lookup).plain(key) {
                Status::New | Status::Other(_) => {}
                Status::Revoked(index) => return self.revoked(index),
                Status::Found => {
                    status = Status::Found;
                    // Then the address without the port counts as well.
                    let address = name.address.filter(|_| !addresses.is_empty());
                    addresses.extend(address.map(|address| address.to_string()));
                }
            }
        }
        let finding = match status {
            Status::Found => Finding::Known,
            Status::New => Finding::Unknown,
            Status::Other(index) => return self.changed(index),
            Status::Revoked(index) => return self.revoked(index),
        };
        for address in addresses {
            match self.about(&address).plain(key) {
                Status::Found | Status::New => {}
                Status::Other(index) => return self.changed(index),
                Status::Revoked(index) => return self.revoked(index),
            }
        }
        finding
    }

    /// The lines about a host.
    fn about(&self, lookup: &str) -> About {
        let said = self.entries.iter().enumerate().filter_map(|(index, entry)| {
            let is_meant = names::stand_for(&entry.line.names, lookup);
            let key = is_meant.then(|| entry.line.key()).flatten()?;
            Some(Said { index, marker: entry.line.marker, key })
        });
        About::new(said.collect())
    }

    fn changed(&self, index: usize) -> Finding {
        let (file, line) = self.place(index);
        Finding::Changed { file, line }
    }

    fn revoked(&self, index: usize) -> Finding {
        let (file, line) = self.place(index);
        Finding::Revoked { file, line }
    }

    fn place(&self, index: usize) -> (PathBuf, usize) {
        let entry = self.entries.get(index);
        let file = entry.and_then(|entry| self.files.get(entry.file)).cloned();
        (file.unwrap_or_default(), entry.map_or(0, |entry| entry.number))
    }
}

/// Why there are no bytes of a file.
enum Unread {
    Missing,
    Failed(String),
    TooLarge,
}

fn bytes_of(path: &Path, largest: u64) -> Result<Vec<u8>, Unread> {
    let failed = |error: std::io::Error| {
        let is_missing = error.kind() == ErrorKind::NotFound;
        if is_missing { Unread::Missing } else { Unread::Failed(error.to_string()) }
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(largest.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if length > largest { Err(Unread::TooLarge) } else { Ok(bytes) }
}

//! What the files say about one form of a host's name.
//!
//! `check_hostkeys_by_key_or_type`, `check_key_not_revoked` and `lookup_key_in_hostkeys_by_type` in
//! OpenSSH's hostfile.c.

use super::{
    KnownTypes,
    line::{Key, Marker},
};
use russh::keys::{Algorithm, Certificate, ssh_key::public::KeyData};

/// The lines that match, in the order of the files.
pub(super) struct About(Vec<Said>);

/// What a line says.
pub(super) struct Said {
    /// The index of the line among all.
    pub(super) index: usize,
    /// What it is for.
    pub(super) marker: Marker,
    /// Its key.
    pub(super) key: Key,
}

/// What the lines have to do with a key.
pub(super) enum Status {
    /// A line has the key.
    Found,
    /// No line has it, nor another that would be in its place.
    New,
    /// There are lines, all with other keys; this is one of them.
    Other(usize),
    /// This line revokes it.
    Revoked(usize),
}

impl About {
    pub(super) fn new(lines: Vec<Said>) -> Self {
        Self(lines)
    }

    /// Looks for a plain key.
    pub(super) fn plain(&self, key: &KeyData) -> Status {
        if let Some(index) = self.revocation(key) {
            return Status::Revoked(index);
        }
        let mut other: Option<(usize, bool)> = None;
        for said in self.with(Marker::Host) {
            let is_same_type = match &said.key {
                Key::Plain(known) if known == key => return Status::Found,
                Key::Plain(known) => known.algorithm() == key.algorithm(),
                Key::Certified(_) | Key::Foreign => false,
            };
            // One of the same type says most to a reader.
            if other.is_none_or(|(_, was_same_type)| is_same_type && !was_same_type) {
                other = Some((said.index, is_same_type));
            }
        }
        other.map_or(Status::New, |(index, _)| Status::Other(index))
    }

    /// Looks for the authority of a certificate.
    pub(super) fn authority(&self, certificate: &Certificate) -> Status {
        let authority = certificate.signature_key();
        let revocation = self.revocation(certificate.public_key());
        if let Some(index) = revocation.or_else(|| self.revocation(authority)) {
            return Status::Revoked(index);
        }
        let mut authorities = self.with(Marker::Authority);
        let is_known =
            authorities.any(|said| matches!(&said.key, Key::Plain(key) if key == authority));
        if is_known { Status::Found } else { Status::New }
    }

    /// The types of the keys, and whether there are authorities.
    pub(super) fn types(&self) -> KnownTypes {
        // Of several keys of a type only the first is looked at, as `ssh` does.
        let mut seen: Vec<Algorithm> = Vec::new();
        let mut keys = Vec::new();
        for said in self.with(Marker::Host) {
            let Key::Plain(key) = &said.key else { continue };
            if seen.contains(&key.algorithm()) {
                continue;
            }
            seen.push(key.algorithm());
            if self.revocation(key).is_none() {
                keys.push(key.algorithm());
            }
        }
        KnownTypes { keys, has_authority: self.with(Marker::Authority).next().is_some() }
    }

    /// Whether there are keys of the host itself.
    pub(super) fn has_keys(&self) -> bool {
        self.with(Marker::Host).next().is_some()
    }

    /// The line that revokes a key.
    fn revocation(&self, key: &KeyData) -> Option<usize> {
        let mut revoked = self.with(Marker::Revoked);
        revoked.find(|said| said.key.is_public_half_of(key)).map(|said| said.index)
    }

    fn with(&self, marker: Marker) -> impl Iterator<Item = &Said> {
        self.0.iter().filter(move |said| said.marker == marker)
    }
}

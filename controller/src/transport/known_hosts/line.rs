//! One line of a known_hosts file: its marker, its names, its key.
//!
//! Where a line ends, and which lines mean nothing: `hostkeys_foreach_file` and `check_markers` in
//! OpenSSH's hostfile.c, `sshkey_read` in sshkey.c. The library's parser is not used: it cuts a line
//! at any `#`, wants exactly one space between fields, and fails a file for one line.

use russh::keys::{
    PublicKey,
    ssh_key::{
        encoding::base64::{Base64, Encoding as _},
        public::KeyData,
    },
};

/// The smallest RSA key that OpenSSH takes, in bits: `SSH_RSA_MINIMUM_MODULUS_SIZE` in sshkey.h.
const SMALLEST_RSA_BITS: usize = 1024;

/// What a line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    /// The key is the host's own.
    Host,
    /// The key is that of an authority for the host's certificates.
    Authority,
    /// The key is revoked, as the host's and as an authority's.
    Revoked,
}

/// A line that names hosts. Its key is not looked at before a name matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// What it is for.
    pub(super) marker: Marker,
    /// The names, as they stand there.
    pub(super) names: Vec<u8>,
    /// All behind the names.
    rest: Vec<u8>,
}

/// The key of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// A key that a host could show.
    Plain(KeyData),
    /// A certificate; this is the key in it.
    Certified(KeyData),
    /// A key of a type that is not understood here, but may be by an `ssh`.
    Foreign,
}

impl Line {
    /// Takes a line apart, without its newline; none where `ssh` passes over it.
    pub(super) fn parse(raw: &[u8]) -> Option<Self> {
        // ssh reads it as a C string.
        let raw = raw.split(|byte| *byte == 0).next()?;
        let line = without_blanks(raw);
        if line.is_empty() || line.starts_with(b"#") {
            return None;
        }
        let (marker, line) = marker(line)?;
        let (names, rest) = first_field(line)?;
        let rest = without_blanks(rest);
        if rest.is_empty() || rest.starts_with(b"#") {
            return None;
        }
        Some(Self { marker, names: names.to_vec(), rest: rest.to_vec() })
    }

    /// Its key; none where `ssh` cannot read it either, and so passes over the line.
    pub(super) fn key(&self) -> Option<Key> {
        let (kind, rest) = first_field(&self.rest)?;
        let text = without_blanks(rest);
        let text = first_field(text).map_or(text, |(text, _)| text);
        // What isspace() knows is passed over in base64, so a carriage return at the end is harmless.
        let text: Vec<u8> = text.iter().copied().filter(|byte| !is_space(*byte)).collect();
        let blob = Base64::decode_vec(std::str::from_utf8(&text).ok()?).ok()?;
        let named = name_in(&blob)?;
        let Ok(key) = PublicKey::from_bytes(&blob) else {
            let is_foreign = named == kind && !UNDERSTOOD.contains(&kind);
            return is_foreign.then_some(Key::Foreign);
        };
        if type_of(named) != type_of(kind) {
            return None;
        }
        let data = key.key_data();
        if let KeyData::Certificate(certificate) = data {
            return Some(Key::Certified(certificate.public_key().clone()));
        }
        if matches!(data, KeyData::Dsa(_) | KeyData::Other(_)) {
            return Some(Key::Foreign);
        }
        too_few_bits(data).is_none().then(|| Key::Plain(data.clone()))
    }
}

impl Key {
    /// Whether it is this key, be it in a certificate or not.
    pub(super) fn is_public_half_of(&self, key: &KeyData) -> bool {
        match self {
            Self::Plain(own) | Self::Certified(own) => own == key,
            Self::Foreign => false,
        }
    }
}

/// Names of types that the library understands. A line with one of these that it cannot read is one
/// that `ssh` cannot read either.
const UNDERSTOOD: [&[u8]; 8] = [
    b"ssh-ed25519",
    b"ssh-rsa",
    b"rsa-sha2-256",
    b"rsa-sha2-512",
    b"ecdsa-sha2-nistp256",
    b"ecdsa-sha2-nistp384",
    b"ecdsa-sha2-nistp521",
    b"ssh-dss",
];

/// The size of a key that OpenSSH refuses to read for it, in bits: an RSA key that is too small.
pub(super) fn too_few_bits(key: &KeyData) -> Option<usize> {
    let KeyData::Rsa(key) = key else { return None };
    let modulus = key.n().as_positive_bytes().unwrap_or_default();
    let unused = modulus.first().map_or(0, |byte| byte.leading_zeros());
    let bits = modulus.len().saturating_mul(8);
    let bits = bits.saturating_sub(usize::try_from(unused).unwrap_or_default());
    (bits < SMALLEST_RSA_BITS).then_some(bits)
}

/// The marker at the start of a line, and what follows it; none for a marker that `ssh` does not
/// know, which makes it pass over the line.
fn marker(line: &[u8]) -> Option<(Marker, &[u8])> {
    if !line.starts_with(b"@") {
        return Some((Marker::Host, line));
    }
    let (word, rest) = first_field(line)?;
    let marker = match word {
        // Ended by a tab before any space, `ssh` overlooks it. Not we: somebody meant it.
        b"@revoked" => Marker::Revoked,
        // Here the careful reading is to overlook it too: ssh looks for a space first, however far
        // away, and only then for a tab.
        b"@cert-authority" if rest.starts_with(b" ") || !rest.contains(&b' ') => Marker::Authority,
        _ => return None,
    };
    let rest = without_blanks(rest);
    // Only one marker is allowed.
    (!rest.starts_with(b"@")).then_some((marker, rest))
}

/// What stands before the first blank, and all from that on; none where there is no blank.
fn first_field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = line.iter().position(|byte| is_blank(*byte))?;
    line.split_at_checked(end)
}

fn without_blanks(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|byte| !is_blank(*byte)).unwrap_or(line.len());
    line.get(start..).unwrap_or_default()
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// C's isspace(), without what ends a field or a line.
fn is_space(byte: u8) -> bool {
    matches!(byte, b'\r' | 0x0b | 0x0c)
}

/// One name for each type: names of RSA signatures stand for the type of the key too, see `keyimpls`
/// in sshkey.c.
fn type_of(name: &[u8]) -> &[u8] {
    match name {
        b"rsa-sha2-256" | b"rsa-sha2-512" => b"ssh-rsa",
        b"rsa-sha2-256-cert-v01@openssh.com" | b"rsa-sha2-512-cert-v01@openssh.com" => {
            b"ssh-rsa-cert-v01@openssh.com"
        }
        other => other,
    }
}

/// The type that a key in its wire form names (RFC 4253, section 6.6).
fn name_in(blob: &[u8]) -> Option<&[u8]> {
    let (length, rest) = blob.split_first_chunk::<4>()?;
    rest.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

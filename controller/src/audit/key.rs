//! The key of an audit log: 32 random bytes beside it, made when it is first written.

use hmac::{Hmac, KeyInit as _, Mac as _};
use protocol::handshake::Sha256;
use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

const KEY_BYTES: usize = 32;

/// Makes digests that only whoever has the key can compare with a guess.
#[derive(Clone)]
pub(super) struct Key(Vec<u8>);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// Reads the key beside a log, or makes one.
    pub(super) fn beside(log: &Path) -> io::Result<Self> {
        let mut name = log.file_name().unwrap_or_default().to_owned();
        name.push(".key");
        let path = log.with_file_name(name);
        let mut fresh = vec![0; KEY_BYTES];
        getrandom::fill(&mut fresh).map_err(io::Error::other)?;
        // Only one of several controllers that start together makes it.
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(mut file) => {
                file.write_all(&fresh)?;
                Ok(Self(fresh))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                std::fs::read(&path).map(Self)
            }
            Err(error) => Err(error),
        }
    }

    /// HMAC-SHA256, the first 16 bytes.
    pub(super) fn digest(&self, bytes: &[u8]) -> String {
        let Ok(mut mac) = Hmac::<sha2::Sha256>::new_from_slice(&self.0) else {
            // HMAC takes keys of any length.
            return String::new();
        };
        mac.update(bytes);
        let whole = Sha256(mac.finalize().into_bytes().into()).to_string();
        whole.get(..32).unwrap_or_default().to_owned()
    }
}

/// Eight random digits.
pub(super) fn random_name() -> io::Result<String> {
    getrandom::u32().map(|number| format!("{number:08x}")).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_keeps_its_key_and_another_has_another() {
        let folder = tempfile::tempdir().unwrap();
        let digest = |name: &str| Key::beside(&folder.path().join(name)).unwrap().digest(b"x");
        assert_eq!(digest("a"), digest("a"));
        assert_ne!(digest("a"), digest("b"));
        assert_eq!(digest("a").len(), 32);
    }
}

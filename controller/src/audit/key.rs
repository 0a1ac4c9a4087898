//! The key of an audit log: 32 random bytes beside it, made when it is first written.

use crate::private;
use hmac::{Hmac, KeyInit as _, Mac as _};
use protocol::handshake::Sha256;
use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

const KEY_BYTES: usize = 32;

/// Makes digests that only whoever has the key can compare with a guess.
#[derive(Clone)]
pub(super) struct Key([u8; KEY_BYTES]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// Reads the key beside a log, or makes one. Whoever calls holds the lock on the log: only one
    /// of several controllers that start together makes the key, and all use it.
    pub(super) fn beside(log: &Path) -> Result<Self, KeyError> {
        let path = with_suffix(log, ".key");
        let failed = |error: io::Error| KeyError::File {
            path: path.display().to_string(),
            reason: error.to_string(),
        };
        match File::open(&path) {
            Ok(file) => {
                let mut bytes = Vec::new();
                // One byte more than there should be tells enough.
                file.take(KEY_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
                let key = bytes
                    .try_into()
                    .map_err(|_| KeyError::Length { path: path.display().to_string() })?;
                Ok(Self(key))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(&path).map_err(failed),
            Err(error) => Err(failed(error)),
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

/// Makes a key under a name of its own and then gives it the right one: whoever is interrupted
/// leaves no part of a key behind that would be taken for one.
fn make(path: &Path) -> io::Result<Key> {
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    let unfinished = with_suffix(path, &format!(".{}", random_name()?));
    let mut file = private::options().write(true).create_new(true).open(&unfinished)?;
    let made = file
        .write_all(&key)
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&unfinished, path));
    if made.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    made.map(|()| Key(key))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// Why there is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeyError {
    /// The file cannot be read or made.
    #[error("{path}: {reason}")]
    File {
        /// The file of the key.
        path: String,
        /// Why.
        reason: String,
    },
    /// What is in the file is no key. A short one could be guessed.
    #[error(
        "{path} does not hold {KEY_BYTES} bytes, so it is no key. Delete it and a new one is made; \
         digests of parameters made so far cannot be compared with later ones then"
    )]
    Length {
        /// The file of the key.
        path: String,
    },
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
    #[test]
    fn what_is_no_key_is_told_with_the_file_and_the_way_out() {
        for length in [0, 31, 33, 100_000] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.key");
            std::fs::write(&path, vec![b'x'; length]).unwrap();
            let text = Key::beside(&folder.path().join("a")).unwrap_err().to_string();
            assert!(text.contains(path.to_str().unwrap()) && text.contains("Delete it"), "{text}");
            assert_eq!(std::fs::metadata(&path).unwrap().len(), length as u64);
        }
    }

    #[test]
    fn a_key_is_for_its_owner_alone_and_nothing_lies_beside_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        Key::beside(&folder.path().join("a")).unwrap();
        let names: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["a.key"]);
        let mode = std::fs::metadata(folder.path().join("a.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

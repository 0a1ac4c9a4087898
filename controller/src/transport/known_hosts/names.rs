//! Whether the names of a line stand for a host.
//!
//! `match_maybe_hashed` and `host_hash` in OpenSSH's hostfile.c; `match_hostname`,
//! `match_pattern_list` and `match_pattern` in match.c.

use hmac::{Hmac, KeyInit as _, Mac as _};
use russh::keys::ssh_key::encoding::base64::{Base64, Encoding as _};
use sha1::Sha1;

/// What a hashed name begins with.
const HASHED: &str = "|1|";
/// The length of a salt and of a hash, in bytes.
pub(super) const HASH_BYTES: usize = 20;
/// A pattern of this many bytes makes the list that it is in match nothing: `sub` in
/// `match_pattern_list`.
const PATTERN_BYTES: usize = 1023;

/// Whether a line with `names` is about `host`, in the form that it is looked up by, in lower case.
pub(super) fn stand_for(names: &[u8], host: &str) -> bool {
    if names.starts_with(b"|") {
        return std::str::from_utf8(names).is_ok_and(|names| is_hash_of(names, host));
    }
    list_matches(&names.to_ascii_lowercase(), host.as_bytes())
}

/// A name, hashed with a salt.
pub(super) fn hashed(host: &str, salt: &[u8; HASH_BYTES]) -> String {
    let hash = match Hmac::<Sha1>::new_from_slice(salt) {
        Ok(mut hash) => {
            hash.update(host.as_bytes());
            hash.finalize().into_bytes()
        }
        // A key of any length will do for HMAC; without one there is no name that could match.
        Err(_) => return String::new(),
    };
    format!("{HASHED}{}|{}", Base64::encode_string(salt), Base64::encode_string(&hash))
}

fn is_hash_of(names: &str, host: &str) -> bool {
    let Some((salt, _)) = names.strip_prefix(HASHED).and_then(|names| names.split_once('|')) else {
        return false;
    };
    let mut bytes = [0; HASH_BYTES];
    let is_whole = Base64::decode(salt, &mut bytes).is_ok_and(|salt| salt.len() == HASH_BYTES);
    is_whole && hashed(host, &bytes) == names
}

/// Whether a list of patterns matches, with none of those behind a `!` doing so.
fn list_matches(list: &[u8], host: &[u8]) -> bool {
    let mut is_named = false;
    let mut rest = list;
    while !rest.is_empty() {
        let is_negated = rest.starts_with(b"!");
        if is_negated {
            rest = rest.get(1..).unwrap_or_default();
        }
        let end = rest.iter().position(|byte| *byte == b',').unwrap_or(rest.len());
        let pattern = rest.get(..end).unwrap_or_default();
        if pattern.len() >= PATTERN_BYTES {
            return false;
        }
        rest = rest.get(end.saturating_add(1)..).unwrap_or_default();
        if pattern_matches(pattern, host) {
            if is_negated {
                return false;
            }
            is_named = true;
        }
    }
    is_named
}

/// Whether a pattern matches all of a text: `*` is any run of bytes, `?` any one byte.
fn pattern_matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut in_pattern, mut in_text) = (0_usize, 0_usize);
    // Where to go on after a mismatch: behind the last star, with one more byte given to it.
    let mut retry: Option<(usize, usize)> = None;
    while let Some(byte) = text.get(in_text) {
        match pattern.get(in_pattern) {
            Some(b'*') => {
                in_pattern = in_pattern.saturating_add(1);
                retry = Some((in_pattern, in_text));
                continue;
            }
            Some(wanted) if *wanted == b'?' || wanted == byte => {
                in_pattern = in_pattern.saturating_add(1);
                in_text = in_text.saturating_add(1);
                continue;
            }
            Some(_) | None => {}
        }
        let Some((after_star, given)) = retry else { return false };
        let given = given.saturating_add(1);
        retry = Some((after_star, given));
        (in_pattern, in_text) = (after_star, given);
    }
    pattern.get(in_pattern..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

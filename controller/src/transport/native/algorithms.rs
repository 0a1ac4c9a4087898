//! Which algorithms are offered: those that the configuration allows, in its order, with what it
//! does not care about in ours.

use super::Beyond;
use crate::transport::meaning::Algorithms;
use russh::{
    Preferred,
    cipher::{self, ALL_CIPHERS},
    compression, kex, mac,
};
use std::borrow::Cow;

/// What says that a client understands, and is no algorithm.
const KEY_EXCHANGE_SIGNS: [kex::Name; 2] =
    [kex::EXTENSION_SUPPORT_AS_CLIENT, kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT];

/// The cipher that OpenSSH's own order begins with. A list that does too was not put in order for
/// speed by anybody.
const FIRST_OF_OPENSSH: &str = "chacha20-poly1305@openssh.com";

/// What to offer, without the host's keys.
///
/// # Errors
///
/// When the configuration allows none that we have.
pub(super) fn preferred(allowed: &Algorithms) -> Result<Preferred, Beyond> {
    let mut key_exchange = known(&allowed.key_exchange, kex::ALL_KEX_ALGORITHMS);
    let mut ciphers = known(&allowed.ciphers, ALL_CIPHERS);
    let mut macs = known(&allowed.macs, mac::ALL_MAC_ALGORITHMS);
    macs.retain(|name| *name != mac::NONE);
    key_exchange.retain(|name| *name != kex::NONE && !KEY_EXCHANGE_SIGNS.contains(name));
    ciphers.retain(|name| *name != cipher::NONE && *name != cipher::CLEAR);
    for (kind, is_empty, list) in [
        ("key exchange", key_exchange.is_empty(), &allowed.key_exchange),
        ("cipher", ciphers.is_empty(), &allowed.ciphers),
        ("message authentication code", macs.is_empty(), &allowed.macs),
    ] {
        if is_empty {
            return Err(Beyond::none_allowed(kind, list));
        }
    }
    if allowed.ciphers.first().is_some_and(|first| first == FIRST_OF_OPENSSH) {
        // The fastest with the instructions that processors have for it. The sort is stable.
        const FASTEST: [cipher::Name; 2] = [cipher::AES_256_GCM, cipher::AES_128_GCM];
        ciphers.sort_by_key(|name| {
            FASTEST.iter().position(|fast| fast == name).unwrap_or(FASTEST.len())
        });
    }
    key_exchange.extend(KEY_EXCHANGE_SIGNS);
    Ok(Preferred {
        kex: Cow::Owned(key_exchange),
        cipher: Cow::Owned(ciphers),
        mac: Cow::Owned(macs),
        compression: Cow::Borrowed(&[compression::NONE]),
        ..Preferred::DEFAULT
    })
}

/// Those of a list that we have, in its order.
fn known<N: Copy + AsRef<str>>(allowed: &[String], ours: &[&N]) -> Vec<N> {
    let ours_named = |name: &String| ours.iter().copied().find(|ours| N::as_ref(ours) == name);
    allowed.iter().filter_map(ours_named).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &str) -> Vec<String> {
        names.split(',').map(str::to_owned).collect()
    }

    fn allowed(ciphers: &str) -> Algorithms {
        Algorithms {
            key_exchange: list("sntrup761x25519-sha512@openssh.com,curve25519-sha256"),
            ciphers: list(ciphers),
            macs: list("umac-64-etm@openssh.com,hmac-sha2-256"),
            ..Algorithms::default()
        }
    }

    fn ciphers(allowed: &Algorithms) -> Vec<String> {
        let preferred = preferred(allowed).unwrap();
        preferred.cipher.iter().map(|name| name.as_ref().to_owned()).collect()
    }

    #[test]
    fn only_what_is_allowed_is_offered_in_the_order_of_the_configuration() {
        let preferred = preferred(&allowed("aes128-ctr,aes256-gcm@openssh.com")).unwrap();
        let names: Vec<&str> = preferred.kex.iter().map(AsRef::as_ref).collect();
        assert_eq!(names, ["curve25519-sha256", "ext-info-c", "kex-strict-c-v00@openssh.com"]);
        let names: Vec<&str> = preferred.mac.iter().map(AsRef::as_ref).collect();
        assert_eq!(names, ["hmac-sha2-256"]);
        assert_eq!(
            ciphers(&allowed("aes128-ctr,aes256-gcm@openssh.com")),
            ["aes128-ctr", "aes256-gcm@openssh.com"]
        );
    }

    #[test]
    fn the_fastest_cipher_comes_first_where_nobody_chose_one() {
        let default = "chacha20-poly1305@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr,\
                       aes128-gcm@openssh.com,aes256-gcm@openssh.com";
        let [first, second, ..] = &ciphers(&allowed(default))[..] else { panic!("too few") };
        assert_eq!((&**first, &**second), ("aes256-gcm@openssh.com", "aes128-gcm@openssh.com"));
    }

    #[test]
    fn no_algorithm_stands_for_another() {
        let refused = preferred(&allowed("3des-cbc-of-somebody"));
        assert!(matches!(refused, Err(Beyond::NoneAllowed { kind: "cipher", .. })), "{refused:?}");
        let none = preferred(&allowed("none"));
        assert!(none.is_err(), "no cipher is no cipher");
    }
}

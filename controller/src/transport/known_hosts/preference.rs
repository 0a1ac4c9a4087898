//! Which algorithms to ask a host for, so that it shows a key by which it is known.
//!
//! `order_hostkeyalgs` in OpenSSH's sshconnect2.c, and `hostkey_accepted_by_hostkeyalgs` in
//! sshconnect.c.

use super::KnownTypes;
use russh::keys::{Algorithm, PublicKey};

/// How names of certificate algorithms end.
const CERTIFICATE: &str = "-cert-v01@openssh.com";

/// Sorts `allowed` by what is known. See [`super::KnownHosts::preferred`].
pub(super) fn preferred(
    known: &KnownTypes,
    allowed: &[String],
) -> (Vec<Algorithm>, Vec<Algorithm>) {
    let allowed: Vec<Named> = allowed.iter().filter_map(|name| Named::new(name)).collect();
    let is_best_known = allowed.first().is_some_and(|best| best.is_known(known));
    let (first, last): (Vec<Named>, Vec<Named>) = if is_best_known {
        (allowed, Vec::new())
    } else {
        allowed.into_iter().partition(|named| {
            named.is_known(known) || (named.is_certificate && known.has_authority)
        })
    };
    let (mut keys, mut certificates) = (Vec::new(), Vec::new());
    for named in first.into_iter().chain(last) {
        if !named.is_certificate {
            keys.push(named.algorithm);
        } else if keys.is_empty() {
            certificates.push(named.algorithm);
        }
    }
    (keys, certificates)
}

/// Whether a configuration's `HostKeyAlgorithms` allow this key without a certificate.
///
/// To be asked where a host showed a certificate and [`super::Finding::Known`] came of it: then the
/// plain key counts, and the negotiation has not asked whether it may.
pub fn is_allowed(key: &PublicKey, allowed: &[String]) -> bool {
    let key = Named { algorithm: key.algorithm(), is_certificate: false };
    let mut allowed = allowed.iter().filter_map(|name| Named::new(name));
    allowed.any(|named| !named.is_certificate && is_same_type(&named.algorithm, &key.algorithm))
}

/// An algorithm by its name on the wire.
struct Named {
    algorithm: Algorithm,
    is_certificate: bool,
}

impl Named {
    /// None for what the library does not understand.
    fn new(name: &str) -> Option<Self> {
        let is_certificate = name.ends_with(CERTIFICATE);
        let algorithm =
            if is_certificate { Algorithm::new_certificate(name) } else { Algorithm::new(name) };
        let algorithm = algorithm.ok()?;
        let is_understood = !matches!(algorithm, Algorithm::Other(_) | Algorithm::Dsa);
        is_understood.then_some(Self { algorithm, is_certificate })
    }

    fn is_known(&self, known: &KnownTypes) -> bool {
        known.keys.iter().any(|key| is_same_type(key, &self.algorithm))
    }
}

/// Whether two algorithms are for keys of one type: for RSA there are several.
pub fn is_same_type(one: &Algorithm, other: &Algorithm) -> bool {
    let are_rsa = matches!((one, other), (Algorithm::Rsa { hash: _ }, Algorithm::Rsa { hash: _ }));
    are_rsa || one == other
}

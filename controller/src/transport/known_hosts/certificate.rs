//! Whether a host's certificate can be accepted, apart from who may sign it.
//!
//! `cert_parse`, `sshkey_cert_check_authority` and `sshkey_cert_check_host` in OpenSSH's sshkey.c.

use super::line::too_few_bits;
use protocol::host_text::HostText;
use russh::keys::{
    Certificate,
    ssh_key::{certificate::CertType, public::KeyData},
};
use std::time::{Duration, UNIX_EPOCH};

/// OpenSSH's `SSHKEY_CERT_MAX_PRINCIPALS`.
const MOST_PRINCIPALS: usize = 256;
/// How many principals, and how much of each, are repeated to a reader.
const PRINCIPALS_SHOWN: usize = 3;
const PRINCIPAL_BYTES: usize = 80;
/// The end of the year 9999, beyond which a time is not written out.
const LAST_TIME: u64 = 253_402_300_799;

/// Refuses what `ssh` would not even read: then it ends the connection, and does not look for the
/// plain key either.
pub(super) fn is_sound(certificate: &Certificate) -> Result<(), String> {
    if certificate.valid_principals().len() > MOST_PRINCIPALS {
        return Err(format!("it is for more than {MOST_PRINCIPALS} names"));
    }
    let authority = certificate.signature_key();
    if matches!(authority, KeyData::Certificate(_) | KeyData::Other(_)) {
        return Err("it is signed with a key that no authority may have".to_owned());
    }
    if let Some(bits) = too_few_bits(authority).or(too_few_bits(certificate.public_key())) {
        return Err(format!("an RSA key in it has only {bits} bits"));
    }
    certificate.verify_signature().map_err(|_| {
        let algorithm =
            HostText::capped(certificate.signature().algorithm().as_str().as_bytes(), 64);
        format!("its signature, made with {}, cannot be verified", algorithm.as_str())
    })
}

/// Refuses what an authority signed, but not for this host, this time or this use. `host` is compared
/// as it is.
///
/// OpenSSH before 10.3 lets a certificate without principals stand for every host; later ones read
/// wildcards in principals. Neither is done here.
pub(super) fn is_for(
    certificate: &Certificate,
    host: &str,
    now: u64,
    authority_signatures: &[String],
) -> Result<(), String> {
    if certificate.cert_type() != CertType::Host {
        return Err("it is for a user, not for a host".to_owned());
    }
    if now < certificate.valid_after() {
        return Err(format!("it is not valid before {}", time(certificate.valid_after())));
    }
    if now >= certificate.valid_before() {
        return Err(format!("it expired at {}", time(certificate.valid_before())));
    }
    let principals = certificate.valid_principals();
    if principals.is_empty() {
        return Err("it names no host".to_owned());
    }
    if !principals.iter().any(|principal| principal == host) {
        let host = HostText::capped(host.as_bytes(), PRINCIPAL_BYTES);
        return Err(format!("it is for {}, not for {}", listed(principals), host.as_str()));
    }
    if let Some((option, _)) = certificate.critical_options().iter().next() {
        let option = HostText::capped(option.as_bytes(), PRINCIPAL_BYTES);
        return Err(format!("it has the critical option {}, which is not known", option.as_str()));
    }
    let algorithm = certificate.signature().algorithm();
    if !authority_signatures.iter().any(|allowed| allowed == algorithm.as_str()) {
        let algorithm = HostText::capped(algorithm.as_str().as_bytes(), 64);
        return Err(format!(
            "it is signed with {}, which CASignatureAlgorithms does not allow",
            algorithm.as_str()
        ));
    }
    Ok(())
}

fn listed(principals: &[String]) -> String {
    let shown = principals.iter().take(PRINCIPALS_SHOWN);
    let shown: Vec<_> =
        shown.map(|name| HostText::capped(name.as_bytes(), PRINCIPAL_BYTES)).collect();
    let shown: Vec<_> = shown.iter().map(HostText::as_str).collect();
    match principals.len().saturating_sub(PRINCIPALS_SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn time(seconds: u64) -> String {
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(seconds.min(LAST_TIME)));
    time.map_or_else(
        || format!("{seconds} s after 1970"),
        |time| humantime::format_rfc3339_seconds(time).to_string(),
    )
}

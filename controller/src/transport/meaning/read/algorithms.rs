//! Lists of algorithms in an SSH configuration, and what they are without one.
//!
//! A list may stand alone, or add to the usual one, take from it, or go before it: `+`, `-`, `^`
//! (`kex_assemble_names` in OpenSSH's kex.c). Only whole names are understood, no patterns.

/// What the algorithms are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Key exchange.
    KeyExchange,
    /// Ciphers.
    Ciphers,
    /// Message authentication codes.
    Macs,
    /// Keys and certificates.
    Keys,
    /// Signatures of certificate authorities.
    AuthoritySignatures,
}

/// The usual lists, by setting. Those of OpenSSH 10, where nothing else is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults(Vec<(&'static str, String)>);

/// The settings with lists, and the lists of OpenSSH 10 (its myproposal.h).
const USUAL: [(&str, &str); 7] = [
    ("kexalgorithms", KEY_EXCHANGE),
    ("ciphers", CIPHERS),
    ("macs", MACS),
    ("hostkeyalgorithms", KEYS),
    ("hostbasedacceptedalgorithms", KEYS),
    ("pubkeyacceptedalgorithms", KEYS),
    ("casignaturealgorithms", SIGNATURES),
];
const KEY_EXCHANGE: &str = "mlkem768x25519-sha256,sntrup761x25519-sha512,\
    sntrup761x25519-sha512@openssh.com,curve25519-sha256,curve25519-sha256@libssh.org,\
    ecdh-sha2-nistp256,ecdh-sha2-nistp384,ecdh-sha2-nistp521,\
    diffie-hellman-group-exchange-sha256,diffie-hellman-group16-sha512,\
    diffie-hellman-group18-sha512,diffie-hellman-group14-sha256";
const CIPHERS: &str = "chacha20-poly1305@openssh.com,aes128-gcm@openssh.com,\
    aes256-gcm@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr";
const MACS: &str = "umac-64-etm@openssh.com,umac-128-etm@openssh.com,\
    hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com,hmac-sha1-etm@openssh.com,\
    umac-64@openssh.com,umac-128@openssh.com,hmac-sha2-256,hmac-sha2-512,hmac-sha1";
const KEYS: &str = "ssh-ed25519-cert-v01@openssh.com,ecdsa-sha2-nistp256-cert-v01@openssh.com,\
    ecdsa-sha2-nistp384-cert-v01@openssh.com,ecdsa-sha2-nistp521-cert-v01@openssh.com,\
    sk-ssh-ed25519-cert-v01@openssh.com,sk-ecdsa-sha2-nistp256-cert-v01@openssh.com,\
    rsa-sha2-512-cert-v01@openssh.com,rsa-sha2-256-cert-v01@openssh.com,ssh-ed25519,\
    ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,sk-ssh-ed25519@openssh.com,\
    sk-ecdsa-sha2-nistp256@openssh.com,rsa-sha2-512,rsa-sha2-256";
const SIGNATURES: &str = "ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,\
    ecdsa-sha2-nistp521,sk-ssh-ed25519@openssh.com,sk-ecdsa-sha2-nistp256@openssh.com,\
    rsa-sha2-512,rsa-sha2-256";

impl Kind {
    /// Names that can be asked for beyond the usual ones, for hosts that know no better.
    fn more(self) -> &'static [&'static str] {
        match self {
            Self::KeyExchange => &[
                "diffie-hellman-group1-sha1",
                "diffie-hellman-group14-sha1",
                "diffie-hellman-group-exchange-sha1",
            ],
            Self::Ciphers => &["3des-cbc", "aes128-cbc", "aes192-cbc", "aes256-cbc"],
            Self::Macs => &["hmac-sha1-96", "hmac-md5", "hmac-sha1-96-etm@openssh.com"],
            Self::Keys | Self::AuthoritySignatures => &["ssh-rsa"],
        }
    }

    /// The usual names.
    fn usual(self) -> &'static str {
        match self {
            Self::KeyExchange => KEY_EXCHANGE,
            Self::Ciphers => CIPHERS,
            Self::Macs => MACS,
            Self::Keys => KEYS,
            Self::AuthoritySignatures => SIGNATURES,
        }
    }

    fn knows(self, name: &str) -> bool {
        self.more().contains(&name) || self.usual().split(',').any(|usual| usual == name)
    }
}

impl Default for Defaults {
    fn default() -> Self {
        Self(USUAL.iter().map(|(setting, list)| (*setting, (*list).to_owned())).collect())
    }
}

impl Defaults {
    /// The lists that another OpenSSH has, as its `ssh -G` says for a configuration that has none.
    pub fn said(settings: &[(String, String)]) -> Self {
        let list = |setting: &str| {
            settings.iter().find(|(name, _)| name == setting).map(|(_, list)| list.clone())
        };
        let usual = USUAL.iter();
        Self(
            usual.map(|(name, usual)| (*name, list(name).unwrap_or((*usual).to_owned()))).collect(),
        )
    }

    /// The settings with their usual lists.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(setting, list)| (*setting, list.as_str()))
    }

    /// What a list in the configuration comes to; `None` where a name is not known.
    pub fn apply(&self, kind: Kind, setting: &str, text: &str) -> Option<String> {
        let usual = self.all().find(|(name, _)| *name == setting)?.1;
        let (sign, names) = match text.chars().next()? {
            sign @ ('+' | '-' | '^') => (Some(sign), text.strip_prefix(sign)?),
            _ => (None, text),
        };
        if !names.split(',').all(|name| kind.knows(name)) {
            return None;
        }
        let list: Vec<&str> = match sign {
            Some('+') => usual.split(',').chain(names.split(',')).collect(),
            Some('^') => names.split(',').chain(usual.split(',')).collect(),
            Some(_) => usual
                .split(',')
                .filter(|usual| names.split(',').all(|name| name != *usual))
                .collect(),
            None => names.split(',').collect(),
        };
        let mut once: Vec<&str> = Vec::with_capacity(list.len());
        for name in list {
            if !once.contains(&name) {
                once.push(name);
            }
        }
        (!once.is_empty()).then(|| once.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_replaces_adds_takes_or_goes_before() {
        let defaults = Defaults(vec![("ciphers", "aes128-ctr,aes256-ctr".to_owned())]);
        for (text, want) in [
            ("aes256-ctr", Some("aes256-ctr")),
            ("aes256-ctr,aes128-cbc,aes256-ctr", Some("aes256-ctr,aes128-cbc")),
            ("+aes128-cbc,aes128-ctr", Some("aes128-ctr,aes256-ctr,aes128-cbc")),
            ("^aes256-ctr", Some("aes256-ctr,aes128-ctr")),
            ("-aes128-ctr", Some("aes256-ctr")),
            ("-aes128-ctr,aes256-ctr", None),
            ("-aes*", None),
            ("+*-cbc", None),
            ("rot13", None),
            ("aes128-ctr,", None),
            ("+", None),
            ("", None),
            ("aes128-ctr,!aes256-ctr", None),
        ] {
            let applied = defaults.apply(Kind::Ciphers, "ciphers", text);
            assert_eq!(applied.as_deref(), want, "{text}");
        }
    }
}

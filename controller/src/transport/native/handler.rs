//! What is decided while a connection comes about: whether the host is the one it says it is, and
//! that it may open nothing here.

use super::Place;
use crate::transport::{
    Failure,
    failure::forget,
    known_hosts::{self, Finding, KnownHosts, Name, is_allowed},
    meaning::{Meaning, UnknownHostKey},
};
use protocol::host_text::{HostText, printable};
use russh::{
    Names,
    client::{self, ChannelOpenHandle, DisconnectReason, Msg, Session},
    keys::{
        Algorithm, HashAlg, PublicKeyOrCertificate, ssh_encoding::Decode as _, ssh_key::Signature,
    },
};
use std::{
    io::ErrorKind,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Why a connection did not come about, or ended.
#[derive(Debug)]
pub enum Refused {
    /// The host is not the one it says it is, or that cannot be told.
    Host(Box<Failure>),
    /// Something went wrong below.
    Ssh(russh::Error),
}

impl From<russh::Error> for Refused {
    fn from(error: russh::Error) -> Self {
        Self::Ssh(error)
    }
}

/// Checks the host.
pub struct Checker {
    name: Name,
    known: KnownHosts,
    authority_signatures: Vec<String>,
    host_keys: Vec<String>,
    rsa_bits: usize,
    accepts_unknown: bool,
    written_to: Option<PathBuf>,
    writes_hashes: bool,
    host: String,
    by_hand: String,
    told: Told,
    /// The type of the key that was shown.
    shown: Option<Algorithm>,
    /// Says that the session is over, however it ended: the session owns this checker.
    _over: DropGuard,
}

/// What is known of a session beside what it carries.
#[derive(Clone, Debug, Default)]
pub struct Told {
    facts: Arc<Mutex<Facts>>,
    over: CancellationToken,
}

#[derive(Debug, Default)]
struct Facts {
    agreed: Option<String>,
    key: Option<Algorithm>,
    why_over: Option<WhyOver>,
    banner: String,
    is_unreadable: bool,
}

/// Why a session ended before anybody here wanted it to.
#[derive(Clone, Debug)]
pub struct WhyOver {
    /// Whether the host said so itself.
    pub is_of_host: bool,
    /// Whether it just ended, as no network does that fails.
    pub is_end: bool,
    /// Its words, or ours. Not escaped yet, but short.
    pub said: String,
}

impl Told {
    fn facts(&self) -> std::sync::MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The algorithms that were agreed on, once they were.
    pub(super) fn agreed(&self) -> Option<String> {
        self.facts().agreed.clone()
    }

    /// Why the session ended, once it has, and if there was a reason.
    pub(super) fn why_over(&self) -> Option<WhyOver> {
        self.facts().why_over.clone()
    }

    /// What the host showed last before the login; nothing where it showed nothing.
    pub(super) fn banner(&self) -> String {
        self.facts().banner.clone()
    }

    /// Whether the host said something that the library cannot read.
    pub(super) fn is_unreadable(&self) -> bool {
        self.facts().is_unreadable
    }

    /// The same behind what else is told; nothing where there is no reason.
    pub(super) fn and_why(&self) -> String {
        self.why_over().map(|why| format!(": {}", why.said)).unwrap_or_default()
    }

    /// Says so once the session is over.
    pub(super) const fn over(&self) -> &CancellationToken {
        &self.over
    }

    /// Whether the host proved who it is with the signature that was agreed on. The library takes
    /// any that its key can make, also one with SHA-1; `sshkey_verify` in OpenSSH's sshkey.c, as
    /// kexgen.c calls it, takes no other.
    pub(super) fn check_signature(&self, mut signature: &[u8]) -> Result<(), String> {
        let Some(agreed) = self.facts().key.clone() else { return Ok(()) };
        // An RSA key without a hash is SHA-1, and everything else is better.
        if matches!(agreed, Algorithm::Rsa { hash: None }) {
            return Ok(());
        }
        match Signature::decode(&mut signature) {
            Ok(signature) if signature.algorithm() != agreed => Err(format!(
                "it agreed to sign with {agreed} and signed with {}",
                signature.algorithm()
            )),
            // One that is written in an odd way was understood by the library, which verified it.
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

impl Checker {
    pub(super) fn new(
        place: Place<'_>,
        name: Name,
        known: KnownHosts,
        accepts_new_hosts: bool,
    ) -> Self {
        let Meaning { user_known_hosts, unknown_host_key, .. } = place.meaning;
        let told = Told::default();
        Self {
            name,
            known,
            authority_signatures: place.meaning.algorithms.authority_signatures.clone(),
            host_keys: place.meaning.algorithms.host_keys.clone(),
            rsa_bits: place.meaning.rsa_bits,
            accepts_unknown: accepts_new_hosts || *unknown_host_key == UnknownHostKey::Accept,
            written_to: user_known_hosts.first().cloned(),
            writes_hashes: place.meaning.hashes_known_hosts,
            host: place.host(),
            by_hand: place.by_hand(),
            _over: told.over.clone().drop_guard(),
            told,
            shown: None,
        }
    }

    pub(super) fn told(&self) -> Told {
        self.told.clone()
    }

    fn judge(&self, shown: &PublicKeyOrCertificate) -> Result<(), Failure> {
        let key = shown.public_key();
        let smallest = u32::try_from(self.rsa_bits).unwrap_or(u32::MAX);
        if let Some(rsa) = key.key_data().rsa().filter(|rsa| rsa.key_size() < smallest) {
            return Err(self.too_small(usize::try_from(rsa.key_size()).unwrap_or_default()));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let host = self.host.clone();
        match self.known.check(&self.name, shown, now, &self.authority_signatures) {
            // A certificate whose key is known by itself counts as that key.
            Finding::Known if is_allowed(&key, &self.host_keys) => Ok(()),
            Finding::Known => {
                let why = "its key is of a type that the configuration does not allow".to_owned();
                Err(Failure::HostCertificate { host, why })
            }
            Finding::Vouched => Ok(()),
            Finding::TooSmall { bits } => Err(self.too_small(bits)),
            Finding::Revoked { .. } => Err(Failure::HostKeyRevoked { host }),
            Finding::Changed { file, .. } => {
                let remedy = forget(Some(&file), &host);
                Err(Failure::HostKeyChanged { host, remedy })
            }
            Finding::Undecided { file, why } => {
                let file = printable(&file.to_string_lossy()).into_owned();
                Err(Failure::KnownHosts { host, file, why })
            }
            Finding::BadCertificate { why } => {
                let why = HostText::capped(why.as_bytes(), 200).to_string();
                Err(Failure::HostCertificate { host, why })
            }
            Finding::Unknown if self.accepts_unknown => self.remember(&key),
            Finding::Unknown => Err(Failure::HostKeyUnknown {
                host,
                fingerprint: Some(key.fingerprint(HashAlg::Sha256).to_string()),
                remedy: self.by_hand.clone(),
            }),
        }
    }

    fn too_small(&self, bits: usize) -> Failure {
        Failure::HostKeyTooSmall { host: self.host.clone(), bits }
    }

    /// Writes the key down, as the user asked for.
    fn remember(&self, key: &russh::keys::PublicKey) -> Result<(), Failure> {
        let Some(file) = &self.written_to else { return Ok(()) };
        let mut name = self.name.clone();
        name.address = name.address.filter(|_| self.known.is_address_new(&self.name));
        known_hosts::remember(file, &name, key, self.writes_hashes).map_err(|error| {
            let said = format!("could not record its key in {}: {error}", file.display());
            Failure::Unreachable {
                host: self.host.clone(),
                said: HostText::capped(said.as_bytes(), 300),
            }
        })
    }
}

/// Whatever a host wants to open here is refused: the reply is dropped, which says so.
macro_rules! refuses {
    ($($name:ident($($argument:ty),*);)*) => {$(
        async fn $name(
            &mut self,
            _: russh::Channel<Msg>,
            $(_: $argument,)*
            _: ChannelOpenHandle,
            _: &mut Session,
        ) -> Result<(), Refused> {
            Ok(())
        }
    )*};
}

impl client::Handler for Checker {
    type Error = Refused;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, Refused> {
        self.judge(shown).map_err(|failure| Refused::Host(Box::new(failure)))?;
        self.shown = Some(shown.public_key().algorithm());
        Ok(true)
    }

    async fn kex_done(
        &mut self,
        _: Option<&[u8]>,
        names: &Names,
        _: &mut Session,
    ) -> Result<(), Refused> {
        let Names { kex, key, cipher, .. } = names;
        // `kex_verify_host_key` in OpenSSH's kex.c: the configuration chose among types, not the host.
        if let Some(shown) =
            self.shown.as_ref().filter(|shown| !known_hosts::is_same_type(shown, key))
        {
            let why = format!("it agreed to show a key for {key} and showed one for {shown}");
            let host = self.host.clone();
            return Err(Refused::Host(Box::new(Failure::HostCertificate { host, why })));
        }
        let mut facts = self.told.facts();
        facts.agreed = Some(format!("{}, {key}, {}", kex.as_ref(), cipher.as_ref()));
        facts.key.get_or_insert_with(|| key.clone());
        Ok(())
    }

    /// Only the last is kept: that is where PAM says why it refuses an account.
    async fn auth_banner(&mut self, banner: &str, _: &mut Session) -> Result<(), Refused> {
        /// As much of it as an error shows, and more.
        const KEPT: usize = 1000;
        self.told.facts().banner = banner.trim().chars().take(KEPT).collect();
        Ok(())
    }

    async fn disconnected(&mut self, reason: DisconnectReason<Refused>) -> Result<(), Refused> {
        /// As much of a reason as an error shows.
        const SHOWN: usize = 200;
        let is_unreadable =
            matches!(&reason, DisconnectReason::Error(Refused::Ssh(russh::Error::SshEncoding(_))));
        let is_end = match &reason {
            DisconnectReason::Error(Refused::Ssh(russh::Error::IO(error))) => {
                error.kind() == ErrorKind::UnexpectedEof
            }
            DisconnectReason::Error(Refused::Ssh(error)) => {
                matches!(error, russh::Error::HUP | russh::Error::Disconnect)
            }
            DisconnectReason::ReceivedDisconnect(_) | DisconnectReason::Error(Refused::Host(_)) => {
                false
            }
        };
        let (is_of_host, said) = match reason {
            DisconnectReason::ReceivedDisconnect(said) => (true, said.message),
            DisconnectReason::Error(Refused::Ssh(error)) => (false, error.to_string()),
            DisconnectReason::Error(Refused::Host(failure)) => (false, failure.to_string()),
        };
        let said = said.trim().chars().take(SHOWN).collect();
        let mut facts = self.told.facts();
        facts.is_unreadable |= is_unreadable;
        facts.why_over = Some(WhyOver { is_of_host, is_end, said });
        Ok(())
    }

    refuses! {
        server_channel_open_forwarded_tcpip(&str, u32, &str, u32);
        server_channel_open_forwarded_streamlocal(&str);
        server_channel_open_agent_forward();
        server_channel_open_session();
        server_channel_open_direct_tcpip(&str, u32, &str, u32);
        server_channel_open_direct_streamlocal(&str);
        server_channel_open_x11(&str, u32);
    }
}

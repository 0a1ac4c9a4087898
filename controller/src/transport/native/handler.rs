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
    client::{self, ChannelOpenHandle, Msg, Session},
    keys::{HashAlg, PublicKeyOrCertificate},
};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

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
    agreed: Agreed,
}

/// The algorithms that were agreed on, once they were.
#[derive(Clone, Debug, Default)]
pub struct Agreed(Arc<Mutex<Option<String>>>);

impl Agreed {
    pub(super) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
            agreed: Agreed::default(),
        }
    }

    pub(super) fn agreed(&self) -> Agreed {
        self.agreed.clone()
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
        Ok(true)
    }

    async fn kex_done(
        &mut self,
        _: Option<&[u8]>,
        names: &Names,
        _: &mut Session,
    ) -> Result<(), Refused> {
        let Names { kex, key, cipher, .. } = names;
        let agreed = format!("{}, {key}, {}", kex.as_ref(), cipher.as_ref());
        *self.agreed.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(agreed);
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

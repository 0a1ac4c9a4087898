//! Which keys and certificates are offered, in the order in which ssh offers them.
//!
//! The order: `pubkey_prepare` in OpenSSH's sshconnect2.c.

use super::signer::Agent;
use crate::{private, transport::meaning::Meaning};
use protocol::host_text::printable;
use russh::keys::{
    Algorithm, Certificate, HashAlg, PrivateKey, PublicKey, agent::AgentIdentity,
    decode_secret_key, ssh_key::public::KeyData,
};
use std::{
    fs,
    path::{Path, PathBuf},
};
use zeroize::Zeroizing;

/// What can be offered to a host.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The key.
    pub key: PublicKey,
    /// A certificate for it, which is offered in its place.
    pub certificate: Option<Certificate>,
    /// Who signs with it.
    pub source: Source,
}

/// Who signs.
#[derive(Clone, Debug)]
pub enum Source {
    /// The ssh-agent, asked for this one of what it holds.
    Agent(Box<AgentIdentity>),
    /// The private key in a file.
    File(PathBuf),
}

fn of_agent(identity: AgentIdentity) -> Source {
    Source::Agent(Box::new(identity))
}

/// What can be offered, and what could not.
#[derive(Debug, Default)]
pub struct Identities {
    /// Best first.
    pub candidates: Vec<Candidate>,
    /// What was passed over, each in a few words for an error.
    pub passed_over: Vec<String>,
    /// Files with keys that live in a security key: only `ssh` talks to those.
    pub security_keys: Vec<PathBuf>,
}

/// A file that the configuration names, as far as it can be read.
struct Listed {
    path: PathBuf,
    key: PublicKey,
    certificate: Option<Certificate>,
    /// Whether the private half is there too.
    is_private: bool,
}

/// Bytes of a key file that are read; real ones have fewer.
const LONGEST: u64 = 1 << 20;

impl Identities {
    /// Collects them. `held` is what the ssh-agent holds.
    pub(super) fn collect(meaning: &Meaning, held: Vec<AgentIdentity>) -> Self {
        let mut found = Self::default();
        let mut listed: Vec<Listed> = Vec::new();
        for path in &meaning.identity_files {
            listed.extend(found.listed(path, meaning.certificate_files.is_empty()));
        }
        let certificates = meaning.certificate_files.iter().filter_map(|path| certificate_in(path));
        for certificate in certificates {
            let key = PublicKey::new(certificate.public_key().clone(), "");
            if let Some(source) = source_of(&key, &held, &listed) {
                found.candidates.push(Candidate { key, certificate: Some(certificate), source });
            }
        }
        found.add_held(meaning, &held, &mut listed);
        for Listed { path, key, certificate, is_private } in listed {
            // The file holds a public half only, or a certificate whose key the agent holds.
            let agent = || held.iter().find(|identity| is_key(identity, &key)).cloned();
            let source = if is_private { Some(Source::File(path)) } else { agent().map(of_agent) };
            if let Some(source) = source {
                found.candidates.push(Candidate { key, certificate, source });
            }
        }
        found
    }

    /// Takes up what the agent holds: first what the configuration names, in its order.
    fn add_held(&mut self, meaning: &Meaning, held: &[AgentIdentity], listed: &mut Vec<Listed>) {
        let mut named = Vec::new();
        let mut others = Vec::new();
        for identity in held {
            let is_same = |file: &Listed| match (&file.certificate, identity) {
                (None, AgentIdentity::PublicKey { key, .. }) => {
                    key.key_data() == file.key.key_data()
                }
                (Some(ours), AgentIdentity::Certificate { certificate, .. }) => ours == certificate,
                (None, AgentIdentity::Certificate { .. })
                | (Some(_), AgentIdentity::PublicKey { .. }) => false,
            };
            match listed.iter().position(is_same) {
                Some(place) => named.push((place, identity)),
                None if !meaning.identities_only => others.push(identity),
                None => {}
            }
        }
        named.sort_by_key(|(place, _)| *place);
        let mut taken: Vec<usize> = named.iter().map(|(place, _)| *place).collect();
        for identity in named.into_iter().map(|(_, identity)| identity).chain(others) {
            let certificate = match identity {
                AgentIdentity::PublicKey { .. } => None,
                AgentIdentity::Certificate { certificate, .. } => Some(certificate.clone()),
            };
            self.candidates.push(Candidate {
                key: identity.public_key().into_owned(),
                certificate,
                source: of_agent(identity.clone()),
            });
        }
        taken.sort_unstable();
        for place in taken.into_iter().rev() {
            listed.remove(place);
        }
    }

    /// What a file of the configuration holds: a key, and the certificate beside it.
    fn listed(&mut self, path: &Path, wants_certificate: bool) -> Vec<Listed> {
        let shown = path.to_string_lossy();
        let shown = printable(&shown);
        let text = match text_of(path) {
            Ok(Some(text)) => text,
            Ok(None) => Zeroizing::default(),
            Err(why) => {
                self.passed_over.push(format!("{shown}: {why}"));
                Zeroizing::default()
            }
        };
        let beside = public_beside(path);
        let key = match public_of(&text) {
            Some(key) => Some(key),
            // An older format says nothing of an encrypted key before it is opened.
            None => beside,
        };
        let Some(key) = key else {
            if !text.is_empty() {
                self.passed_over.push(format!("{shown}: not a private key that can be read"));
            }
            return Vec::new();
        };
        let is_private = text.contains("PRIVATE KEY");
        if is_private
            && matches!(key.key_data(), KeyData::SkEd25519(_) | KeyData::SkEcdsaSha2NistP256(_))
        {
            self.security_keys.push(path.to_owned());
        }
        let certificate =
            wants_certificate.then(|| certificate_in(&with_suffix(path, "-cert.pub")));
        let certificate = certificate.flatten();
        let plain =
            Listed { path: path.to_owned(), key: key.clone(), certificate: None, is_private };
        let with = certificate.map(|certificate| Listed {
            path: path.to_owned(),
            key,
            certificate: Some(certificate),
            is_private,
        });
        std::iter::once(plain).chain(with).collect()
    }
}

/// Who signs for a certificate: the agent if it holds the key, or its file.
fn source_of(key: &PublicKey, held: &[AgentIdentity], listed: &[Listed]) -> Option<Source> {
    let agent = held.iter().find(|identity| is_key(identity, key)).cloned().map(of_agent);
    agent.or_else(|| {
        let is_same = |file: &&Listed| file.is_private && file.key.key_data() == key.key_data();
        listed.iter().find(is_same).map(|file| Source::File(file.path.clone()))
    })
}

/// Whether an agent's identity is a key, and not a certificate.
fn is_key(identity: &AgentIdentity, wanted: &PublicKey) -> bool {
    matches!(identity, AgentIdentity::PublicKey { key, .. } if key.key_data() == wanted.key_data())
}

/// A file's text; none where there is no file.
fn text_of(path: &Path) -> Result<Option<Zeroizing<String>>, String> {
    let Ok(metadata) = fs::metadata(path) else { return Ok(None) };
    if !metadata.is_file() || metadata.len() > LONGEST {
        return Err("not a key".to_owned());
    }
    let text = fs::read_to_string(path).map(Zeroizing::new).map_err(|error| error.to_string())?;
    match private::why_no_key(&metadata).filter(|_| text.contains("PRIVATE KEY")) {
        Some(why) => Err(why.to_owned()),
        None => Ok(Some(text)),
    }
}

/// The public half of what a file holds: a private key of which it can be told, or a public one.
fn public_of(text: &str) -> Option<PublicKey> {
    if text.contains("PRIVATE KEY") {
        // The format of OpenSSH has the public half in the open.
        if let Ok(key) = PrivateKey::from_openssh(text) {
            return Some(key.public_key().clone());
        }
        return decode_secret_key(text, None).ok().map(|key| key.public_key().clone());
    }
    PublicKey::from_openssh(text.lines().next()?.trim()).ok()
}

fn public_beside(path: &Path) -> Option<PublicKey> {
    let text = text_of(&with_suffix(path, ".pub")).ok().flatten()?;
    PublicKey::from_openssh(text.lines().next()?.trim()).ok()
}

fn certificate_in(path: &Path) -> Option<Certificate> {
    let text = text_of(path).ok().flatten()?;
    Certificate::from_openssh(text.lines().next()?.trim()).ok()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// What the ssh-agent holds; nothing where there is none that answers.
pub(super) async fn held(agent: Option<&mut Agent>) -> Vec<AgentIdentity> {
    match agent {
        Some(agent) => agent.request_identities().await.unwrap_or_default(),
        None => Vec::new(),
    }
}

impl Candidate {
    /// The name on the wire of what is offered, and the hash that goes with it. `rsa` is the best
    /// hash that the host takes for an RSA key. `None` where the configuration forbids it.
    pub(super) fn offered_as(
        &self,
        allowed: &[String],
        rsa: Option<HashAlg>,
    ) -> Option<Option<HashAlg>> {
        let algorithm = self.key.algorithm();
        let (algorithm, hash) = if matches!(algorithm, Algorithm::Rsa { .. }) {
            (Algorithm::Rsa { hash: rsa }, rsa)
        } else {
            (algorithm, None)
        };
        let name = match &self.certificate {
            Some(_) => algorithm.to_certificate_type(),
            None => algorithm.as_str().to_owned(),
        };
        allowed.contains(&name).then_some(hash)
    }

    /// Whether it is an RSA key of fewer bits.
    pub(super) fn is_weak(&self, bits: usize) -> bool {
        let smallest = u32::try_from(bits).unwrap_or(u32::MAX);
        self.key.key_data().rsa().is_some_and(|rsa| rsa.key_size() < smallest)
    }

    /// What it is, for an error.
    pub(super) fn name(&self) -> String {
        match &self.source {
            Source::Agent(_) => {
                format!("{} of the ssh-agent", self.key.fingerprint(HashAlg::Sha256))
            }
            Source::File(path) => printable(&path.to_string_lossy()).into_owned(),
        }
    }
}

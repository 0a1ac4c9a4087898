//! Who signs for a login: an ssh-agent, or a key in a file that is opened only once the host has
//! said that it would take it.

use super::identities::{Candidate, Source};
use crate::transport::{Prompts, terminal};
use protocol::host_text::printable;
use russh::keys::{
    HashAlg, PrivateKey,
    agent::{
        AgentIdentity,
        client::{AgentClient, AgentStream},
    },
    decode_secret_key, signature,
    ssh_encoding::Encode as _,
    ssh_key::private::KeypairData,
};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use zeroize::Zeroizing;

/// A connection to an ssh-agent.
pub type Agent = AgentClient<Box<dyn AgentStream + Send + Unpin>>;

/// Connects to the ssh-agent that listens at a path.
///
/// # Errors
///
/// When none does.
#[cfg(unix)]
pub async fn agent_at(path: &Path) -> Result<Agent, russh::keys::Error> {
    AgentClient::connect_uds(path).await.map(AgentClient::dynamic)
}

/// Connects to the ssh-agent that listens at a named pipe.
///
/// # Errors
///
/// When none does.
#[cfg(windows)]
pub async fn agent_at(path: &Path) -> Result<Agent, russh::keys::Error> {
    AgentClient::connect_named_pipe(path).await.map(AgentClient::dynamic)
}

/// Why there is no signature.
#[derive(Debug, thiserror::Error)]
pub enum NotSigned {
    /// The session ended.
    #[error("the connection closed")]
    Closed,
    /// The agent would not.
    #[error("the ssh-agent does not sign with it: {0}")]
    Agent(russh::keys::Error),
    /// The key cannot be read.
    #[error("{0}")]
    Key(russh::keys::Error),
    /// The key is encrypted, and nobody can be asked.
    #[error("it wants a passphrase")]
    Passphrase,
    /// What was typed does not open the key.
    #[error("that passphrase does not open it")]
    WrongPassphrase,
}

impl From<russh::SendError> for NotSigned {
    fn from(_: russh::SendError) -> Self {
        Self::Closed
    }
}

/// Signs with one candidate.
pub struct Signer<'s> {
    pub candidate: &'s Candidate,
    pub agent: Option<&'s mut Agent>,
    pub prompts: Prompts,
    /// Whether it is at it, which may take a person.
    pub is_signing: Arc<AtomicBool>,
}

impl russh::Signer for Signer<'_> {
    type Error = NotSigned;

    async fn auth_sign(
        &mut self,
        _: &AgentIdentity,
        hash: Option<HashAlg>,
        to_sign: Vec<u8>,
    ) -> Result<Vec<u8>, NotSigned> {
        self.is_signing.store(true, Ordering::Relaxed);
        let signed = self.sign(hash, to_sign).await;
        self.is_signing.store(false, Ordering::Relaxed);
        signed
    }
}

impl Signer<'_> {
    async fn sign(
        &mut self,
        hash: Option<HashAlg>,
        mut to_sign: Vec<u8>,
    ) -> Result<Vec<u8>, NotSigned> {
        let key = match &self.candidate.source {
            Source::Agent(held) => {
                let Some(agent) = &mut self.agent else { return Err(NotSigned::Closed) };
                return agent.sign_request(held, hash, to_sign).await.map_err(NotSigned::Agent);
            }
            Source::File(path) => read(path, self.prompts).await?,
        };
        let signed = if let KeypairData::Rsa(rsa) = key.key_data() {
            signature::Signer::try_sign(&(rsa, hash), &to_sign)
        } else {
            signature::Signer::try_sign(&key, &to_sign)
        };
        let of_key = |error| NotSigned::Key(russh::keys::Error::SshKey(error));
        let mut encoded = Vec::new();
        signed
            .map_err(|error| of_key(error.into()))?
            .encode(&mut encoded)
            .map_err(|error| of_key(error.into()))?;
        // The server expects the signature behind what was signed, as one string.
        encoded.encode(&mut to_sign).map_err(|error| of_key(error.into()))?;
        Ok(to_sign)
    }
}

/// Reads a private key; asks for its passphrase as often as ssh does.
async fn read(path: &Path, prompts: Prompts) -> Result<PrivateKey, NotSigned> {
    /// As `NumberOfPasswordPrompts`, in readconf.c.
    const ATTEMPTS: u32 = 3;
    let text = std::fs::read_to_string(path)
        .map(Zeroizing::new)
        .map_err(|error| NotSigned::Key(russh::keys::Error::IO(error)))?;
    match decode_secret_key(&text, None) {
        Err(russh::keys::Error::KeyIsEncrypted) => {}
        result => return result.map_err(NotSigned::Key),
    }
    if prompts == Prompts::Forbidden {
        return Err(NotSigned::Passphrase);
    }
    let shown = path.to_string_lossy();
    let question = format!("Enter passphrase for key '{}': ", printable(&shown));
    for _ in 0..ATTEMPTS {
        let Ok(typed) = terminal::ask(&question, terminal::Echo::Off).await else {
            return Err(NotSigned::Passphrase);
        };
        if typed.is_empty() {
            return Err(NotSigned::WrongPassphrase);
        }
        let text = text.clone();
        // Deriving the key takes a fraction of a second on purpose.
        let opening = tokio::task::spawn_blocking(move || decode_secret_key(&text, Some(&typed)));
        if let Ok(Ok(key)) = opening.await {
            return Ok(key);
        }
    }
    Err(NotSigned::WrongPassphrase)
}

//! The agents that can be pushed: embedded in the controller, or from a folder.

use protocol::{WIRE_ID, handshake::Sha256};
use serde::Deserialize;
use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

/// The processors there is an agent for, by the names that `uname -m` gives them.
pub const MACHINES: [(&str, &[&str]); 2] =
    [("x86_64", &["x86_64", "amd64"]), ("aarch64", &["aarch64", "arm64"])];

/// An agent, ready to be sent.
#[derive(Clone)]
pub struct Agent {
    /// The processor it is for.
    pub arch: &'static str,
    /// Digest of the unpacked file.
    pub sha256: Sha256,
    /// Bytes of the unpacked file.
    pub bytes: usize,
    /// The file, compressed with gzip.
    pub packed: Vec<u8>,
}

impl Agent {
    /// The file as it runs.
    ///
    /// # Errors
    ///
    /// When what was embedded cannot be unpacked.
    pub fn unpacked(&self) -> std::io::Result<Vec<u8>> {
        let mut file = Vec::with_capacity(self.bytes);
        flate2::read::GzDecoder::new(self.packed.as_slice()).read_to_end(&mut file)?;
        Ok(file)
    }
}

/// What stands beside each packed agent, as `cargo xtask agents` writes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    arch: String,
    sha256: String,
    bytes: usize,
    wire_id: String,
}

struct Embedded {
    manifest: &'static str,
    packed: &'static [u8],
}

mod embedded {
    //! Written by the build script.
    include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
}

/// Where agents come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Agents {
    /// From the controller's own file.
    #[default]
    Embedded,
    /// From a folder, for people who work on the agent.
    Folder(PathBuf),
}

impl Agents {
    /// The agent for a machine, by what `uname -m` says there.
    ///
    /// # Errors
    ///
    /// When there is none for it, or it is of another build than the controller.
    pub fn for_machine(&self, machine: &str) -> Result<Agent, NoAgent> {
        let arch = MACHINES
            .iter()
            .find(|(_, names)| names.contains(&machine))
            .map(|(arch, _)| *arch)
            .ok_or_else(|| NoAgent::Machine { machine: machine.to_owned() })?;
        match self {
            Self::Embedded => from_embedded(arch),
            Self::Folder(folder) => from_folder(folder, arch),
        }
    }

    /// The largest of the agents, in bytes: what must find room on a target whose processor is not
    /// known yet.
    ///
    /// # Errors
    ///
    /// When there is no agent at all.
    pub fn largest(&self) -> Result<usize, NoAgent> {
        let sizes =
            MACHINES.iter().map(|(arch, _)| self.for_machine(arch).map(|agent| agent.bytes));
        let mut last = Err(NoAgent::NotEmbedded);
        for size in sizes {
            last = match (last, size) {
                (Ok(left), Ok(right)) => Ok(left.max(right)),
                (Ok(found), Err(_)) | (Err(_), Ok(found)) => Ok(found),
                (Err(_), Err(error)) => Err(error),
            };
        }
        last
    }
}

fn from_embedded(arch: &'static str) -> Result<Agent, NoAgent> {
    let find = |embedded: &&Embedded| embedded.manifest.contains(&format!("\"{arch}\""));
    let embedded = embedded::EMBEDDED.iter().find(find).ok_or(NoAgent::NotEmbedded)?;
    agent(arch, embedded.manifest, embedded.packed.to_vec())
}

fn from_folder(folder: &Path, arch: &'static str) -> Result<Agent, NoAgent> {
    let read = |suffix: &str| {
        let path = folder.join(format!("{arch}.{suffix}"));
        std::fs::read(&path).map_err(|error| NoAgent::Unreadable {
            path: path.display().to_string(),
            reason: error.to_string(),
        })
    };
    let manifest = String::from_utf8_lossy(&read("json")?).into_owned();
    agent(arch, &manifest, read("gz")?)
}

fn agent(arch: &'static str, manifest: &str, packed: Vec<u8>) -> Result<Agent, NoAgent> {
    let manifest: Manifest = serde_json::from_str(manifest)
        .map_err(|error| NoAgent::Manifest { reason: error.to_string() })?;
    if manifest.wire_id != WIRE_ID || manifest.arch != arch {
        return Err(NoAgent::Stale { ours: WIRE_ID, theirs: manifest.wire_id });
    }
    let sha256 = Sha256::parse(&manifest.sha256)
        .ok_or(NoAgent::Manifest { reason: "its sha256 is not one".to_owned() })?;
    Ok(Agent { arch, sha256, bytes: manifest.bytes, packed })
}

/// Why there is no agent to send.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAgent {
    /// The build embedded none.
    #[error("this build of sysmcp carries no agent; run `cargo xtask agents`, then build again")]
    NotEmbedded,
    /// The build embedded one that speaks another wire format.
    #[error(
        "the agent that this build carries is stale (its wire format is {theirs}, ours is {ours}); \
         run `cargo xtask agents`, then build again"
    )]
    Stale {
        /// The controller's.
        ours: &'static str,
        /// The agent's.
        theirs: String,
    },
    /// The target has another processor.
    #[error("there is no agent for a `{machine}` machine; there are agents for x86_64 and aarch64")]
    Machine {
        /// What `uname -m` said.
        machine: String,
    },
    /// What `uname -m` names is not what the target's programs are for.
    #[error(
        "the target calls itself `{machine}`, but its programs are for {programs}; there are agents \
         for x86_64 and aarch64. None was sent"
    )]
    OtherPrograms {
        /// What `uname -m` said.
        machine: String,
        /// What its programs are for.
        programs: String,
    },
    /// No program of the target can be looked at.
    #[error(
        "which programs the target runs could not be told: it calls itself `{machine}`, and lets \
         this login read neither /proc/self/exe nor /bin/sh. There are agents for x86_64 and aarch64; \
         none was sent"
    )]
    UnknownMachine {
        /// What `uname -m` said.
        machine: String,
    },
    /// A file of the folder cannot be read.
    #[error("could not read the agent {path}: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The description beside an agent is not one.
    #[error("the description of an agent was not understood: {reason}")]
    Manifest {
        /// Why.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_of_another_build_is_not_sent() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = r#"{"arch":"x86_64","sha256":"00","bytes":1,"wire_id":"other"}"#;
        std::fs::write(folder.path().join("x86_64.json"), manifest).unwrap();
        std::fs::write(folder.path().join("x86_64.gz"), "").unwrap();
        let agents = Agents::Folder(folder.path().to_owned());
        assert!(matches!(agents.for_machine("amd64"), Err(NoAgent::Stale { .. })));
        assert!(matches!(agents.for_machine("arm64"), Err(NoAgent::Unreadable { .. })));
        let error = agents.for_machine("riscv64").err().unwrap();
        assert!(error.to_string().contains("riscv64"));
    }
}

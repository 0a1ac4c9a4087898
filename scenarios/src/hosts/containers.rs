//! Containers, with a shell and without.

use super::{Attempt, Host, Outcome};
use crate::{
    containers::{Container, Engine, Image},
    sysmcp::Sysmcp,
};
use anyhow::Result;
use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError, Weak},
};

/// In the order of the page.
pub const HOSTS: &[Host] = &[
    Host::sampled("Docker: a shell", || docker(SHELL, &[])),
    Host::in_full("Docker: a shell, and an ordinary user", || docker(SHELL, &["--user", "1000"])),
    Host::in_full("Docker: no shell (distroless)", || docker(DISTROLESS, &[])),
    Host::sampled("Docker: no shell (distroless), and an ordinary user", || {
        docker(DISTROLESS, &["--user", "1000"])
    }),
    Host::in_full("Docker: a shell, and a tmpfs that runs files in a read-only root", || {
        docker(SHELL, &["--read-only", "--tmpfs", "/tmp:exec"])
    }),
    Host::sampled("Docker: a shell in a read-only root", || docker(SHELL, READ_ONLY)),
    Host::in_full("Docker: a shell in a read-only root, with --in-memory", || {
        let container = Case { words: &["--in-memory"], ..Case::of(SHELL, READ_ONLY) };
        container.ask()
    }),
    Host::in_full("Docker: no shell in a read-only root", || docker(DISTROLESS, READ_ONLY)),
    Host::in_full("Docker: no capability", || docker(SHELL, &["--cap-drop", "ALL"])),
    Host::in_full("Docker: no capability and no shell", || {
        docker(DISTROLESS, &["--cap-drop", "ALL"])
    }),
    Host::in_full("Docker: no new privileges", || {
        docker(SHELL, &["--security-opt", "no-new-privileges"])
    }),
    Host::sampled("Docker: 3 processes at most", || docker(SHELL, &["--pids-limit", "3"])),
    Host::in_full("Docker: 20 processes at most", || docker(SHELL, &["--pids-limit", "20"])),
    Host::in_full("Docker: 16 MB of memory at most", || docker(SHELL, &["--memory", "16m"])),
    Host::in_full("Docker: 8 MB of memory at most", || docker(SHELL, &["--memory", "8m"])),
    Host::in_full("Docker: 6 MB of memory at most", || docker(SHELL, &["--memory", "6m"])),
    Host::in_full("Docker: 8 MB of memory at most, and no shell", || {
        docker(DISTROLESS, &["--memory", "8m"])
    }),
    Host::sampled("Docker: paused", || {
        Case { then: &["pause"], at_last: &["unpause"], ..Case::of(SHELL, &[]) }.ask()
    }),
    Host::in_full("Docker: stopped", || {
        Case { then: &["stop", "-t", "0"], ..Case::of(SHELL, &[]) }.ask()
    }),
    Host::in_full("Docker: removed", || Case { then: &["rm", "-f"], ..Case::of(SHELL, &[]) }.ask()),
    Host::sampled("Podman: a shell", || podman(SHELL, &[])),
    Host::in_full("Podman: no shell (distroless), and an ordinary user", || {
        podman(DISTROLESS, &["--user", "1000"])
    }),
    Host::in_full("Podman: no shell in a read-only root", || {
        podman(DISTROLESS, &["--read-only", "--read-only-tmpfs=false"])
    }),
];

const SHELL: Image = Image::Shell;
const DISTROLESS: Image = Image::Distroless;
const READ_ONLY: &[&str] = &["--read-only"];

/// A container, and what is done to it.
#[derive(Clone, Copy)]
struct Case {
    image: Image,
    /// Options of the engine's `run`.
    options: &'static [&'static str],
    /// What the engine does to it before it is asked.
    then: &'static [&'static str],
    /// And behind that.
    at_last: &'static [&'static str],
    /// Words for sysmcp.
    words: &'static [&'static str],
    /// Starts the engine that has it.
    engine: fn() -> Result<Option<Arc<Engine>>>,
}

impl Case {
    const fn of(image: Image, options: &'static [&'static str]) -> Self {
        Self { image, options, then: &[], at_last: &[], words: &[], engine: shared_docker }
    }

    fn ask(self) -> Result<Outcome> {
        if let Some(lacks) = lacks() {
            return Ok(Outcome::NotRun(lacks.to_owned()));
        }
        let Some(engine) = (self.engine)()? else {
            return Ok(Outcome::NotHere("an engine that runs containers".to_owned()));
        };
        let container = engine.run(self.image, self.options)?;
        if !self.then.is_empty() {
            container.make(self.then)?;
        }
        let sysmcp = Sysmcp::local()?.at(&container.target()).with(self.words);
        let sysmcp = sysmcp.with_variables(&engine.variables());
        let placeholders = [(container.name.clone(), "NAME")];
        let left = || left(&container);
        let attempt = Attempt { sysmcp: &sysmcp, left: &left, placeholders: &placeholders };
        let outcome = attempt.outcome();
        if !self.at_last.is_empty() {
            container.make(self.at_last)?;
        }
        outcome
    }
}

fn docker(image: Image, options: &'static [&'static str]) -> Result<Outcome> {
    Case::of(image, options).ask()
}

fn podman(image: Image, options: &'static [&'static str]) -> Result<Outcome> {
    let engine = || Ok(Engine::podman("hosts that are Podman's")?.map(Arc::new));
    Case { engine, ..Case::of(image, options) }.ask()
}

/// What containers take and is not there.
fn lacks() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("root, for an engine of its own");
    }
    let programs =
        [("/usr/sbin/dockerd", "dockerd (package docker.io)"), ("/usr/bin/podman", "podman")];
    programs.into_iter().find(|(path, _)| !Path::new(path).exists()).map(|(_, needs)| needs)
}

/// One Docker for all that are attempted at the same time; it ends with the last of them.
fn shared_docker() -> Result<Option<Arc<Engine>>> {
    static SHARED: Mutex<Weak<Engine>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(engine) = shared.upgrade() {
        return Ok(Some(engine));
    }
    let engine = Engine::docker("hosts that are Docker's")?.map(Arc::new);
    if let Some(engine) = &engine {
        *shared = Arc::downgrade(engine);
    }
    Ok(engine)
}

/// What is left in a container, seen from its host. One that has ended has no processes, and its
/// files end with it.
fn left(container: &Container) -> Result<Vec<String>> {
    let processes = container.processes()?;
    if !processes.iter().any(|seen| seen.command.contains("sleep 86400")) {
        return Ok(processes.into_iter().map(|seen| seen.command).collect());
    }
    let mut left = container.files()?;
    left.extend(container.session()?.into_iter().map(|seen| format!("process {}", seen.command)));
    Ok(left)
}

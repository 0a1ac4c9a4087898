//! Driving the built `sysmcp`, as a person or a client would.

use crate::{behind::behind, programs, sshd::Sshd, without_settings::without_settings};
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::{
    ffi::OsString,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

/// A way to run sysmcp against one target or several, with an audit log of its own.
#[derive(Debug)]
pub struct Sysmcp {
    targets: Vec<String>,
    ssh_config: Option<PathBuf>,
    folder: tempfile::TempDir,
    arguments: Vec<String>,
    environment: Vec<(String, OsString)>,
    /// The words that run it in another network.
    enter: Vec<String>,
}

impl Sysmcp {
    /// For the machine this runs on.
    ///
    /// # Errors
    ///
    /// When no folder can be made for its audit log.
    pub fn local() -> Result<Self> {
        Self::new("local".to_owned(), None)
    }

    /// Through a private sshd.
    ///
    /// # Errors
    ///
    /// When no folder can be made for its audit log.
    pub fn over(sshd: &Sshd) -> Result<Self> {
        Self::new(sshd.target(), Some(sshd.client_config()))
    }

    fn new(target: String, ssh_config: Option<PathBuf>) -> Result<Self> {
        Ok(Self {
            targets: vec![target],
            ssh_config,
            folder: tempfile::tempdir()?,
            arguments: Vec::new(),
            environment: Vec::new(),
            enter: Vec::new(),
        })
    }

    /// With further arguments in front of the command.
    #[must_use]
    pub fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(ToString::to_string));
        self
    }

    /// With a variable in its environment.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// With several variables.
    #[must_use]
    pub fn with_variables(mut self, variables: &[(&str, String)]) -> Self {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), value.into()));
        self.environment.extend(variables);
        self
    }

    /// With another configuration for ssh.
    #[must_use]
    pub fn with_ssh_config(mut self, config: PathBuf) -> Self {
        self.ssh_config = Some(config);
        self
    }

    /// Run in another network, by words that are put before it.
    #[must_use]
    pub fn in_network(mut self, enter: Vec<String>) -> Self {
        self.enter = enter;
        self
    }

    /// With agents that misbehave on request.
    #[must_use]
    pub fn with_faulty_agents(self) -> Self {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/faulty-agents");
        let folder = folder.display().to_string();
        self.with(&["--agents", &folder, "--toolsets", "diagnose,selftest"])
    }

    /// With another target.
    #[must_use]
    pub fn at(mut self, target: &str) -> Self {
        self.targets = vec![target.to_owned()];
        self
    }

    /// With other targets, several of them.
    #[must_use]
    pub fn at_each(mut self, targets: &[String]) -> Self {
        self.targets = targets.to_vec();
        self
    }

    /// Its audit log.
    pub fn audit_log(&self) -> PathBuf {
        self.folder.path().join("audit.jsonl")
    }

    /// The command, up to and without the subcommand.
    pub fn command(&self) -> Command {
        let mut command = without_settings(programs::sysmcp());
        for target in &self.targets {
            command.arg("--target").arg(target);
        }
        command.arg("--audit-log").arg(self.audit_log());
        if let Some(config) = &self.ssh_config {
            command.arg("--ssh-config").arg(config);
        }
        command.args(&self.arguments).envs(self.environment.clone());
        let mut command = behind(&self.enter, &command);
        command.stdin(Stdio::null());
        command
    }

    /// The same with no terminal anywhere: in a session of its own, which has none. As it is started
    /// in the group of whoever starts it, `setsid` becomes sysmcp, whose pid it is then.
    pub fn without_a_terminal(&self) -> Command {
        let mut command = behind(&["setsid", "--wait"], &self.command());
        command.stdin(Stdio::null());
        command
    }

    /// The same as one would type it, with more words behind. Variables are not part of it.
    pub fn typed(&self, more: &str) -> String {
        let command = self.command();
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let quoted = words.map(|word| format!("'{}'", word.to_string_lossy()));
        format!("{} {more}", quoted.collect::<Vec<_>>().join(" "))
    }

    /// What its audit log says of one kind of event, in the order in which it happened.
    ///
    /// # Errors
    ///
    /// When there is no log, or a line of it is no object.
    pub fn audited(&self, event: &str) -> Result<Vec<Value>> {
        let log = std::fs::read_to_string(self.audit_log())?;
        let lines: Result<Vec<Value>, _> = log.lines().map(serde_json::from_str).collect();
        let is_it = |line: &Value| line.get("event").and_then(Value::as_str) == Some(event);
        Ok(lines?.into_iter().filter(is_it).collect())
    }

    /// Calls a tool and waits.
    ///
    /// # Errors
    ///
    /// When sysmcp cannot be started.
    pub fn call(&self, tool: &str, parameters: &Value) -> Result<Output> {
        let mut command = self.command();
        command.args(["call", tool, "--json", "--params", &parameters.to_string()]);
        command.output().context("could not run sysmcp; `cargo xtask test` builds it")
    }

    /// Calls a tool and reads its answer.
    ///
    /// # Errors
    ///
    /// When there is none; the error says what sysmcp said.
    pub fn answer(&self, tool: &str, parameters: &Value) -> Result<Value> {
        let output = self.call(tool, parameters)?;
        let said = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("no answer from {tool}: {}: {said}", output.status))
    }
}

//! An SSH server with an account of its own as a host: what differs from the usual, and asking it.

use super::{Attempt, Outcome};
use crate::{
    second_way::{self, Seen, Server as _, is_of_session},
    servers::{
        Beside, Draft, Kind, Server, Settings,
        login::{identity, write_config},
    },
    sshd::make_key,
    sysmcp::Sysmcp,
};
use anyhow::{Context as _, Result, bail};
use std::path::Path;

/// What a host with sudo takes.
pub(super) const NEEDS_SUDO: &[(&str, &str)] = &[("/usr/bin/sudo", "sudo")];

/// A host where the user's `.bashrc` has this in it.
pub(super) fn rc(text: &[u8]) -> Result<Outcome> {
    Site { files: &[(".bashrc", text)], ..Site::USUAL }.ask()
}

/// How such a host differs from the usual one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site<'a> {
    /// Which server it has.
    pub kind: Kind,
    /// Programs that it takes, with the packages that have them.
    pub needs: &'a [(&'static str, &'static str)],
    /// Lines for `sshd_config`.
    pub lines: &'a [&'a str],
    /// The user's login shell.
    pub shell: Option<&'static str>,
    /// Where the user's entry says that the home is.
    pub home: Option<&'static str>,
    /// Files of the home, with what is in them.
    pub files: &'a [(&'a str, &'a [u8])],
    /// Files of `/etc`.
    pub etc: &'a [(&'static str, &'a str)],
    /// Programs that are not there.
    pub without: &'a [&'static str],
    /// What root does before the server starts.
    pub first: &'a str,
    /// Whether a one-time password is asked for behind the key.
    pub wants_code: bool,
    /// Words for Dropbear.
    pub dropbear: &'a [&'static str],
    /// Lines for the client's configuration.
    pub client: &'a [&'a str],
    /// What stands before the client's key where the server keeps it (sshd(8), "AUTHORIZED_KEYS FILE
    /// FORMAT").
    pub key_options: &'a str,
    /// Words for sysmcp.
    pub words: &'a [&'a str],
    /// What variables are to a login, for the second way.
    pub variables: &'a [(&'static str, &'static str)],
}

impl Site<'_> {
    /// The usual one: OpenSSH, bash, a home, a key.
    pub const USUAL: Site<'static> = Site {
        kind: Kind::OpenSshHere,
        needs: &[],
        lines: &[],
        shell: None,
        home: None,
        files: &[],
        etc: &[],
        without: &[],
        first: "",
        wants_code: false,
        dropbear: &[],
        client: &[],
        key_options: "",
        words: &[],
        variables: &[],
    };

    /// Starts it, asks it for an answer with no terminal anywhere, by the way that sysmcp takes
    /// and by the user's own `ssh`, and looks for what is left.
    ///
    /// # Errors
    ///
    /// When it does not come up, as for [`Attempt::outcome`], and when the two come to different ends.
    pub fn ask(self) -> Result<Outcome> {
        if let Some(lack) = self.lacks() {
            return Ok(lack);
        }
        let server = self.start()?;
        let own = self.by(&server, "ssh")?.outcome()?;
        let users = self.by(&server, "openssh")?.outcome().context("by the user's own ssh")?;
        both(own, users)
    }

    /// The same with somebody at a terminal, who is asked this and types that, and gets an answer.
    ///
    /// # Errors
    ///
    /// As for [`Self::ask`].
    pub fn ask_at_a_terminal(self, answers: &[(&str, &str)], note: &str) -> Result<Outcome> {
        if let Some(lack) = self.lacks() {
            return Ok(lack);
        }
        let server = self.start()?;
        self.by(&server, "ssh")?.at_a_terminal(answers)?;
        Ok(Outcome::Answers(note.to_owned()))
    }

    /// What it takes and is not there.
    fn lacks(self) -> Option<Outcome> {
        if !rustix::process::geteuid().is_root() {
            return Some(Outcome::NotRun("root, for namespaces".to_owned()));
        }
        if !self.kind.has_program() {
            return Some(Outcome::NotRun(format!(
                "{}, which `cargo xtask servers` fetches",
                self.kind.name()
            )));
        }
        let missing = self.needs.iter().find(|(program, _)| !Path::new(program).exists())?;
        Some(Outcome::NotRun(format!("{} (package {})", missing.0, missing.1)))
    }

    fn start(self) -> Result<Server> {
        let draft = Draft::new(self.kind)?;
        make_key(&draft.file("id"), "")?;
        draft.authorize_with("id", self.key_options)?;
        for (name, bytes) in self.files {
            draft.write_home(name, bytes)?;
        }
        draft.start(&Settings {
            lines: self.lines.iter().map(ToString::to_string).collect(),
            words: self.dropbear.iter().map(ToString::to_string).collect(),
            wants_code: self.wants_code,
            etc: self.etc.iter().map(|(name, text)| (*name, (*text).to_owned())).collect(),
            without: self.without.to_vec(),
            shell: self.shell,
            home: self.home,
            first: self.first.to_owned(),
        })
    }

    fn by<'a>(self, server: &'a Server, way: &'static str) -> Result<Guest<'a>>
    where
        Self: 'a,
    {
        let lines: Vec<String> = self.client.iter().map(ToString::to_string).collect();
        let lines = [lines, vec![identity(server, "id")]].concat();
        let config = write_config(server, "config", &lines)?;
        let target = format!("{way}:deploy@127.0.0.1:{}", server.port);
        let sysmcp = Sysmcp::local()?.at(&target).with_ssh_config(config).with(self.words);
        Ok(Guest { beside: Beside { server, variables: self.variables }, sysmcp })
    }
}

/// What both ways came to: both answer, or both refuse, and where their codes differ, as ssh does not
/// tell all reasons, both are told.
pub(super) fn both(own: Outcome, users: Outcome) -> Result<Outcome> {
    match (own, users) {
        (Outcome::Answers(note), Outcome::Answers(_)) => Ok(Outcome::Answers(note)),
        (
            Outcome::Refuses { code, sentence },
            Outcome::Refuses { code: other, sentence: by_ssh },
        ) => {
            let is_same = code == other;
            let behind = format!(" — With `openssh:`, exit code {other}: {by_ssh}");
            let behind = if is_same { String::new() } else { behind };
            Ok(Outcome::Refuses { code, sentence: sentence + &behind })
        }
        (own, users) => bail!("by default {own:?}, and by the user's own ssh {users:?}"),
    }
}

/// Who asks it, and who looks past that.
struct Guest<'a> {
    beside: Beside<'a>,
    sysmcp: Sysmcp,
}

impl Guest<'_> {
    fn attempt<T>(&self, work: impl FnOnce(Attempt) -> T) -> T {
        let server = self.beside.server;
        let placeholders = [
            (server.file("").display().to_string().trim_end_matches('/').to_owned(), "FOLDER"),
            (server.port.to_string(), "PORT"),
            ("127.0.0.1".to_owned(), "HOST"),
        ];
        let left = || self.left();
        work(Attempt { sysmcp: &self.sysmcp, left: &left, placeholders: &placeholders })
    }

    fn outcome(&self) -> Result<Outcome> {
        let outcome = self.attempt(|attempt| attempt.outcome());
        outcome.with_context(|| format!("the server's log ends with: {}", self.log()))
    }

    fn at_a_terminal(&self, answers: &[(&str, &str)]) -> Result<()> {
        let said = self.attempt(|attempt| attempt.at_a_terminal(answers));
        said.with_context(|| format!("the server's log ends with: {}", self.log()))
    }

    fn log(&self) -> String {
        let log = self.beside.server.log();
        let lines: Vec<&str> = log.lines().collect();
        lines.get(lines.len().saturating_sub(15)..).unwrap_or_default().join("\n")
    }

    /// What is left there: of sessions, and whatever else still runs that is not the server's own.
    fn left(&self) -> Result<Vec<String>> {
        let mut left = second_way::files(&self.beside)?;
        let all = second_way::processes(&self.beside)?;
        // Whoever came in beside has no parent that is seen here.
        let looks = |pid: u32| all.iter().any(|seen| seen.pid == pid && seen.parent == 0);
        let is_stranger = |seen: &Seen| {
            let is_servers = seen.command.starts_with("sshd") || seen.command.contains("dropbear");
            seen.pid != 1 && !is_servers && seen.parent != 0 && !looks(seen.parent)
        };
        // What the first process has inherited from a session is known by its token alone.
        let is_sessions = |seen: &Seen| is_of_session(&all, seen, self.beside.pid());
        let found = all.iter().filter(|seen| is_sessions(seen) || is_stranger(seen));
        left.extend(found.map(ToString::to_string));
        if all.is_empty() {
            bail!("the second way sees no process at all");
        }
        Ok(left)
    }
}

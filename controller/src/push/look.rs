//! A second look at a target, when a session is over: whether what the agent said of its end is so.
//!
//! It goes by another channel than the session's, and asks the target's own tools, not the agent. It
//! needs no further login: where it would take one, it is left out, and that is said.

use super::script;
use crate::{
    target::Target,
    transport::{self, Channel, Login, Prompts, openssh, root::Rise},
};
use protocol::{
    handshake::Token,
    host_text::HostText,
    message::Hello,
    sweep::{FOLDER, PLACES},
};
use std::{collections::BTreeSet, fmt, time::Duration};
use tokio::io::{AsyncRead, AsyncReadExt as _};

const SOURCE: &str = include_str!("look.sh");

/// What a look may take. The end of a session is never later for it than this.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes that are taken of what a target answers.
const MOST_BYTES: u64 = 64 << 10;

/// Things that are named of those that were found.
const MOST_NAMED: usize = 5;

/// What has to be known to look at a target after a session.
#[derive(Clone, Debug)]
pub struct Look {
    target: Target,
    login: Login,
    token: Token,
    pids: [u32; 2],
    /// How root is become, where that asks nobody.
    rise: Option<Rise>,
    /// Whether the target has no shell.
    has_no_shell: bool,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looked {
    /// Nothing of the session was found.
    Clean(Extent),
    /// Something was.
    Found(Vec<HostText>),
    /// It could not be looked at.
    Not(WhyNot),
}

/// How far was looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All processes that the login may look into, and the folders.
    All,
    /// The agent's own two processes, and the folders.
    Pids,
    /// The folders.
    Folders,
    /// What a container's engine shows of it from the host.
    Engine,
}

/// Why it could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// The connection was lost, or cut off.
    Lost,
    /// Nobody waited for it.
    CutShort,
    /// It would take another login.
    Login,
    /// It took too long.
    Late,
    /// No further channel, or no answer there.
    NoAnswer(HostText),
}

impl fmt::Display for Looked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clean(extent) => write!(f, "looked at again from outside: {extent}"),
            Self::Found(found) => {
                let named: Vec<&str> =
                    found.iter().take(MOST_NAMED).map(HostText::as_str).collect();
                write!(f, "but looked at again from outside, there is {}", named.join(", "))?;
                match found.len().saturating_sub(MOST_NAMED) {
                    0 => Ok(()),
                    more => write!(f, ", and {more} more"),
                }
            }
            Self::Not(why) => write!(f, "not looked at from outside: {why}"),
        }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "nothing of it is there, as far as the login sees",
            Self::Pids => "its processes and its folder are gone",
            Self::Folders => "its folder is gone; processes cannot be seen there",
            Self::Engine => "the engine shows no process and no file of it",
        })
    }
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost => f.write_str("the connection is gone"),
            Self::CutShort => f.write_str("nobody waited for it"),
            Self::Login => f.write_str("that would take another login"),
            Self::Late => write!(f, "it took longer than {} s", PATIENCE.as_secs()),
            Self::NoAnswer(said) => write!(f, "there was no answer: {said}"),
        }
    }
}

impl Look {
    /// For the session that an agent has begun.
    pub(super) fn new(target: &Target, login: &Login, token: &Token, hello: &Hello) -> Self {
        let rise = match login.prompts {
            Prompts::Forbidden => Rise::of(target, login.as_root, login.prompts).ok().flatten(),
            // A password would be asked for once more.
            Prompts::Allowed => None,
        };
        Self {
            target: target.clone(),
            login: login.clone(),
            token: token.clone(),
            pids: [hello.supervisor_pid, hello.worker_pid],
            rise,
            has_no_shell: false,
        }
    }

    /// For one in a container without a shell.
    pub(super) fn without_shell(self) -> Self {
        Self { has_no_shell: true, ..self }
    }

    /// The script, as one line for a POSIX shell.
    pub fn script(&self) -> String {
        let token = self.token.as_str();
        let (first, rest) = token.split_at_checked(token.len() / 2).unwrap_or((token, ""));
        let (initial, others) = token.split_at_checked(1).unwrap_or((token, ""));
        let [supervisor, worker] = self.pids;
        let script = script::one_line(SOURCE)
            .replace("FIRST", first)
            .replace("REST", rest)
            .replace("INITIAL", initial)
            .replace("OTHERS", others)
            .replace("SUPERVISOR", &supervisor.to_string())
            .replace("WORKER", &worker.to_string())
            .replace("PLACES", &PLACES.join(" "));
        match &self.rise {
            Some(rise) => rise.wrap(&script),
            None => script,
        }
    }

    /// Whether the exit code of what carried the session says that the connection is gone, or that it
    /// had to be cut off.
    pub fn is_lost(&self, code: Option<i32>) -> bool {
        match &self.target {
            Target::Ssh(_) => code.is_none_or(|code| code == openssh::EXIT),
            Target::Local | Target::Container(_) | Target::Wsl(_) | Target::Snapshot(_) => false,
        }
    }

    /// Looks, over a channel of its own that needs no connection which is ours already.
    pub async fn anew(&self) -> Looked {
        match tokio::time::timeout(PATIENCE, self.over_a_process()).await {
            Ok(looked) => looked,
            Err(_) => Looked::Not(WhyNot::Late),
        }
    }

    async fn over_a_process(&self) -> Looked {
        if let (Target::Container(container), true) = (&self.target, self.has_no_shell) {
            return match transport::container::seen(container, &self.token).await {
                Ok(found) if found.is_empty() => Looked::Clean(Extent::Engine),
                Ok(found) => Looked::Found(found),
                Err(said) => Looked::Not(WhyNot::NoAnswer(said)),
            };
        }
        match transport::again(&self.target, &self.script(), &self.login).await {
            Ok(Some(channel)) => {
                let Channel { mut reader, writer, carrier, .. } = channel;
                drop(writer);
                let looked = self.read(&mut reader).await;
                if let Some(carrier) = carrier {
                    carrier.end(Duration::from_secs(1)).await;
                }
                looked
            }
            Ok(None) => Looked::Not(WhyNot::Login),
            Err(error) => no_answer(&error.to_string()),
        }
    }

    /// Reads what the script says.
    pub async fn read(&self, reader: &mut (impl AsyncRead + Unpin)) -> Looked {
        let mut bytes = Vec::new();
        match reader.take(MOST_BYTES).read_to_end(&mut bytes).await {
            Ok(_) => self.understand(&bytes),
            Err(error) => no_answer(&error.to_string()),
        }
    }

    fn understand(&self, bytes: &[u8]) -> Looked {
        let text = String::from_utf8_lossy(bytes);
        let mark = format!("{} ", script::mark(&self.token));
        let mut found = BTreeSet::new();
        let mut extent = None;
        // A banner may stand before it, without an end of its line.
        for line in text.lines().filter_map(|line| line.split_once(&mark)) {
            let (_, said) = line;
            match said.split_once(' ') {
                Some(("FOLDER", path)) if path.contains(FOLDER) => {
                    let path = HostText::capped(path.as_bytes(), 150);
                    found.insert(format!("folder {path}"));
                }
                Some(("PROCESS", pid)) => {
                    if let Ok(pid) = pid.trim().parse::<u32>() {
                        found.insert(format!("process {pid}"));
                    }
                }
                Some(("LOOKED", "all")) => extent = Some(Extent::All),
                Some(("LOOKED", "pids")) => extent = Some(Extent::Pids),
                Some(("LOOKED", "folders")) => extent = Some(Extent::Folders),
                Some(_) | None => {}
            }
        }
        match extent {
            _ if !found.is_empty() => {
                // They are of escaped parts.
                Looked::Found(found.iter().map(|it| HostText::new(it.as_bytes())).collect())
            }
            Some(extent) => Looked::Clean(extent),
            None => no_answer(&text),
        }
    }
}

/// What was said instead of an answer.
pub fn no_answer(said: &str) -> Looked {
    let said = match said.trim() {
        "" => HostText::new(b"it ended without a word"),
        said => crate::words::of_others(said, 150),
    };
    Looked::Not(WhyNot::NoAnswer(said))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    const TOKEN: [u8; 16] = [0xa7; 16];

    fn look() -> Look {
        Look {
            target: Target::Local,
            login: Login::without_questions(None),
            token: Token::new(TOKEN),
            pids: [4_000_001, 4_000_002],
            rise: None,
            has_no_shell: false,
        }
    }

    #[test]
    fn it_survives_any_login_shell_and_does_not_find_itself() {
        let script = look().script();
        for forbidden in ["'", "\n", "!", "\\\\"] {
            assert!(!script.contains(forbidden), "{forbidden:?}");
        }
        for filled in ["FIRST", "REST", "INITIAL", "OTHERS", "SUPERVISOR", "WORKER", "PLACES"] {
            assert!(!script.contains(filled), "{filled}: {script}");
        }
        assert!(!script.contains(Token::new(TOKEN).as_str()), "{script}");
    }

    /// What is said of this machine by the script itself, in a shell.
    fn said(programs: Option<&str>) -> Looked {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &look().script()]).stdin(Stdio::null());
        if let Some(path) = programs {
            shell.env("PATH", path);
        }
        look().understand(&shell.output().unwrap().stdout)
    }

    #[test]
    fn what_carries_the_mark_is_found_and_gone_when_it_is_gone() {
        assert_eq!(said(None), Looked::Clean(Extent::All));
        assert_eq!(said(Some("/nowhere")), Looked::Clean(Extent::Pids));
        let token = Token::new(TOKEN);
        let mut marked = Command::new("sleep");
        marked.arg("60").env("SYSMCP_SESSION", token.as_str());
        let mut marked = marked.spawn().unwrap();
        let folder = std::path::Path::new("/tmp").join(format!(".sysmcp-{}", token.as_str()));
        std::fs::create_dir(&folder).unwrap();
        // Until it has become the program.
        let process = format!("process {}", marked.id());
        let mut found = Looked::Not(WhyNot::Late);
        for _ in 0..100 {
            found = said(None);
            if found.to_string().contains(&process) {
                break;
            }
        }
        let without_grep = said(Some("/nowhere"));
        std::fs::remove_dir(&folder).unwrap();
        marked.kill().unwrap();
        marked.wait().unwrap();
        let words = format!("there is folder {}, {process}", folder.display());
        assert!(found.to_string().ends_with(&words), "{found}");
        assert!(without_grep.to_string().contains("there is folder /tmp/"), "{without_grep}");
        assert_eq!(said(None), Looked::Clean(Extent::All));
    }

    #[test]
    fn only_the_sessions_own_words_are_an_answer() {
        let mark = super::super::script::mark(&Token::new(TOKEN));
        let other = super::super::script::mark(&Token::new([1; 16]));
        let cases = [
            (format!("Welcome!\nno end{mark} LOOKED all\n"), "nothing of it is there"),
            (format!("{other} LOOKED all\n"), "no answer"),
            (format!("{mark} LOOKED x\n"), "no answer"),
            (String::new(), "it ended without a word"),
            (format!("{mark} PROCESS 7\n{mark} PROCESS 7\n{mark} LOOKED all\n"), "is process 7"),
            (format!("{mark} PROCESS x\u{1b}\n{mark} LOOKED all\n"), "nothing of it is there"),
            (format!("{mark} FOLDER /\u{1b}[2J/.sysmcp-x\n"), "is folder /\\"),
        ];
        for (text, want) in cases {
            let looked = look().understand(text.as_bytes()).to_string();
            assert!(looked.contains(want), "{text:?}: {looked}");
            assert!(!looked.contains('\u{1b}'), "{looked:?}");
        }
    }
}

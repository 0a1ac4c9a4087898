//! Whether a process belongs to a session of sysmcp, by what it was started with.
//!
//! Source: `/proc/PID/environ` and `/proc/PID/cmdline`. Kernel reference: `fs/proc/base.c`.
//! The mark in the environment decides. An agent does not let others of its own user read that
//! (`PR_SET_DUMPABLE`), so where it cannot be read an agent's exact arguments decide; and the start-up
//! script, which has no mark in its own environment, is known by its exact start.

use protocol::{
    handshake::Token,
    sweep::{FILE, MARK, SCRIPT, SCRIPT_PATIENCE, folder_of},
};
use std::time::Duration;

/// What belongs to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Belongs {
    /// Which one.
    pub token: Token,
    /// As what.
    pub role: Role,
}

/// What a process is in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The agent: its supervisor, its worker, its spawner, or a child that asks for one of these.
    Agent,
    /// An agent that sweeps.
    Sweep,
    /// The start-up script, which waits so long at most for each thing that is sent.
    Script {
        /// How long.
        patience: Duration,
    },
    /// A program that was started by one of these.
    Started,
}

/// How the environment of a process could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Environment<'b> {
    /// It could.
    Read(&'b [u8]),
    /// The kernel does not let this user read it, and the process runs as this very user: it does not
    /// let itself be looked into, as an agent does not. For root, whoever it runs as.
    Shielded,
    /// The process is another user's.
    OfOthers,
}

/// What a process belongs to, if to any session.
pub fn of(environment: Environment<'_>, command_line: &[u8]) -> Option<Belongs> {
    let words: Vec<&[u8]> = command_line.split(|byte| *byte == 0).collect();
    match environment {
        Environment::Read(bytes) => marked(bytes).map_or_else(
            || script(&words),
            |token| {
                let role = agent(&words).filter(|(of, _)| *of == token);
                let role = role.map_or(Role::Started, |(_, role)| role);
                Some(Belongs { token, role })
            },
        ),
        Environment::Shielded => {
            let (token, role) = agent(&words).filter(|(token, _)| is_its_file(&words, token))?;
            Some(Belongs { token, role })
        }
        Environment::OfOthers => None,
    }
}

/// The token in the mark.
fn marked(environment: &[u8]) -> Option<Token> {
    let value = environment.split(|byte| *byte == 0).find_map(|word| {
        word.strip_prefix(MARK.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
    })?;
    token(value)
}

fn token(bytes: &[u8]) -> Option<Token> {
    Token::parse(std::str::from_utf8(bytes).ok()?).ok()
}

/// The token and the role in the arguments of an agent.
fn agent(words: &[&[u8]]) -> Option<(Token, Role)> {
    let [_, role, value, ..] = words else { return None };
    let role = match *role {
        b"serve" => Role::Agent,
        b"sweep" => Role::Sweep,
        _ => return None,
    };
    Some((token(value)?, role))
}

/// Whether the first word is one by which the start-up script, or an engine, starts an agent.
fn is_its_file(words: &[&[u8]], token: &Token) -> bool {
    let Some(path) = words.first().and_then(|word| std::str::from_utf8(word).ok()) else {
        return false;
    };
    let descriptor = path.strip_prefix("/proc/self/fd/");
    let is_open_file = descriptor.is_some_and(|number| number.parse::<u32>().is_ok());
    is_open_file || path.ends_with(&format!("/{}/{FILE}", folder_of(token)))
}

/// The start-up script, as `sh -c` has it.
fn script(words: &[&[u8]]) -> Option<Belongs> {
    let [_, b"-c", text, ..] = words else { return None };
    let text = std::str::from_utf8(text).ok()?;
    let (before, behind) = SCRIPT;
    let (value, rest) = text.strip_prefix(before)?.split_once(behind)?;
    let (_, limit) = rest.split_once(SCRIPT_PATIENCE)?;
    let seconds: u64 = limit.split_once('"')?.0.parse().ok()?;
    let token = Token::parse(value).ok()?;
    Some(Belongs { token, role: Role::Script { patience: Duration::from_secs(seconds) } })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn role(environment: Environment<'_>, words: &[&str]) -> Option<Role> {
        let line = words.join("\0") + "\0";
        let found = of(environment, line.as_bytes());
        found.map(|found| {
            assert_eq!(found.token.as_str(), TOKEN);
            found.role
        })
    }

    #[test]
    fn the_mark_decides_where_it_can_be_read() {
        let marked = format!("PATH=/bin\0SYSMCP_SESSION={TOKEN}\0");
        let marked = Environment::Read(marked.as_bytes());
        let plain = Environment::Read(b"PATH=/bin\0");
        let agent = ["/proc/self/fd/4", "serve", TOKEN];
        let cases: [(&str, Environment<'_>, &[&str], Option<Role>); 8] = [
            ("a program", marked, &["sleep", "3600"], Some(Role::Started)),
            ("no arguments", marked, &[], Some(Role::Started)),
            ("an agent", marked, &agent, Some(Role::Agent)),
            ("a sweep", marked, &["/proc/self/fd/4", "sweep", TOKEN], Some(Role::Sweep)),
            ("another's token", marked, &["a", "serve", "x"], Some(Role::Started)),
            ("an innocent that looks like one", plain, &agent, None),
            ("an innocent", plain, &["sleep", "3600"], None),
            ("of others", Environment::OfOthers, &agent, None),
        ];
        for (name, environment, words, want) in cases {
            assert_eq!(role(environment, words), want, "{name}");
        }
        let half = format!("SYSMCP_SESSION={}\0", &TOKEN[1..]);
        assert_eq!(role(Environment::Read(half.as_bytes()), &["x"]), None);
        let longer_name = format!("MY_SYSMCP_SESSION={TOKEN}\0SYSMCP_SESSIONS={TOKEN}\0");
        assert_eq!(role(Environment::Read(longer_name.as_bytes()), &["x"]), None);
    }

    #[test]
    fn exact_arguments_decide_where_a_process_shields_itself() {
        let named = format!("/tmp/.sysmcp-{TOKEN}/a");
        let others = format!("/tmp/.sysmcp-{}/a", "f".repeat(32));
        let cases: [(&[&str], Option<Role>); 6] = [
            (&["/proc/self/fd/4", "serve", TOKEN, ""], Some(Role::Agent)),
            (&[&named, "serve", TOKEN, "/tmp"], Some(Role::Agent)),
            (&[&others, "serve", TOKEN], None),
            (&["/usr/bin/python3", "serve", TOKEN], None),
            (&["/proc/self/fd/x", "serve", TOKEN], None),
            (&["/proc/self/fd/4", "serve"], None),
        ];
        for (words, want) in cases {
            assert_eq!(role(Environment::Shielded, words), want, "{words:?}");
        }
    }

    #[test]
    fn the_script_is_known_by_its_start_and_nothing_that_only_names_it() {
        let text = format!(
            "umask 077; set -f; token={TOKEN}; room=1; export X; limit=\"timeout 75\"; more"
        );
        let plain = Environment::Read(b"");
        let patience = Duration::from_secs(75);
        assert_eq!(role(plain, &["/bin/sh", "-c", &text]), Some(Role::Script { patience }));
        assert_eq!(role(plain, &["vi", &text]), None);
        assert_eq!(role(plain, &["sh", "-c", &format!("echo; {text}")]), None);
        assert_eq!(role(plain, &["ssh", "-c", "aes", "web", &text]), None);
        assert_eq!(role(Environment::OfOthers, &["/bin/sh", "-c", &text]), None);
    }
}

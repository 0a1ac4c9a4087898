//! The agent's own command line.

use crate::serve::Start;
use lexopt::{Arg, ValueExt as _};
use protocol::{InstrumentId, handshake::Token, host_text::HostText, sweep::Order};
use std::{ffi::OsString, path::PathBuf};

/// What the agent is asked to do.
#[derive(Clone, Debug)]
pub enum Command {
    /// Serve a session.
    Serve(Start),
    /// Answer one question on this machine.
    Local(Question),
    /// Find and remove what sessions left on this machine.
    Sweep(SweepStart),
    /// Print the help.
    Help,
    /// Print the version.
    Version,
}

/// One question by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The tool.
    pub tool: String,
    /// Its parameters, as a JSON object.
    pub parameters: String,
    /// Whether the answer is to be JSON instead of tables.
    pub json: bool,
    /// The folder with the snapshot to answer from, instead of this machine.
    pub snapshot: Option<PathBuf>,
    /// The command to launch, whose calls are asked for; empty without one.
    pub launch: Vec<OsString>,
}

/// How a sweep was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepStart {
    /// The session, where a controller started it; none by hand.
    pub token: Option<Token>,
    /// The folder the agent's file was put in, which must be gone.
    pub folder: Option<PathBuf>,
    /// What it may do.
    pub order: Order,
    /// Whether a person wants JSON.
    pub json: bool,
}

impl Question {
    /// Whether programs are started for the answer, or threads may be stopped. Without, there is no
    /// need for a process that could.
    pub fn needs_spawner(&self) -> bool {
        let may_stop = self.parameters.contains("\"stop\"");
        let needing = ["\"ptrace\"", "\"strace\"", "\"perf\"", "\"bpftrace\""];
        let may_trace = needing.iter().any(|engine| self.parameters.contains(engine));
        self.tool == InstrumentId::Capabilities.name()
            || (self.tool == InstrumentId::PerfRecord.name() && may_stop)
            || (self.tool == InstrumentId::SyscallTrace.name() && may_trace)
    }
}

/// The version text.
pub const VERSION: &str = concat!("probe-agent ", env!("CARGO_PKG_VERSION"), "\n");

/// The help text.
pub const HELP: &str = "\
Measures this machine. Reads only; nothing is installed, changed or left behind.

Usage:
  probe-agent --local TOOL [--params JSON] [--json] [--snapshot FOLDER]
  probe-agent --local syscall_trace [--params JSON] [--json] -- COMMAND [ARGS...]
  probe-agent sweep [--dry-run] [--live] [--json]
  probe-agent serve TOKEN [--snapshot FOLDER] [FOLDER]
  probe-agent sweep TOKEN [--dry-run] [--live] [FOLDER]

Tools:
  capabilities      what works here for this user, and the remedy for what does not
  host_snapshot     whether the machine is short of something
  process_list      which processes used the machine in the last second
  process_inspect   what one process spends its time on
  perf_record       which functions use the processor, of a process or of the machine
  perf_report       further questions about a recording; only within a session of sysmcp
  flamegraph        the call tree of a recording; only within a session of sysmcp
  flamegraph_from_folded
                    the call tree of stacks that another profiler wrote as text
  inspect_source    the source lines of a function, with what was sampled on each
  self_test         counts; measures nothing
  memory_profile    how the memory of one process grows, and what it consists of
  syscall_trace     system calls, by call and by what they are about
  latency           how long is waited for processors, block devices and TCP, and who is behind it
  capture           takes the files that the others read; sysmcp keeps them
  export            sends a stored recording; sysmcp writes it in the format of another program

A command of your own:
  With `--` and a COMMAND, syscall_trace starts it and counts its system calls from the first on, with
  those of all that it starts, until all of it has ended. It takes no rights, no eBPF, no perf and no
  strace. Every call is stopped, which slows the command down; with `calls` only those that are named
  are, and the others run at full speed. What it prints goes to stderr, and the answer to stdout, which
  says first how it ended (with --json under `command`). After `window_ms` milliseconds, 60000 if left
  out, what is left of it is ended, as by `timeout`; Ctrl-C ends it too, and the answer is given all the
  same. A set-user-id program runs with your own rights.

Sweep:
  `sweep` finds what sessions of sysmcp left on this machine, and ends and removes it: processes that
  carry a session's mark and have outlived it, and folders named .sysmcp-TOKEN in which nothing else
  is. Sessions that are alive are listed and left alone. As root, processes of all users.

Options:
  --local TOOL      answer one question on this machine
  --params JSON     the tool's parameters as a JSON object, {} if left out; timeout_s, max_tokens
                    and max_cpu_ms are parameters of every tool, and limit what it costs
  --json            print the answer as JSON instead of tables
  --dry-run         only say what a sweep would do
  --live            let a sweep end sessions that are alive, too
  --snapshot FOLDER answer from files that were taken of a machine, not of this one
  --help            print this
  --version         print the version

With a TOKEN, `serve` and `sweep` are what sysmcp starts over SSH. They speak frames on stdin and
stdout, not to a person.

Examples:
  probe-agent --local process_list
  probe-agent --local process_list --params '{\"sort\":\"rss\",\"limit\":5}'
  probe-agent --local process_inspect --params '{\"pid\":1}' --json
  probe-agent --local perf_record --params '{\"pid\":1,\"window_ms\":2000}'
  probe-agent --local syscall_trace --params '{\"pid\":1,\"mode\":\"detailed\"}'
  probe-agent --local syscall_trace -- ls -l /tmp
  probe-agent --local syscall_trace --params '{\"calls\":[\"openat\",\"connect\"]}' -- curl example.com
  probe-agent sweep --dry-run
";

/// Reads the command line.
///
/// # Errors
///
/// The argument that was not understood, with what would be.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command, Error> {
    let mut parser = lexopt::Parser::from_iter(arguments);
    let mut tool = None;
    let mut parameters = None;
    let mut json = false;
    let mut snapshot = None;
    let mut launch = None;
    while launch.is_none() {
        launch = after_dashes(&mut parser);
        let Some(argument) = parser.next()? else { break };
        match argument {
            Arg::Long("help") | Arg::Short('h') => return Ok(Command::Help),
            Arg::Long("version") | Arg::Short('V') => return Ok(Command::Version),
            Arg::Long("local") => tool = Some(parser.value()?.string()?),
            Arg::Long("params") => parameters = Some(parser.value()?.string()?),
            Arg::Long("json") => json = true,
            Arg::Long("snapshot") => snapshot = Some(PathBuf::from(parser.value()?)),
            Arg::Value(word) if word == "serve" => return parse_serve(&mut parser),
            Arg::Value(word) if word == "sweep" => return parse_sweep(&mut parser),
            Arg::Short(_) | Arg::Long(_) | Arg::Value(_) => {
                return Err(Error::Argument(argument.unexpected()));
            }
        }
    }
    let tool = tool.ok_or(Error::Nothing)?;
    let parameters = parameters.unwrap_or_else(|| "{}".to_owned());
    if let Some(words) = &launch {
        if words.is_empty() {
            return Err(Error::NoCommand);
        }
        if tool != InstrumentId::SyscallTrace.name() {
            return Err(Error::CommandForAnother(HostText::new(tool.as_bytes())));
        }
        if snapshot.is_some() {
            return Err(Error::CommandInSnapshot);
        }
    }
    let launch = launch.unwrap_or_default();
    Ok(Command::Local(Question { tool, parameters, json, snapshot, launch }))
}

/// What follows `--`, where that is next: a command of the person's own, whose words are not ours.
fn after_dashes(parser: &mut lexopt::Parser) -> Option<Vec<OsString>> {
    let mut words = parser.try_raw_args()?;
    words.next_if(|word| word == "--").map(|_| words.collect())
}

fn parse_serve(parser: &mut lexopt::Parser) -> Result<Command, Error> {
    let token = parser.value()?.string()?;
    let token = Token::parse(&token).map_err(Error::Token)?;
    let (mut folder, mut snapshot) = (None, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("snapshot") => snapshot = Some(PathBuf::from(parser.value()?)),
            Arg::Value(value) if folder.is_none() => folder = Some(PathBuf::from(value)),
            other @ (Arg::Short(_) | Arg::Long(_) | Arg::Value(_)) => {
                return Err(Error::Argument(other.unexpected()));
            }
        }
    }
    Ok(Command::Serve(Start { token, folder, snapshot }))
}

fn parse_sweep(parser: &mut lexopt::Parser) -> Result<Command, Error> {
    let mut start = SweepStart::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("dry-run") => start.order.dry_run = true,
            Arg::Long("live") => start.order.live = true,
            Arg::Long("json") => start.json = true,
            Arg::Value(value) if start.token.is_none() => {
                start.token = Some(Token::parse(&value.string()?).map_err(Error::Token)?);
            }
            Arg::Value(value) if start.folder.is_none() => start.folder = Some(value.into()),
            other @ (Arg::Short(_) | Arg::Long(_) | Arg::Value(_)) => {
                return Err(Error::Argument(other.unexpected()));
            }
        }
    }
    Ok(Command::Sweep(start))
}

/// What is wrong with the command line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument.
    #[error("{0}; probe-agent --help lists what there is")]
    Argument(#[from] lexopt::Error),
    /// The token of a session.
    #[error("{0}")]
    Token(protocol::handshake::HandshakeError),
    /// A command without words.
    #[error("no command after `--`; as in `probe-agent --local syscall_trace -- ls -l`")]
    NoCommand,
    /// A command for a tool that does not launch one.
    #[error(
        "{0} starts no command; leave `--` and what follows out, or take --local syscall_trace"
    )]
    CommandForAnother(HostText),
    /// A command on a machine that is not there.
    #[error(
        "a command cannot be started in a snapshot; leave --snapshot out, or `--` and what follows"
    )]
    CommandInSnapshot,
    /// Nothing was asked.
    #[error("nothing to do: name a tool with --local, or see probe-agent --help")]
    Nothing,
}

#[cfg(test)]
#[path = "../../fixtures/documents.rs"]
mod documents;
#[cfg(test)]
#[path = "../../fixtures/golden.rs"]
mod golden;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit;
    use std::fmt::Write as _;

    #[test]
    fn it_is_documented() {
        let mut text = format!(
            "# The command line of probe-agent\n\n{}\n\n```text\n{HELP}```\n\nExit codes:\n\n\
             | code | |\n|---:|---|\n",
            documents::GENERATED
        );
        for (code, meaning) in exit::ALL {
            writeln!(text, "| {code} | {meaning} |").unwrap();
        }
        golden::assert_golden("docs/commands/probe-agent.md", &text);
    }

    #[test]
    fn every_command_in_the_documents_is_understood() {
        let commands = documents::commands("probe-agent");
        assert!(!commands.is_empty());
        for documents::Documented { place, words } in commands {
            if words.len() > 1
                && let Err(error) = parse(words.into_iter().map(OsString::from))
            {
                panic!("{place}: {error}");
            }
        }
    }

    #[test]
    fn the_help_names_every_tool() {
        for id in protocol::InstrumentId::ALL {
            let is_of_it = |line: &str| line.split_whitespace().next() == Some(id.name());
            assert!(HELP.lines().any(is_of_it), "{}", id.name());
        }
    }

    fn parsed(arguments: &[&str]) -> Result<Command, String> {
        let words = std::iter::once("probe-agent").chain(arguments.iter().copied());
        parse(words.map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_question_by_hand() {
        let arguments = ["--local", "process_list", "--params", "{\"limit\":1}", "--json"];
        let Ok(Command::Local(question)) = parsed(&arguments) else { panic!("not understood") };
        assert_eq!((question.tool.as_str(), question.json), ("process_list", true));
        assert_eq!(question.parameters, "{\"limit\":1}");
    }

    #[test]
    fn a_command_to_launch_keeps_all_its_words() {
        let cases: [(&[&str], &[&str]); 4] = [
            (&["--local", "syscall_trace", "--", "ls"], &["ls"]),
            (
                &["--local", "syscall_trace", "--json", "--", "ls", "--json", "-l"],
                &["ls", "--json", "-l"],
            ),
            (&["--local", "syscall_trace", "--", "env", "--", "ls"], &["env", "--", "ls"]),
            (&["--local=syscall_trace", "--params", "--", "--", "--help"], &["--help"]),
        ];
        for (arguments, want) in cases {
            let Ok(Command::Local(question)) = parsed(arguments) else { panic!("{arguments:?}") };
            assert_eq!(question.launch, want, "{arguments:?}");
        }
    }

    #[test]
    fn no_session_has_a_command_to_launch() {
        let token = "a".repeat(32);
        for first in ["serve", "sweep"] {
            for rest in
                [&["--", "ls"][..], &["/tmp/x", "--", "ls", "-l"], &["--local", "syscall_trace"]]
            {
                let arguments = [&[first, &token], rest].concat();
                // A folder of that name, or what is not understood.
                if let Ok(Command::Local(question)) = parsed(&arguments) {
                    panic!("{question:?}");
                }
            }
        }
    }

    #[test]
    fn a_session_may_be_of_a_snapshot_and_may_have_a_folder() {
        let token = "a".repeat(32);
        let cases: [(&[&str], Option<&str>, Option<&str>); 4] = [
            (&[], None, None),
            (&["/tmp/x"], Some("/tmp/x"), None),
            (&["--snapshot", "/tmp/a b"], None, Some("/tmp/a b")),
            (&["--snapshot", "/tmp/s", "/tmp/x"], Some("/tmp/x"), Some("/tmp/s")),
        ];
        for (arguments, folder, snapshot) in cases {
            let arguments = [&["serve", &token], arguments].concat();
            let Ok(Command::Serve(start)) = parsed(&arguments) else { panic!("{arguments:?}") };
            assert_eq!(start.folder, folder.map(PathBuf::from), "{arguments:?}");
            assert_eq!(start.snapshot, snapshot.map(PathBuf::from), "{arguments:?}");
        }
    }

    #[test]
    fn a_sweep_is_by_hand_or_for_a_session() {
        let token = "a".repeat(32);
        let dry = Order { dry_run: true, live: false };
        /// Arguments, token, folder, and what may be done.
        type Case<'c> = (&'c [&'c str], Option<&'c str>, Option<&'c str>, Order);
        let cases: [Case<'_>; 4] = [
            (&[], None, None, Order::default()),
            (&["--dry-run"], None, None, dry),
            (&[&token, "--dry-run", "/tmp/x"], Some(&token), Some("/tmp/x"), dry),
            (&["--live", &token], Some(&token), None, Order { dry_run: false, live: true }),
        ];
        for (arguments, token, folder, order) in cases {
            let arguments = [&["sweep"], arguments].concat();
            let Ok(Command::Sweep(start)) = parsed(&arguments) else { panic!("{arguments:?}") };
            assert_eq!(start.token.as_ref().map(Token::as_str), token, "{arguments:?}");
            assert_eq!(start.folder, folder.map(PathBuf::from), "{arguments:?}");
            assert_eq!(start.order, order, "{arguments:?}");
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let cases: [(&[&str], &str); 11] = [
            (&["--local", "syscall_trace", "--"], "no command after `--`; as in"),
            (&["--local", "process_list", "--", "ls"], "process_list starts no command"),
            (&["--local", "syscall_trace", "--snapshot", "/s", "--", "ls"], "in a snapshot"),
            (&["--", "ls"], "nothing to do"),
            (&[], "nothing to do"),
            (&["--loca", "x"], "--loca"),
            (&["--local"], "--local"),
            (&["serve", "short"], "32 hexadecimal digits"),
            (&["sweep", "short"], "32 hexadecimal digits"),
            (&["sweep", "--local"], "--local"),
            (&["serve", &"a".repeat(32), "/tmp/x", "more"], "more"),
        ];
        for (arguments, want) in cases {
            match parsed(arguments) {
                Ok(other) => panic!("{arguments:?}: {other:?}"),
                Err(error) => assert!(error.contains(want), "{error}"),
            }
        }
    }
}

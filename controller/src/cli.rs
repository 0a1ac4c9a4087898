//! The command line.

use crate::{
    config::{self, Settings},
    exit,
    profile::Format,
};
use clap::{Args, CommandFactory as _, Parser, Subcommand, error::ErrorKind};
use protocol::artifact::ArtifactId;
use std::{ffi::OsString, path::PathBuf};

/// Finds out why a Linux service is slow.
#[derive(Debug, Parser)]
#[command(
    name = "sysmcp",
    version,
    about = "Finds out why a Linux service is slow, from your machine, over SSH.",
    long_about = "Finds out why a Linux service is slow, from your machine, over SSH.\n\nsysmcp \
        puts a small program on the target, asks it, and takes it away again: nothing is installed, \
        and no file has a name there while it runs. It only reads.",
    after_help = after_help(),
    arg_required_else_help = true
)]
pub struct Cli {
    /// What holds for every command.
    #[command(flatten)]
    pub common: Common,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What holds for every command.
#[derive(Args, Debug)]
#[command(next_help_heading = "For every command")]
pub struct Common {
    /// Machine to look at: local, ssh:user@host:port, docker:name, podman:name, wsl:name, or
    /// snapshot:folder; russh: is ssh: with sysmcp's own SSH whatever is configured, openssh: with
    /// your ssh. Give it once for each of several machines [default: local]
    #[arg(long, global = true, value_name = "TARGET")]
    pub target: Option<Vec<String>>,
    /// Configuration file [default: ~/.config/sysmcp/config.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Sets of tools to offer, separated by commas: diagnose, selftest, capture, export [default:
    /// diagnose]
    #[arg(long, global = true, value_name = "SETS", value_delimiter = ',')]
    pub toolsets: Option<Vec<String>>,
    /// Further tools to offer, separated by commas
    #[arg(long, global = true, value_name = "TOOLS", value_delimiter = ',')]
    pub tools: Option<Vec<String>>,
    /// Tools not to offer, separated by commas
    #[arg(long, global = true, value_name = "TOOLS", value_delimiter = ',')]
    pub disable_tools: Option<Vec<String>>,
    /// Audit log [default: ~/.local/state/sysmcp/audit.jsonl, /var/log/sysmcp/audit.jsonl for root]
    #[arg(long, global = true, value_name = "FILE")]
    pub audit_log: Option<PathBuf>,
    /// Seconds that logging in may take, and then sending the agent; that has time enough for
    /// 20 kB/s anyway [default: 60]
    #[arg(long, global = true, value_name = "SECONDS")]
    pub connect_timeout: Option<u64>,
    /// Seconds of silence after which agent and controller give each other up [default: 30]
    #[arg(long, global = true, value_name = "SECONDS")]
    pub silence_limit: Option<u64>,
    /// Calls that may run at the same time on one machine [default: 4]
    #[arg(long, global = true, value_name = "COUNT")]
    pub max_calls: Option<usize>,
    /// Configuration for ssh, instead of your own: as `ssh -F`
    #[arg(long, global = true, value_name = "FILE")]
    pub ssh_config: Option<PathBuf>,
    /// Be root there: by sudo or doas of the login, or as root of a container; a password is asked for
    /// at the terminal, if there is one
    #[arg(long, global = true)]
    pub sudo: bool,
    /// Where no folder there lets files run, start the agent from memory, which overrules that policy;
    /// takes python3 or perl there
    #[arg(long, global = true)]
    pub in_memory: bool,
    /// Believe a host whose key is not known yet, and record it; one that has changed is refused
    #[arg(long, global = true)]
    pub accept_new: bool,
    /// Print what each step of connecting took, and the bytes each way
    #[arg(long, global = true)]
    pub timings: bool,
    /// Folder with agents, instead of those this file carries; for work on the agent
    #[arg(long, global = true, value_name = "FOLDER")]
    pub agents: Option<PathBuf>,
    /// Print no progress and no receipt
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve an AI agent: speak MCP on stdin and stdout
    #[command(after_help = AFTER_SERVE_HELP)]
    Serve,
    /// Ask one question and print the answer
    #[command(after_help = AFTER_CALL_HELP)]
    Call {
        /// Tool to ask; `sysmcp tools` lists them
        tool: String,
        /// The tool's parameters as a JSON object
        #[arg(long, value_name = "JSON", default_value = "{}")]
        params: String,
        /// Take one of the parameters, a text, from a file: `folded=old.folded`; `folded=-` from stdin
        #[arg(long, value_name = "NAME=FILE")]
        param_file: Vec<String>,
        /// Print the answer as JSON, as an AI agent would get it
        #[arg(long)]
        json: bool,
        /// Write what was recorded as a file for another program, too
        #[arg(long, value_name = "FORMAT", requires = "output")]
        export: Option<Format>,
        /// That file, for you alone
        #[arg(long, short, value_name = "FILE", requires = "export")]
        output: Option<PathBuf>,
        /// Replace it if it is there
        #[arg(long, requires = "export")]
        force: bool,
        /// Begin a picture with what runs, and go on to who called it
        #[arg(long, requires = "export")]
        reversed: bool,
    },
    /// Try what works on the target for this login, and print the remedy for what does not
    #[command(after_help = AFTER_PROBE_HELP)]
    Probe {
        /// Print it as JSON, as an AI agent would get it
        #[arg(long)]
        json: bool,
        /// Give every check a line of its own, with the questions it serves
        #[arg(long)]
        all: bool,
    },
    /// Take a machine's files along, to ask about this moment later
    #[command(after_help = AFTER_CAPTURE_HELP)]
    Capture {
        /// Folder for them, which is made; one that is there must be empty
        folder: PathBuf,
        /// Why it was taken, for whoever finds it
        #[arg(long, value_name = "TEXT", default_value = "")]
        why: String,
        /// Milliseconds between its two ends
        #[arg(long, value_name = "MS", default_value_t = 1000)]
        window_ms: u32,
        /// Bytes of all files together; processes that matter less are left out to fit
        #[arg(long, value_name = "BYTES", default_value_t = 262_144)]
        max_bytes: u32,
    },
    /// Write a recording that a running server holds as a file for another program
    #[command(after_help = AFTER_EXPORT_HELP)]
    Export {
        /// The recording's handle, as an answer names it: art- and eight hexadecimal digits
        artifact: ArtifactId,
        /// What to write it as
        #[arg(long, value_name = "FORMAT")]
        format: Format,
        /// File to write, for you alone; - is stdout [default: -]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Replace the file if it is there
        #[arg(long)]
        force: bool,
        /// Begin a picture with what runs, and go on to who called it
        #[arg(long)]
        reversed: bool,
        /// Draw what changed since another recording, which is an earlier or a healthy one
        #[arg(long, value_name = "ARTIFACT")]
        baseline: Option<ArtifactId>,
    },
    /// Find what sessions left on the target, and remove it
    #[command(after_help = AFTER_SWEEP_HELP)]
    Sweep {
        /// Only say what would be done
        #[arg(long)]
        dry_run: bool,
        /// End sessions that are alive, too
        #[arg(long)]
        live: bool,
        /// Print it as JSON, one line for each target
        #[arg(long)]
        json: bool,
    },
    /// List the tools that are offered
    Tools {
        /// Print them as JSON, with their schemas
        #[arg(long)]
        json: bool,
        /// List also those that are not offered
        #[arg(long)]
        all: bool,
    },
    /// Look into the audit log
    Audit {
        /// What to do with it
        #[command(subcommand)]
        command: AuditCommand,
    },
}

/// What to do with the audit log.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Check that no line was changed, removed or put in between
    Verify {
        /// Log to check, instead of the one in use
        file: Option<PathBuf>,
    },
    /// Print what was done as a shell script
    Script {
        /// Log to read, instead of the one in use
        file: Option<PathBuf>,
    },
}

impl Cli {
    /// Reads a command line, the program's name first.
    ///
    /// # Errors
    ///
    /// What is wrong with it, or the help that was asked for.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let words: Vec<OsString> = words.into_iter().collect();
        let cli = Self::try_parse_from(&words)?;
        // The parser passes over what stands before the command where there is some behind it too.
        let words = words.iter().map(|word| word.to_string_lossy());
        let named = words
            .take_while(|word| word != "--")
            .filter(|word| word == "--target" || word.starts_with("--target="))
            .count();
        if named > cli.common.target.as_ref().map_or(0, Vec::len) {
            let error = "some targets stand before the command and some behind it; name all of \
                         them before it";
            return Err(Self::command().error(ErrorKind::ArgumentConflict, error));
        }
        Ok(cli)
    }
}

impl Common {
    /// The settings that the flags say.
    pub fn settings(&self) -> Settings {
        Settings {
            target: self.target.clone(),
            toolsets: self.toolsets.clone(),
            tools: self.tools.clone(),
            disable_tools: self.disable_tools.clone(),
            audit_log: self.audit_log.clone(),
            connect_timeout_s: self.connect_timeout,
            silence_limit_s: self.silence_limit,
            max_calls: self.max_calls,
            ssh_config: self.ssh_config.clone(),
            agents: self.agents.clone(),
            sudo: self.sudo.then_some(true),
            in_memory: self.in_memory.then_some(true),
            accept_new: self.accept_new,
        }
    }
}

const AFTER_SERVE_HELP: &str = "\
An AI agent's client starts it. Most clients are told so like this:
  {\"mcpServers\": {\"web-1\": {
    \"command\": \"sysmcp\", \"args\": [\"--target\", \"ssh:deploy@web-1\", \"serve\"]}}}

With several targets, each --target of its own, every tool has one more parameter: `target`, which
has to be said. Each has a session and a limit of calls of its own: one that is slow or dead delays
no other.

It answers the client at once and connects to a target at its first call. ssh can ask nobody then: log in once
by hand, so that the host key is known, and have the key in an agent (ssh-add) if it wants a
passphrase.";

const AFTER_CALL_HELP: &str = "\
Examples:
  sysmcp call process_list
  sysmcp --target ssh:deploy@web-1 call process_list --params '{\"sort\":\"write\",\"limit\":5}'
  sysmcp --target ssh:deploy@web-1 call process_list --params '{\"group_by\":\"container\"}'
  sysmcp --target ssh:deploy@web-1 call process_inspect --params '{\"pid\":4711}' --json
  sysmcp --target ssh:deploy@web-1 --target ssh:deploy@web-2 call host_snapshot
  sysmcp call flamegraph_from_folded --param-file folded=old.folded
  sysmcp --target ssh:deploy@web-1 call perf_record --export svg --output web-1.svg

Several targets are asked at the same time, or the one that a parameter `target` names. Each answer
is printed under the name of its target as soon as it is there, with --json as one line; nobody is
asked for a passphrase. The exit code is the highest of any.

Each call connects, asks, and leaves nothing behind. Ctrl-C stops it on the target too.";

const AFTER_PROBE_HELP: &str = "\
Examples:
  sysmcp --target ssh:deploy@web-1 probe
  sysmcp --target ssh:deploy@web-1 probe --json

Nothing is changed on the target: a setting that is in the way is named with the command that lifts
it, for you to decide. Each thing is tried for real, and no version number is trusted. It takes about
a tenth of a second; up to three where programs like bpftrace are installed.";

const AFTER_CAPTURE_HELP: &str = "\
Examples:
  sysmcp --target ssh:deploy@web-1 capture web-1-slow --why 'slow since noon'
  sysmcp --target snapshot:web-1-slow call process_list

The files are those that the tools read, as they were at both ends of the window. Secrets are taken
out on the target; people, hosts, addresses and ids stand for others. Names of programs, services and
disks stay. Look through the folder before you give it to others.";

const AFTER_EXPORT_HELP: &str = "\
Examples:
  sysmcp export art-0badcafe --format svg --output web-1.svg
  sysmcp export art-0badcafe --format svg --reversed --output web-1-reversed.svg
  sysmcp export art-0badcafe --format svg --baseline art-0decade0 --output web-1-change.svg
  sysmcp export art-0badcafe --format pprof --output web-1.pb.gz
  sysmcp export art-0badcafe --format firefox --output web-1.profile.json

A recording stays on its target for as long as the session, which belongs to the `sysmcp serve` that
an AI agent's client started. So it must still run, as the same user on this machine; all that run
are asked. Nothing is measured or connected for it, and the call is in that server's audit log.

What the formats do not have is left out: addresses, and times. perf.data is none of them: it holds
what perf saw, and perf is not used. go tool pprof reads pprof, profiler.firefox.com and samply read
firefox, www.speedscope.app reads speedscope and folded.";

const AFTER_SWEEP_HELP: &str = "\
Examples:
  sysmcp --target ssh:deploy@web-1 sweep --dry-run
  sysmcp --target ssh:deploy@web-1 sweep
  sysmcp --target ssh:deploy@web-1 --sudo sweep
  sysmcp --target ssh:deploy@web-1 --target ssh:deploy@web-2 sweep

A session ends what it started, whatever becomes of the connection. Only where its supervisor is killed
or stopped there can something stay. A sweep finds it by the session's own mark: processes are killed,
folders named .sysmcp-TOKEN are removed where nothing else is in them, and nothing else is touched.
Sessions that are alive are listed and left alone; --live asks them to end, and then ends them.

Others' processes are out of sight: log in as that user, or look as root. The exit code is 23 where
something is left, or would be removed.";

fn after_help() -> String {
    let mut text = String::from(
        "Examples:\n  \
         sysmcp call process_list\n  \
         sysmcp --target ssh:deploy@web-1 call process_list --params '{\"sort\":\"rss\"}'\n  \
         sysmcp --target ssh:deploy@web-1 call process_inspect --params '{\"pid\":4711}' --json\n  \
         sysmcp --target ssh:deploy@web-1 probe\n  \
         sysmcp --target ssh:deploy@web-1 sweep --dry-run\n  \
         sysmcp --target ssh:deploy@web-1 serve\n\n\
         A flag beats a variable, a variable beats the configuration file. In a path, ~/ is the \
         home folder.\n\nVariables:\n",
    );
    for (name, meaning) in config::VARIABLES {
        text.push_str(&format!("  {name:<25} {meaning}\n"));
    }
    text.push_str("\nExit codes:\n");
    for (code, name, meaning) in exit::ALL {
        text.push_str(&format!("  {code:>3}  {name:<14} {meaning}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_target_is_passed_over() {
        let read = |line: &str| Cli::read(line.split(' ').map(OsString::from));
        let targets = |line: &str| read(line).map(|cli| cli.common.target.unwrap_or_default());
        let both = ["local", "ssh:a"];
        for line in [
            "sysmcp --target local --target ssh:a serve",
            "sysmcp --target local --target=ssh:a serve",
            "sysmcp serve --target local --target ssh:a",
        ] {
            assert_eq!(targets(line).unwrap(), both, "{line}");
        }
        assert!(targets("sysmcp serve").unwrap().is_empty());
        assert_eq!(targets("sysmcp --target local call -- --target").unwrap(), ["local"]);
        let error = read("sysmcp --target local serve --target ssh:a").unwrap_err().to_string();
        assert!(error.contains("name all of them before it"), "{error}");
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}

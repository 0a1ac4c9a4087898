//! One question, asked by a person on the machine itself.

use crate::{
    artifacts::Artifacts,
    call::{Context, Listener, Withdrawal},
    command_line::Question,
    exit::{self, complain},
    instruments::{self, syscall_trace},
    launch::{Command, Launch},
    os::launcher,
    proc::Root,
};
use protocol::{
    InstrumentId, Request,
    budget::Budget,
    error::AgentError,
    message::{Answer, Progress, RequestId, Streamed},
    question,
    view::{
        json::{self, MetaView},
        text::{self, Style},
    },
};
use rustix::{io::Errno, termios::isatty};
use serde_json::{Map, Value};
use std::{
    io::Write as _,
    sync::{Arc, Mutex},
};

/// What a person asks, as it was understood.
#[derive(Debug)]
pub struct Asked {
    request: Request,
    budget: Budget,
    launch: Option<Command>,
}

impl Asked {
    /// Reads a question, and finds the command that it is about.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and the exit code that says so.
    pub fn read(question: &Question) -> Result<Self, (String, i32)> {
        if question.launch.is_empty() {
            let question::Question { request, budget, .. } =
                read(&question.tool, parameters(question)?).map_err(usage)?;
            return Ok(Self { request, budget, launch: None });
        }
        let parameters = of_command(parameters(question)?).map_err(usage)?;
        let question::Question { request, budget, .. } =
            read(&question.tool, parameters).map_err(usage)?;
        let path = std::env::var_os("PATH");
        let launch = Command::find(&question.launch, path.as_deref())
            .map_err(|error| (error.to_string(), exit::NO_ANSWER))?;
        Ok(Self { request, budget, launch: Some(launch) })
    }

    /// Starts the process that may launch the command, and the command, which waits there. Before the agent
    /// gives up what a command of the person's own is to have.
    ///
    /// # Errors
    ///
    /// When there is no process to be had.
    pub fn launch(&self) -> Result<Option<Launch>, String> {
        let Some(command) = &self.launch else { return Ok(None) };
        let mut wanted = command.wanted().map_err(|error| error.to_string())?;
        let mut is_filtered = false;
        if let Request::SyscallTrace(request) = &self.request
            && let Some((own, foreign)) = syscall_trace::numbers(request)
        {
            wanted = wanted.stopping_at(&own, &foreign);
            is_filtered = true;
        }
        let pid = launcher::start(&wanted)
            .map_err(|errno| format!("no process to run the command in: {errno}"))?;
        Ok(Some(Launch::new(pid, command.clone(), is_filtered)))
    }
}

/// Answers the question. Returns the process's exit code.
pub fn run(question: &Question, asked: Asked, launch: Option<&Launch>) -> i32 {
    let root = match Root::open(question.snapshot.as_deref()) {
        Ok(root) => root,
        Err(error) => return complain(&error, exit::NO_ANSWER),
    };
    match answer(asked, launch, &root) {
        Ok(answer) => print(&shown(&answer, question, launch, &root)),
        Err(error) => {
            if let Some(why) = launch.and_then(Launch::not_run) {
                return complain(&why, exit::NO_ANSWER);
            }
            let remedy = error.remedy().map(|remedy| format!("\n{remedy}")).unwrap_or_default();
            complain(&format!("{error}{remedy}"), exit::NO_ANSWER)
        }
    }
}

fn usage(error: String) -> (String, i32) {
    (error, exit::USAGE)
}

fn parameters(question: &Question) -> Result<Map<String, Value>, (String, i32)> {
    serde_json::from_str(&question.parameters)
        .map_err(|error| usage(format!("--params is not a JSON object: {error}")))
}

/// The longest window of `syscall_trace`.
const LONGEST_WINDOW_MS: u32 = 60_000;

/// The parameters of a question about a command: it is what is traced, and how is settled. Who waits for a
/// command has time: the longest window unless another is asked for.
fn of_command(mut parameters: Map<String, Value>) -> Result<Map<String, Value>, String> {
    for name in ["pid", "start_ticks", "scope"] {
        if parameters.contains_key(name) {
            return Err(format!(
                "`{name}` does not go with a command after `--`, which is what is traced; leave \
                 one of them out"
            ));
        }
    }
    match parameters.remove("engine") {
        None => {}
        Some(Value::String(engine)) if engine == "ptrace" => {}
        Some(other) => {
            let other = protocol::host_text::printable(&other.to_string()).into_owned();
            return Err(format!(
                "a command after `--` is traced by the engine \"ptrace\", not by {other}; leave \
                 `engine` out"
            ));
        }
    }
    parameters.entry("window_ms").or_insert_with(|| LONGEST_WINDOW_MS.into());
    Ok(parameters)
}

fn read(tool: &str, parameters: Map<String, Value>) -> Result<question::Question, String> {
    let names: Vec<&str> = InstrumentId::ALL.iter().map(|id| id.name()).collect();
    let id = InstrumentId::ALL.iter().find(|id| id.name() == tool).ok_or_else(|| {
        let shown = protocol::host_text::HostText::new(tool.as_bytes());
        format!("no tool is called `{shown}`; there are {}", names.join(", "))
    })?;
    question::Question::read(*id, parameters).map_err(|error| format!("{}: {error}", id.name()))
}

fn answer(asked: Asked, launch: Option<&Launch>, root: &Root) -> Result<Answer, AgentError> {
    let artifacts = Mutex::new(Artifacts::default());
    // A command that was launched writes there itself.
    let shows_progress = launch.is_none() && isatty(rustix::stdio::stderr());
    let listener = Terminal { shows_progress };
    let mut budget = asked.budget;
    if launch.is_some() {
        // Nobody's service: who waits for the command pays for counting its calls.
        budget.cpu_ms = budget.deadline_ms;
    }
    let limits = (RequestId(0), budget, Arc::new(Withdrawal::default()));
    let mut context = Context::new(root, &artifacts, &listener, limits);
    context.launch = launch;
    let mut answer = instruments::run(asked.request, &context)?;
    // Nobody can ask about it: the store ends with this process.
    answer.meta.artifact = None;
    listener.finish();
    Ok(answer)
}

fn shown(answer: &Answer, question: &Question, launch: Option<&Launch>, root: &Root) -> String {
    let Answer { report, meta } = answer;
    let Ok((mut fields, nulls)) = json::fields(report) else { return String::new() };
    let target = if root.is_snapshot() { "another machine" } else { "this machine" };
    let mut view = MetaView::new(target, meta, nulls);
    if let Some(folder) = &question.snapshot {
        view.snapshot =
            Some(protocol::host_text::printable(&folder.to_string_lossy()).into_owned());
    }
    if question.json {
        if let Some(launch) = launch {
            fields.insert("command".to_owned(), launch.to_json());
        }
        let object = json::object(fields, &view).unwrap_or_default();
        let mut line = serde_json::Value::Object(object).to_string();
        line.push('\n');
        return line;
    }
    let stdout = rustix::stdio::stdout();
    let style = if isatty(stdout) {
        let width = rustix::termios::tcgetwinsize(stdout).map(|size| size.ws_col).ok();
        Style { color: true, width: width.filter(|width| *width > 0) }
    } else {
        Style::PLAIN
    };
    let mut tables = report.tables();
    if let Some(launch) = launch {
        tables.insert(0, launch.table());
    }
    text::answer(&tables, &view, style)
}

/// Prints to stdout. Returns the exit code. A reader that went away has what it wanted.
pub fn print(text: &str) -> i32 {
    match crate::os::stdout::write_all(text.as_bytes()) {
        Ok(()) | Err(Errno::PIPE) => exit::STOPPED,
        Err(errno) => complain(&format!("could not write to stdout: {errno}"), exit::NO_OUTPUT),
    }
}

/// A person's terminal: progress on one line that is written over.
struct Terminal {
    shows_progress: bool,
}

impl Terminal {
    fn finish(&self) {
        if self.shows_progress {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Listener for Terminal {
    fn progress(&self, progress: Progress) {
        if self.shows_progress {
            let _ = write!(std::io::stderr(), "\r\x1b[K{progress}");
        }
    }

    fn item(&self, _: Streamed) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(parameters: &str, launch: &[&str]) -> Result<Asked, (String, i32)> {
        Asked::read(&Question {
            tool: "syscall_trace".to_owned(),
            parameters: parameters.to_owned(),
            json: false,
            snapshot: None,
            launch: launch.iter().map(Into::into).collect(),
        })
    }

    #[test]
    fn a_command_takes_the_longest_window_unless_another_is_asked_for() {
        for (parameters, launch, want_ms) in [
            ("{}", &["sh"][..], LONGEST_WINDOW_MS),
            ("{\"window_ms\":500,\"engine\":\"ptrace\"}", &["sh"], 500),
            ("{}", &[], 3_000),
        ] {
            let asked = asked(parameters, launch).unwrap();
            assert_eq!(asked.request.window_ms(), want_ms, "{parameters}");
            assert_eq!(asked.launch.is_some(), !launch.is_empty());
        }
    }

    #[test]
    fn what_does_not_go_with_a_command_is_refused_by_name() {
        let cases = [
            ("{\"pid\":1}", "`pid` does not go with a command", exit::USAGE),
            ("{\"scope\":\"host\"}", "`scope` does not go", exit::USAGE),
            ("{\"engine\":\"ebpf\"}", "a command after `--` is traced by", exit::USAGE),
            ("{\"engine\":7}", "a command after `--` is traced by", exit::USAGE),
            ("{\"window_ms\":60001}", "syscall_trace: window_ms is 60001", exit::USAGE),
            ("{\"command\":[\"ls\"]}", "syscall_trace: ", exit::USAGE),
            ("[]", "--params is not a JSON object", exit::USAGE),
            ("{", "--params is not a JSON object", exit::USAGE),
            ("{}", "`no-such-program` is not found", exit::NO_ANSWER),
        ];
        for (parameters, want, want_code) in cases {
            let (error, code) = asked(parameters, &["no-such-program"]).unwrap_err();
            assert!(error.starts_with(want) && code == want_code, "{parameters}: {error} {code}");
        }
    }
}

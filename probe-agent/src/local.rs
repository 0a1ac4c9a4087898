//! One question, asked by a person on the machine itself.

use crate::{
    artifacts::Artifacts,
    call::{Context, Listener, Withdrawal},
    command_line::Question,
    exit::{self, complain},
    instruments,
    proc::Root,
};
use protocol::{
    InstrumentId,
    error::AgentError,
    message::{Answer, Progress, RequestId, Streamed},
    question::Question as Asked,
    view::{
        json::{self, MetaView},
        text::{self, Style},
    },
};
use rustix::{io::Errno, termios::isatty};
use std::{
    io::Write as _,
    sync::{Arc, Mutex},
};

/// Answers the question. Returns the process's exit code.
pub fn run(question: &Question) -> i32 {
    let asked = match read(question) {
        Ok(asked) => asked,
        Err(error) => return complain(&error, exit::USAGE),
    };
    let root = match Root::open(question.snapshot.as_deref()) {
        Ok(root) => root,
        Err(error) => return complain(&error, exit::NO_ANSWER),
    };
    match answer(asked, &root) {
        Ok(answer) => print(&shown(&answer, question, &root)),
        Err(error) => {
            let remedy = error.remedy().map(|remedy| format!("\n{remedy}")).unwrap_or_default();
            complain(&format!("{error}{remedy}"), exit::NO_ANSWER)
        }
    }
}

fn read(question: &Question) -> Result<Asked, String> {
    let names: Vec<&str> = InstrumentId::ALL.iter().map(|id| id.name()).collect();
    let id = InstrumentId::ALL.iter().find(|id| id.name() == question.tool).ok_or_else(|| {
        let shown = protocol::host_text::HostText::new(question.tool.as_bytes());
        format!("no tool is called `{shown}`; there are {}", names.join(", "))
    })?;
    let parameters = serde_json::from_str(&question.parameters)
        .map_err(|error| format!("--params is not a JSON object: {error}"))?;
    Asked::read(*id, parameters).map_err(|error| format!("{}: {error}", id.name()))
}

fn answer(asked: Asked, root: &Root) -> Result<Answer, AgentError> {
    let artifacts = Mutex::new(Artifacts::default());
    let listener = Terminal { shows_progress: isatty(rustix::stdio::stderr()) };
    let limits = (RequestId(0), asked.budget, Arc::new(Withdrawal::default()));
    let context = Context::new(root, &artifacts, &listener, limits);
    let mut answer = instruments::run(asked.request, &context)?;
    // Nobody can ask about it: the store ends with this process.
    answer.meta.artifact = None;
    listener.finish();
    Ok(answer)
}

fn shown(answer: &Answer, question: &Question, root: &Root) -> String {
    let Answer { report, meta } = answer;
    let Ok((fields, nulls)) = json::fields(report) else { return String::new() };
    let target = if root.is_snapshot() { "another machine" } else { "this machine" };
    let mut view = MetaView::new(target, meta, nulls);
    if let Some(folder) = &question.snapshot {
        view.snapshot =
            Some(protocol::host_text::printable(&folder.to_string_lossy()).into_owned());
    }
    if question.json {
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
    text::answer(&report.tables(), &view, style)
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

//! A recording that a running server holds, in a file.

use super::{MOMENT, complain, printed, signals::Signals};
use controller::{
    cli::Common,
    config::{self, Environment},
    exit,
    gate::{Gate, Rendered},
    profile::{Arriving, Destination, DestinationError, Document, Format, Limited, Profile},
    side_door::{self, NoRecording},
};
use protocol::{artifact::ArtifactId, error::AgentError};
use std::{
    io::{self, BufWriter, IsTerminal as _, Write as _},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{task::JoinHandle, time::timeout};

/// How a picture looks.
#[derive(Clone, Copy)]
pub struct Look {
    pub is_reversed: bool,
    /// What it is set beside.
    pub baseline: Option<ArtifactId>,
}

impl Look {
    /// What is wrong with it for a format.
    fn check(self, format: Format) -> Result<(), u8> {
        let Self { is_reversed, baseline } = self;
        let asked = match (is_reversed, baseline) {
            _ if format == Format::Svg => return Ok(()),
            (false, None) => return Ok(()),
            (true, _) => "--reversed",
            (false, Some(_)) => "--baseline",
        };
        let error = format!(
            "{asked} is of a picture, and --format {} is none: use --format svg, or leave it out",
            format.name()
        );
        Err(complain(&error, exit::USAGE))
    }
}

/// What is to be exported, and where to.
pub struct Wanted {
    pub artifact: ArtifactId,
    pub format: Format,
    pub look: Look,
    pub output: Option<PathBuf>,
    pub force: bool,
}

/// A file that what a call recorded goes to.
pub struct ToFile {
    pub format: Format,
    pub look: Look,
    pub output: PathBuf,
    pub force: bool,
}

/// The same, once it is known that it can be one.
pub struct Checked {
    destination: Destination,
    format: Format,
    look: Look,
}

impl ToFile {
    /// The file, if it can be one; else the exit code.
    pub fn checked(self) -> Result<Checked, u8> {
        let Self { format, look, output, force } = self;
        look.check(format)?;
        let destination = Destination::new(&output, force);
        let destination = destination.map_err(|error| complain(&error.to_string(), exit::USAGE))?;
        Ok(Checked { destination, format, look })
    }
}

/// Exports what a call has just recorded, before its session ends. Gives the exit code.
pub async fn of_answer(gate: &Gate, rendered: &Rendered, file: Checked, common: &Common) -> u8 {
    let Checked { destination, format, look } = file;
    let Some(artifact) = rendered.artifact else {
        return complain("this call left no recording, so none is exported", exit::NO_ANSWER);
    };
    let mut arriving = Arriving::default();
    let report = match gate.export(artifact, &mut |piece| arriving.accept(piece)).await {
        Ok(report) => report,
        Err(error) => return complain(&error.text(), error.exit_code()),
    };
    let profile = match arriving.finish(report) {
        Ok(profile) => profile,
        Err(error) => return complain(&error.to_string(), exit::NO_ANSWER),
    };
    let summary = profile.summary();
    let document = Document { is_reversed: look.is_reversed, ..Document::new(profile, format) };
    let code = Writing::start(document, Some(destination)).code().await;
    if code == exit::OK && !common.quiet {
        complain(&summary, exit::OK);
    }
    code
}

/// Exports a recording. Gives the exit code.
pub async fn export(common: &Common, environment: &Environment, wanted: Wanted) -> u8 {
    let Wanted { artifact, format, look, output, force } = wanted;
    if common.target.is_some() {
        let error = "export takes no target: the servers that run are asked for the recording";
        return complain(error, exit::USAGE);
    }
    if let Err(code) = look.check(format) {
        return code;
    }
    let file = output.filter(|path| path.as_os_str() != "-");
    if file.is_none() && format.is_binary() && io::stdout().is_terminal() {
        let name = format.name();
        let error = format!(
            "{name} is no text for a terminal; name a file: --output {artifact}.{}",
            format.ending()
        );
        return complain(&error, exit::USAGE);
    }
    let destination = match file.map(|path| Destination::new(&path, force)).transpose() {
        Ok(destination) => destination,
        Err(error) => return complain(&error.to_string(), exit::USAGE),
    };
    let mut signals = Signals::new();
    let tell = |words: &str| {
        if !common.quiet {
            complain(words, exit::OK);
        }
    };
    let document = tokio::select! {
        asked = ask(environment, (artifact, format, look), &tell) => match asked {
            Ok(document) => document,
            Err(code) => return code,
        },
        () = signals.any() => return complain("interrupted", exit::INTERRUPTED),
    };
    let summary = document.profile.summary();
    let mut writing = Writing::start(document, destination);
    let code = tokio::select! {
        code = writing.code() => code,
        () = signals.any() => {
            complain("interrupted", exit::INTERRUPTED);
            writing.give_up();
            // A reader of stdout that reads no more would be waited for without end.
            let _ = timeout(MOMENT, writing.code()).await;
            exit::INTERRUPTED
        }
    };
    if code == exit::OK {
        tell(&summary);
    }
    code
}

/// Asks the servers for a recording, and for what it is set beside. Else gives the exit code.
async fn ask(
    environment: &Environment,
    (artifact, format, look): (ArtifactId, Format, Look),
    tell: &dyn Fn(&str),
) -> Result<Document, u8> {
    let folders = config::servers(environment, config::is_root());
    let profile =
        side_door::ask(&folders, artifact, tell).await.map_err(|error| refused(&error))?;
    let baseline = match look.baseline {
        None => None,
        Some(earlier) => {
            let found = side_door::ask(&folders, earlier, tell).await;
            let found = found.map_err(|error| refused(&error))?;
            comparable(&profile, &found)?;
            Some(found)
        }
    };
    Ok(Document { profile, format, is_reversed: look.is_reversed, baseline })
}

fn refused(error: &NoRecording) -> u8 {
    let remedy = error.remedy().map(|remedy| format!(". {remedy}")).unwrap_or_default();
    complain(&format!("{error}{remedy}"), error.exit_code())
}

/// Shares of processor time and of page faults have nothing to do with one another.
fn comparable(after: &Profile, before: &Profile) -> Result<(), u8> {
    let [counted, baseline] = [after, before].map(|profile| profile.recording().counted);
    if counted == baseline {
        return Ok(());
    }
    let error = AgentError::NotComparable { counted, baseline };
    let remedy = error.remedy().map(|remedy| format!("; {remedy}")).unwrap_or_default();
    Err(complain(&format!("{error}{remedy}"), exit::USAGE))
}

/// A recording that a thread of its own writes, until this is dropped.
struct Writing {
    given_up: Arc<AtomicBool>,
    thread: JoinHandle<u8>,
}

impl Writing {
    /// Begins to write to a file, or to stdout.
    fn start(document: Document, destination: Option<Destination>) -> Self {
        let given_up = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&given_up);
        let thread = tokio::task::spawn_blocking(move || match destination {
            Some(destination) => match destination.write(&document, &seen) {
                Ok(()) => exit::OK,
                Err(_) if seen.load(Ordering::Relaxed) => exit::INTERRUPTED,
                Err(error @ DestinationError::There { .. }) => {
                    complain(&error.to_string(), exit::USAGE)
                }
                Err(error) => complain(&error.to_string(), exit::NO_OUTPUT),
            },
            None => {
                let mut out = BufWriter::new(Limited::new(io::stdout().lock(), &seen));
                printed(document.write(&mut out).and_then(|()| out.flush()))
            }
        });
        Self { given_up, thread }
    }

    /// The exit code, once it is written.
    async fn code(&mut self) -> u8 {
        (&mut self.thread).await.unwrap_or(exit::DEFECT)
    }

    fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.give_up();
    }
}

//! A recording that a running server holds, in a file.

use super::{complain, printed, signals::Signals};
use controller::{
    cli::Common,
    config::{self, Environment},
    exit,
    gate::{Gate, Rendered},
    profile::{Arriving, Destination, DestinationError, Format, Limited, Profile},
    side_door,
};
use protocol::artifact::ArtifactId;
use std::{
    io::{self, BufWriter, IsTerminal as _, Write as _},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// What is to be exported, and where to.
pub struct Wanted {
    pub artifact: ArtifactId,
    pub format: Format,
    pub output: Option<PathBuf>,
    pub force: bool,
}

/// A file that what a call recorded goes to.
pub struct ToFile {
    pub format: Format,
    pub output: PathBuf,
    pub force: bool,
}

impl ToFile {
    /// The file, if it can be one.
    pub fn destination(self) -> Result<(Destination, Format), DestinationError> {
        Ok((Destination::new(&self.output, self.force)?, self.format))
    }
}

/// Exports what a call has just recorded, before its session ends. Gives the exit code.
pub async fn of_answer(
    gate: &Gate,
    rendered: &Rendered,
    destination: &Destination,
    format: Format,
    common: &Common,
) -> u8 {
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
    match destination.write(&profile, format, &AtomicBool::new(false)) {
        Ok(()) if common.quiet => exit::OK,
        Ok(()) => complain(&profile.summary(), exit::OK),
        Err(error) => complain(&error.to_string(), exit::NO_OUTPUT),
    }
}

/// Exports a recording. Gives the exit code.
pub async fn export(common: &Common, environment: &Environment, wanted: Wanted) -> u8 {
    let Wanted { artifact, format, output, force } = wanted;
    if common.target.is_some() {
        let error = "export takes no target: the servers that run are asked for the recording";
        return complain(error, exit::USAGE);
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
    let folders = config::servers(environment, config::is_root());
    let tell = |words: &str| {
        if !common.quiet {
            complain(words, exit::OK);
        }
    };
    let profile = tokio::select! {
        profile = side_door::ask(&folders, artifact, &tell) => match profile {
            Ok(profile) => profile,
            Err(error) => {
                let remedy = error.remedy().map(|remedy| format!(". {remedy}")).unwrap_or_default();
                return complain(&format!("{error}{remedy}"), error.exit_code());
            }
        },
        () = signals.any() => return complain("interrupted", exit::INTERRUPTED),
    };
    let summary = profile.summary();
    let code = written(profile, format, destination, signals).await;
    if code == exit::OK {
        tell(&summary);
    }
    code
}

/// Writes it, and ends in order where that is given up.
async fn written(
    profile: Profile,
    format: Format,
    destination: Option<Destination>,
    mut signals: Signals,
) -> u8 {
    let given_up = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&given_up);
    let mut writing = tokio::task::spawn_blocking(move || match destination {
        Some(destination) => match destination.write(&profile, format, &seen) {
            Ok(()) => exit::OK,
            Err(_) if seen.load(Ordering::Relaxed) => exit::INTERRUPTED,
            Err(error @ DestinationError::There { .. }) => {
                complain(&error.to_string(), exit::USAGE)
            }
            Err(error) => complain(&error.to_string(), exit::NO_OUTPUT),
        },
        None => {
            let mut out = BufWriter::new(Limited::new(io::stdout().lock(), &seen));
            printed(profile.write(format, &mut out).and_then(|()| out.flush()))
        }
    });
    tokio::select! {
        code = &mut writing => code.unwrap_or(exit::DEFECT),
        () = signals.any() => {
            given_up.store(true, Ordering::Relaxed);
            complain("interrupted", exit::INTERRUPTED);
            // A reader of stdout that reads no more would be waited for without end.
            let _ = tokio::time::timeout(super::MOMENT, writing).await;
            exit::INTERRUPTED
        }
    }
}

//! Programs to be looked at, which end with the test, however it ends; and those of them that are
//! written in C, because they do what Rust has no safe form for.

use anyhow::{Context as _, Result, ensure};
use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// How long a program has to end by itself, where the end of its stdin tells it to.
const PATIENCE: Duration = Duration::from_secs(20);

/// A program that is ended when this is dropped: by the end of its stdin, or else killed.
#[derive(Debug)]
pub struct Victim(pub Child);

impl Victim {
    /// Starts a program.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::null()).spawn();
        Ok(Self(child.with_context(|| format!("could not start {command:?}"))?))
    }

    /// Starts a program that says a line once it is what it should be, and gives that line. Its
    /// stdin stays open.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or ends without a line.
    pub fn start_and_wait(command: &mut Command) -> Result<(Self, String)> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut victim = Self(child.with_context(|| format!("could not start {command:?}"))?);
        let mut line = String::new();
        let stdout = victim.0.stdout.take().context("no stdout")?;
        BufReader::new(stdout).read_line(&mut line)?;
        ensure!(line.ends_with('\n'), "{command:?} ended, and said {line:?}");
        Ok((victim, line.trim_end().to_owned()))
    }

    /// Starts a program by its words, silent, and lets it change its user or its program first.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or there are no words.
    pub fn settled(words: &[&str]) -> Result<Self> {
        let (program, rest) = words.split_first().context("no program")?;
        let victim = Self::start(Command::new(program).args(rest).stdout(Stdio::null()))?;
        sleep(Duration::from_millis(300));
        Ok(victim)
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // One that has made others ends them first.
        if self.0.stdin.take().is_some() {
            let closed = Instant::now();
            while matches!(self.0.try_wait(), Ok(None)) && closed.elapsed() < PATIENCE {
                sleep(Duration::from_millis(5));
            }
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds a program from its one source file, below the folder of the tests.
///
/// # Errors
///
/// When there is no compiler, or it complains.
pub fn built(source: &str, folder: &Path) -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source);
    let program = folder.join(source.file_stem().context("no name")?);
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source);
    let status = compiler.status().context("could not run cc")?;
    ensure!(status.success(), "{} is not built", source.display());
    Ok(program)
}

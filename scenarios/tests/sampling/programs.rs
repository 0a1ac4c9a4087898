//! Programs whose time is known, and sessions that record them.

use scenarios::{client::Client, sysmcp::Sysmcp};
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::Duration,
};

pub const PATIENCE: Duration = Duration::from_secs(120);

/// A program that runs, and is ended with this.
pub struct Running(Child);

impl Running {
    /// Starts it, and waits until it is ready.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `fixtures/binaries/two_ways.c`, compiled once for all tests of a run.
pub fn two_ways() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/binaries/two_ways.c");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("two_ways");
        let status = Command::new("cc")
            .args(["-g", "-O2", "-fomit-frame-pointer", "-o"])
            .args([&program, &source])
            .status()
            .unwrap();
        assert!(status.success(), "cc");
        program
    })
}

/// A hot function that is reached in two ways, so many of a hundred times in the first.
pub fn hot(first_of_100: u32) -> Running {
    Running::start(Command::new(two_ways()).arg(first_of_100.to_string()))
}

/// A program that waits.
pub fn idle() -> Running {
    Running::start(Command::new(two_ways()).arg("idle"))
}

/// A session with this machine.
pub struct Session(pub Client);

impl Session {
    pub fn start() -> Self {
        Self::of(Sysmcp::local().unwrap().command())
    }

    pub fn of(command: Command) -> Self {
        Self(Client::start(command).unwrap())
    }

    /// What a tool says, and whether that is an error.
    pub fn call(&mut self, tool: &str, parameters: &Value) -> (Value, bool) {
        let answer = self.0.call(tool, parameters, PATIENCE).unwrap();
        let is_error = answer["isError"] == json!(true);
        let said = &answer["structuredContent"];
        (if said.is_null() { answer.clone() } else { said.clone() }, is_error)
    }

    /// An answer that is none of an error.
    pub fn answer(&mut self, tool: &str, parameters: &Value) -> Value {
        let (answer, is_error) = self.call(tool, parameters);
        assert!(!is_error, "{tool} {parameters}: {answer:#}");
        answer
    }

    /// A recording with so many samples: it takes longer where the machine is busy.
    pub fn record(&mut self, least: u64, parameters: &Value) -> Value {
        let mut parameters = parameters.clone();
        parameters["hertz"] = json!(999);
        for window_ms in [1_500, 5_000, 20_000] {
            parameters["window_ms"] = json!(window_ms);
            let answer = self.answer("perf_record", &parameters);
            if answer["recording"]["samples"].as_u64().unwrap() >= least {
                return answer;
            }
        }
        panic!("fewer than {least} samples in 20 s: {parameters}");
    }

    /// A further question about a recording.
    pub fn report(&mut self, recording: &Value, parameters: Value) -> Value {
        let mut parameters = parameters;
        parameters["artifact"] = recording["meta"]["artifact"].clone();
        self.answer("perf_report", &parameters)
    }
}

/// Whether a share in percent is another's, within four times what chance makes of so many samples.
pub fn is_about(found: &Value, wanted: f64, samples: &Value) -> bool {
    let (found, samples) = (found.as_f64().unwrap(), samples.as_f64().unwrap());
    let part = wanted / 100.0;
    (found - wanted).abs() <= 400.0 * (part * (1.0 - part) / samples).sqrt() + 2.0
}

//! Programs that make a known number of system calls, and wait until they may.

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use scenarios::accuracy::workload::compile;
use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Instant,
};

/// Rounds of a call or three, which takes some hundredths of a second.
const ROUNDS: u64 = 40_000;

/// A program.
pub struct Workload {
    pub name: &'static str,
    /// The words that start it. It waits for a line on its stdin.
    words: Vec<String>,
    /// System calls that it makes then.
    pub calls: u64,
}

/// All of them.
pub fn all(folder: &Path) -> Result<[Workload; 2]> {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("calls.c");
    compile(folder, &["gcc", "-O2", "-o", "calls", &source.display().to_string()])?;
    let (program, file) = (folder.join("calls").display().to_string(), folder.join("file"));
    fs::write(&file, "x")?;
    let file = file.display().to_string();
    // The shell becomes dd, so its pid is known before dd makes a call.
    let dd =
        format!("read line; exec dd if=/dev/zero of=/dev/null bs=1 count={ROUNDS} status=none");
    Ok([
        Workload {
            name: "opening, reading and closing a file",
            words: vec![program, ROUNDS.to_string(), file],
            calls: 3 * ROUNDS,
        },
        Workload {
            name: "`dd bs=1`",
            words: ["sh", "-c", &dd].map(str::to_owned).to_vec(),
            calls: 2 * ROUNDS,
        },
    ])
}

/// Two processes that wait for each other all the time.
pub fn ping_pong(folder: &Path) -> Result<Workload> {
    const ROUNDS: u64 = 100_000;
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("pingpong.c");
    compile(folder, &["gcc", "-O2", "-o", "pingpong", &source.display().to_string()])?;
    let program = folder.join("pingpong").display().to_string();
    let words = vec![program, ROUNDS.to_string()];
    Ok(Workload { name: "two processes that hand each other a byte", words, calls: 4 * ROUNDS })
}

/// What a program used.
#[derive(Clone, Copy, Default)]
pub struct Used {
    pub cpu_s: f64,
    pub wall_s: f64,
}

/// One that was started, and is ended with this.
pub struct Started(Child);

impl Workload {
    pub fn start(&self) -> Result<Started> {
        let (program, arguments) = self.words.split_first().context("no words")?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null());
        Ok(Started(command.spawn().with_context(|| format!("could not start {program}"))?))
    }
}

impl Started {
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Lets it work to its end.
    pub fn run(mut self) -> Result<Used> {
        let before_s = self.cpu_s()?;
        let started = Instant::now();
        self.0.stdin.take().context("no stdin")?.write_all(b"\n")?;
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).context("no pid")?;
        // It stays to be read.
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
        let wall_s = started.elapsed().as_secs_f64();
        let cpu_s = self.cpu_s()? - before_s;
        let status = self.0.wait()?;
        ensure!(status.success(), "it failed: {status}");
        Ok(Used { cpu_s, wall_s })
    }

    /// Its processor time: the first field of `schedstat`, in nanoseconds
    /// (Documentation/scheduler/sched-stats.rst).
    fn cpu_s(&self) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.0.id()))?;
        let nanos: f64 = text.split_whitespace().next().context("an empty schedstat")?.parse()?;
        Ok(nanos / 1e9)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

//! What one would type instead.

use super::{HEAD_START, has_tracer};
use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// How one sees that it is at work.
#[derive(Clone, Copy)]
enum Sign {
    /// The program has a tracer.
    Tracer,
    /// It holds events of the kernel.
    Events,
}

#[derive(Clone, Copy)]
pub struct Peer {
    pub name: &'static str,
    program: &'static str,
    /// With PID and FOLDER for what is known later.
    words: &'static [&'static str],
    sign: Sign,
}

/// What follows waits.
pub const OF_WAITS: [Peer; 2] = [
    Peer {
        name: "`perf sched record`, everything that runs",
        program: "perf",
        words: &["sched", "record", "-o", "FOLDER/traced", "-a"],
        sign: Sign::Events,
    },
    Peer {
        name: "`perf record -e sched:sched_switch -g`",
        program: "perf",
        words: &["record", "-e", "sched:sched_switch", "-g", "-o", "FOLDER/traced", "-p", "PID"],
        sign: Sign::Events,
    },
];

pub const ALL: [Peer; 4] = [
    Peer {
        name: "`strace -c`",
        program: "strace",
        words: &["-f", "-c", "-o", "FOLDER/traced", "-p", "PID"],
        sign: Sign::Tracer,
    },
    Peer {
        name: "`strace -f -T`, into a file",
        program: "strace",
        words: &["-f", "-T", "-o", "FOLDER/traced", "-p", "PID"],
        sign: Sign::Tracer,
    },
    Peer {
        name: "`perf trace -s`",
        program: "perf",
        words: &["trace", "-s", "-o", "FOLDER/traced", "-p", "PID"],
        sign: Sign::Events,
    },
    Peer {
        name: "`bpftrace`, counts and times by call",
        program: "bpftrace",
        words: &[
            "-o",
            "FOLDER/traced",
            "-e",
            "tracepoint:raw_syscalls:sys_enter /pid == PID/ { @at[tid] = nsecs; }
             tracepoint:raw_syscalls:sys_exit /@at[tid]/ {
                @calls[args->id] = count(); @ns[args->id] = sum(nsecs - @at[tid]); delete(@at[tid]); }",
        ],
        sign: Sign::Events,
    },
];

const PATIENCE: Duration = Duration::from_secs(30);

impl Peer {
    /// Why it cannot be asked.
    pub fn missing(&self) -> Option<String> {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let is_there = std::env::split_paths(&paths).any(|path| path.join(self.program).is_file());
        (!is_there).then(|| format!("{} is not installed", self.program))
    }

    /// Starts it, and waits until it is at work.
    pub fn start(&self, folder: &Path, pid: u32) -> Result<Tracing> {
        let folder = folder.display().to_string();
        let fill = |word: &&str| word.replace("PID", &pid.to_string()).replace("FOLDER", &folder);
        let mut command = Command::new(self.program);
        command.args(self.words.iter().map(fill)).env("PERF_CONFIG", "/dev/null");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("could not start {}", self.program))?;
        let tracing = Tracing(child);
        let started = Instant::now();
        while !self.is_at_work(tracing.0.id(), pid) {
            if started.elapsed() > PATIENCE {
                bail!("{} is not at work after {} s", self.name, PATIENCE.as_secs());
            }
            sleep(Duration::from_millis(10));
        }
        sleep(HEAD_START);
        Ok(tracing)
    }

    fn is_at_work(&self, own: u32, traced: u32) -> bool {
        match self.sign {
            Sign::Tracer => has_tracer(traced),
            Sign::Events => {
                let open = fs::read_dir(format!("/proc/{own}/fd")).into_iter().flatten().flatten();
                let links = open.filter_map(|entry| fs::read_link(entry.path()).ok());
                links.into_iter().any(|link| link.as_os_str() == "anon_inode:[perf_event]")
            }
        }
    }
}

/// A tracer at work, which is told to end as Ctrl-C does.
pub struct Tracing(Child);

impl Drop for Tracing {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::INT);
        }
        let _ = self.0.wait();
    }
}

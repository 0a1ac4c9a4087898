//! A host with known faults, and the truth about them.

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use scenarios::{faults::Fault, programs, service::Scenario, victim::Victim};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs,
    os::unix::process::CommandExt as _,
    process::Command,
    time::{Duration, Instant},
};

/// For how long the busy program does nothing at first: its average over its life is low for long.
pub(super) const IDLE: Duration = Duration::from_secs(20);

/// What runs, until this is dropped.
pub(super) struct Load {
    pub(super) busy: Victim,
    /// A program that wants a whole processor, in the service's cgroup: that of a built service needs
    /// less than its quota.
    pub(super) limited: Victim,
    /// Behind what is in its cgroup, which is removed with it.
    quota: Scenario,
    pub(super) deaf: Victim,
    writer: Victim,
    folder: tempfile::TempDir,
}

/// Writes that each wait until they are on the disk, so many in one go.
const WRITES: u32 = 100;

impl Load {
    pub(super) fn start() -> Result<Self> {
        // Below the folder for builds: `/tmp` may be in memory.
        let folder = tempfile::tempdir_in(programs::scenarios().parent().context("no folder")?)?;
        let mut busy = Command::new(programs::scenarios());
        busy.arg0("busy").args(["burn", "--seconds", "600", "--idle", &IDLE.as_secs().to_string()]);
        let script = format!(
            "while :; do dd if=/dev/zero of=written bs=4k count={WRITES} oflag=dsync 2>> log; done"
        );
        let mut writer = Command::new("sh");
        writer.args(["-c", &script, "writer"]).current_dir(folder.path()).process_group(0);
        // It waits until its child, which shares its memory, runs another program or ends.
        let clone = if cfg!(target_arch = "x86_64") { 56 } else { 220 };
        let wait = format!("syscall({clone}, 0x4011, 0, 0, 0, 0) or sleep 600; sleep 600");
        let mut deaf = Command::new("perl");
        deaf.arg0("deaf").args(["-e", &wait]).process_group(0);
        let mut limited = Command::new(programs::scenarios());
        limited.arg0("limited").args(["burn", "--seconds", "600"]);
        let load = Self {
            busy: Victim::start(&mut busy)?,
            limited: Victim::start(&mut limited)?,
            quota: Scenario::start(Fault::QuotaTooSmall)?,
            deaf: Victim::start(&mut deaf)?,
            writer: Victim::start(&mut writer)?,
            folder,
        };
        let members = load.cpu_stat()?.replace("cpu.stat", "cgroup.procs");
        fs::write(members, load.limited.pid().to_string())?;
        Ok(load)
    }

    /// The file in which the kernel counts how often what has the quota was stopped.
    pub(super) fn cpu_stat(&self) -> Result<String> {
        let cgroups = fs::read_to_string(format!("/proc/{}/cgroup", self.quota.pid()))?;
        let found = cgroups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let is_cpu = controllers.split(',').any(|name| name == "cpu");
            let folders = [
                format!("/sys/fs/cgroup/cpu{path}/cpu.stat"),
                format!("/sys/fs/cgroup/{controllers}{path}/cpu.stat"),
                format!("/sys/fs/cgroup{path}/cpu.stat"),
            ];
            let exists = |path: &String| fs::exists(path).unwrap_or(false);
            (is_cpu || controllers.is_empty()).then(|| folders.into_iter().find(exists))?
        });
        found.context("the service is in no cgroup with a quota")
    }
}

impl Drop for Load {
    /// Ends also what the programs have started.
    fn drop(&mut self) {
        for leader in [&self.deaf, &self.writer] {
            let group = i32::try_from(leader.pid()).ok().and_then(Pid::from_raw);
            if let Some(group) = group {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
    }
}

/// Counters at one moment, or what they grew by.
pub(super) struct Truth {
    at: Instant,
    busy_ticks: f64,
    all_ticks: f64,
    process_ticks: f64,
    pub(super) periods: u64,
    pub(super) throttled: u64,
    io_some_us: u64,
    writes: u64,
    writes_ms: u64,
    pub(super) busy_pct: f64,
    pub(super) busy_process_pct: f64,
    pub(super) io_some_pct: f64,
    pub(super) write_ms: f64,
    pub(super) dsync_ms: f64,
}

impl Truth {
    /// Reads the counters, and how long the writer's last writes took by its own account.
    pub(super) fn read(load: &Load) -> Result<Self> {
        let stat = fs::read_to_string("/proc/stat")?;
        let first = stat.lines().next().unwrap_or_default();
        // User to steal; guests are counted in user.
        let ticks: Vec<f64> = first
            .split_whitespace()
            .skip(1)
            .take(8)
            .filter_map(|field| field.parse().ok())
            .collect();
        let idle: f64 = ticks.iter().skip(3).take(2).sum();
        let all: f64 = ticks.iter().sum();
        let cpu_stat = fs::read_to_string(load.cpu_stat()?)?;
        let counter = |name: &str| -> Result<u64> {
            let line = cpu_stat.lines().find_map(|line| line.strip_prefix(name));
            Ok(line.with_context(|| format!("no {name}"))?.trim().parse()?)
        };
        let pressure = fs::read_to_string("/proc/pressure/io")?;
        let total = pressure.lines().next().and_then(|line| line.rsplit_once("total="));
        let disks = fs::read_to_string("/proc/diskstats")?;
        let disk = disk_line(&disks);
        let disk: Vec<&str> = disk.as_str().unwrap_or_default().split_whitespace().collect();
        let field = |index: usize| disk.get(index).and_then(|field| field.parse().ok());
        Ok(Self {
            at: Instant::now(),
            busy_ticks: all - idle,
            all_ticks: all,
            process_ticks: crate::cpu_s(&format!("/proc/{}/stat", load.busy.pid()), 14)?,
            periods: counter("nr_periods ")?,
            throttled: counter("nr_throttled ")?,
            io_some_us: total.context("no pressure")?.1.parse()?,
            writes: field(7).unwrap_or_default(),
            writes_ms: field(10).unwrap_or_default(),
            busy_pct: 0.0,
            busy_process_pct: 0.0,
            io_some_pct: 0.0,
            write_ms: 0.0,
            dsync_ms: dsync_ms(load)?,
        })
    }

    /// What happened since an earlier moment.
    pub(super) fn since(self, before: &Self) -> Self {
        let seconds = self.at.duration_since(before.at).as_secs_f64();
        let io_some_s = (self.io_some_us - before.io_some_us) as f64 / 1e6;
        let writes = (self.writes - before.writes).max(1) as f64;
        Self {
            busy_pct: 100.0 * (self.busy_ticks - before.busy_ticks)
                / (self.all_ticks - before.all_ticks),
            busy_process_pct: 100.0 * (self.process_ticks - before.process_ticks) / seconds,
            io_some_pct: 100.0 * io_some_s / seconds,
            write_ms: (self.writes_ms - before.writes_ms) as f64 / writes,
            periods: self.periods - before.periods,
            throttled: self.throttled - before.throttled,
            ..self
        }
    }
}

/// Milliseconds for each write, by what `dd` said last: `409600 bytes … copied, 0.5 s, …`.
fn dsync_ms(load: &Load) -> Result<f64> {
    let log = fs::read_to_string(load.folder.path().join("log"))?;
    let last = log.lines().rev().find_map(|line| line.split("copied, ").nth(1));
    let seconds = last.and_then(|rest| rest.split_whitespace().next());
    let seconds: f64 = seconds.context("the writer has said nothing yet")?.parse()?;
    Ok(seconds * 1e3 / f64::from(WRITES))
}

/// The line of the disk with the most writes.
pub(super) fn disk_line(text: &str) -> Value {
    let writes = |line: &&str| {
        let field = line.split_whitespace().nth(7);
        field.and_then(|field| field.parse::<u64>().ok()).unwrap_or_default()
    };
    json!(text.lines().max_by_key(writes).unwrap_or_default().trim())
}

/// The line that starts with a number.
pub(super) fn line(text: &str, number: u32) -> Value {
    let is_it = |line: &&str| line.split_whitespace().next() == Some(&number.to_string());
    json!(text.lines().find(is_it).unwrap_or("it is not there").trim())
}

/// Sockets, cores and processors, by the kernel's folders.
pub(super) fn topology() -> Result<String> {
    let (mut sockets, mut cores, mut processors) = (BTreeSet::new(), BTreeSet::new(), 0);
    for entry in fs::read_dir("/sys/devices/system/cpu")? {
        let folder = entry?.path().join("topology");
        let read = |name| fs::read_to_string(folder.join(name));
        if let (Ok(socket), Ok(core)) = (read("physical_package_id"), read("core_id")) {
            cores.insert((socket.clone(), core));
            sockets.insert(socket);
            processors += 1;
        }
    }
    Ok(format!(
        "{} sockets, {} cores, {processors} threads, by `/sys/devices/system/cpu`",
        sockets.len(),
        cores.len()
    ))
}

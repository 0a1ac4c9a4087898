//! Who is watched: for every object that includes `probe-agent/bpf/scope.h`.

use super::{Loaded, NoBpf};
use crate::{
    perf::sampler,
    proc::{Root, pid_stat},
};
use rustix::{
    fd::{AsFd as _, BorrowedFd, OwnedFd},
    fs::{Mode, OFlags},
    io::Errno,
};

/// What is watched, as the programs are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    watch: u32,
    cgroup_level: u32,
    cgroup_id: u64,
    processes: Vec<u32>,
    apart: Vec<u32>,
}

/// The numbers of `scope.h`.
const HOST: u32 = 0;
const PROCESSES: u32 = 1;
const CGROUP: u32 = 2;
const PERF_CGROUP: u32 = 3;

/// Room for processes that are not seen.
const MOST_APART: usize = 16;

/// The section with the settings, and the map that it becomes.
const SETTINGS: &str = ".data.scope";

/// Where children that had no room stand in the settings.
const UNFOLLOWED: std::ops::Range<usize> = 16..24;

/// What carries a channel to an agent, by the start of its name: servers, what makes somebody root, and
/// the shells between them.
const CARRIERS: [&[u8]; 19] = [
    b"sshd",
    b"dropbear",
    b"sudo",
    b"su",
    b"doas",
    b"sh",
    b"bash",
    b"dash",
    b"zsh",
    b"fish",
    b"ksh",
    b"mksh",
    b"csh",
    b"tcsh",
    b"ash",
    b"busybox",
    b"sysmcp",
    b"docker",
    b"podman",
];

impl Scope {
    /// The same as for samples, without the agent and what carries its channel. A process that was
    /// asked for is seen, whatever it carries.
    ///
    /// # Errors
    ///
    /// That a control group cannot be told to the kernel.
    pub fn of(scope: &sampler::Scope, root: &Root) -> Result<Self, NoBpf> {
        let mut told = Self {
            watch: HOST,
            cgroup_level: 0,
            cgroup_id: 0,
            processes: Vec::new(),
            apart: apart(root),
        };
        match scope {
            sampler::Scope::Host => {}
            sampler::Scope::Process(pid) => (told.watch, told.processes) = (PROCESSES, vec![*pid]),
            sampler::Scope::Processes(pids) => {
                (told.watch, told.processes) = (PROCESSES, pids.clone());
            }
            sampler::Scope::Cgroup(folder) => {
                let (level, id) = place_of(folder.as_fd())?;
                let is_unified = is_unified(folder.as_fd())?;
                told.watch = if is_unified { CGROUP } else { PERF_CGROUP };
                (told.cgroup_level, told.cgroup_id) = (level, id);
            }
        }
        told.apart.retain(|pid| !told.processes.contains(pid));
        told.apart.truncate(MOST_APART);
        Ok(told)
    }

    /// Tells it to an object. Before its programs are attached.
    ///
    /// # Errors
    ///
    /// What the kernel answered; `E2BIG` where there are more processes than the object has room for.
    pub fn apply(&self, loaded: &Loaded) -> Result<(), NoBpf> {
        let watched = loaded.map("watched")?;
        for pid in &self.processes {
            watched.set(&pid.to_ne_bytes(), &[1])?;
        }
        loaded.map(SETTINGS)?.set(&0_u32.to_ne_bytes(), &self.settings())?;
        Ok(())
    }

    /// The program to attach with one's own, before them: it follows what watched processes fork.
    pub const fn follower(&self) -> &'static [&'static str] {
        if self.watch == PROCESSES { &["follow_fork"] } else { &[] }
    }

    /// Children of watched processes that had no room, and were not seen.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn unfollowed(loaded: &Loaded) -> Result<u64, NoBpf> {
        let settings = loaded.map(SETTINGS)?.get(&0_u32.to_ne_bytes())?.unwrap_or_default();
        let count = settings.get(UNFOLLOWED).and_then(|bytes| bytes.first_chunk());
        Ok(count.map_or(0, |bytes| u64::from_ne_bytes(*bytes)))
    }

    /// `struct scope_settings`.
    fn settings(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(UNFOLLOWED.end + 4 * MOST_APART);
        bytes.extend(self.watch.to_ne_bytes());
        bytes.extend(self.cgroup_level.to_ne_bytes());
        bytes.extend(self.cgroup_id.to_ne_bytes());
        bytes.extend(0_u64.to_ne_bytes());
        bytes.extend(self.apart.iter().flat_map(|pid| pid.to_ne_bytes()));
        bytes.resize(UNFOLLOWED.end + 4 * MOST_APART, 0);
        bytes
    }

    /// Processes that are not seen.
    pub fn apart(&self) -> &[u32] {
        &self.apart
    }
}

/// How many groups are above one, and its number. The number of a folder is that of its group
/// (`kernfs_node_id`), since Linux 5.5 on processors with 64 bits; the top's is 1.
fn place_of(folder: BorrowedFd<'_>) -> Result<(u32, u64), NoBpf> {
    /// Deeper than any.
    const MOST_LEVELS: u32 = 64;
    let id = rustix::fs::fstat(folder)?.st_ino;
    let mut above: Option<OwnedFd> = None;
    let mut level = 0;
    loop {
        let here = above.as_ref().map_or(folder, |above| above.as_fd());
        if rustix::fs::fstat(here)?.st_ino == 1 {
            return Ok((level, id));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let next = rustix::fs::openat(here, "..", flags, Mode::empty())?;
        // What is above the top of the mount is another file system: the groups there are not shown.
        let is_top = rustix::fs::fstat(&next)?.st_dev != rustix::fs::fstat(here)?.st_dev;
        if is_top || level == MOST_LEVELS {
            return Err(NoBpf::PidNamespace);
        }
        (above, level) = (Some(next), level + 1);
    }
}

fn is_unified(folder: BorrowedFd<'_>) -> Result<bool, Errno> {
    const CGROUP2: i128 = 0x6367_7270;
    // The field is signed or not, by the C library.
    Ok(i128::from(rustix::fs::fstatfs(folder)?.f_type) == CGROUP2)
}

/// The agent's own processes, and what carries its channel.
pub fn apart(root: &Root) -> Vec<u32> {
    let own = std::process::id();
    let mut apart = vec![own];
    let (mut pid, mut pids) = (own, Vec::new());
    let own_name = Line::read(root, own).map(|line| line.name).unwrap_or_default();
    // What the supervisor started: the spawner, beside this process. By hand there is no supervisor.
    if let Some(supervisor) = Line::read(root, own).map(|line| line.parent)
        && Line::read(root, supervisor).is_some_and(|line| line.name == own_name)
    {
        apart.push(supervisor);
        children(root, supervisor, &mut pids);
        apart.extend(pids.iter().copied().filter(|pid| *pid != own));
        pid = supervisor;
    }
    children(root, own, &mut pids);
    apart.extend(&pids);
    // Upwards, as far as it is still this session's.
    while let Some(line) = Line::read(root, pid).and_then(|line| Line::read(root, line.parent)) {
        let is_carrier = CARRIERS.iter().any(|name| line.name.starts_with(name));
        if !is_carrier || apart.len() >= MOST_APART || line.listens(root) {
            break;
        }
        apart.push(line.pid);
        pid = line.pid;
    }
    apart
}

/// Processes that a process started, where the kernel lists them.
fn children(root: &Root, pid: u32, children: &mut Vec<u32>) {
    children.clear();
    let mut text = Vec::new();
    if root.read_proc(&format!("{pid}/task/{pid}/children"), &mut text).is_ok() {
        let numbers = text.split(u8::is_ascii_whitespace);
        children.extend(
            numbers.filter_map(|number| std::str::from_utf8(number).ok()?.parse::<u32>().ok()),
        );
    }
}

/// What matters of a process here.
struct Line {
    pid: u32,
    parent: u32,
    name: Vec<u8>,
}

impl Line {
    fn read(root: &Root, pid: u32) -> Option<Self> {
        let mut buffer = [0; 1024];
        let text = root.read_proc_once(&format!("{pid}/stat"), &mut buffer).ok()?;
        let stat = pid_stat::parse(text).ok()?;
        Some(Self { pid, parent: stat.parent_pid, name: stat.name.to_vec() })
    }

    /// Whether it is the server that waits for logins, which carries nothing itself.
    fn listens(&self, root: &Root) -> bool {
        let mut text = Vec::new();
        let is_listener = b"[listener]";
        root.read_proc(&format!("{}/cmdline", self.pid), &mut text).is_ok()
            && text.windows(is_listener.len()).any(|part| part == is_listener)
    }
}

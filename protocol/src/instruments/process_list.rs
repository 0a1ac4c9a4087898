//! `process_list`: which processes used the machine during a window.
//!
//! Every process is read at both ends of the window, so a process that was idle for weeks and is
//! busy now comes first, and one that was busy for weeks and is idle now does not. The rows shown
//! get more columns, read over the later part of the window.

mod table;

use crate::{
    artifact::ArtifactId,
    host_text::HostText,
    instruments::{Exchange, Instrument, NoItems, capabilities::Refusal},
    observed::{Nature, Observed, Reason},
    parameter::{InvalidParameter, in_range},
    units::{Bytes, PerSecond, Percent},
    view::table::Table,
};
use serde::{Deserialize, Serialize};

/// Marker for this instrument.
pub struct ProcessList;

impl Instrument for ProcessList {
    type Request = Request;
    type Item = NoItems;
    type Report = Report;

    fn check(request: &Request) -> Result<(), InvalidParameter> {
        in_range("window_ms", request.window_ms, &(100..=60_000))?;
        in_range("limit", request.limit, &(1..=200))?;
        in_range("offset", request.offset, &(0..=1_000_000))
    }

    fn window_ms(request: &Request) -> u32 {
        if request.artifact.is_some() { 0 } else { request.window_ms }
    }

    fn tables(report: &Report) -> Vec<Table> {
        table::tables(report)
    }

    fn example() -> Exchange<Self> {
        Exchange { request: Request::default(), item: None, report: example_report() }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// Length of the measuring window in milliseconds: 100-60000, default 1000.
    #[cfg_attr(feature = "schema", schemars(range(min = 100, max = 60_000)))]
    pub window_ms: u32,
    /// Column to rank by, largest first. Default: cpu.
    pub sort: Column,
    /// Add processes up by service, container, user or name. Default: process, one row each.
    pub group_by: GroupBy,
    /// Rows to return: 1-200, default 15.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 200)))]
    pub limit: u32,
    /// Rows to skip from the top: 0-1000000, default 0. With `artifact`, pages through one
    /// measurement.
    #[cfg_attr(feature = "schema", schemars(range(max = 1_000_000)))]
    pub offset: u32,
    /// Handle from an earlier answer's `meta.artifact`: ranks that measurement again, by another
    /// column or from another offset, and measures nothing.
    #[cfg_attr(feature = "schema", schemars(with = "ArtifactId"))]
    pub artifact: Option<ArtifactId>,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            window_ms: 1000,
            sort: Column::Cpu,
            group_by: GroupBy::Process,
            limit: 15,
            offset: 0,
            artifact: None,
        }
    }
}

/// A column that rows can be ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Column {
    /// Processor time in the window.
    Cpu,
    /// Processor time in user mode.
    User,
    /// Processor time in the kernel.
    System,
    /// Processor time of children that ended and were waited for in the window.
    ChildrenCpu,
    /// Time spent runnable, waiting for a processor.
    RunDelay,
    /// Resident memory at the end of the window.
    Rss,
    /// Threads at the end of the window.
    Threads,
    /// Open files at the end of the window; how many a process may have is shown beside it.
    OpenFiles,
    /// Page faults served without reading from a disk.
    MinorFaults,
    /// Page faults that waited for a disk.
    MajorFaults,
    /// Bytes read from storage.
    Read,
    /// Bytes written to storage.
    Write,
    /// Context switches, voluntary and not.
    Switches,
    /// Age; the youngest first.
    Youngest,
}

/// What a row stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GroupBy {
    /// One process.
    Process,
    /// A service of the init system, by its cgroup.
    Service,
    /// A container, by its cgroup.
    Container,
    /// A user.
    User,
    /// Processes of one name. Of the kernel's threads, those that there is one of for each
    /// processor, and its workers, have one name.
    Name,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The machine as a whole, in the same window.
    pub host: Host,
    /// How many processes there are, and where their processor time went.
    pub census: Census,
    /// The column the rows are ranked by.
    pub sorted_by: Column,
    /// Rows whose value in that column is unknown; they come last. `null` where there are none.
    pub unranked: Option<Unranked>,
    /// The processes, ranked. Empty when rows are groups.
    pub processes: Vec<ProcessRow>,
    /// The groups, ranked. Empty when rows are processes.
    pub groups: Vec<GroupRow>,
    /// The part of the window over which run delay, storage and context switches of the shown
    /// rows were measured, in milliseconds. `null` when every process was read for the ranking.
    pub detail_window_ms: Option<u64>,
    /// What would have read the processes at less cost and was refused, with the remedy: where there
    /// are so many that it matters. Empty where nothing was.
    pub refused: Vec<Refusal>,
}

/// Rows that could not be ranked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unranked {
    /// How many, on every page together.
    pub rows: u32,
    /// Always `null`; `meta.not_measured` says why, for most of them.
    pub value: Observed<f64>,
}

/// The machine in the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Host {
    /// Processors online.
    pub cpus: Observed<u32>,
    /// Share of all processors' time that was not idle, in percent: 100 is every one busy.
    pub cpu_busy_pct: Observed<Percent>,
    /// Share of all processors' time that a hypervisor gave to others, in percent.
    pub cpu_steal_pct: Observed<Percent>,
    /// Processes and threads created per second.
    pub forks_per_s: Observed<PerSecond>,
}

/// All processes that the agent can see, shown or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Census {
    /// Processes at the end of the window.
    pub processes: u32,
    /// Their threads.
    pub threads: u32,
    /// Processes that started in the window and are still there.
    pub born: Observed<u32>,
    /// Processes that were there at its start and ended.
    pub died: Observed<u32>,
    /// Processor time of the processes still there, in milliseconds.
    pub cpu_ms: Observed<u64>,
    /// Processor time of processes that ended in the window, as far as a parent still there has
    /// waited for them, in milliseconds. Includes those that lived only inside the window.
    pub ended_cpu_ms: Observed<u64>,
    /// Busy time of all processors that belongs to neither, in milliseconds: interrupts, and
    /// processes that ended unnoticed. Resolution: 10 ms for each process.
    pub unattributed_cpu_ms: Observed<u64>,
    /// Threads of the whole machine, seen or not.
    pub host_threads: Observed<u64>,
    /// What hides processes from the agent: empty where it sees every one.
    pub hidden_by: Vec<HiddenBy>,
}

/// What hides processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HiddenBy {
    /// `/proc` is mounted so that it lists only the agent's own: `hidepid`, or `ProtectProc` of a
    /// service.
    Hidepid,
    /// The agent is in a pid namespace, as of a container.
    PidNamespace,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessRow {
    /// Process id. With `start_ticks` it names this process and no later one.
    pub pid: u32,
    /// When it started, in clock ticks after boot.
    pub start_ticks: u64,
    /// The kernel's name for it, escaped.
    pub name: HostText,
    /// Its arguments, escaped, secrets taken out.
    pub command: Observed<HostText>,
    /// Its user.
    pub user: Observed<HostText>,
    /// Its service, by its cgroup.
    pub service: Observed<HostText>,
    /// Its container, by its cgroup.
    pub container: Observed<HostText>,
    /// State at the end of the window.
    pub state: State,
    /// Whether it started inside the window. Its rates are over the whole window all the same.
    pub born: bool,
    /// Processor time, in percent of one processor.
    pub cpu_pct: Observed<Percent>,
    /// Of it, in user mode.
    pub user_pct: Observed<Percent>,
    /// Of it, in the kernel.
    pub system_pct: Observed<Percent>,
    /// Processor time of children that ended in the window, in percent of one processor. What they
    /// used before the window is taken out; unknown where more is left than all processors did.
    pub children_cpu_pct: Observed<Percent>,
    /// Time runnable and waiting for a processor, summed over threads, in percent of the window.
    pub run_delay_pct: Observed<Percent>,
    /// Resident memory. Shared pages count in every process: never add these up.
    pub rss_bytes: Bytes,
    /// Threads.
    pub threads: u32,
    /// Its open files. `null` unless those rank.
    pub open_files: Option<OpenFiles>,
    /// Page faults served from memory.
    pub minor_faults_per_s: Observed<PerSecond>,
    /// Page faults that waited for a disk.
    pub major_faults_per_s: Observed<PerSecond>,
    /// Read from storage.
    pub read_bytes_per_s: Observed<PerSecond>,
    /// Written to storage.
    pub write_bytes_per_s: Observed<PerSecond>,
    /// Context switches because it waited for something.
    pub voluntary_switches_per_s: Observed<PerSecond>,
    /// Context switches because its time was up or another was preferred.
    pub involuntary_switches_per_s: Observed<PerSecond>,
    /// Seconds since it started.
    pub age_s: Observed<u64>,
}

/// Open files of a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpenFiles {
    /// Descriptors open at the end of the window.
    pub open: Observed<u64>,
    /// The limit that `open` fails at.
    #[doc(alias = "RLIMIT_NOFILE")]
    pub limit: Observed<u64>,
    /// What those are that were looked at.
    pub kinds: Observed<FileKinds>,
}

/// How many open files are of which kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileKinds {
    /// Descriptors that were looked at: all, or of many the first ones.
    pub looked_at: u64,
    /// Files and folders.
    pub files: u64,
    /// Sockets.
    pub sockets: u64,
    /// Ends of pipes, with a name or without.
    pub pipes: u64,
    /// Devices, terminals among them.
    pub devices: u64,
    /// What has no place in any folder: epoll, eventfd, timers and such.
    pub anonymous: u64,
}

/// State of a process, by the letter in `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// `R`: on a processor, or waiting for one.
    Running,
    /// `S`: waiting for an event.
    Sleeping,
    /// `D`: waiting, deaf to signals; mostly for storage.
    UninterruptibleSleep,
    /// `Z`: ended, not waited for by its parent.
    Zombie,
    /// `T`: stopped by a signal.
    Stopped,
    /// `t`: stopped by a tracer.
    Traced,
    /// `I`: a kernel thread without work.
    Idle,
    /// `X`, `x`, or on its way there.
    Dead,
    /// A letter that this build does not know.
    Other,
}

impl State {
    /// Reads the kernel's letter.
    pub const fn from_letter(letter: u8) -> Self {
        match letter {
            b'R' => Self::Running,
            b'S' | b'K' | b'W' => Self::Sleeping,
            b'D' => Self::UninterruptibleSleep,
            b'Z' => Self::Zombie,
            b'T' => Self::Stopped,
            b't' => Self::Traced,
            b'I' | b'P' => Self::Idle,
            b'X' | b'x' => Self::Dead,
            _ => Self::Other,
        }
    }

    /// The kernel's letter, `?` for an unknown one.
    pub const fn letter(self) -> char {
        match self {
            Self::Running => 'R',
            Self::Sleeping => 'S',
            Self::UninterruptibleSleep => 'D',
            Self::Zombie => 'Z',
            Self::Stopped => 'T',
            Self::Traced => 't',
            Self::Idle => 'I',
            Self::Dead => 'X',
            Self::Other => '?',
        }
    }
}

/// Processes added up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupRow {
    /// The service, container, user or name; `null` for the processes that have none, and in another row
    /// for those of which it could not be read.
    pub name: Observed<HostText>,
    /// Its processes at the end of the window.
    pub processes: u32,
    /// Their threads.
    pub threads: u32,
    /// Their processor time, in percent of one processor.
    pub cpu_pct: Observed<Percent>,
    /// Of it, in user mode.
    pub user_pct: Observed<Percent>,
    /// Of it, in the kernel.
    pub system_pct: Observed<Percent>,
    /// Processor time of their children that ended in the window, in percent of one processor.
    pub children_cpu_pct: Observed<Percent>,
    /// What ranked them, in the unit of that column: the sum over their processes, or the largest
    /// where a sum means nothing. Unknown where that of one process is.
    pub ranked_by: Observed<f64>,
    /// Resident memory of the largest process. Resident memory must not be added up.
    pub rss_largest_bytes: Bytes,
    /// Page faults served from memory.
    pub minor_faults_per_s: Observed<PerSecond>,
    /// Page faults that waited for a disk.
    pub major_faults_per_s: Observed<PerSecond>,
    /// The process that ranks highest, of those whose value is known.
    pub top_pid: u32,
    /// Its name, escaped.
    pub top_name: HostText,
}

fn example_report() -> Report {
    let second = std::time::Duration::from_secs(1);
    let percent = |part: f64| Percent::of(part, 100.0).unwrap_or_default();
    let rate = |growth| PerSecond::over(growth, second).unwrap_or_default();
    Report {
        host: Host {
            cpus: Observed::Known(2),
            cpu_busy_pct: Observed::Known(percent(61.5)),
            cpu_steal_pct: Observed::Known(percent(0.0)),
            forks_per_s: Observed::Known(rate(3)),
        },
        census: Census {
            processes: 118,
            threads: 301,
            born: Observed::Known(1),
            died: Observed::Known(2),
            cpu_ms: Observed::Known(1_190),
            ended_cpu_ms: Observed::Known(20),
            unattributed_cpu_ms: Observed::Known(20),
            host_threads: Observed::Known(301),
            hidden_by: Vec::new(),
        },
        sorted_by: Column::Cpu,
        unranked: None,
        processes: vec![ProcessRow {
            pid: 4711,
            start_ticks: 88_210,
            name: HostText::new(b"worker 1"),
            command: Observed::Known(HostText::new(b"/srv/app/worker --token=[redacted]")),
            user: Observed::Known(HostText::new(b"www-data")),
            service: Observed::Known(HostText::new(b"app.service")),
            container: Observed::Unknown(Reason::DoesNotApply(Nature::NotInContainer)),
            state: State::Running,
            born: false,
            cpu_pct: Observed::Known(percent(99.7)),
            user_pct: Observed::Known(percent(91.2)),
            system_pct: Observed::Known(percent(8.5)),
            children_cpu_pct: Observed::Known(percent(0.0)),
            run_delay_pct: Observed::Known(percent(1.3)),
            rss_bytes: Bytes(52_428_800),
            threads: 4,
            open_files: None,
            minor_faults_per_s: Observed::Known(rate(12)),
            major_faults_per_s: Observed::Known(rate(0)),
            read_bytes_per_s: Observed::Known(rate(0)),
            write_bytes_per_s: Observed::Known(rate(4096)),
            voluntary_switches_per_s: Observed::Known(rate(8)),
            involuntary_switches_per_s: Observed::Known(rate(104)),
            age_s: Observed::Known(1_814_400),
        }],
        groups: Vec::new(),
        detail_window_ms: Some(801),
        refused: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_outside_their_limits_are_refused_by_name() {
        let wrong = [
            (Request { window_ms: 99, ..Request::default() }, "window_ms is 99"),
            (Request { window_ms: 60_001, ..Request::default() }, "window_ms is 60001"),
            (Request { limit: 0, ..Request::default() }, "limit is 0: expected 1 to 200"),
        ];
        for (request, want) in wrong {
            let error = ProcessList::check(&request).unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        }
    }

    #[test]
    fn every_letter_of_the_kernel_reads_back() {
        for letter in b"RSDZTtIX" {
            assert_eq!(State::from_letter(*letter).letter(), char::from(*letter));
        }
        assert_eq!(State::from_letter(b'Q'), State::Other);
    }
}

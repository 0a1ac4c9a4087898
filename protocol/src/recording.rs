//! What every answer about sampled stacks says of the recording that it is made from: of what it is,
//! what was counted, and how far its stacks and names can be relied on.

mod row;
mod table;

pub use row::{FunctionRow, ProcessRow, StackRow};
pub use table::{facts, function_table, stack_table};

use crate::{
    host_text::HostText,
    observed::{Nature, Observed, Reason},
    parameter::spelled,
    units::Percent,
};
use serde::{Deserialize, Serialize};

/// A recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recording {
    /// Of what.
    pub scope: Scope,
    /// The process that was asked for; `null` for the whole host, and for text that was given.
    pub pid: Option<u32>,
    /// The name of that process, or of its control group; `null` for the whole host.
    pub name: Option<HostText>,
    /// What was counted.
    pub counted: Counted,
    /// Samples in a second of each busy processor; for what is counted one by one, each so many
    /// events make a sample. 0 for text that was given.
    pub hertz: u32,
    /// How stacks in user space were walked.
    pub stacks: Stacks,
    /// How long it took, in milliseconds.
    pub window_ms: u64,
    /// Samples.
    pub samples: u64,
    /// Events that they stand for, in the unit of `counted`.
    pub events: u64,
    /// Processes that were sampled.
    pub processes: u32,
    /// Threads that were sampled.
    pub threads: u32,
    /// How far it can be relied on.
    pub quality: Quality,
}

/// Of what samples were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// A process, its threads, and the children born while it lasted.
    Process,
    /// All processes of a control group: of a service, a container or a login.
    Cgroup,
    /// Everything that ran.
    Host,
    /// Nothing here: stacks were given as text.
    Given,
}

/// What was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// Cycles of the processor, by its own counter.
    Cycles,
    /// Nanoseconds of processor time, by a timer of the kernel.
    CpuClock,
    /// Page faults.
    PageFaults,
    /// Context switches.
    ContextSwitches,
    /// Misses of the last cache.
    CacheMisses,
    /// Looks at all threads, whether they ran or waited.
    Looks,
    /// What the text that was given counts.
    Given,
    /// Nothing was sampled: things were counted one by one.
    Nothing,
    /// Nanoseconds off the processor.
    OffCpu,
}

/// How stacks in user space were walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stacks {
    /// By the tables that compilers make for exceptions (`.eh_frame`), and by frame pointers where
    /// code has none, as what is compiled at run time.
    UnwindTables,
    /// By frame pointers only.
    FramePointers,
    /// They were given.
    Given,
}

/// How far stacks and names of a recording can be relied on. Shares are of the weight of all samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quality {
    /// Share of stacks that are known to the outermost call, in percent.
    pub complete_pct: Observed<Percent>,
    /// Share of stacks that are as far as frame pointers led, in percent: nobody can tell whether
    /// that is all.
    pub by_frame_pointers_pct: Observed<Percent>,
    /// Why others are not known to their end, the commonest first.
    pub incomplete: Vec<Incomplete>,
    /// Share of samples in code that has no name, in percent.
    pub unnamed_pct: Observed<Percent>,
    /// Files with code that has no name, the heaviest first; five at most.
    pub unnamed: Vec<Unnamed>,
    /// What is known of the kernel.
    pub kernel: Kernel,
    /// Whether cycles were wanted, and the machine shows no counter for them.
    pub is_without_counter: bool,
    /// Samples that there was no room for.
    pub lost_samples: u64,
    /// How often the kernel stopped sampling for a while.
    pub throttled: u64,
    /// Samples of the agent itself, which are in nothing else here.
    pub own_samples: u64,
}

/// Stacks that are not known to their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Incomplete {
    /// Why.
    pub why: Cut,
    /// Their share, in percent.
    pub pct: Percent,
}

/// Why a stack is not known to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// It goes on below what was copied of it: `dump_kib` copies more.
    ByDump,
    /// Code has no tables, or they do not lead on.
    NoUnwindInfo,
    /// The stack could not be read.
    StackNotReadable,
    /// What the process has in its memory could not be read, or it ended before.
    NoMaps,
    /// It has more calls than are kept.
    TooDeep,
    /// A program of 32 bits.
    #[serde(rename = "is_32_bit")]
    Is32Bit,
    /// The recording is as large as it may be.
    ByMemory,
}

impl Cut {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::ByDump,
        Self::NoUnwindInfo,
        Self::StackNotReadable,
        Self::NoMaps,
        Self::TooDeep,
        Self::Is32Bit,
        Self::ByMemory,
    ];
}

/// A file with code that has no name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unnamed {
    /// The file, or what stands in its place.
    pub module: HostText,
    /// Share of samples in its unnamed code, in percent.
    pub pct: Percent,
    /// Why there are no names.
    pub why: NoNames,
}

/// Why code has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NoNames {
    /// The file's table of symbols was taken out, and the one for debuggers is not installed.
    /// Functions are named by where they start.
    Stripped,
    /// The one for debuggers is of another build: the package was updated since.
    OtherDebugFile,
    /// Code that the program made while it ran, and no map of it (`/tmp/perf-PID.map`).
    NoPerfMap,
    /// The file could not be opened, or was exchanged.
    NotOpened,
    /// The kernel hides its addresses: `kernel.kptr_restrict`.
    KernelHidden,
    /// Nothing was mapped where it was executed.
    NotMapped,
    /// A stack without any frame.
    NoStack,
}

/// What a recording has of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kernel {
    /// What it did, with names; or it did nothing.
    Named,
    /// What it did, but the names are hidden.
    NamesHidden,
    /// Nothing: it was not asked for.
    NotAsked,
    /// Nothing: this login may not see it.
    NotPermitted,
}

/// A function in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Function {
    /// Its name, as people write it, escaped.
    pub name: HostText,
    /// The file it is in; `null` where that is not known.
    pub module: Option<HostText>,
    /// What kind of code it is.
    pub kind: Kind,
}

/// A kind of code, and whether its name is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Code of a program or a library.
    User,
    /// Code of a program or a library, which the compiler put into its caller.
    Inlined,
    /// Code of the kernel.
    Kernel,
    /// Code that a runtime made while it ran.
    Jit,
    /// Code without a name of its own: named by where it starts, or by where it is.
    Unnamed,
    /// Stands in place of calls that are not known.
    Cut,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&spelled(self))
    }
}

impl Recording {
    /// Of stacks that were given as text, of which nearly nothing is known. A count of theirs is taken
    /// for a sample.
    pub fn given(weight: u64, unnamed_pct: Observed<Percent>, kernel: Kernel) -> Self {
        let not_said = || Observed::Unknown(Reason::DoesNotApply(Nature::GivenStacks));
        Self {
            scope: Scope::Given,
            pid: None,
            name: None,
            counted: Counted::Given,
            hertz: 0,
            stacks: Stacks::Given,
            window_ms: 0,
            samples: weight,
            events: weight,
            processes: 0,
            threads: 0,
            quality: Quality {
                complete_pct: not_said(),
                by_frame_pointers_pct: not_said(),
                incomplete: Vec::new(),
                unnamed_pct,
                unnamed: Vec::new(),
                kernel,
                is_without_counter: false,
                lost_samples: 0,
                throttled: 0,
                own_samples: 0,
            },
        }
    }
}

/// A recording as examples have it.
pub fn example() -> Recording {
    let percent = |part| Percent::of(part, 100.0).unwrap_or_default();
    Recording {
        scope: Scope::Process,
        pid: Some(4711),
        name: Some(HostText::new(b"worker 1")),
        counted: Counted::CpuClock,
        hertz: 99,
        stacks: Stacks::UnwindTables,
        window_ms: 5_000,
        samples: 495,
        events: 5_000_000_000,
        processes: 1,
        threads: 4,
        quality: Quality {
            complete_pct: Observed::Known(percent(99.2)),
            by_frame_pointers_pct: Observed::Known(percent(0.0)),
            incomplete: vec![Incomplete { why: Cut::ByDump, pct: percent(0.8) }],
            unnamed_pct: Observed::Known(percent(3.1)),
            unnamed: vec![Unnamed {
                module: HostText::new(b"liblzma.so.5.4.1"),
                pct: percent(3.1),
                why: NoNames::Stripped,
            }],
            kernel: Kernel::Named,
            is_without_counter: true,
            lost_samples: 0,
            throttled: 0,
            own_samples: 0,
        },
    }
}

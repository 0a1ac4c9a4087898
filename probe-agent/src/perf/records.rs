//! What the kernel writes of events, out of bytes.
//!
//! Kernel reference: `enum perf_event_type` in `include/uapi/linux/perf_event.h`. Bodies are read as
//! the events of the sampler ask for them: samples with address, thread, time, processor, mostly period, and
//! stack or fields; every other record with thread, time and processor at its end.

use super::attr::USER_REGISTERS;

/// Which optional parts samples hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The stack, as the kernel walks it.
    pub with_chain: bool,
    /// The fields of a tracepoint.
    pub with_fields: bool,
    /// Registers and stack of user space.
    pub with_user_stack: bool,
    /// How many events a sample stands for, where that is always the same and not in it.
    pub fixed_period: Option<u64>,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'b> {
    /// Something was executed, or happened.
    Sample(Sample<'b>),
    /// A process has a new executable mapping.
    Mapped(Mapped<'b>),
    /// A thread has a new name.
    Named(Named<'b>),
    /// A process or a thread was born.
    Born(Family),
    /// A thread ended.
    Ended(Family),
    /// A thread got a processor, or gave it up.
    Switched(Switched),
    /// So many records were lost, of any kind.
    Lost(u64),
    /// So many samples were lost.
    LostSamples(u64),
    /// The kernel stopped sampling for a while, because it took too long.
    Throttled,
    /// It samples again.
    Unthrottled,
    /// A kind that is not asked for.
    Other(u32),
}

/// A sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample<'b> {
    /// In what the processor was.
    pub mode: Mode,
    /// What it executed.
    pub ip: u64,
    /// The process, 0 for nobody.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// When, in nanoseconds of the clock asked for.
    pub time_ns: u64,
    /// The processor.
    pub cpu: u32,
    /// How many events it stands for.
    pub period: u64,
    /// The stack as the kernel walked it, innermost first.
    pub chain: Chain<'b>,
    /// The fields of a tracepoint, where they were asked for.
    pub fields: &'b [u8],
    /// Registers and stack, where they were asked for. Without a stack some samples may have registers,
    /// and others none.
    pub user: User<'b>,
}

/// In what a processor was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The kernel.
    Kernel,
    /// A process.
    User,
    /// The hypervisor, a guest, or unknown.
    Elsewhere,
}

/// The registers and the top of the stack of user space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User<'b> {
    /// They were not asked for.
    NotAsked,
    /// The thread has none: it is the kernel's, or is about to end.
    None,
    /// A program of 32 bits.
    Is32Bit,
    /// Of a program as wide as this one.
    Known {
        /// In ascending order of the bits in [`USER_REGISTERS`].
        registers: [u64; REGISTERS],
        /// From the stack pointer on, as much as could be read.
        stack: &'b [u8],
        /// Whether it has all bytes that were asked for, so that the stack may go on.
        is_full: bool,
    },
}

/// How many registers are asked for.
pub const REGISTERS: usize = USER_REGISTERS.count_ones() as usize;

/// A new executable mapping, `PERF_RECORD_MMAP2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped<'b> {
    /// The process.
    pub pid: u32,
    /// First address.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Where in the file it begins.
    pub file_offset: u64,
    /// The file's device and inode; all 0 without a file.
    pub file: FileId,
    /// Path, or a name in brackets or after `//`.
    pub name: &'b [u8],
    /// When.
    pub time_ns: u64,
}

/// Which file it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// Major number of the device.
    pub major: u32,
    /// Minor number of the device.
    pub minor: u32,
    /// Inode.
    pub inode: u64,
}

/// A new name, `PERF_RECORD_COMM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'b> {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Up to 15 bytes of any kind but 0.
    pub name: &'b [u8],
    /// Whether it comes from running another program, which has other mappings.
    pub is_exec: bool,
    /// When.
    pub time_ns: u64,
}

/// Who is whose child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The parent's process; the same for a thread.
    pub parent_pid: u32,
    /// When.
    pub time_ns: u64,
}

/// A switch to a thread or from it, `PERF_RECORD_SWITCH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switched {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// When.
    pub time_ns: u64,
    /// Whether it gave the processor up.
    pub is_out: bool,
    /// Whether it was taken away. Linux 4.17.
    pub is_preempted: bool,
}

/// A body that is shorter than its kind is, or says that it is longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record of kind {kind} ends too early")]
pub struct Malformed {
    /// `PERF_RECORD_*`.
    pub kind: u32,
}

const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const THROTTLE: u32 = 5;
const UNTHROTTLE: u32 = 6;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;
const LOST_SAMPLES: u32 = 13;
const SWITCH: u32 = 14;
const SWITCH_CPU_WIDE: u32 = 15;

const MODE_MASK: u16 = 7;
const IS_EXEC: u16 = 1 << 13;
const IS_OUT: u16 = 1 << 13;
const IS_PREEMPTED: u16 = 1 << 14;

/// Thread, time and processor at the end of every record but samples.
const TRAILER: usize = 24;

/// Reads the body of a record.
///
/// # Errors
///
/// [`Malformed`] where it is too short.
pub fn parse(kind: u32, misc: u16, body: &[u8], layout: Layout) -> Result<Record<'_>, Malformed> {
    let record = match kind {
        SAMPLE => sample(misc, body, layout).map(Record::Sample),
        MMAP2 => mapped(body).map(Record::Mapped),
        COMM => named(misc, body).map(Record::Named),
        FORK => family(body).map(Record::Born),
        EXIT => family(body).map(Record::Ended),
        SWITCH | SWITCH_CPU_WIDE => switched(misc, body).map(Record::Switched),
        LOST => Cursor(body).skip(8).and_then(|mut rest| rest.number()).map(Record::Lost),
        LOST_SAMPLES => Cursor(body).number().map(Record::LostSamples),
        THROTTLE => Some(Record::Throttled),
        UNTHROTTLE => Some(Record::Unthrottled),
        other => Some(Record::Other(other)),
    };
    record.ok_or(Malformed { kind })
}

/// When a record was written, without reading the rest of it; 0 where its body is too short.
pub fn time_of(kind: u32, body: &[u8]) -> u64 {
    let at = if kind == SAMPLE { Cursor(body).skip(16) } else { trailer(body).map(|(_, end)| end) };
    at.and_then(|mut rest| rest.number()).unwrap_or_default()
}

fn sample(misc: u16, body: &[u8], layout: Layout) -> Option<Sample<'_>> {
    let mut rest = Cursor(body);
    let ip = rest.number()?;
    let (pid, tid) = rest.pair()?;
    let time_ns = rest.number()?;
    let (cpu, _) = rest.pair()?;
    let period = layout.fixed_period.map_or_else(|| rest.number(), Some)?;
    let mode = match misc & MODE_MASK {
        1 => Mode::Kernel,
        2 => Mode::User,
        _ => Mode::Elsewhere,
    };
    let length = if layout.with_chain { rest.number()? } else { 0 };
    let chain = Chain { addresses: rest.take(length.checked_mul(8)?)?, mode };
    let fields = if layout.with_fields { rest.fields()? } else { &[] };
    let user = if layout.with_user_stack {
        rest.user()?
    } else if layout.with_fields && !rest.0.is_empty() {
        rest.registers()?
    } else {
        User::NotAsked
    };
    Some(Sample { mode, ip, pid, tid, time_ns, cpu, period, chain, fields, user })
}

fn mapped(body: &[u8]) -> Option<Mapped<'_>> {
    let (mut rest, mut end) = trailer(body)?;
    let (pid, _) = rest.pair()?;
    let (start, length, file_offset) = (rest.number()?, rest.number()?, rest.number()?);
    let (major, minor) = rest.pair()?;
    let (inode, _generation) = (rest.number()?, rest.number()?);
    let _protection_and_flags = rest.pair()?;
    let file = FileId { major, minor, inode };
    let (name, time_ns) = (rest.text(), end.number()?);
    Some(Mapped { pid, start, length, file_offset, file, name, time_ns })
}

fn named(misc: u16, body: &[u8]) -> Option<Named<'_>> {
    let (mut rest, mut end) = trailer(body)?;
    let (pid, tid) = rest.pair()?;
    let time_ns = end.number()?;
    Some(Named { pid, tid, name: rest.text(), is_exec: misc & IS_EXEC != 0, time_ns })
}

fn family(body: &[u8]) -> Option<Family> {
    let mut rest = Cursor(body);
    let (pid, parent_pid) = rest.pair()?;
    let (tid, _parent_tid) = rest.pair()?;
    Some(Family { pid, tid, parent_pid, time_ns: rest.number()? })
}

fn switched(misc: u16, body: &[u8]) -> Option<Switched> {
    let (_, end) = body.split_at_checked(body.len().checked_sub(TRAILER)?)?;
    let mut end = Cursor(end);
    let (pid, tid) = end.pair()?;
    Some(Switched {
        pid,
        tid,
        time_ns: end.number()?,
        is_out: misc & IS_OUT != 0,
        is_preempted: misc & IS_PREEMPTED != 0,
    })
}

/// What is before the end that all records but samples have, and that end from the time on.
fn trailer(body: &[u8]) -> Option<(Cursor<'_>, Cursor<'_>)> {
    let (before, end) = body.split_at_checked(body.len().checked_sub(TRAILER)?)?;
    Some((Cursor(before), Cursor(end).skip(8)?))
}

/// What is left of a body.
#[derive(Clone, Copy)]
struct Cursor<'b>(&'b [u8]);

impl<'b> Cursor<'b> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*number))
    }

    fn pair(&mut self) -> Option<(u32, u32)> {
        let (first, rest) = self.0.split_first_chunk::<4>()?;
        let (second, rest) = rest.split_first_chunk::<4>()?;
        self.0 = rest;
        Some((u32::from_ne_bytes(*first), u32::from_ne_bytes(*second)))
    }

    fn take(&mut self, length: u64) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    fn skip(mut self, length: u64) -> Option<Self> {
        self.take(length)?;
        Some(self)
    }

    /// What is before the first 0.
    fn text(&self) -> &'b [u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// The fields of a tracepoint: their length, and as much, up to a multiple of 8.
    fn fields(&mut self) -> Option<&'b [u8]> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        self.take(u32::from_ne_bytes(*length).into())
    }

    /// Registers alone.
    fn registers(&mut self) -> Option<User<'b>> {
        let (abi, registers) = self.abi_and_registers()?;
        Some(match abi {
            0 => User::None,
            1 => User::Is32Bit,
            _ => User::Known { registers, stack: &[], is_full: false },
        })
    }

    fn abi_and_registers(&mut self) -> Option<(u64, [u64; REGISTERS])> {
        let abi = self.number()?;
        let mut registers = [0; REGISTERS];
        if abi != 0 {
            for register in &mut registers {
                *register = self.number()?;
            }
        }
        Some((abi, registers))
    }

    fn user(&mut self) -> Option<User<'b>> {
        let (abi, registers) = self.abi_and_registers()?;
        let asked = self.number()?;
        let mut stack: &[u8] = &[];
        let mut is_full = false;
        if asked > 0 {
            let all = self.take(asked)?;
            let read = self.number()?;
            stack = usize::try_from(read).ok().and_then(|read| all.get(..read)).unwrap_or(all);
            is_full = read >= asked;
        }
        Some(match abi {
            0 => User::None,
            1 => User::Is32Bit,
            _ => User::Known { registers, stack, is_full },
        })
    }
}

/// A stack as the kernel walked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain<'b> {
    addresses: &'b [u8],
    mode: Mode,
}

/// Values from here on are no addresses but say of what the next ones are, `enum perf_callchain_context`.
const FIRST_CONTEXT: u64 = 0xffff_ffff_ffff_f001;
const KERNEL_CONTEXT: u64 = 0_u64.wrapping_sub(128);
const USER_CONTEXT: u64 = 0_u64.wrapping_sub(512);

impl<'b> Chain<'b> {
    /// The addresses with what each is of, innermost first. All but the first of a part are those
    /// that calls return to.
    pub fn frames(self) -> impl Iterator<Item = (Mode, u64)> + use<'b> {
        let mut mode = self.mode;
        let (addresses, _) = self.addresses.as_chunks::<8>();
        addresses.iter().filter_map(move |bytes| match u64::from_ne_bytes(*bytes) {
            KERNEL_CONTEXT => {
                mode = Mode::Kernel;
                None
            }
            USER_CONTEXT => {
                mode = Mode::User;
                None
            }
            FIRST_CONTEXT.. => {
                mode = Mode::Elsewhere;
                None
            }
            address => Some((mode, address)),
        })
    }

    /// How many values there are, with those that are no addresses.
    pub const fn len(self) -> usize {
        self.addresses.len() / 8
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.addresses.is_empty()
    }
}

#[cfg(test)]
mod tests;

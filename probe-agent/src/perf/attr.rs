//! How an event is described: `struct perf_event_attr`.
//!
//! The structure grew with the kernel. A kernel takes a longer one than it knows where the rest is
//! zero, and so does this: the length told is that of the first version with all that is asked for.

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Processor time in nanoseconds, by a timer of the kernel.
    CpuClock,
    /// Page faults.
    PageFaults,
    /// Context switches.
    ContextSwitches,
    /// Cycles, by the processor's own counters.
    Cycles,
    /// Misses of the last cache, by the processor's own counters.
    CacheMisses,
    /// A tracepoint, by its number in tracefs.
    Tracepoint(u64),
}

impl Event {
    /// `type` and `config`.
    const fn kind(self) -> (u32, u64) {
        match self {
            Self::CpuClock => (1, 0),
            Self::PageFaults => (1, 2),
            Self::ContextSwitches => (1, 3),
            Self::Cycles => (0, 0),
            Self::CacheMisses => (0, 3),
            Self::Tracepoint(id) => (2, id),
        }
    }
}

/// What a sample holds, `sample_type`.
pub mod sample {
    /// The address that was executed.
    pub const IP: u64 = 1;
    /// Process and thread.
    pub const TID: u64 = 1 << 1;
    /// When.
    pub const TIME: u64 = 1 << 2;
    /// The stack, as the kernel walks it.
    pub const CALLCHAIN: u64 = 1 << 5;
    /// The processor.
    pub const CPU: u64 = 1 << 7;
    /// How many events it stands for.
    pub const PERIOD: u64 = 1 << 8;
    /// The fields of a tracepoint.
    pub const RAW: u64 = 1 << 10;
    /// Registers in user space. Linux 3.7.
    pub const REGS_USER: u64 = 1 << 12;
    /// The top of the stack in user space. Linux 3.7.
    pub const STACK_USER: u64 = 1 << 13;
}

/// Bits of the description.
pub mod flag {
    /// Does not count before it is told to.
    pub const DISABLED: u64 = 1;
    /// Counts in threads and children born later too.
    pub const INHERIT: u64 = 1 << 1;
    /// Not what the kernel does.
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    /// Not what the hypervisor does.
    pub const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    /// Not where nothing runs.
    pub const EXCLUDE_IDLE: u64 = 1 << 7;
    /// Tells of executable mappings.
    pub const MMAP: u64 = 1 << 8;
    /// Tells of names.
    pub const COMM: u64 = 1 << 9;
    /// The period is a rate.
    pub const FREQUENCY: u64 = 1 << 10;
    /// Tells of births and ends.
    pub const TASK: u64 = 1 << 13;
    /// Wakes by bytes, not by samples.
    pub const WATERMARK: u64 = 1 << 14;
    /// Every record says when and of whom.
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    /// The kernel's walk leaves the kernel's part out.
    pub const EXCLUDE_CALLCHAIN_KERNEL: u64 = 1 << 21;
    /// The kernel's walk leaves the part in user space out.
    pub const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
    /// Mappings with device and inode. Linux 3.16.
    pub const MMAP2: u64 = 1 << 23;
    /// Says which new name comes from running another program. Linux 3.16.
    pub const COMM_EXEC: u64 = 1 << 24;
    /// Times are of a clock that is named. Linux 4.1.
    pub const USE_CLOCKID: u64 = 1 << 25;
    /// Tells of each switch to and from a thread. Linux 4.3.
    pub const CONTEXT_SWITCH: u64 = 1 << 26;
}

/// Reading an event tells for how long it was to count, and for how long it did.
pub const FORMAT_TIMES: u64 = 1 | 1 << 1;

/// Reading an event tells how many samples of it were lost. Linux 6.0.
pub const FORMAT_LOST: u64 = 1 << 4;

/// Bits of the registers in user space that unwinding begins with, by their numbers in
/// `arch/*/include/uapi/asm/perf_regs.h`: `bp`, `sp`, `ip`.
#[cfg(target_arch = "x86_64")]
pub const USER_REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;

/// The same: `x29`, `lr`, `sp`, `pc`.
#[cfg(target_arch = "aarch64")]
pub const USER_REGISTERS: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32;

/// `struct perf_event_attr`, `PERF_ATTR_SIZE_VER3`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    /// A sample each so many events; or so many a second, with [`flag::FREQUENCY`].
    pub period: u64,
    /// Bits of [`sample`].
    pub sample_type: u64,
    /// What reading the event tells beside its count.
    pub read_format: u64,
    /// Bits of [`flag`].
    pub flags: u64,
    /// Wakes whoever waits after so many bytes, with [`flag::WATERMARK`].
    pub wakeup: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    /// Which registers, with [`sample::REGS_USER`].
    pub user_registers: u64,
    /// How many bytes of stack, with [`sample::STACK_USER`]; a multiple of 8.
    pub user_stack: u32,
    /// Which clock, with [`flag::USE_CLOCKID`].
    pub clock: i32,
}

const FIRST_SIZE: u32 = 64;
const SIZE: u32 = 96;
const _: () = assert!(size_of::<Attributes>() == SIZE as usize);

impl Attributes {
    /// An event, and nothing asked of it.
    pub const fn of(event: Event) -> Self {
        let (kind, config) = event.kind();
        Self::of_kind(kind, config)
    }

    /// The same of another event.
    #[must_use]
    pub const fn counting(self, event: Event) -> Self {
        let (kind, config) = event.kind();
        Self { kind, config, ..self }
    }

    /// An event by `type` and `config`.
    pub(super) const fn of_kind(kind: u32, config: u64) -> Self {
        Self {
            kind,
            size: FIRST_SIZE,
            config,
            period: 0,
            sample_type: 0,
            read_format: 0,
            flags: flag::EXCLUDE_HYPERVISOR,
            wakeup: 0,
            bp_type: 0,
            config1: 0,
            config2: 0,
            branch_sample_type: 0,
            user_registers: 0,
            user_stack: 0,
            clock: 0,
        }
    }

    /// The same for one kind of processor of a machine that has several: `kind` is the number of
    /// its counters, `/sys/devices/cpu_*/type`. Linux 5.13 (`PERF_PMU_TYPE_SHIFT`).
    #[must_use]
    pub fn on_counters(self, kind: u32) -> Self {
        let is_hardware = self.kind == 0;
        let config = if is_hardware { self.config | u64::from(kind) << 32 } else { self.config };
        Self { config, ..self }
    }

    /// With the length that what is asked for takes.
    #[must_use]
    pub fn sized(self) -> Self {
        let is_first = self.user_registers == 0 && self.user_stack == 0 && self.clock == 0;
        Self { size: if is_first { FIRST_SIZE } else { SIZE }, ..self }
    }

    /// Whether a bit of [`flag`] is set.
    pub const fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_kernel_is_told_the_length_that_it_knows() {
        let plain = Attributes::of(Event::CpuClock);
        assert_eq!(plain.sized().size, 64);
        assert_eq!(Attributes { user_stack: 8192, ..plain }.sized().size, 96);
        assert_eq!(Attributes { clock: 1, ..plain }.sized().size, 96);
    }

    #[test]
    fn only_the_processors_own_counters_differ_by_its_kind() {
        assert_eq!(Attributes::of(Event::CacheMisses).on_counters(10).config, 10 << 32 | 3);
        assert_eq!(Attributes::of(Event::PageFaults).on_counters(10).config, 2);
    }
}

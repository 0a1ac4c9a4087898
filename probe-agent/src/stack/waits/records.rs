//! What the eBPF program of waits keeps and writes, out of bytes.
//!
//! The order is that of the structures in `probe-agent/bpf/off_cpu.bpf.c`.

/// A way into a wait: a thread, where it entered the kernel, where it waits there, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Way {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Where user space entered the kernel.
    pub ip: u64,
    /// The top of its stack there.
    pub sp: u64,
    /// The number of the kernel's stack; 0 for none.
    pub kernel_stack: u64,
    /// The number of the system call; [`OUTSIDE`] or [`PREEMPTED`].
    pub call: i32,
    /// What is waited for.
    pub subject: RawSubject,
}

/// Blocked in no system call: in a page fault.
pub const OUTSIDE: i32 = -1;

/// Blocked in a system call whose number is not known.
pub const UNKNOWN: i32 = -3;

/// Not blocked: another had the processor.
pub const PREEMPTED: i32 = -2;

/// What is waited for, as the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RawSubject {
    /// The type of a file, `S_IFMT >> 12`; or more than 15 for what is no file.
    pub kind: u32,
    /// The device of the file system.
    pub device: u32,
    /// The number of the file; the address of a futex; how many descriptors there are.
    pub inode: u64,
    /// The peer's address: four bytes of it, or all.
    pub peer: [u8; 16],
    /// `AF_INET`, `AF_INET6` or another.
    pub family: u16,
    /// `IPPROTO_TCP`, `IPPROTO_UDP` or another.
    pub protocol: u16,
    /// The peer's port.
    pub peer_port: u16,
    /// The own port.
    pub own_port: u16,
}

impl RawSubject {
    /// A futex.
    pub const FUTEX: u32 = 16;
    /// Any of several descriptors.
    pub const SEVERAL: u32 = 17;
    /// It is not known.
    pub const NONE: u32 = 18;

    /// Nothing that is known.
    pub const UNKNOWN: Self = Self {
        kind: Self::NONE,
        device: 0,
        inode: 0,
        peer: [0; 16],
        family: 0,
        protocol: 0,
        peer_port: 0,
        own_port: 0,
    };

    fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            kind: u32_at(bytes, 0)?,
            device: u32_at(bytes, 4)?,
            inode: u64_at(bytes, 8)?,
            peer: *bytes.get(16..)?.first_chunk()?,
            family: u16_at(bytes, 32)?,
            protocol: u16_at(bytes, 34)?,
            // As it is on the line.
            peer_port: u16_at(bytes, 36)?.swap_bytes(),
            own_port: u16_at(bytes, 38)?,
        })
    }
}

impl Way {
    /// Bytes of one.
    pub const BYTES: usize = 80;

    /// Reads one.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            pid: u32_at(bytes, 0)?,
            tid: u32_at(bytes, 4)?,
            ip: u64_at(bytes, 8)?,
            sp: u64_at(bytes, 16)?,
            kernel_stack: u64_at(bytes, 24)?,
            call: u32_at(bytes, 32)?.cast_signed(),
            subject: RawSubject::parse(bytes.get(40..Self::BYTES)?)?,
        })
    }

    /// The number that the program gives one, from its bytes.
    pub fn number(bytes: &[u8]) -> Option<u64> {
        let words = bytes.get(..Self::BYTES)?.chunks_exact(8);
        let mixed = |hash: u64, word: &[u8]| {
            let word = word.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
            let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^ (hash >> 29)
        };
        Some(words.fold(1, mixed))
    }

    /// The same without what tells apart ways in from one place.
    pub const fn entrance(&self) -> (u32, u32, u64, u64, i32) {
        (self.pid, self.tid, self.ip, self.sp, self.call)
    }
}

/// What was waited in a way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Nanoseconds from giving up the processor to being woken.
    pub blocked: u64,
    /// Nanoseconds from there to a processor.
    pub queued: u64,
    /// Waits.
    pub waits: u64,
    /// The longest, in nanoseconds.
    pub longest: u64,
    /// The call's first arguments, the last time.
    pub arguments: [u64; 4],
    /// The kernel's state of the thread, the last time.
    pub state: u32,
    /// Waits that began before the window.
    pub began_before: u64,
    /// The thread's name.
    pub name: Vec<u8>,
    /// Its process's.
    pub process: Vec<u8>,
}

impl Spent {
    /// Reads one.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            blocked: u64_at(bytes, 0)?,
            queued: u64_at(bytes, 8)?,
            waits: u64_at(bytes, 16)?,
            longest: u64_at(bytes, 24)?,
            arguments: arguments_at(bytes, 40)?,
            state: u32_at(bytes, 72)?,
            began_before: u32_at(bytes, 76)?.into(),
            name: name_at(bytes, 80)?,
            process: name_at(bytes, 96)?,
        })
    }

    /// Adds what else was waited there.
    pub fn add(&mut self, other: Self) {
        self.blocked = self.blocked.saturating_add(other.blocked);
        self.queued = self.queued.saturating_add(other.queued);
        self.waits = self.waits.saturating_add(other.waits);
        self.longest = self.longest.max(other.longest);
        self.began_before = self.began_before.saturating_add(other.began_before);
        (self.arguments, self.state) = (other.arguments, other.state);
        (self.name, self.process) = (other.name, other.process);
    }

    /// All of it, in nanoseconds.
    pub const fn time(&self) -> u64 {
        self.blocked.saturating_add(self.queued)
    }
}

/// The stack of a thread that comes out of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied<'b> {
    /// Which way.
    pub way: Way,
    /// Nanoseconds of the way that it stands for.
    pub weight: u64,
    /// The frame pointer, and the link register where there is one.
    pub registers: [u64; 2],
    /// What a descriptor is that was polled alone.
    pub polled: RawSubject,
    /// From the stack pointer on.
    pub stack: &'b [u8],
    /// Whether the stack may go on.
    pub is_full: bool,
}

impl<'b> Copied<'b> {
    /// Reads one.
    pub fn parse(bytes: &'b [u8]) -> Option<Self> {
        let length = usize::try_from(u32_at(bytes, 144)?).ok()?;
        Some(Self {
            way: Way::parse(bytes)?,
            weight: u64_at(bytes, 80)?,
            registers: [u64_at(bytes, 88)?, u64_at(bytes, 96)?],
            polled: RawSubject::parse(bytes.get(104..)?)?,
            stack: bytes.get(152..)?.get(..length)?,
            is_full: u32_at(bytes, 148)? != 0,
        })
    }
}

/// What a thread is in after the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// Which way.
    pub way: Way,
    /// What is not among [`Spent`] of it.
    pub spent: Spent,
    /// Nanoseconds without a processor that was taken away.
    pub preempted: u64,
    /// The frame pointer, and the link register where there is one.
    pub registers: [u64; 2],
    /// Whether it waits still, and did not move since.
    pub is_waiting: bool,
}

impl Open {
    /// Bytes of one.
    pub const BYTES: usize = 200;

    /// Reads one.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (blocked, queued) = (u64_at(bytes, 80)?, u64_at(bytes, 88)?);
        Some(Self {
            way: Way::parse(bytes)?,
            spent: Spent {
                blocked,
                queued,
                waits: u32_at(bytes, 156)?.into(),
                longest: blocked.saturating_add(queued),
                arguments: arguments_at(bytes, 120)?,
                state: u32_at(bytes, 152)?,
                began_before: u32_at(bytes, 160)?.into(),
                name: name_at(bytes, 168)?,
                process: name_at(bytes, 184)?,
            },
            preempted: u64_at(bytes, 96)?,
            registers: [u64_at(bytes, 104)?, u64_at(bytes, 112)?],
            is_waiting: u32_at(bytes, 164)? != 0,
        })
    }
}

/// Who ended waits of a way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Woken {
    /// The number of the way.
    pub way: u64,
    /// The number of the waker's stack in the kernel; 0 for none.
    pub kernel_stack: u64,
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Waits.
    pub waits: u64,
    /// Nanoseconds of them.
    pub time: u64,
    /// The waker's name.
    pub name: Vec<u8>,
}

impl Woken {
    /// Reads one, of an entry.
    pub fn parse(key: &[u8], value: &[u8]) -> Option<Self> {
        Some(Self {
            way: u64_at(key, 0)?,
            kernel_stack: u64_at(key, 8)?,
            pid: u32_at(key, 16)?,
            tid: u32_at(key, 20)?,
            waits: u64_at(value, 0)?,
            time: u64_at(value, 8)?,
            name: name_at(value, 16)?,
        })
    }
}

/// What a processor counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Nanoseconds blocked.
    pub blocked: u64,
    /// Nanoseconds runnable after it.
    pub queued: u64,
    /// Nanoseconds runnable after the processor was taken away.
    pub preempted: u64,
    /// Waits.
    pub waits: u64,
    /// Waits that began before the window.
    pub began_before: u64,
    /// Threads that there was no memory for.
    pub lost_threads: u64,
    /// Ways that there was no room for.
    pub lost_ways: u64,
    /// Nanoseconds of them.
    pub lost_ways_time: u64,
    /// Copies that there was no room for.
    pub lost_copies: u64,
    /// Stacks of the kernel that there was no room for.
    pub lost_kernel_stacks: u64,
    /// Wakers that there was no room for.
    pub lost_wakers: u64,
}

impl Totals {
    /// Adds what a processor counted.
    pub fn add(&mut self, bytes: &[u8]) {
        let fields = [
            &mut self.blocked,
            &mut self.queued,
            &mut self.preempted,
            &mut self.waits,
            &mut self.began_before,
            &mut self.lost_threads,
            &mut self.lost_ways,
            &mut self.lost_ways_time,
            &mut self.lost_copies,
            &mut self.lost_kernel_stacks,
            &mut self.lost_wakers,
        ];
        for (field, word) in fields.into_iter().zip(bytes.chunks_exact(8)) {
            *field = field.saturating_add(u64_at(word, 0).unwrap_or_default());
        }
    }
}

/// The frames of a stack of the kernel, innermost first.
pub fn kernel_frames(bytes: &[u8]) -> Vec<u64> {
    let count = u64_at(bytes, 0).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    let words = bytes.get(8..).unwrap_or_default().chunks_exact(8);
    words.take(count).filter_map(|word| u64_at(word, 0)).collect()
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_ne_bytes(*word))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_ne_bytes(*word))
}

fn arguments_at(bytes: &[u8], at: usize) -> Option<[u64; 4]> {
    Some([
        u64_at(bytes, at)?,
        u64_at(bytes, at + 8)?,
        u64_at(bytes, at + 16)?,
        u64_at(bytes, at + 24)?,
    ])
}

fn name_at(bytes: &[u8], at: usize) -> Option<Vec<u8>> {
    let name = bytes.get(at..)?.get(..16)?;
    Some(name.split(|byte| *byte == 0).next().unwrap_or_default().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn records_are_read_as_they_are_laid_out() {
        let words: Vec<u8> = (0_u8..=255).collect();
        let way = Way::parse(&words).unwrap();
        assert_eq!(way.pid, u32::from_ne_bytes([0, 1, 2, 3]));
        assert_eq!(way.kernel_stack, u64::from_ne_bytes([24, 25, 26, 27, 28, 29, 30, 31]));
        assert_eq!(way.subject.inode, u64::from_ne_bytes([48, 49, 50, 51, 52, 53, 54, 55]));
        assert_eq!(way.subject.peer_port, u16::from_ne_bytes([77, 76]));
        assert_eq!(way.subject.own_port, u16::from_ne_bytes([78, 79]));
        let open = Open::parse(&words).unwrap();
        assert_eq!(open.preempted, u64::from_ne_bytes([96, 97, 98, 99, 100, 101, 102, 103]));
        assert_eq!(open.spent.process[0], 184);
        assert!(Open::parse(&words[..Open::BYTES - 1]).is_none());
    }

    #[test]
    fn a_copy_holds_as_much_of_the_stack_as_it_says() {
        let mut bytes = vec![0; 152 + 64];
        bytes[144..148].copy_from_slice(&32_u32.to_ne_bytes());
        assert_eq!(Copied::parse(&bytes).unwrap().stack.len(), 32);
        bytes[144..148].copy_from_slice(&65_u32.to_ne_bytes());
        assert_eq!(Copied::parse(&bytes), None);
    }

    #[test]
    fn processors_are_added_up() {
        let mut totals = Totals::default();
        let bytes: Vec<u8> = (1_u64..=11).flat_map(u64::to_ne_bytes).collect();
        totals.add(&bytes);
        totals.add(&bytes);
        assert_eq!((totals.blocked, totals.waits, totals.lost_wakers), (2, 8, 22));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_none(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = (Way::parse(&bytes), Way::number(&bytes), Spent::parse(&bytes));
            let _ = (Copied::parse(&bytes), Open::parse(&bytes), Woken::parse(&bytes, &bytes));
            kernel_frames(&bytes);
        }
    }
}

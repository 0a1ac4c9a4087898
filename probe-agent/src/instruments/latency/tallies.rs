//! What the eBPF programs counted, out of the bytes of their maps. The layouts are those of
//! `probe-agent/bpf/latency_*.h`.

use protocol::{
    histogram::Log2,
    host_text::HostText,
    instruments::latency::{Open, Operation, Outcome, Waits},
    units::Micros,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Slots of a count, `SLOTS` there.
const SLOTS: usize = 40;

/// Numbers one after the other, in the order of the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers<'b> {
    rest: &'b [u8],
}

impl<'b> Numbers<'b> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*array)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_ne_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    /// A name of a process, which ends at a zero or fills its room.
    fn name(&mut self) -> Option<HostText> {
        let name: [u8; 16] = self.array()?;
        Some(HostText::new(name.split(|byte| *byte == 0).next()?))
    }
}

/// Reads a key or a value.
pub(super) trait Layout: Sized {
    /// Reads the next one; `None` where the bytes are too few.
    fn next(numbers: &mut Numbers<'_>) -> Option<Self>;

    /// The only one in these bytes.
    fn of(bytes: &[u8]) -> Option<Self> {
        Self::next(&mut Numbers { rest: bytes })
    }
}

/// Waits that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    log2: Log2,
    total_ns: u64,
    max_ns: u64,
}

impl Layout for Counted {
    fn next(numbers: &mut Numbers<'_>) -> Option<Self> {
        let _count = numbers.u64()?;
        let (total_ns, max_ns) = (numbers.u64()?, numbers.u64()?);
        let mut log2 = Log2::default();
        let mut least_max = 0;
        for slot in 0..SLOTS {
            let count = numbers.u64()?;
            log2.add_to(slot, count);
            if count > 0 {
                least_max = 1_u64.checked_shl(u32::try_from(slot).ok()?).unwrap_or(0);
            }
        }
        // Two processors may have set it at once. The first slot holds what took no time, too.
        let max_ns = if least_max > 1 { max_ns.max(least_max) } else { max_ns };
        Some(Self { log2, total_ns, max_ns })
    }
}

impl Counted {
    /// Counts one more.
    pub(super) fn add(&mut self, ns: u64) {
        self.log2.add(ns);
        self.total_ns = self.total_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds those of another.
    pub(super) fn merge(&mut self, other: &Self) {
        self.log2.merge(&other.log2);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    pub(super) const fn total_ns(&self) -> u64 {
        self.total_ns
    }

    pub(super) fn count(&self) -> u64 {
        self.log2.count()
    }

    pub(super) fn waits(&self) -> Waits {
        Waits::of(&self.log2, self.total_ns, self.max_ns)
    }
}

/// Waits that have not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lasting {
    pub(super) count: u64,
    /// How long they have lasted together.
    pub(super) ns: u64,
}

impl Lasting {
    /// Adds those of another.
    pub(super) const fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.ns = self.ns.saturating_add(other.ns);
    }

    pub(super) const fn shown(self) -> Open {
        Open { count: self.count, total_us: Micros::from_ns(self.ns) }
    }
}

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProcessKey {
    pub(super) start_ns: u64,
    pub(super) pid: u32,
}

impl Layout for ProcessKey {
    fn next(numbers: &mut Numbers<'_>) -> Option<Self> {
        let (start_ns, pid, _) = (numbers.u64()?, numbers.u32()?, numbers.u32()?);
        Some(Self { start_ns, pid })
    }
}

/// Waits of one sort of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sort {
    pub(super) ended: Counted,
    open: u64,
    open_since_ns: u64,
}

impl Layout for Sort {
    fn next(numbers: &mut Numbers<'_>) -> Option<Self> {
        let ended = Counted::next(numbers)?;
        Some(Self { ended, open: numbers.u64()?, open_since_ns: numbers.u64()? })
    }
}

impl Sort {
    /// Waits that had not ended by then.
    pub(super) fn open(&self, now_ns: u64) -> Lasting {
        // What ended while the map was read may have been taken off once too often.
        let count = i64::try_from(self.open).map_or(0, i64::unsigned_abs);
        let ns = count.wrapping_mul(now_ns).wrapping_sub(self.open_since_ns);
        // One that began after that moment has lasted for less than nothing.
        let is_more_than_all = ns > count.saturating_mul(now_ns);
        Lasting { count, ns: if is_more_than_all { 0 } else { ns } }
    }
}

/// What a watched process did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) ran: Ran,
    pub(super) for_processor: Sort,
    pub(super) uninterruptible: Sort,
    pub(super) asleep: Sort,
}

impl Layout for Process {
    fn next(numbers: &mut Numbers<'_>) -> Option<Self> {
        Some(Self {
            ran: Ran::next(numbers)?,
            for_processor: Sort::next(numbers)?,
            uninterruptible: Sort::next(numbers)?,
            asleep: Sort::next(numbers)?,
        })
    }
}

/// What any process had of the processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) ns: u64,
    pub(super) name: HostText,
}

impl Layout for Ran {
    fn next(numbers: &mut Numbers<'_>) -> Option<Self> {
        Some(Self { ns: numbers.u64()?, name: numbers.name()? })
    }
}

/// Who has a processor, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Occupant {
    pub(super) process: ProcessKey,
    pub(super) since_ns: u64,
}

impl Layout for Occupant {
    fn next(numbers: &mut Numbers<'_>) -> Option<Self> {
        Some(Self { process: ProcessKey::next(numbers)?, since_ns: numbers.u64()? })
    }
}

/// A device and what was to be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceKey {
    pub(super) major: u32,
    pub(super) minor: u32,
    pub(super) operation: Operation,
}

impl Layout for DeviceKey {
    fn next(numbers: &mut Numbers<'_>) -> Option<Self> {
        let device = numbers.u32()?;
        let operation = operation(numbers.u32()?);
        Some(Self { major: device >> 20, minor: device & 0xf_ffff, operation })
    }
}

/// `enum req_op` in `include/linux/blk_types.h`.
const fn operation(number: u32) -> Operation {
    match number {
        0 => Operation::Read,
        1 => Operation::Write,
        2 => Operation::Flush,
        // The second is the one that makes sure that nothing can be read any more.
        3 | 5 => Operation::Discard,
        9 => Operation::WriteZeroes,
        _ => Operation::Other,
    }
}

/// Requests to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) bytes: u64,
    pub(super) errors: u64,
    pub(super) queue: Counted,
    pub(super) device: Counted,
}

impl Layout for Moved {
    fn next(numbers: &mut Numbers<'_>) -> Option<Self> {
        Some(Self {
            bytes: numbers.u64()?,
            errors: numbers.u64()?,
            queue: Counted::next(numbers)?,
            device: Counted::next(numbers)?,
        })
    }
}

/// Who asked a device for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SubmitterKey {
    pub(super) process: ProcessKey,
    pub(super) device: DeviceKey,
    pub(super) is_kernel_thread: bool,
}

impl Layout for SubmitterKey {
    fn next(numbers: &mut Numbers<'_>) -> Option<Self> {
        let (process, device) = (ProcessKey::next(numbers)?, DeviceKey::next(numbers)?);
        let (is_kernel_thread, _) = (numbers.u32()? != 0, numbers.u32()?);
        Some(Self { process, device, is_kernel_thread })
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Submitted {
    pub(super) bytes: u64,
    pub(super) name: HostText,
    pub(super) whole: Counted,
}

impl Layout for Submitted {
    fn next(numbers: &mut Numbers<'_>) -> Option<Self> {
        let (moved, name) = (numbers.u64()?, numbers.name()?);
        Some(Self { bytes: moved, name, whole: Counted::next(numbers)? })
    }
}

/// When a request that is under way was handed to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnderWay {
    pub(super) since_ns: u64,
}

impl Layout for UnderWay {
    fn next(numbers: &mut Numbers<'_>) -> Option<Self> {
        Some(Self { since_ns: numbers.u64()? })
    }
}

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer(pub(super) SocketAddr);

impl Layout for Peer {
    fn next(numbers: &mut Numbers<'_>) -> Option<Self> {
        const AF_INET6: u16 = 10;
        let bytes: [u8; 16] = numbers.array()?;
        let (family, port) = (numbers.u16()?, numbers.u16()?);
        let address = if family == AF_INET6 {
            // An IPv4 address in the form of an IPv6 one is an IPv4 address.
            Ipv6Addr::from(bytes).to_canonical()
        } else {
            IpAddr::V4(Ipv4Addr::from(*bytes.first_chunk::<4>()?))
        };
        Some(Self(SocketAddr::new(address, port)))
    }
}

impl Peer {
    pub(super) fn shown(&self) -> HostText {
        HostText::new(self.0.to_string().as_bytes())
    }
}

/// Attempts of a process to connect to a peer, with one outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectKey {
    pub(super) process: ProcessKey,
    pub(super) peer: Peer,
    pub(super) outcome: Outcome,
}

impl Layout for ConnectKey {
    fn next(numbers: &mut Numbers<'_>) -> Option<Self> {
        let (process, peer) = (ProcessKey::next(numbers)?, Peer::next(numbers)?);
        let (error, is_established) = (numbers.u32()?, numbers.u32()? != 0);
        let outcome = if is_established { Outcome::Connected } else { outcome(error) };
        Some(Self { process, peer, outcome })
    }
}

/// What an error of a socket that was connecting means. The numbers are the same on both processors.
const fn outcome(error: u32) -> Outcome {
    match error {
        0 => Outcome::GivenUp,
        110 => Outcome::TimedOut,
        101 | 113 => Outcome::Unreachable,
        111 => Outcome::Refused,
        _ => Outcome::Failed,
    }
}

/// How long such attempts took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Connected {
    pub(super) name: HostText,
    pub(super) took: Counted,
}

impl Layout for Connected {
    fn next(numbers: &mut Numbers<'_>) -> Option<Self> {
        Some(Self { name: numbers.name()?, took: Counted::next(numbers)? })
    }
}

/// An attempt that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Connecting {
    pub(super) since_ns: u64,
    pub(super) process: ProcessKey,
    pub(super) peer: Peer,
    pub(super) name: HostText,
}

impl Layout for Connecting {
    fn next(numbers: &mut Numbers<'_>) -> Option<Self> {
        Some(Self {
            since_ns: numbers.u64()?,
            process: ProcessKey::next(numbers)?,
            peer: Peer::next(numbers)?,
            name: numbers.name()?,
        })
    }
}

/// A connection on which something was sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResentKey {
    pub(super) inode: u64,
    pub(super) peer: Peer,
    pub(super) local_port: u16,
    pub(super) is_handshake: bool,
}

impl Layout for ResentKey {
    fn next(numbers: &mut Numbers<'_>) -> Option<Self> {
        Some(Self {
            inode: numbers.u64()?,
            peer: Peer::next(numbers)?,
            local_port: numbers.u16()?,
            is_handshake: numbers.u16()? != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted_bytes(slots: &[(usize, u64)], total_ns: u64, max_ns: u64) -> Vec<u8> {
        let mut numbers = vec![0; SLOTS];
        slots.iter().for_each(|(slot, count)| numbers[*slot] = *count);
        let count = numbers.iter().sum();
        [count, total_ns, max_ns].into_iter().chain(numbers).flat_map(u64::to_ne_bytes).collect()
    }

    #[test]
    fn a_maximum_that_two_processors_set_at_once_is_no_less_than_its_slot() {
        let cases = [
            ("set well", &[(10, 3), (20, 1)][..], 1_500_000, 1_500_000.0 / 1e3),
            ("set too low", &[(10, 3), (20, 1)][..], 1_200, 1_048.58),
            ("all took no time", &[(0, 4)][..], 0, 0.0),
        ];
        for (name, slots, max_ns, want) in cases {
            let counted = Counted::of(&counted_bytes(slots, 9_000, max_ns)).unwrap();
            assert_eq!(counted.waits().max_us.known().unwrap().get(), want, "{name}");
        }
        assert_eq!(Counted::of(&[0; 100]), None, "too few bytes");
    }

    #[test]
    fn waits_that_are_open_have_lasted_since_the_moments_at_which_they_began() {
        let sort = |open: u64, open_since_ns| Sort { open, open_since_ns, ..Sort::default() };
        let cases = [
            ("none", sort(0, 0), 1_000, (0, 0)),
            ("two", sort(2, 300), 50_000, (2, 99_700)),
            ("one taken off too often", sort(u64::MAX, 7), 50_000, (0, 0)),
            ("one that begins after the end", sort(1, 60_000), 50_000, (1, 0)),
        ];
        for (name, sort, now, (count, ns)) in cases {
            let open = sort.open(now);
            assert_eq!((open.count, open.ns), (count, ns), "{name}");
        }
    }

    #[test]
    fn peers_devices_and_outcomes_are_read_as_the_kernel_has_them() {
        let peer = |address: [u8; 16], family: u16| {
            let mut bytes = address.to_vec();
            bytes.extend(family.to_ne_bytes());
            bytes.extend(443_u16.to_ne_bytes());
            Peer::of(&bytes).unwrap().0.to_string()
        };
        let mut v4 = [0; 16];
        v4[..4].copy_from_slice(&[10, 0, 0, 5]);
        assert_eq!(peer(v4, 2), "10.0.0.5:443");
        let mut v6 = [0; 16];
        v6[15] = 1;
        assert_eq!(peer(v6, 10), "[::1]:443");
        v6 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 5];
        assert_eq!(peer(v6, 10), "10.0.0.5:443");
        let mut device = ((254_u32 << 20) | 17).to_ne_bytes().to_vec();
        device.extend(1_u32.to_ne_bytes());
        let found = DeviceKey::of(&device).unwrap();
        assert_eq!((found.major, found.minor, found.operation), (254, 17, Operation::Write));
        for (error, want) in [
            (0, Outcome::GivenUp),
            (110, Outcome::TimedOut),
            (111, Outcome::Refused),
            (113, Outcome::Unreachable),
            (104, Outcome::Failed),
        ] {
            assert_eq!(outcome(error), want, "{error}");
        }
    }

    #[test]
    fn a_name_is_what_is_before_the_first_zero_and_harmless() {
        let mut bytes = 77_u64.to_ne_bytes().to_vec();
        bytes.extend(*b"a\x1b[1mb\0garbage..");
        let ran = Ran::of(&bytes).unwrap();
        assert_eq!((ran.ns, ran.name.as_str()), (77, "a\\x1b[1mb"));
    }
}

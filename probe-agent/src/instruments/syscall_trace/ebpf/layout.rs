//! What the programs in `probe-agent/bpf/syscalls.bpf.c` write, read back: the same structures.

use super::super::seen::Tally;
use protocol::histogram::{BUCKETS, Log2};

/// `struct subject`: what a call is about, as a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SubjectKey {
    pub(super) a: u64,
    pub(super) b: u64,
    pub(super) c: u32,
    pub(super) kind: u32,
}

/// `struct call`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallKey {
    pub(super) tgid: u32,
    pub(super) number: u16,
    pub(super) error: u16,
    pub(super) is_32_bit: bool,
    pub(super) on: u8,
    pub(super) subject: SubjectKey,
}

/// `struct subject_name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) base: SubjectKey,
    pub(super) device: u32,
    pub(super) is_components: bool,
    pub(super) is_cut: bool,
    pub(super) text: Vec<u8>,
}

/// `struct under_way`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnderWay {
    pub(super) tgid: u32,
    pub(super) tid: u32,
    pub(super) begun_ns: u64,
    pub(super) number: u32,
    pub(super) is_32_bit: bool,
    pub(super) is_known: bool,
    pub(super) subject: SubjectKey,
    pub(super) name: Vec<u8>,
}

/// Bytes of `struct under_way`.
pub(super) const UNDER_WAY_BYTES: usize = 64;

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_ne_bytes(*word))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_ne_bytes(*word))
}

/// Bytes up to the first NUL.
pub(super) fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

impl SubjectKey {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            a: u64_at(bytes, 0)?,
            b: u64_at(bytes, 8)?,
            c: u32_at(bytes, 16)?,
            kind: u32_at(bytes, 20)?,
        })
    }
}

impl CallKey {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            tgid: u32_at(bytes, 0)?,
            number: u16_at(bytes, 8)?,
            error: u16_at(bytes, 10)?,
            is_32_bit: *bytes.get(12)? != 0,
            on: *bytes.get(13)?,
            subject: SubjectKey::read(bytes.get(16..)?)?,
        })
    }
}

/// Bytes of `struct call`, and with its tally of `struct hot`.
const CALL_BYTES: usize = 40;

/// A call with its count, as they stand in `hot_calls`; none where the place is free.
pub(super) fn hot(bytes: &[u8]) -> Option<(CallKey, Tally)> {
    let key = CallKey::read(bytes)?;
    (key.tgid != 0).then_some((key, tally(bytes.get(CALL_BYTES..)?)?))
}

/// `struct tally`.
pub(super) fn tally(bytes: &[u8]) -> Option<Tally> {
    let latency = (0..BUCKETS).map_while(|bucket| u32_at(bytes, 24 + 4 * bucket)).map(u64::from);
    Some(Tally {
        count: u64_at(bytes, 0)?,
        total_ns: u64_at(bytes, 8)?,
        max_ns: u64_at(bytes, 16)?,
        latency: Log2::from_counts(latency),
    })
}

impl Name {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        const TEXT: usize = 40;
        let length = usize::try_from(u32_at(bytes, 24)?).ok()?;
        let text = bytes.get(TEXT..)?;
        Some(Self {
            base: SubjectKey::read(bytes)?,
            device: u32_at(bytes, 28)?,
            is_components: u16_at(bytes, 32)? == 1,
            is_cut: u16_at(bytes, 34)? != 0,
            text: text.get(..length.min(text.len()))?.to_vec(),
        })
    }
}

impl UnderWay {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            tgid: u32_at(bytes, 0)?,
            tid: u32_at(bytes, 4)?,
            begun_ns: u64_at(bytes, 8)?,
            number: u32_at(bytes, 16)?,
            is_32_bit: *bytes.get(20)? != 0,
            is_known: *bytes.get(21)? != 0,
            subject: SubjectKey::read(bytes.get(24..)?)?,
            name: text(bytes.get(48..64)?).to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written() {
        let mut bytes = Vec::new();
        bytes.extend(7_u32.to_ne_bytes());
        bytes.extend(1_u32.to_ne_bytes());
        bytes.extend(257_u16.to_ne_bytes());
        bytes.extend(2_u16.to_ne_bytes());
        bytes.extend([0, 3, 0, 0]);
        bytes.extend(11_u64.to_ne_bytes());
        bytes.extend(12_u64.to_ne_bytes());
        bytes.extend(13_u32.to_ne_bytes());
        bytes.extend(2_u32.to_ne_bytes());
        let key = CallKey::read(&bytes).unwrap();
        assert_eq!((key.tgid, key.number, key.error, key.on), (7, 257, 2, 3));
        assert_eq!(key.subject, SubjectKey { a: 11, b: 12, c: 13, kind: 2 });
        assert_eq!(CallKey::read(&bytes[..39]), None);
    }

    #[test]
    fn a_name_that_claims_to_be_longer_than_its_room_ends_there() {
        let mut bytes = vec![0; 40 + 512];
        bytes[24..28].copy_from_slice(&9_999_u32.to_ne_bytes());
        assert_eq!(Name::read(&bytes).unwrap().text.len(), 512);
    }
}

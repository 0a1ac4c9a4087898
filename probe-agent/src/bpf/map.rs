//! Maps: what programs write and this process reads, and the other way round.
//!
//! Kernel reference: `Documentation/bpf/maps.rst`.

use super::{
    call::{self, MapFd},
    mapped::Mapped,
};
use rustix::{
    fd::{AsFd as _, BorrowedFd, OwnedFd},
    io::Errno,
};

/// Kinds of maps, `enum bpf_map_type`.
mod kind {
    pub(super) const ARRAY: u32 = 2;
    pub(super) const PER_CPU_HASH: u32 = 5;
    pub(super) const PER_CPU_ARRAY: u32 = 6;
    pub(super) const LRU_PER_CPU_HASH: u32 = 10;
    pub(super) const PER_CPU_STORAGE: u32 = 21;
}

/// A map of a loaded object.
#[derive(Debug)]
pub struct Map {
    descriptor: OwnedFd,
    kind: u32,
    key_bytes: usize,
    /// Of one value, of one processor.
    value_bytes: usize,
    entries: u32,
    /// Values that each key has.
    values: usize,
}

/// What a map is made with.
#[derive(Clone, Debug)]
pub(super) struct Definition<'n> {
    pub(super) name: &'n str,
    pub(super) kind: u32,
    pub(super) key_bytes: u32,
    pub(super) value_bytes: u32,
    pub(super) entries: u32,
    pub(super) flags: u32,
    /// Types of key and value in the object's own types, where the kind asks for them.
    pub(super) types: Option<(u32, u32)>,
}

/// `ENOTSUPP`, which is the kernel's own and in no library.
const NOT_SUPPORTED: Errno = Errno::from_raw_os_error(524);

/// Entries that are read with one call.
const TOGETHER: usize = 1024;

impl Map {
    /// Makes one. `processors` is how many there may be, whether or not they are there.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub(super) fn create(
        definition: &Definition<'_>,
        types: Option<BorrowedFd<'_>>,
        processors: usize,
    ) -> Result<Self, Errno> {
        use rustix::fd::AsRawFd as _;
        let mut attributes = call::Create {
            kind: definition.kind,
            key_bytes: definition.key_bytes,
            value_bytes: definition.value_bytes,
            entries: definition.entries,
            flags: definition.flags,
            name: call::name(definition.name),
            ..call::Create::default()
        };
        if let (Some((key, value)), Some(types)) = (definition.types, types) {
            attributes.btf = types.as_raw_fd().cast_unsigned();
            (attributes.key_type, attributes.value_type) = (key, value);
        }
        let size = |bytes: u32| usize::try_from(bytes).map_err(|_| Errno::INVAL);
        Ok(Self {
            descriptor: call::create(attributes)?,
            kind: definition.kind,
            key_bytes: size(definition.key_bytes)?,
            value_bytes: size(definition.value_bytes)?,
            entries: definition.entries,
            values: if is_per_processor(definition.kind) { processors } else { 1 },
        })
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    pub(super) const fn kind(&self) -> u32 {
        self.kind
    }

    /// Bytes of a key.
    pub const fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Bytes of one value, of one processor.
    pub const fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// How many entries it has room for.
    pub const fn room(&self) -> u32 {
        self.entries
    }

    /// From one processor's value to the next, which begins at a multiple of 8.
    const fn stride(&self) -> usize {
        if is_per_processor(self.kind) {
            self.value_bytes.next_multiple_of(8)
        } else {
            self.value_bytes
        }
    }

    fn raw(&self) -> MapFd<'_> {
        MapFd {
            descriptor: self.descriptor.as_fd(),
            key_bytes: self.key_bytes,
            value_bytes: self.stride().saturating_mul(self.values),
        }
    }

    /// The value of a key; of a map with one for each processor, all of them, see [`Map::each`].
    /// `None` where the key is not there.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
        let raw = self.raw();
        let mut value = vec![0; raw.value_bytes];
        match raw.lookup(key, &mut value) {
            Ok(()) => Ok(Some(value)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// The value of a key on each processor.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn per_cpu(&self, key: &[u8]) -> Result<Option<Vec<Vec<u8>>>, Errno> {
        let value = self.get(key)?;
        Ok(value.map(|value| self.each(&value).map(<[u8]>::to_vec).collect()))
    }

    /// The values of the processors, out of one that [`Map::get`] or [`Map::entries`] gave.
    pub fn each<'v>(&self, value: &'v [u8]) -> impl Iterator<Item = &'v [u8]> {
        let bytes = self.value_bytes;
        value.chunks_exact(self.stride().max(1)).filter_map(move |one| one.get(..bytes))
    }

    /// Writes a value; of a map with one for each processor, the same to all.
    ///
    /// # Errors
    ///
    /// What the kernel answered: `E2BIG` where there is no room.
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Errno> {
        if !is_per_processor(self.kind) {
            return self.raw().update(key, value);
        }
        let mut one = value.to_vec();
        one.resize(self.stride(), 0);
        self.raw().update(key, &one.repeat(self.values))
    }

    /// Takes a key out, whether or not it was there.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn delete(&self, key: &[u8]) -> Result<(), Errno> {
        match self.raw().delete(key) {
            Err(Errno::NOENT) => Ok(()),
            other => other,
        }
    }

    /// The first bytes of it as memory, where it was made for that.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub(super) fn mapped(&self, bytes: usize) -> Result<Mapped, Errno> {
        Mapped::new(self.as_fd(), bytes, 0, false)
    }

    pub(super) fn freeze(&self) -> Result<(), Errno> {
        self.raw().freeze()
    }

    /// All that is in it. What is written meanwhile may be among it or not.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn entries(&self) -> Result<Entries, Errno> {
        match self.in_batches() {
            // The kind has no such command, or the kernel: before 5.13 for maps with a value for each
            // processor and no hash.
            Err(errno) if errno == Errno::INVAL || errno == NOT_SUPPORTED => self.one_by_one(),
            other => other,
        }
    }

    fn in_batches(&self) -> Result<Entries, Errno> {
        let raw = self.raw();
        let mut found = Entries::new(raw);
        let mut room = TOGETHER;
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        let mut place = [vec![0; self.key_bytes.max(8)], vec![0; self.key_bytes.max(8)]];
        let mut is_first = true;
        loop {
            keys.resize(room.saturating_mul(raw.key_bytes), 0);
            values.resize(room.saturating_mul(raw.value_bytes), 0);
            let [from, next] = &mut place;
            let from = (!is_first).then_some(from.as_slice());
            match raw.lookup_batch((from, next), &mut keys, &mut values) {
                Ok((count, is_last)) => {
                    found.take(&keys, &values, count);
                    if is_last {
                        return Ok(found);
                    }
                    place.swap(0, 1);
                    is_first = false;
                }
                // One bucket has more than that.
                Err(Errno::NOSPC) if room < 1 << 20 => room *= 4,
                Err(errno) => return Err(errno),
            }
        }
    }

    fn one_by_one(&self) -> Result<Entries, Errno> {
        let raw = self.raw();
        let mut found = Entries::new(raw);
        let (mut key, mut next) = (None::<Vec<u8>>, vec![0; raw.key_bytes]);
        let mut value = vec![0; raw.value_bytes];
        // A key that is taken out meanwhile begins the walk anew: no more than twice what there may be.
        for _ in 0..=u64::from(self.entries).saturating_mul(2) {
            match raw.next_key(key.as_deref(), &mut next) {
                Err(Errno::NOENT) => break,
                other => other?,
            }
            match raw.lookup(&next, &mut value) {
                Ok(()) => found.take(&next, &value, 1),
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
            key = Some(next.clone());
        }
        Ok(found)
    }

    /// Whether it is an array of so many places that emptying it takes longer than a call may.
    pub const fn is_long_array(&self) -> bool {
        self.kind == kind::ARRAY && self.entries > 4096
    }

    /// Empties it: an array is full of zeros then.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn clear(&self) -> Result<(), Errno> {
        let raw = self.raw();
        if matches!(self.kind, kind::ARRAY | kind::PER_CPU_ARRAY) {
            let zeros = vec![0; raw.value_bytes];
            return (0..self.entries)
                .try_for_each(|index| raw.update(&index.to_ne_bytes(), &zeros));
        }
        let keys = self.entries()?.keys;
        let together = TOGETHER.saturating_mul(raw.key_bytes.max(1));
        for some in keys.chunks(together) {
            let count = some.len() / raw.key_bytes.max(1);
            // It stops at a key that is gone by itself.
            if raw.delete_batch(some).is_ok_and(|done| done == count) {
                continue;
            }
            some.chunks_exact(raw.key_bytes.max(1)).try_for_each(|key| self.delete(key))?;
        }
        Ok(())
    }
}

const fn is_per_processor(number: u32) -> bool {
    matches!(
        number,
        kind::PER_CPU_HASH | kind::PER_CPU_ARRAY | kind::LRU_PER_CPU_HASH | kind::PER_CPU_STORAGE
    )
}

/// What was in a map.
#[derive(Clone, Debug)]
pub struct Entries {
    keys: Vec<u8>,
    values: Vec<u8>,
    key_bytes: usize,
    value_bytes: usize,
}

impl Entries {
    fn new(raw: MapFd<'_>) -> Self {
        let (key_bytes, value_bytes) = (raw.key_bytes.max(1), raw.value_bytes.max(1));
        Self { keys: Vec::new(), values: Vec::new(), key_bytes, value_bytes }
    }

    fn take(&mut self, keys: &[u8], values: &[u8], count: usize) {
        let part = |bytes: usize| bytes.saturating_mul(count);
        self.keys.extend_from_slice(keys.get(..part(self.key_bytes)).unwrap_or_default());
        self.values.extend_from_slice(values.get(..part(self.value_bytes)).unwrap_or_default());
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.keys.len() / self.key_bytes
    }

    /// Whether there was nothing.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Keys with their values; see [`Map::each`] for those of the processors.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.keys.chunks_exact(self.key_bytes).zip(self.values.chunks_exact(self.value_bytes))
    }
}

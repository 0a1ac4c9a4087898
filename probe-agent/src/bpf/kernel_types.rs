//! What the programs need of the running kernel's types, and nothing else of them.
//!
//! A kernel's BTF has 150,000 types in 5 MiB, of which the programs name some fifty. Read by the
//! library that relocates programs, all of them take 33 MiB. So they are gone through once, what is
//! named is kept with what it is made of, under new numbers, and the rest is let go.
//!
//! Source: `/sys/kernel/btf/vmlinux`. Kernel reference: `Documentation/bpf/btf.rst`.

use super::NoBpf;
use crate::proc::{
    Root,
    btf::{self, Btf, Type, word},
};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// Kinds, `BTF_KIND_*` of `include/uapi/linux/btf.h`.
mod kind {
    pub(super) const POINTER: u32 = 2;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCTURE: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUMERATION: u32 = 6;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const FUNCTION: u32 = 12;
    pub(super) const LONG_ENUMERATION: u32 = 19;
}

/// What is wanted of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Names of structures, unions and enumerations.
    types: HashSet<Vec<u8>>,
    /// Places that programs are for, as in the names of their sections: `tp_btf/sched_switch`; and
    /// functions that they call: `call/bpf_iter_task_new`.
    hooks: HashSet<String>,
}

impl Wanted {
    /// Adds what an object names: the types that it was compiled with, and where its programs go.
    pub(super) fn add(&mut self, own_types: &[u8], hooks: impl Iterator<Item = String>) {
        self.hooks.extend(hooks);
        let Some(btf) = Btf::parse(own_types) else { return };
        for (_, one) in btf.types().filter(|(_, one)| is_named_kind(one.kind)) {
            let name = without_flavour(btf.name(one.name_offset));
            if !name.is_empty() {
                self.types.insert(name.to_vec());
            }
        }
    }
}

/// `task_struct` of `task_struct___before_5_14`.
fn without_flavour(name: &[u8]) -> &[u8] {
    let cut = name.windows(3).position(|part| part == b"___");
    name.get(..cut.unwrap_or(name.len())).unwrap_or_default()
}

const fn is_named_kind(number: u32) -> bool {
    matches!(number, kind::STRUCTURE | kind::UNION | kind::ENUMERATION | kind::LONG_ENUMERATION)
}

/// What was kept.
#[derive(Debug)]
pub(super) struct KernelTypes {
    /// Only what is named, as BTF.
    pub(super) bytes: Vec<u8>,
    /// Under which of the kernel's own numbers each place for programs is.
    hooks: HashMap<String, u32>,
}

impl KernelTypes {
    /// Reads the running kernel's.
    ///
    /// # Errors
    ///
    /// That the kernel has none, or that they are not understood.
    pub(super) fn read(root: &Root, wanted: &Wanted) -> Result<Self, NoBpf> {
        let all = btf::read(root).map_err(|error| NoBpf::NoTypes { errno: error.errno })?;
        Self::of(&all, wanted).ok_or(NoBpf::TypesNotUnderstood)
    }

    /// Under which number the kernel has a place for programs.
    pub(super) fn hook(&self, section: &str) -> Option<u32> {
        self.hooks.get(section).copied()
    }

    fn of(all: &[u8], wanted: &Wanted) -> Option<Self> {
        let btf = Btf::parse(all)?;
        let names: HashMap<String, &String> =
            wanted.hooks.iter().filter_map(|hook| Some((name_of_hook(hook)?, hook))).collect();
        let (mut hooks, mut first) = (HashMap::new(), VecDeque::new());
        let mut types = vec![None];
        for (id, one) in btf.types() {
            let is_hook = matches!(one.kind, kind::TYPEDEF | kind::FUNCTION);
            if is_hook
                && let Ok(name) = std::str::from_utf8(btf.name(one.name_offset))
                && let Some(hook) = names.get(name)
            {
                hooks.insert((*hook).clone(), id);
            } else if is_named_kind(one.kind) && wanted.types.contains(btf.name(one.name_offset)) {
                first.push_back(id);
            }
            types.push(Some(one));
        }
        // Bytes that do not end with a type were not understood to their end.
        (types.len() > 1).then_some(())?;
        let mut kept = Kept::new(btf, types, wanted);
        first.into_iter().for_each(|id| {
            kept.number(id);
        });
        kept.write_all()?;
        Some(Self { bytes: kept.finish()?, hooks })
    }
}

/// How the kernel names a place for programs in its types.
fn name_of_hook(section: &str) -> Option<String> {
    match section.split_once('/')? {
        ("tp_btf", name) => Some(format!("btf_trace_{name}")),
        ("iter", name) => Some(format!("bpf_iter_{name}")),
        ("call", name) => Some(name.to_owned()),
        _ => None,
    }
}

/// Types that are kept, under new numbers.
struct Kept<'b, 'w> {
    btf: Btf<'b>,
    /// By the kernel's numbers.
    all: Vec<Option<Type<'b>>>,
    wanted: &'w Wanted,
    /// New numbers by the kernel's.
    numbers: HashMap<u32, u32>,
    /// The kernel's numbers of those that are not written yet.
    waiting: VecDeque<u32>,
    types: Vec<u8>,
    names: Vec<u8>,
    /// Places in `names` by places in the kernel's.
    places: BTreeMap<u32, u32>,
}

/// The number of a pointer to nothing in particular: where pointers lead does not matter.
const POINTER: u32 = 1;

impl<'b, 'w> Kept<'b, 'w> {
    fn new(btf: Btf<'b>, all: Vec<Option<Type<'b>>>, wanted: &'w Wanted) -> Self {
        let mut kept = Self {
            btf,
            all,
            wanted,
            numbers: HashMap::new(),
            waiting: VecDeque::new(),
            types: Vec::new(),
            names: vec![0],
            places: BTreeMap::from([(0, 0)]),
        };
        kept.write(&[0, kind::POINTER << 24, 0]);
        kept
    }

    /// The new number of a type, which is written when its turn comes.
    fn number(&mut self, id: u32) -> u32 {
        let is_pointer = |one: &Type<'_>| one.kind == kind::POINTER;
        match self.type_of(id) {
            None => 0,
            Some(one) if is_pointer(&one) => POINTER,
            Some(_) => {
                let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX).saturating_add(2);
                let waiting = &mut self.waiting;
                *self.numbers.entry(id).or_insert_with(|| {
                    waiting.push_back(id);
                    next
                })
            }
        }
    }

    fn type_of(&self, id: u32) -> Option<Type<'b>> {
        *self.all.get(usize::try_from(id).ok()?)?
    }

    fn name(&mut self, place: u32) -> u32 {
        if let Some(known) = self.places.get(&place) {
            return *known;
        }
        let new = u32::try_from(self.names.len()).unwrap_or_default();
        self.names.extend_from_slice(self.btf.name(place));
        self.names.push(0);
        self.places.insert(place, new);
        new
    }

    fn write(&mut self, words: &[u32]) {
        self.types.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    }

    fn write_all(&mut self) -> Option<()> {
        while let Some(id) = self.waiting.pop_front() {
            let one = self.type_of(id)?;
            self.write_one(one)?;
        }
        Some(())
    }

    fn write_one(&mut self, one: Type<'b>) -> Option<()> {
        let name = self.name(one.name_offset);
        match one.kind {
            kind::STRUCTURE | kind::UNION if self.is_wanted(one) => self.write_members(one, name),
            // What nobody names is as large as it is, and nothing is known of its inside.
            kind::STRUCTURE | kind::UNION => {
                self.write(&[name, one.kind << 24, one.size_or_type]);
                Some(())
            }
            kind::ARRAY => {
                let element = self.number(word(one.parts, 0)?);
                let index = self.number(word(one.parts, 4)?);
                self.write(&[name, one.info, 0, element, index, word(one.parts, 8)?]);
                Some(())
            }
            kind::ENUMERATION | kind::LONG_ENUMERATION => self.write_values(one, name),
            // Other names, and qualifiers: what they are for.
            8..=11 | 18 => {
                let of = self.number(one.size_or_type);
                self.write(&[name, one.info, of]);
                Some(())
            }
            // Integers and floating point numbers.
            1 | 16 => {
                self.write(&[name, one.info, one.size_or_type]);
                self.types.extend_from_slice(one.parts);
                Some(())
            }
            // What has no place inside of a structure: said to be declared only.
            _ => {
                self.write(&[name, 7 << 24, 0]);
                Some(())
            }
        }
    }

    /// Whether a structure is gone into: it is named, or it has no name and is part of one that is.
    fn is_wanted(&self, one: Type<'_>) -> bool {
        let name = self.btf.name(one.name_offset);
        name.is_empty() || self.wanted.types.contains(name)
    }

    fn write_members(&mut self, one: Type<'b>, name: u32) -> Option<()> {
        let mut members = Vec::with_capacity(one.parts.len() / 4);
        for member in one.parts.chunks_exact(12) {
            members.push(self.name(word(member, 0)?));
            members.push(self.number(word(member, 4)?));
            members.push(word(member, 8)?);
        }
        self.write(&[name, one.info, one.size_or_type]);
        self.write(&members);
        Some(())
    }

    fn write_values(&mut self, one: Type<'b>, name: u32) -> Option<()> {
        let each = if one.kind == kind::ENUMERATION { 8 } else { 12 };
        let mut values = Vec::with_capacity(one.parts.len() / 4);
        for value in one.parts.chunks_exact(each) {
            values.push(self.name(word(value, 0)?));
            values.push(word(value, 4)?);
            values.extend(word(value, 8));
        }
        self.write(&[name, one.info, one.size_or_type]);
        self.write(&values);
        Some(())
    }

    /// All of it, with its header.
    fn finish(self) -> Option<Vec<u8>> {
        const HEADER_BYTES: u32 = 24;
        let types = u32::try_from(self.types.len()).ok()?;
        let names = u32::try_from(self.names.len()).ok()?;
        let mut bytes = 0xeb9f_u16.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        for number in [HEADER_BYTES, 0, types, types, names] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(self.types);
        bytes.extend(self.names);
        Some(bytes)
    }
}

//! From registers and a copy of the stack's top to the calls that led there.
//!
//! framehop walks by `.eh_frame`, and by frame pointers where code has no tables: made at run time, or
//! written by hand. It does not say which it did, so what it finds counts only where code is.

use super::{
    images::{self, Code, Images, UnwindParts},
    maps::{Mapping, Maps},
    recording::{Cut, Place},
};
use crate::perf::records::REGISTERS;
use framehop::{Error, FrameAddress, Module, ModuleSectionInfo, Unwinder as _};
use std::{
    cell::Cell,
    collections::HashSet,
    ops::{Deref, Range},
    sync::Arc,
};

#[cfg(target_arch = "aarch64")]
use framehop::aarch64 as arch;
#[cfg(target_arch = "x86_64")]
use framehop::x86_64 as arch;

#[cfg(target_arch = "aarch64")]
type Unwinder = arch::UnwinderAarch64<Part>;
#[cfg(target_arch = "aarch64")]
type Cache = arch::CacheAarch64;
#[cfg(target_arch = "aarch64")]
type Registers = arch::UnwindRegsAarch64;
#[cfg(target_arch = "x86_64")]
type Unwinder = arch::UnwinderX86_64<Part>;
#[cfg(target_arch = "x86_64")]
type Cache = arch::CacheX86_64;
#[cfg(target_arch = "x86_64")]
type Registers = arch::UnwindRegsX86_64;

/// Frames of a stack that are kept; what called them is left out, and counted.
const MOST_FRAMES: usize = 512;

/// A part of a file, which stays mapped as long as this lives.
#[derive(Debug)]
struct Part {
    code: Arc<Code>,
    range: Range<usize>,
}

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.code.bytes().get(self.range.clone()).unwrap_or_default()
    }
}

/// What a walk begins with.
#[derive(Clone, Copy, Debug)]
pub struct Start<'s> {
    /// As samples hold them.
    pub registers: [u64; REGISTERS],
    /// From the stack pointer on.
    pub stack: &'s [u8],
    /// Whether the stack may go on after that.
    pub is_full: bool,
}

impl Start<'_> {
    /// Whether the stack may have something at so many bytes from its top that is not in the copy.
    fn goes_on_to(self, offset: u64) -> bool {
        /// No program has a larger stack that is not its own doing.
        const LARGE_STACK: u64 = 1 << 30;
        let end = u64::try_from(self.stack.len()).unwrap_or(u64::MAX);
        self.is_full && offset >= end.saturating_sub(7) && offset < LARGE_STACK
    }
}

/// How the code of one process is walked.
pub struct Walker {
    unwinder: Unwinder,
    /// Starts of the mappings that the unwinder knows, or need not know.
    loaded: HashSet<u64>,
    /// Tells walkers apart whose rules share a cache.
    number: u64,
}

/// Rules of walkers that were used lately.
pub struct Caches {
    caches: Vec<Option<(u64, Cache)>>,
    walkers: u64,
}

/// Each takes some 16 KiB.
const CACHES: usize = 16;

impl Default for Caches {
    fn default() -> Self {
        Self { caches: std::iter::repeat_with(|| None).take(CACHES).collect(), walkers: 0 }
    }
}

impl Caches {
    /// A walker that knows no code yet.
    pub fn walker(&mut self) -> Walker {
        self.walkers += 1;
        Walker { unwinder: Unwinder::new(), loaded: HashSet::new(), number: self.walkers }
    }

    /// The cache of a walker. One of another in its place is given up: framehop tells walkers apart by
    /// a number of 16 bits only.
    fn of(&mut self, number: u64) -> Option<&mut Cache> {
        let place = usize::try_from(number).unwrap_or_default() % CACHES;
        let place = self.caches.get_mut(place)?;
        if place.as_ref().is_none_or(|(owner, _)| *owner != number) {
            *place = Some((number, Cache::new()));
        }
        place.as_mut().map(|(_, cache)| cache)
    }
}

impl Walker {
    /// Walks from the innermost call outwards. Says why it did not come to the outermost, if so.
    pub fn walk(
        &mut self,
        start: Start<'_>,
        (maps, images, pids): (&Maps, &mut Images, [u32; 2]),
        caches: &mut Caches,
        places: &mut Vec<Place>,
    ) -> Option<Cut> {
        let (ip, sp, mut registers) = split(start.registers);
        // What was asked for beyond the copy in this step.
        let missed = Cell::new(0_u32);
        let mut read = |address: u64| {
            let offset = address.wrapping_sub(sp);
            let word = read(start.stack, offset);
            if word.is_none() && start.goes_on_to(offset) {
                missed.set(missed.get() + 1);
            }
            word.ok_or(())
        };
        let mut frame = FrameAddress::from_instruction_pointer(ip);
        let first = places.len();
        loop {
            let address = frame.address_for_lookup();
            let Some(mapping) = maps.find(address) else {
                // Nothing is executed there, but where it began: there something went wrong.
                if !frame.is_return_address() {
                    places.push(Place::Unmapped(address));
                }
                return Some(if missed.get() > 0 { Cut::ByDump } else { Cut::NoUnwindInfo });
            };
            if self.loaded.insert(mapping.start) {
                self.load(mapping, images, pids);
                // Rules for what was not known are not right any more.
                caches.forget(self.number);
            }
            places.push(place_of(mapping, address, images));
            if places.len() - first >= MOST_FRAMES {
                return Some(Cut::TooDeep);
            }
            missed.set(0);
            let cache = caches.of(self.number)?;
            let step = self.unwinder.unwind_frame(frame, &mut registers, cache, &mut read);
            let is_told = matches!(step, Err(Error::CouldNotReadStack(_))) && missed.get() == 1;
            if missed.get() > 0 && !is_told {
                // framehop went on by frame pointers because the copy has an end, and would do so at
                // this place from now on.
                caches.forget(self.number);
            }
            match step {
                Err(_) if missed.get() > 0 => return Some(Cut::ByDump),
                Ok(None) => return None,
                Ok(Some(address)) => match FrameAddress::from_return_address(address) {
                    Some(next) => frame = next,
                    None => return Some(Cut::NoUnwindInfo),
                },
                Err(error) => {
                    let is_outermost = places.len() - first > 1 && frame_pointer(&registers) == 0;
                    return reason(error, start, is_outermost);
                }
            }
        }
    }

    /// Forgets code that is not there any more.
    pub fn forget(&mut self) {
        self.unwinder = Unwinder::new();
        self.loaded.clear();
    }

    fn load(&mut self, mapping: &Mapping, images: &mut Images, pids: [u32; 2]) {
        let Some(code) = images.code(mapping.image, pids, (mapping.start, mapping.end)) else {
            return;
        };
        if let Some(module) = module_of(mapping, code) {
            self.unwinder.remove_module(mapping.start);
            self.unwinder.add_module(module);
        }
    }
}

impl Caches {
    fn forget(&mut self, number: u64) {
        let place = usize::try_from(number).unwrap_or_default() % CACHES;
        if let Some(place) = self.caches.get_mut(place) {
            *place = None;
        }
    }
}

/// Where an address is, by what is mapped there.
pub fn place_of(mapping: &Mapping, address: u64, images: &Images) -> Place {
    let has_offsets = images.has_offsets(mapping.image);
    let at = if has_offsets { mapping.file_offset_of(address) } else { address };
    Place::Code { image: mapping.image, at }
}

fn module_of(mapping: &Mapping, code: &Arc<Code>) -> Option<Module<Part>> {
    let parts = code.unwind.as_ref()?;
    let svma = code.svma_of_code_mapping(mapping.file_offset)?;
    // Where the image's lowest address is. Wraps for what no loader does, and is not found then.
    let base_in_memory = mapping.start.wrapping_sub(svma.wrapping_sub(parts.base));
    let range = mapping.start..mapping.end;
    Some(Module::new(String::new(), range, base_in_memory, Sections { code, parts }))
}

/// The parts of a file by their names, as framehop asks for them.
struct Sections<'c> {
    code: &'c Arc<Code>,
    parts: &'c UnwindParts,
}

impl ModuleSectionInfo<Part> for Sections<'_> {
    fn base_svma(&self) -> u64 {
        self.parts.base
    }

    fn section_svma_range(&mut self, name: &[u8]) -> Option<Range<u64>> {
        let addresses = |part: &Option<images::Part>| Some(part.as_ref()?.addresses.clone());
        match name {
            b".text" => self.parts.text.clone(),
            b".eh_frame" => addresses(&self.parts.frames),
            b".eh_frame_hdr" => addresses(&self.parts.table),
            _ => None,
        }
    }

    fn section_data(&mut self, name: &[u8]) -> Option<Part> {
        let range = match name {
            b".eh_frame" => self.parts.frames.as_ref()?.bytes.clone(),
            b".eh_frame_hdr" => self.parts.table.as_ref()?.bytes.clone(),
            b".debug_frame" => self.parts.debug_frames.clone()?,
            _ => return None,
        };
        Some(Part { code: Arc::clone(self.code), range })
    }
}

/// Why a walk did not go on, where that is not the end of the copy.
fn reason(error: Error, start: Start<'_>, is_outermost: bool) -> Option<Cut> {
    match error {
        Error::CouldNotReadStack(_) if start.stack.is_empty() => Some(Cut::StackNotReadable),
        // By the rules of both processors, the outermost frame's pointer is 0.
        Error::CouldNotReadStack(_) | Error::FramepointerUnwindingMovedBackwards
            if is_outermost =>
        {
            None
        }
        Error::CouldNotReadStack(_)
        | Error::FramepointerUnwindingMovedBackwards
        | Error::DidNotAdvance
        | Error::IntegerOverflow
        | Error::ReturnAddressIsNull => Some(Cut::NoUnwindInfo),
    }
}

fn read(stack: &[u8], offset: u64) -> Option<u64> {
    let bytes = stack.get(usize::try_from(offset).ok()?..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*bytes))
}

/// Instruction pointer, stack pointer, and what framehop begins with.
#[cfg(target_arch = "x86_64")]
fn split([bp, sp, ip]: [u64; REGISTERS]) -> (u64, u64, Registers) {
    (ip, sp, Registers::new(ip, sp, bp))
}

#[cfg(target_arch = "aarch64")]
fn split([fp, lr, sp, pc]: [u64; REGISTERS]) -> (u64, u64, Registers) {
    // Return addresses may be signed in the bits above those that a process's addresses have.
    let mask = arch::PtrAuthMask((1 << 48) - 1);
    (pc, sp, Registers::new_with_ptr_auth_mask(mask, lr, sp, fp))
}

#[cfg(target_arch = "x86_64")]
fn frame_pointer(registers: &Registers) -> u64 {
    registers.bp()
}

#[cfg(target_arch = "aarch64")]
fn frame_pointer(registers: &Registers) -> u64 {
    registers.fp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{os::mapped_file, proc::Root};
    use proptest::prelude::*;

    const START: u64 = 0x7f00_0000_0000;

    /// Walks code that is mapped at [`START`].
    fn walked(code: Vec<u8>, start: Start<'_>) -> (Vec<Place>, Option<Cut>) {
        let mut images = Images::new(&Root::live().unwrap());
        let end = START + code.len() as u64;
        let image = images.insert(Code::of(code));
        let (mut maps, mut caches, mut places) = (Maps::default(), Caches::default(), Vec::new());
        maps.insert(Mapping { start: START, end, file_offset: 0, image });
        let mut walker = caches.walker();
        let cut = walker.walk(start, (&maps, &mut images, [0, 0]), &mut caches, &mut places);
        (places, cut)
    }

    fn registers(ip: u64, sp: u64, fp: u64) -> [u64; REGISTERS] {
        #[cfg(target_arch = "x86_64")]
        return [fp, sp, ip];
        #[cfg(target_arch = "aarch64")]
        return [fp, 0, sp, ip];
    }

    /// Code without tables, which keeps frame pointers: three calls, the outermost with none above.
    #[test]
    fn code_without_tables_is_walked_by_frame_pointers() {
        const SP: u64 = 0x1000;
        let words: [u64; 6] = [0x1010, START + 0x21, 0x1020, START + 0x31, 0, 0];
        let stack: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let walk = |length: usize, is_full| {
            let stack = &stack[..length];
            walked(vec![0x90; 4096], Start { registers: registers(START, SP, SP), stack, is_full })
        };
        let (places, cut) = walk(48, false);
        let at: Vec<_> = places
            .iter()
            .map(|place| {
                let Place::Code { at, .. } = place else { panic!("{place:?}") };
                *at
            })
            .collect();
        assert_eq!((at.as_slice(), cut), (&[0, 0x20, 0x30][..], None));
        // A copy that ends before the stack does is told from a stack that cannot be read.
        assert_eq!(walk(16, true).1, Some(Cut::ByDump));
        assert_eq!(walk(16, false).1, Some(Cut::NoUnwindInfo));
        assert_eq!(walk(0, false), (places[..1].to_vec(), Some(Cut::StackNotReadable)));
    }

    #[test]
    fn what_is_executed_where_nothing_is_known_is_one_place() {
        let start = Start { registers: registers(7, 0, 0), stack: &[], is_full: false };
        let wanted = (vec![Place::Unmapped(7)], Some(Cut::NoUnwindInfo));
        assert_eq!(walked(vec![0; 4096], start), wanted);
    }

    proptest! {
        /// Whoever may write a file that runs, or a stack, may have written these bytes.
        #[test]
        fn no_tables_and_no_stack_make_it_panic_or_go_on_for_ever(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
            offset in 0_u64..8192,
            words in prop::collection::vec(prop_oneof![
                any::<u64>(), START..START + 8192, 0x1000_u64..0x1200
            ], 0..64),
            fp in prop_oneof![any::<u64>(), 0x1000_u64..0x1200],
            is_full in any::<bool>(),
        ) {
            let mut code = mapped_file::vdso().unwrap().to_vec();
            for (index, byte) in &changes {
                let at = index.index(code.len());
                code[at] = *byte;
            }
            let stack: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let registers = registers(START + offset, 0x1000, fp);
            let (places, _) = walked(code, Start { registers, stack: &stack, is_full });
            prop_assert!(!places.is_empty() && places.len() <= MOST_FRAMES);
        }
    }
}

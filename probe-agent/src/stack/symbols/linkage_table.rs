//! The stubs through which a file calls what is in another one: `.plt`, `.plt.sec` and `.plt.got`.
//!
//! They have no symbols. Each jumps to where a slot points, and a relocation says of the slot what it
//! will point to. Source: the psABI of x86-64, "Procedure Linkage Table", and of AArch64.

use super::table::SymbolTable;
use crate::stack::{
    How,
    elf::{ElfFile, Machine, Reader, Section},
};

/// A stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stub<'d> {
    /// Where it starts.
    pub start: u64,
    /// What it leads to.
    pub target: Target<'d>,
}

/// What a stub leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'d> {
    /// A function by name.
    Name(&'d [u8]),
    /// What the function at that svma chooses when the program starts, `R_*_IRELATIVE`.
    Resolver(u64),
}

/// The stub that has an address.
pub fn stub_at<'d>(file: &ElfFile<'d>, svma: u64) -> Option<Stub<'d>> {
    let section = [&b".plt"[..], b".plt.sec", b".plt.got"]
        .iter()
        .filter_map(|name| file.section(name))
        .find(|section| section.svma_range().contains(&svma))?;
    let (start, slot) = match file.machine() {
        Machine::X86_64 => slot_on_x86_64(&section, svma)?,
        Machine::Aarch64 => slot_on_aarch64(section.bytes(), section.svma, svma)?,
        Machine::Other(_) => return None,
    };
    let relocation = match slot {
        Slot::At(slot) => relocations(file).find(|relocation| relocation.place == slot),
        Slot::Numbered(number) => relocations(file).nth(number),
    }?;
    Some(Stub { start, target: relocation.target(file)? })
}

/// The slot that a stub jumps through.
enum Slot {
    /// By its svma.
    At(u64),
    /// By the number of its relocation.
    Numbered(usize),
}

fn slot_on_x86_64(section: &Section, svma: u64) -> Option<(u64, Slot)> {
    const END_BRANCH: &[u8] = b"\xf3\x0f\x1e\xfa";
    const PUSH: u8 = 0x68;
    let is_short = section.name == b".plt.got" && !section.bytes().starts_with(END_BRANCH);
    let stub_bytes = if is_short { 8 } else { 16 };
    let within = (svma - section.svma) / stub_bytes * stub_bytes;
    let start = section.svma + within;
    let mut code = Reader::new(section.bytes().get(usize::try_from(within).ok()?..)?);
    let mut at = start;
    let mut skip = |code: &mut Reader, prefix: &[u8]| {
        if code.rest().starts_with(prefix) {
            at = at.wrapping_add(u64::try_from(prefix.len()).unwrap_or(0));
            code.bytes(prefix.len());
        }
    };
    skip(&mut code, END_BRANCH);
    if code.rest().first() == Some(&PUSH) {
        // The half of a stub that `.plt.sec` has the other half of: it says the number itself.
        let number = code.u8().and(code.u32())?;
        return Some((start, Slot::Numbered(usize::try_from(number).ok()?)));
    }
    // A prefix for MPX, which older linkers write.
    skip(&mut code, b"\xf2");
    const JUMP: &[u8] = b"\xff\x25";
    if code.bytes(JUMP.len())? != JUMP {
        // The first stub, which only the others use.
        return None;
    }
    let distance = code.u32()?.cast_signed();
    let after = at.wrapping_add(6);
    Some((start, Slot::At(after.wrapping_add_signed(i64::from(distance)))))
}

fn slot_on_aarch64(code: &[u8], code_svma: u64, svma: u64) -> Option<(u64, Slot)> {
    // `adrp x16, page`, then `ldr x17, [x16, offset]`, perhaps behind a `bti`.
    const ADRP_X16: (u32, u32) = (0x9f00_001f, 0x9000_0010);
    const LDR_X17_X16: (u32, u32) = (0xffc0_03ff, 0xf940_0211);
    let within = (svma - code_svma) & !3;
    let word = |at: u64| Reader::new(code.get(usize::try_from(at).ok()?..)?).u32();
    let is = |(mask, bits): (u32, u32)| move |code: &u32| code & mask == bits;
    let mut starts = [4, 0].iter().map(|more| within.checked_add(*more));
    let mut earlier = (1..=5).map(|words| within.checked_sub(4 * words));
    let found =
        |at: u64| Some((at, word(at).filter(is(ADRP_X16))?, word(at + 4).filter(is(LDR_X17_X16))?));
    let (at, page, load) = starts.by_ref().chain(earlier.by_ref()).flatten().find_map(found)?;
    let pages = i64::from((page >> 5 & 0x7_ffff) << 2 | page >> 29 & 3);
    // 21 bits with a sign.
    let pages = if pages & 1 << 20 == 0 { pages } else { pages - (1 << 21) };
    let start = code_svma.wrapping_add(at);
    let slot = (start & !0xfff).wrapping_add_signed(pages << 12);
    Some((start, Slot::At(slot.wrapping_add(u64::from(load >> 10 & 0xfff) * 8))))
}

/// One entry of a table of relocations.
#[derive(Clone, Copy, Debug)]
struct Relocation {
    place: u64,
    kind: u32,
    symbol: u32,
    addend: u64,
}

impl Relocation {
    fn read(entry: &[u8]) -> Option<Self> {
        let mut fields = Reader::new(entry);
        let place = fields.u64()?;
        let (kind, symbol) = (fields.u32()?, fields.u32()?);
        Some(Self { place, kind, symbol, addend: fields.u64()? })
    }

    fn target<'d>(&self, file: &ElfFile<'d>) -> Option<Target<'d>> {
        // `R_X86_64_IRELATIVE` and `R_AARCH64_IRELATIVE`.
        if matches!(self.kind, 37 | 1032) {
            return Some(Target::Resolver(self.addend));
        }
        let symbols = SymbolTable::read(file, b".dynsym", How::SymbolTable)?;
        symbols.name_of_symbol(self.symbol).map(Target::Name)
    }
}

/// The relocations of slots: first those of the linkage table, in its order.
fn relocations(file: &ElfFile) -> impl Iterator<Item = Relocation> {
    const RELOCATION_BYTES: usize = 24;
    let names = [&b".rela.plt"[..], b".rela.dyn"];
    let sections = names.into_iter().filter_map(|name| file.section(name));
    sections
        .flat_map(|section| section.bytes().chunks_exact(RELOCATION_BYTES))
        .filter_map(Relocation::read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stub_of_aarch64_says_its_slot() {
        // As GNU ld writes them, without and with a mark for branches; `adrp` and `ldr` count.
        let plain: [u32; 4] = [0xb000_0090, 0xf940_0211, 0x9100_0210, 0xd61f_0220];
        let back: [u32; 4] = [0x90ff_fff0, 0xf947_fe11, 0x913f_e210, 0xd61f_0220];
        let marked: [u32; 6] =
            [0xd503_245f, 0xb000_0090, 0xf940_0611, 0x9100_2210, 0xd61f_0220, 0xd503_201f];
        type Found = Option<(u64, u64)>;
        let cases: [(&str, &[u32], u64, Found); 7] = [
            ("its start", &plain, 0, Some((0, 0x41_1000))),
            ("its end", &plain, 12, Some((0, 0x41_1000))),
            ("backwards, far into the page", &back, 4, Some((0, 0x3f_cff8))),
            ("at the mark", &marked, 0, Some((4, 0x41_1008))),
            ("behind the mark", &marked, 20, Some((4, 0x41_1008))),
            ("no stub", &[0xd503_201f; 8], 16, None),
            ("behind the code", &plain, 64, None),
        ];
        for (case, words, within, expected) in cases {
            let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let base = 0x40_0450;
            let found = slot_on_aarch64(&code, base, base + within);
            let found = found.map(|(start, slot)| match slot {
                Slot::At(slot) => (start - base, slot),
                Slot::Numbered(number) => panic!("{case}: {number}"),
            });
            assert_eq!(found, expected, "{case}");
        }
    }
}

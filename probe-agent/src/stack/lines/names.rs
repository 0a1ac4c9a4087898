//! The name of a function, which is often said by another entry than the one with its addresses: in
//! the same unit, in another one, or in the file that several programs share.

use super::{Bytes, Dwarf, Unit};
use gimli::{AttributeValue, UnitOffset};
use std::{collections::HashMap, rc::Rc};

/// How many entries lead from one to the next before a name is given up.
const MOST_STEPS: usize = 16;

/// The most units that are kept while names are looked up.
const MOST_UNITS: usize = 256;

/// Which of the two files an entry is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum InFile {
    Own,
    Shared,
}

/// Units by where they begin, parsed when a name leads there.
pub struct Names<'s, 'a> {
    dwarf: &'a Dwarf<'s>,
    own_starts: Vec<usize>,
    shared_starts: Vec<usize>,
    parsed: HashMap<(InFile, usize), Rc<Unit<'s>>>,
}

/// What an entry says of its name.
#[derive(Default)]
struct Said<'s> {
    name: Option<Bytes<'s>>,
    /// The entry that says more.
    next: Option<AttributeValue<Bytes<'s>>>,
}

impl<'s, 'a> Names<'s, 'a> {
    /// Looks nothing up yet, but where units begin in the shared file.
    pub fn new(dwarf: &'a Dwarf<'s>, own_starts: Vec<usize>) -> Self {
        let mut shared_starts = Vec::new();
        if let Some(shared) = dwarf.sup() {
            let mut units = shared.units();
            while let Ok(Some(header)) = units.next() {
                shared_starts.extend(start_of(&header));
            }
        }
        Self { dwarf, own_starts, shared_starts, parsed: HashMap::new() }
    }

    /// The name of an entry of a unit of this file.
    pub fn of(&mut self, unit: &Rc<Unit<'s>>, entry: UnitOffset) -> Option<Bytes<'s>> {
        let (mut file, mut unit, mut entry) = (InFile::Own, Rc::clone(unit), entry);
        for _ in 0..MOST_STEPS {
            let said = self.said_by(file, &unit, entry)?;
            if said.name.is_some() {
                return said.name;
            }
            let next = said.next?;
            if let AttributeValue::UnitRef(offset) = next {
                entry = offset;
                continue;
            }
            let offset = if let AttributeValue::DebugInfoRef(offset) = next {
                offset
            } else if let AttributeValue::DebugInfoRefSup(offset) = next {
                file = InFile::Shared;
                offset
            } else {
                return None;
            };
            unit = self.unit_around(file, offset.0)?;
            entry = offset.to_unit_offset(&unit.header)?;
        }
        None
    }

    fn dwarf_of(&self, file: InFile) -> Option<&'a Dwarf<'s>> {
        match file {
            InFile::Own => Some(self.dwarf),
            InFile::Shared => self.dwarf.sup(),
        }
    }

    fn said_by(&self, file: InFile, unit: &Unit<'s>, entry: UnitOffset) -> Option<Said<'s>> {
        let dwarf = self.dwarf_of(file)?;
        let mut entries = unit.entries_raw(Some(entry)).ok()?;
        let form = entries.read_abbreviation().ok()??;
        let (mut linkage_name, mut said) = (None, Said::default());
        for attribute in form.attributes() {
            let attribute = entries.read_attribute(*attribute).ok()?;
            let text = || dwarf.attr_string(unit, attribute.value()).ok();
            match attribute.name() {
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => linkage_name = text(),
                gimli::DW_AT_name => said.name = text(),
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                    said.next = Some(attribute.value());
                }
                _ => {}
            }
        }
        // That for the linker says namespaces and parameters too; where another entry may have one, it
        // is asked first.
        said.name = linkage_name.or(said.name);
        Some(said)
    }

    /// The unit that has an offset of a file's information.
    fn unit_around(&mut self, file: InFile, offset: usize) -> Option<Rc<Unit<'s>>> {
        let starts = match file {
            InFile::Own => &self.own_starts,
            InFile::Shared => &self.shared_starts,
        };
        let after = starts.partition_point(|start| *start <= offset);
        let start = *starts.get(after.checked_sub(1)?)?;
        if let Some(unit) = self.parsed.get(&(file, start)) {
            return Some(Rc::clone(unit));
        }
        let dwarf = self.dwarf_of(file)?;
        let header = dwarf.unit_header(gimli::DebugInfoOffset(start)).ok()?;
        let unit = Rc::new(dwarf.unit(header).ok()?);
        if self.parsed.len() < MOST_UNITS {
            self.parsed.insert((file, start), Rc::clone(&unit));
        }
        Some(unit)
    }
}

/// Where a unit begins.
pub fn start_of(header: &gimli::UnitHeader<Bytes>) -> Option<usize> {
    header.debug_info_offset().map(|offset| offset.0)
}

//! The functions around addresses: the one that was called, and those that the compiler put in place
//! of calls in it.

use super::{Bytes, MOST_FRAMES, Unit, patience::Patience, ranges::Covered};
use gimli::{AttributeValue, UnitOffset, UnitRef};

/// A function around an address.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Its entry.
    pub entry: UnitOffset,
    /// The number of the file with the call that it was put in place of.
    pub call_file: Option<u64>,
    /// The line of that call.
    pub call_line: Option<u32>,
}

/// What is around one address, from the outside in.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// First the function that was called.
    pub scopes: Vec<Scope>,
}

/// An entry that is not left yet.
struct Open {
    depth: isize,
    /// The entry, of a function that was called.
    function: UnitOffset,
}

/// Walks a unit once, for all of some sorted addresses.
pub fn around(unit: UnitRef<Bytes>, svmas: &[u64], patience: &mut Patience) -> Vec<Around> {
    let mut found = vec![Around::default(); svmas.len()];
    // What a wrong entry ends is found up to there.
    let _ = walk(unit, svmas, patience, &mut found);
    found
}

fn walk(
    unit: UnitRef<Bytes>,
    svmas: &[u64],
    patience: &mut Patience,
    found: &mut [Around],
) -> gimli::Result<()> {
    let mut open: Vec<Open> = Vec::new();
    let mut entries = unit.entries_raw(None)?;
    while patience.step() && !entries.is_empty() {
        let (entry, depth) = (entries.next_offset(), entries.next_depth());
        let Some(form) = entries.read_abbreviation()? else { continue };
        let is_function = form.tag() == gimli::DW_TAG_subprogram;
        if !is_function && form.tag() != gimli::DW_TAG_inlined_subroutine {
            entries.skip_attributes(form.attributes())?;
            continue;
        }
        while open.last().is_some_and(|open| open.depth >= depth) {
            open.pop();
        }
        let mut covered = Covered::default();
        let mut scope = Scope { entry, call_file: None, call_line: None };
        for attribute in form.attributes() {
            let attribute = entries.read_attribute(*attribute)?;
            match attribute.name() {
                gimli::DW_AT_call_file => {
                    if let AttributeValue::FileIndex(number) = attribute.value() {
                        // Before DWARF 5, files are counted from 1.
                        let is_file = number > 0 || unit.header.version() >= 5;
                        scope.call_file = Some(number).filter(|_| is_file);
                    }
                }
                gimli::DW_AT_call_line => {
                    let line = attribute.udata_value();
                    scope.call_line = line.and_then(|line| u32::try_from(line).ok());
                }
                name => covered.take(unit, name, attribute.value()),
            }
        }
        if is_function {
            open.push(Open { depth, function: entry });
        }
        let Some(function) = open.last().map(|open| open.function) else { continue };
        covered.each(unit, patience, |start, end| {
            let from = svmas.partition_point(|svma| *svma < start);
            let inside = svmas.iter().zip(found.iter_mut()).skip(from);
            for (_, around) in inside.take_while(|(svma, _)| **svma < end) {
                add(&mut around.scopes, scope, is_function, function);
            }
        });
    }
    Ok(())
}

/// Adds a scope to those around an address: the first function that has it, and what was put into that
/// one. Others may have the same code, which the linker has folded.
fn add(scopes: &mut Vec<Scope>, scope: Scope, is_function: bool, function: UnitOffset) {
    let belongs = match scopes.first() {
        None => is_function,
        Some(first) => !is_function && first.entry == function,
    };
    // The ranges of one entry may overlap.
    let is_new = scopes.last().is_none_or(|last| last.entry != scope.entry);
    if belongs && is_new && scopes.len() < MOST_FRAMES {
        scopes.push(scope);
    }
}

/// The file with the functions of a unit that has none itself.
pub fn split_into<'s>(unit: UnitRef<Bytes<'s>>, parsed: &Unit<'s>) -> Option<Bytes<'s>> {
    parsed.dwo_id?;
    unit.attr_string(parsed.dwo_name().ok()??).ok()
}

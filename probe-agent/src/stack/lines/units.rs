//! The units of a program, and which of them has which addresses.

use super::{
    Bytes, Dwarf, Place, SourceFrame, Unit,
    names::{Names, start_of},
    patience::Patience,
    rows::{self, Row},
    scopes::{self, Around},
};
use gimli::UnitRef;
use protocol::host_text::HostText;
use std::rc::Rc;

/// A unit, and the positions of those addresses that it has.
struct Wanted<'s> {
    unit: Rc<Unit<'s>>,
    positions: Vec<usize>,
}

/// What stands in the sources at each address, in the order in which they were asked for.
pub fn places(dwarf: &Dwarf, svmas: &[u64], patience: &mut Patience) -> Vec<Place> {
    let mut sorted: Vec<u64> = svmas.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut places = vec![Place::default(); sorted.len()];
    let (wanted, starts) = find(dwarf, &sorted, patience);
    let mut names = Names::new(dwarf, starts);
    for Wanted { unit, positions } in wanted {
        if !patience.ask() {
            break;
        }
        let here: Vec<u64> = positions.iter().filter_map(|at| sorted.get(*at).copied()).collect();
        let reference = unit.unit_ref(dwarf);
        let split_into = scopes::split_into(reference, &unit);
        let around = scopes::around(reference, &here, patience);
        let rows = rows::of(&unit, &here, patience);
        for ((position, around), row) in positions.iter().zip(around).zip(rows) {
            // Names lead to other units, which are read for them.
            if !patience.ask() {
                break;
            }
            let Some(place) = places.get_mut(*position) else { continue };
            *place = Place {
                frames: frames(&mut names, &unit, reference, &around, row),
                split_into: split_into.map(|path| HostText::new(path.slice())),
            };
        }
    }
    let place = |svma| places.get(sorted.binary_search(svma).ok()?).cloned();
    svmas.iter().map(|svma| place(svma).unwrap_or_default()).collect()
}

/// The units that have any of some sorted addresses, each address in the first unit that has it; and
/// where every unit begins.
fn find<'s>(
    dwarf: &Dwarf<'s>,
    sorted: &[u64],
    patience: &mut Patience,
) -> (Vec<Wanted<'s>>, Vec<usize>) {
    let (mut wanted, mut starts) = (Vec::new(), Vec::new());
    let mut is_free = vec![true; sorted.len()];
    let mut units = dwarf.units();
    while patience.ask()
        && let Ok(Some(header)) = units.next()
    {
        starts.extend(start_of(&header));
        let has_code =
            matches!(header.type_(), gimli::UnitType::Compilation | gimli::UnitType::Skeleton(_));
        if !has_code || !is_free.contains(&true) {
            continue;
        }
        let Ok(unit) = dwarf.unit(header) else { continue };
        let mut positions = Vec::new();
        let Ok(mut ranges) = dwarf.unit_ranges(&unit) else { continue };
        while patience.step()
            && let Ok(Some(range)) = ranges.next()
        {
            let from = sorted.partition_point(|svma| *svma < range.begin);
            let inside = sorted.iter().zip(&mut is_free).enumerate().skip(from);
            for (position, (_, free)) in inside.take_while(|(_, (svma, _))| **svma < range.end) {
                if std::mem::take(free) {
                    positions.push(position);
                }
            }
        }
        if !positions.is_empty() {
            positions.sort_unstable();
            wanted.push(Wanted { unit: Rc::new(unit), positions });
        }
    }
    (wanted, starts)
}

/// Puts together what is around an address: each function with the place of the call in it, the
/// innermost with the line of the address.
fn frames<'s>(
    names: &mut Names<'s, '_>,
    unit: &Rc<Unit<'s>>,
    reference: UnitRef<Bytes<'s>>,
    around: &Around,
    row: Option<Row>,
) -> Vec<SourceFrame> {
    let mut file = row.map(|row| row.file);
    let mut line = row.map(|row| row.line);
    let mut frames = Vec::new();
    for scope in around.scopes.iter().rev() {
        frames.push(SourceFrame {
            function: names.of(unit, scope.entry).map(super::shown),
            file: file.and_then(|file| rows::path(reference, file)),
            line: line.filter(|line| *line > 0),
        });
        (file, line) = (scope.call_file, scope.call_line);
    }
    if frames.is_empty() && row.is_some() {
        let file = file.and_then(|file| rows::path(reference, file));
        frames.push(SourceFrame { function: None, file, line: line.filter(|line| *line > 0) });
    }
    frames
}

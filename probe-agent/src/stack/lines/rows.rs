//! From addresses to lines: the program that a unit has for it.

use super::{Bytes, Unit, patience::Patience};
use gimli::UnitRef;
use protocol::host_text::HostText;

/// A line of a source file.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The number of the file in this unit.
    pub file: u64,
    /// Counted from 1; 0 for code that is on no line.
    pub line: u32,
}

/// The line of each of some sorted addresses.
pub fn of(unit: &Unit, svmas: &[u64], patience: &mut Patience) -> Vec<Option<Row>> {
    let mut found = vec![None; svmas.len()];
    let Some(program) = unit.line_program.clone() else { return found };
    let mut rows = program.rows();
    // A row holds up to the address of the next one.
    let mut before: Option<(u64, Row)> = None;
    while patience.step()
        && let Ok(Some((_, row))) = rows.next_row()
    {
        let address = row.address();
        if let Some((start, kept)) = before {
            let from = svmas.partition_point(|svma| *svma < start);
            let inside = svmas.iter().zip(&mut found).skip(from);
            for (_, place) in inside.take_while(|(svma, _)| **svma < address) {
                *place = Some(kept);
            }
        }
        let line = row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0));
        before = (!row.end_sequence()).then(|| (address, Row { file: row.file_index(), line }));
    }
    found
}

/// The path of a source file by its number.
pub fn path(unit: UnitRef<Bytes>, number: u64) -> Option<HostText> {
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(number)?;
    let mut path: Vec<u8> = unit.comp_dir.map(|folder| folder.slice().to_vec()).unwrap_or_default();
    // Folder 0 is the one in which the compiler ran.
    if file.directory_index() != 0
        && let Some(folder) = file.directory(header)
    {
        append(&mut path, unit.attr_string(folder).ok()?.slice());
    }
    append(&mut path, unit.attr_string(file.path_name()).ok()?.slice());
    Some(HostText::new(&path))
}

fn append(path: &mut Vec<u8>, more: &[u8]) {
    if more.starts_with(b"/") {
        path.clear();
    } else if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(more);
}

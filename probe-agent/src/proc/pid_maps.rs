//! What a process has in its memory, as far as it can be executed.
//!
//! Source: `/proc/PID/maps`. Kernel reference: `show_map_vma` in `fs/proc/task_mmu.c`,
//! `man 5 proc_pid_maps`. It takes the process's `mmap_lock`, and the right to look into the process;
//! kernel threads have an empty one. A newline in a path is written `\012`.

use super::parse::{self, ParseError};
use crate::perf::records::FileId;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// First address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// Whether it can be executed.
    pub is_executable: bool,
    /// Where in the file it begins, in bytes.
    pub file_offset: u64,
    /// The file's device and inode; all 0 without a file.
    pub file: FileId,
    /// Path, with ` (deleted)` after it where it is; or a name in brackets; or empty.
    pub name: Vec<u8>,
}

/// Reads one line.
///
/// # Errors
///
/// What is missing, or is no number.
pub fn parse_line(line: &[u8], line_number: usize) -> Result<Line, ParseError> {
    let mut rest = line;
    let mut field = |expected| {
        let missing = ParseError::MissingField { line_number, expected };
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        let (field, after) = rest.split_at_checked(end).ok_or(missing.clone())?;
        rest = after;
        if field.is_empty() { Err(missing) } else { Ok(field) }
    };
    let (start, end) = two(field("addresses")?, b'-', line_number)?;
    let rights = field("rights")?;
    let file_offset = hexadecimal(field("offset")?, line_number)?;
    let (major, minor) = two(field("device")?, b':', line_number)?;
    let inode = parse::number(field("inode")?, line_number)?;
    let device = |number| u32::try_from(number).unwrap_or(u32::MAX);
    Ok(Line {
        start,
        end,
        is_executable: rights.get(2) == Some(&b'x'),
        file_offset,
        file: FileId { major: device(major), minor: device(minor), inode },
        name: with_newlines(rest.trim_ascii_start()),
    })
}

/// Reads all lines that are executable. A last one that was cut is left out.
///
/// # Errors
///
/// As for [`parse_line`].
pub fn parse(text: &[u8]) -> Result<Vec<Line>, ParseError> {
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut lines = Vec::new();
    for (line_number, line) in parse::lines(text.get(..whole).unwrap_or_default()) {
        if !line.is_empty() {
            let line = parse_line(line, line_number)?;
            if line.is_executable {
                lines.push(line);
            }
        }
    }
    Ok(lines)
}

fn two(field: &[u8], separator: u8, line_number: usize) -> Result<(u64, u64), ParseError> {
    let mut parts = field.splitn(2, |byte| *byte == separator);
    let first = hexadecimal(parts.next().unwrap_or_default(), line_number)?;
    Ok((first, hexadecimal(parts.next().unwrap_or_default(), line_number)?))
}

fn hexadecimal(field: &[u8], line_number: usize) -> Result<u64, ParseError> {
    let digits = field.iter().all(u8::is_ascii_hexdigit);
    let number = std::str::from_utf8(field).ok().filter(|_| digits);
    number.and_then(|number| u64::from_str_radix(number, 16).ok()).ok_or_else(|| {
        let text = super::host_text(field);
        ParseError::NotANumber { line_number, text }
    })
}

fn with_newlines(name: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((byte, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(b"\\012") {
            text.push(b'\n');
            rest = after;
        } else {
            text.push(*byte);
            rest = after;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_taken_whole_and_only_code_counts() {
        let text = b"\
55d0c0000000-55d0c0001000 r--p 00000000 08:01 131 /opt/my app (v2)/bin/x (deleted)\n\
55d0c0001000-55d0c0002000 r-xp 00001000 08:01 131                        /opt/my app (v2)/bin/x (deleted)\n\
7f0000000000-7f0000010000 rwxp 00000000 00:00 0 \n\
7f0000010000-7f0000020000 r-xp 00000000 fe:1f 18446744073709551615 /a\\012b\n\
7ffc00000000-7ffc00001000 r-xp 00000000 00:00 0                          [vdso]\n\
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n\
7f0000030000-7f00000";
        let lines = parse(text).unwrap();
        let told: Vec<_> = lines
            .iter()
            .map(|line| (line.start, line.file_offset, line.file.inode, line.name.as_slice()))
            .collect();
        let wanted: [(u64, u64, u64, &[u8]); 5] = [
            (0x55d0_c000_1000, 0x1000, 131, b"/opt/my app (v2)/bin/x (deleted)"),
            (0x7f00_0000_0000, 0, 0, b""),
            (0x7f00_0001_0000, 0, u64::MAX, b"/a\nb"),
            (0x7ffc_0000_0000, 0, 0, b"[vdso]"),
            (0xffff_ffff_ff60_0000, 0, 0, b"[vsyscall]"),
        ];
        assert_eq!(told, wanted);
        assert_eq!((lines[0].file.major, lines[2].file.minor), (8, 0x1f));
    }

    #[test]
    fn a_line_that_is_none_is_an_error() {
        for wrong in
            ["x", "1-2", "1-2 r-xp", "1-2 r-xp 0 8:1", "1-2 r-xp 0 8 1 /a", "-2 r-xp 0 8:1 1"]
        {
            assert!(parse_line(wrong.as_bytes(), 1).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_own_maps_hold_this_function() {
        let own = parse(&std::fs::read("/proc/self/maps").unwrap()).unwrap();
        let here = (the_own_maps_hold_this_function as fn()) as usize as u64;
        assert!(own.iter().any(|line| (line.start..line.end).contains(&here)));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(text in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&text);
            let _ = parse_line(&text, 1);
        }
    }
}

//! Functions of the kernel and its modules.
//!
//! Source: `/proc/kallsyms`, every kernel with `CONFIG_KALLSYMS`; `kernel/kallsyms.c`. Without
//! `CAP_SYSLOG`, or where `kernel.kptr_restrict` is 2, every address in it is zero: then nothing is
//! named, because everything would get the name of the last zero.

use super::{How, Named, demangle, symbols::Candidate};
use protocol::host_text::HostText;

/// The most of the file that is worth reading: a kernel with all of its symbols has 15 MiB.
pub const MOST_BYTES: usize = 64 << 20;

/// What memory of modules and of what ends a list is rounded to.
const PAGE_BYTES: u64 = 4096;

/// Why there are no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoNames {
    /// All addresses are zero: who reads may not know them.
    #[error("the kernel hides its addresses")]
    Hidden,
    /// There is no function in it.
    #[error("the kernel lists no functions")]
    Empty,
}

/// A function: its line begins at an offset in the text.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    line: u32,
}

/// Functions by address. 16 bytes for each of about 70,000; their names stay in the text.
#[derive(Debug)]
pub struct KernelNames<'t> {
    text: &'t [u8],
    entries: Vec<Entry>,
    /// Where the kernel's own code ends, `_etext`. Modules and what the kernel makes at run time come
    /// later, and also code that was freed after the start.
    end_of_core: Option<u64>,
}

/// A line, taken apart.
struct Line<'t> {
    address: u64,
    kind: u8,
    name: &'t [u8],
    module: Option<&'t [u8]>,
}

impl<'t> KernelNames<'t> {
    /// Reads the file's text.
    ///
    /// # Errors
    ///
    /// [`NoNames`], where nothing could be named by it.
    pub fn parse(text: &'t [u8]) -> Result<Self, NoNames> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut end_of_core = None;
        let mut any = false;
        let mut offset = 0_u32;
        for whole in text.split_inclusive(|byte| *byte == b'\n') {
            let line = offset;
            let Some(next) = u32::try_from(whole.len()).ok().and_then(|n| offset.checked_add(n))
            else {
                break;
            };
            offset = next;
            let Some(found) = Line::parse(whole) else { continue };
            if found.name == b"_etext" && found.address != 0 {
                end_of_core = Some(found.address);
            }
            if matches!(found.kind, b't' | b'T' | b'w' | b'W') && found.name != b"_etext" {
                any = true;
                if found.address != 0 {
                    entries.push(Entry { start: found.address, line });
                }
            }
        }
        if entries.is_empty() {
            return Err(if any { NoNames::Hidden } else { NoNames::Empty });
        }
        entries.sort_unstable_by_key(|entry| (entry.start, entry.line));
        entries.dedup_by(|later, kept| {
            let is_same = later.start == kept.start;
            if is_same && is_better(text, later, kept) {
                *kept = *later;
            }
            is_same
        });
        entries.shrink_to_fit();
        Ok(Self { text, entries, end_of_core })
    }

    /// How many functions have a name.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// The function that has an address. None below the first one, above the last one of the kernel
    /// itself, and above the last one of a module.
    pub fn find(&self, address: u64) -> Option<KernelName> {
        let before = self.entries.partition_point(|entry| entry.start <= address);
        let entry = self.entries.get(before.checked_sub(1)?)?;
        let line = line_at(self.text, entry)?;
        let next = self.entries.get(before);
        let next_module = next.and_then(|next| line_at(self.text, next)?.module);
        if address >= self.end_of(entry, &line, next.map(|next| next.start), next_module) {
            return None;
        }
        let text = demangle::shown(line.name);
        let named = Named { text, start: entry.start, how: How::Kallsyms };
        Some(KernelName { named, module: line.module.map(HostText::new) })
    }

    /// Where a function ends at the latest: where the next one starts, if that is of the same module.
    fn end_of(&self, entry: &Entry, line: &Line, next: Option<u64>, module: Option<&[u8]>) -> u64 {
        let page_after = |address: u64| (address | (PAGE_BYTES - 1)).saturating_add(1);
        let end = match next {
            Some(next) if line.module == module => next,
            Some(_) | None => page_after(entry.start),
        };
        match self.end_of_core {
            Some(core) if entry.start < core => end.min(core),
            Some(_) | None => end,
        }
    }
}

/// A function of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelName {
    /// Its name.
    pub named: Named,
    /// The module that it is in; `bpf` for a program of eBPF.
    pub module: Option<HostText>,
}

impl<'t> Line<'t> {
    /// `ffffffff81000000 T _text`, for a module's with `\t[name]` behind it.
    fn parse(line: &'t [u8]) -> Option<Self> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let space = line.iter().take(17).position(|byte| *byte == b' ')?;
        let (address, rest) = line.split_at_checked(space)?;
        let address = hexadecimal(address)?;
        let [b' ', kind, b' ', rest @ ..] = rest else { return None };
        let (name, module) = match rest.iter().position(|byte| *byte == b'\t') {
            None => (rest, None),
            Some(at) => {
                let (name, module) = rest.split_at_checked(at)?;
                let module = module.strip_prefix(b"\t[").and_then(|rest| rest.strip_suffix(b"]"));
                (name, module)
            }
        };
        (!name.is_empty()).then_some(Self { address, kind: *kind, name, module })
    }
}

/// A number of at most 16 hexadecimal digits.
pub(super) fn hexadecimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            b'A'..=b'F' => digit - b'A' + 10,
            _ => return None,
        };
        Some(value << 4 | u64::from(digit))
    })
}

fn line_at<'t>(text: &'t [u8], entry: &Entry) -> Option<Line<'t>> {
    let from = text.get(usize::try_from(entry.line).ok()?..)?;
    Line::parse(from.split(|byte| *byte == b'\n').next()?)
}

fn is_better(text: &[u8], one: &Entry, other: &Entry) -> bool {
    fn candidate<'t>(line: &Line<'t>) -> Candidate<'t> {
        Candidate {
            name: line.name,
            is_sized: false,
            is_weak: line.kind.eq_ignore_ascii_case(&b'w'),
            is_global: line.kind.is_ascii_uppercase(),
        }
    }
    match (line_at(text, one), line_at(text, other)) {
        (Some(one), Some(other)) => candidate(&one).is_better_than(&candidate(&other)),
        (Some(_), None) => true,
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &[u8] = b"0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000040 t __pfx_do_one
ffffffff81000050 T do_one
ffffffff81000050 t __do_one_alias
ffffffff81000050 W weak_but_much_longer_do_one
ffffffff81000100 T last_of_core
ffffffff81000180 T _etext
ffffffff82000000 D some_data
ffffffff83000010 t init_once
ffffffffc0000020 t nf_hook\t[nf_tables]
ffffffffc0000000 t nf_first\t[nf_tables]
ffffffffc0002000 t bpf_prog_6deef7357e7b4530_name\t[bpf]
";

    #[test]
    fn an_address_has_the_name_of_the_function_that_it_is_in() {
        let names = KernelNames::parse(TEXT).unwrap();
        let cases = [
            ("before all", 0xffff_ffff_8000_0000, None),
            ("zero", 0, None),
            ("the first", 0xffff_ffff_8100_0000, Some(("_stext", None))),
            ("not weak, and global", 0xffff_ffff_8100_0050, Some(("do_one", None))),
            ("inside", 0xffff_ffff_8100_00ff, Some(("do_one", None))),
            ("the last of the core", 0xffff_ffff_8100_017f, Some(("last_of_core", None))),
            ("behind the core", 0xffff_ffff_8100_0180, None),
            ("data", 0xffff_ffff_8200_0000, None),
            ("code of the start", 0xffff_ffff_8300_0011, Some(("init_once", None))),
            ("far behind it", 0xffff_ffff_8300_1000, None),
            ("a module", 0xffff_ffff_c000_001f, Some(("nf_first", Some("nf_tables")))),
            ("its last one", 0xffff_ffff_c000_0f00, Some(("nf_hook", Some("nf_tables")))),
            ("behind its page", 0xffff_ffff_c000_1000, None),
            (
                "a program of eBPF",
                0xffff_ffff_c000_2010,
                Some(("bpf_prog_6deef7357e7b4530_name", Some("bpf"))),
            ),
            ("behind all", u64::MAX, None),
        ];
        for (case, address, expected) in cases {
            let found = names.find(address);
            let found = found
                .as_ref()
                .map(|name| (name.named.text.as_str(), name.module.as_ref().map(HostText::as_str)));
            assert_eq!(found, expected, "{case}");
        }
    }

    #[test]
    fn addresses_that_are_all_zero_name_nothing() {
        let zeros = b"0000000000000000 T _stext\n0000000000000000 t a\t[m]\n";
        assert_eq!(KernelNames::parse(zeros).unwrap_err(), NoNames::Hidden);
        assert_eq!(KernelNames::parse(b"").unwrap_err(), NoNames::Empty);
        assert_eq!(KernelNames::parse(b"ffffffff82000000 D data\n").unwrap_err(), NoNames::Empty);
        assert_eq!(KernelNames::parse(b"no kallsyms\n\n \n").unwrap_err(), NoNames::Empty);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(
            text in "([0-9a-f]{0,17} ?[TtWwD]? ?[a-z_]{0,4}\t?\\[?[a-z]{0,3}\\]?\n?){0,12}",
            address: u64,
        ) {
            if let Ok(names) = KernelNames::parse(text.as_bytes()) {
                let _ = names.find(address);
                for entry in &names.entries {
                    let _ = names.find(entry.start);
                }
            }
        }
    }
}

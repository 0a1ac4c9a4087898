//! What a mapping is called: the last part of its path, as `perf` shows it, and whether that is a file.
//!
//! Source: the last column of `/proc/PID/maps`, and the name in the records of `perf_event_open`:
//! `show_map_vma` in the kernel's `fs/proc/task_mmu.c`, `perf_event_mmap_event`.

use protocol::host_text::HostText;

/// The longest name that is shown.
const MOST_BYTES: usize = 120;

/// What is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file, also one that has no name any more.
    File,
    /// The library of the kernel: see [`super::vdso`].
    Vdso,
    /// The page at a fixed address on x86 through which old programs ask for the time.
    Vsyscall,
    /// Memory without a file: the heap, a stack, or code that was compiled while the program ran.
    Anonymous,
}

/// A mapping by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// What is shown: `libc.so.6`, `[heap]`, `memfd:jit`.
    pub name: HostText,
    /// What it is.
    pub kind: Kind,
    /// Whether the file was removed or replaced since it was mapped. Then nothing at its path is what
    /// runs: it is opened by `map_files`, or by `exe`.
    ///
    /// A file whose real name ends so looks the same: whoever opens files compares their numbers.
    pub is_deleted: bool,
}

impl Module {
    /// Reads the name of a mapping.
    pub fn of_mapping(name: &[u8]) -> Self {
        let (path, is_deleted) = match name.strip_suffix(b" (deleted)") {
            Some(path) => (path, true),
            None => (name, false),
        };
        let last = path.rsplit(|byte| *byte == b'/').find(|part| !part.is_empty());
        let shown = |name: &[u8]| HostText::capped(name, MOST_BYTES);
        let kind = match path {
            b"[vdso]" => Kind::Vdso,
            b"[vsyscall]" => Kind::Vsyscall,
            // `//anon` is what records of perf events say; `/dev/zero` and `/SYSV…` are shared memory.
            b"//anon" | b"/dev/zero" | b"/anon_hugepage" => Kind::Anonymous,
            _ if path.starts_with(b"/SYSV") => Kind::Anonymous,
            _ if path.starts_with(b"/") => Kind::File,
            _ => Kind::Anonymous,
        };
        let name = match (kind, last) {
            (Kind::Anonymous, _) if path.is_empty() || path == b"//anon" => shown(b"[anonymous]"),
            (Kind::File, Some(last)) => shown(last),
            (Kind::File | Kind::Vdso | Kind::Vsyscall | Kind::Anonymous, _) => shown(path),
        };
        Self { name, kind, is_deleted: is_deleted && kind == Kind::File }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_called_by_the_last_part_of_its_path() {
        let cases: &[(&[u8], &str, Kind, bool)] = &[
            (b"/usr/lib/x86_64-linux-gnu/liblzma.so.5", "liblzma.so.5", Kind::File, false),
            (b"/usr/bin/x (deleted)", "x", Kind::File, true),
            (b"/opt/my app (v2)/bin/x (deleted)", "x", Kind::File, true),
            (b"/opt/my app (v2)/bin/x (v3)", "x (v3)", Kind::File, false),
            (b"/memfd:jit code (deleted)", "memfd:jit code", Kind::File, true),
            (b"[vdso]", "[vdso]", Kind::Vdso, false),
            (b"[vsyscall]", "[vsyscall]", Kind::Vsyscall, false),
            (b"[heap]", "[heap]", Kind::Anonymous, false),
            (b"[anon:JIT app cache]", "[anon:JIT app cache]", Kind::Anonymous, false),
            (b"", "[anonymous]", Kind::Anonymous, false),
            (b"//anon", "[anonymous]", Kind::Anonymous, false),
            (b"/dev/zero (deleted)", "/dev/zero", Kind::Anonymous, false),
            (b"/SYSV00000000 (deleted)", "/SYSV00000000", Kind::Anonymous, false),
            (b"/tmp/a\nb\x1b[2J", "a\\nb\\x1b[2J", Kind::File, false),
            (b"/", "/", Kind::File, false),
        ];
        for (mapping, name, kind, is_deleted) in cases {
            let expected = Module {
                name: HostText::new(name.as_bytes()),
                kind: *kind,
                is_deleted: *is_deleted,
            };
            let mut found = Module::of_mapping(mapping);
            if found.name.as_str() == *name {
                found.name = expected.name.clone();
            }
            assert_eq!(found, expected, "{mapping:?}");
        }
    }
}

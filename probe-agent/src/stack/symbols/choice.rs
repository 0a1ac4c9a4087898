//! Which of several names of one address is shown: the same one each time, and the one that `perf`
//! shows.
//!
//! Source: `choose_best_symbol` in the kernel's `tools/perf/util/symbol.c`.

use std::cmp::Reverse;

/// A name of an address, as far as it matters for the choice.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'t> {
    /// The text as it stands in the file.
    pub name: &'t [u8],
    /// Whether a size is known.
    pub is_sized: bool,
    /// Whether another one may take its place when programs are linked.
    pub is_weak: bool,
    /// Whether other files see it.
    pub is_global: bool,
}

impl Candidate<'_> {
    /// The larger the better: sized, not weak, global, with few underscores before it, not the second
    /// name of a system call, long; and by its letters, so that the order in a file does not matter.
    fn rank(&self) -> impl Ord + '_ {
        let underscores = self.name.iter().take_while(|byte| **byte == b'_').count();
        // Names of system calls that are the same function again: of kernels before 4.17, and since
        // then of those without parameters, which programs of 32 bits reach by a name of their own
        // (arch/x86/include/asm/syscall_wrapper.h).
        let again: [&[u8]; 3] = [b"SyS", b"compat_SyS", b"__ia32_sys_"];
        let is_again = again.iter().any(|start| self.name.starts_with(start));
        (
            self.is_sized,
            !self.is_weak,
            self.is_global,
            Reverse(underscores),
            // A version that is not the default one says more than is asked, and hides the plain name.
            !self.name.contains(&b'@'),
            !is_again,
            self.name.len(),
            Reverse(self.name),
        )
    }

    /// Whether this one is shown rather than the other.
    pub fn is_better_than(&self, other: &Self) -> bool {
        self.rank() > other.rank()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_names_the_same_one_is_shown_in_any_order() {
        let plain = |name| Candidate { name, is_sized: true, is_weak: false, is_global: true };
        let cases = [
            ("sized", plain(b"a"), Candidate { is_sized: false, ..plain(b"longer") }),
            ("not weak", plain(b"__a"), Candidate { is_weak: true, ..plain(b"longer") }),
            ("global", plain(b"__a"), Candidate { is_global: false, ..plain(b"longer") }),
            ("fewer underscores", plain(b"read"), plain(b"__libc_read")),
            ("longer", plain(b"memmove_avx"), plain(b"memcpy_avx")),
            ("without a version", plain(b"memcpy"), plain(b"memcpy@@GLIBC_2.14")),
            ("not a system call's second name", plain(b"sys_x"), plain(b"SyS_x")),
            ("the machine's own system call", plain(b"__x64_sys_x"), plain(b"__ia32_sys_x")),
            ("the first by its letters", plain(b"aa"), plain(b"ab")),
        ];
        for (case, better, worse) in cases {
            assert!(better.is_better_than(&worse), "{case}");
            assert!(!worse.is_better_than(&better), "{case}, the other way round");
        }
    }
}

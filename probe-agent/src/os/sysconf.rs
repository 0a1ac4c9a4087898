//! What the C library knows of the machine from the moment this process started.
//!
//! rustix has the same from `PR_GET_AUXV`, Linux 6.4; on an older kernel it opens `/proc/self/auxv`
//! and panics where it may not: that file is root's as soon as a process must not dump core, and in
//! a program that got capabilities from its file.

#![expect(unsafe_code, reason = "sysconf has no safe form")]

/// The size of a page.
pub fn page_bytes() -> u64 {
    read(libc::_SC_PAGESIZE).unwrap_or(4096)
}

/// Clock ticks in a second, `USER_HZ`.
pub fn ticks_per_second() -> u64 {
    read(libc::_SC_CLK_TCK).unwrap_or(100)
}

fn read(name: libc::c_int) -> Option<u64> {
    // SAFETY: it takes a number, and answers -1 to one that it does not know.
    let value = unsafe { libc::sysconf(name) };
    u64::try_from(value).ok().filter(|value| *value > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_what_the_kernel_says() {
        let getconf = |name: &str| {
            let output = std::process::Command::new("getconf").arg(name).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().parse::<u64>().unwrap()
        };
        assert_eq!(page_bytes(), getconf("PAGESIZE"));
        assert_eq!(ticks_per_second(), getconf("CLK_TCK"));
        assert_eq!(read(-1), None);
    }
}

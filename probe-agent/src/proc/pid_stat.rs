//! One process or thread in a line: state, processor time, faults, memory.
//!
//! Source: `/proc/PID/stat` and `/proc/PID/task/TID/stat`.
//! Kernel reference: `do_task_stat` in `fs/proc/array.c`, `man 5 proc_pid_stat`.
//! Always there. Readable for every process unless `/proc` is mounted with `hidepid`.
//!
//! The name in the second field is written raw: it may hold spaces, newlines, parentheses and any
//! bytes. The line is therefore read as a whole, and the name ends at the last `)`.

use super::parse::{ParseError, number};

/// The fields of one line that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PidStat<'t> {
    /// Field 1.
    pub pid: u32,
    /// Field 2, raw, without its parentheses. 15 bytes for a program, up to 63 for a kernel
    /// worker.
    #[doc(alias = "comm")]
    pub name: &'t [u8],
    /// Field 3.
    pub state: u8,
    /// Field 4. 0 for pid 1, pid 2 and, in a container, for a process whose parent is outside.
    pub parent_pid: u32,
    /// Field 9.
    pub flags: u32,
    /// Field 10.
    #[doc(alias = "minflt")]
    pub minor_faults: u64,
    /// Field 11: of children that were waited for.
    #[doc(alias = "cminflt")]
    pub children_minor_faults: u64,
    /// Field 12.
    #[doc(alias = "majflt")]
    pub major_faults: u64,
    /// Field 13: of children that were waited for.
    #[doc(alias = "cmajflt")]
    pub children_major_faults: u64,
    /// Field 14, clock ticks. For a process: of all its threads, ended ones included.
    #[doc(alias = "utime")]
    pub user_ticks: u64,
    /// Field 15, clock ticks.
    #[doc(alias = "stime")]
    pub system_ticks: u64,
    /// Fields 16 and 17, clock ticks: user and system time of children that were waited for.
    #[doc(alias = "cutime")]
    pub children_ticks: u64,
    /// Field 20.
    #[doc(alias = "num_threads")]
    pub threads: u32,
    /// Field 22, clock ticks after boot.
    #[doc(alias = "starttime")]
    pub start_ticks: u64,
    /// Field 24, pages.
    #[doc(alias = "rss")]
    pub resident_pages: u64,
    /// Field 42, clock ticks, `None` before Linux 2.6.18. 0 also when delay accounting is off. Of
    /// one thread, the first one for `/proc/PID/stat`.
    #[doc(alias = "delayacct_blkio_ticks")]
    pub block_delay_ticks: Option<u64>,
}

/// What the kernel added to a process when it waited for its children: of each, its whole life.
///
/// A child that lived has at least one page fault, so two of these differ when one was waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    minor_faults: u64,
    major_faults: u64,
    ticks: u64,
}

impl Reaped {
    /// The same from another source: faults without and with storage, and clock ticks.
    pub const fn of(minor_faults: u64, major_faults: u64, ticks: u64) -> Self {
        Self { minor_faults, major_faults, ticks }
    }
}

/// `PF_KTHREAD` in `include/linux/sched.h`: a thread of the kernel.
pub const PF_KTHREAD: u32 = 0x0020_0000;

impl PidStat<'_> {
    /// Whether this is a thread of the kernel. An empty command line does not tell: a process may
    /// have emptied its own.
    pub const fn is_kernel_thread(&self) -> bool {
        self.flags & PF_KTHREAD != 0
    }

    /// What its children left it.
    pub const fn reaped(&self) -> Reaped {
        Reaped {
            minor_faults: self.children_minor_faults,
            major_faults: self.children_major_faults,
            ticks: self.children_ticks,
        }
    }
}

/// Parses one line.
///
/// # Errors
///
/// A line without a name in parentheses, with too few fields, or with a field that is not a number.
pub fn parse(text: &[u8]) -> Result<PidStat<'_>, ParseError> {
    let missing = |expected| ParseError::MissingField { line_number: 1, expected };
    let open = text.iter().position(|byte| *byte == b'(').ok_or_else(|| missing("name"))?;
    let close = text.iter().rposition(|byte| *byte == b')').ok_or_else(|| missing("name"))?;
    let name = text.get(open + 1..close).ok_or_else(|| missing("name"))?;
    let pid = narrow(number(text.get(..open).unwrap_or_default().trim_ascii(), 1)?)?;
    let rest = text.get(close + 1..).unwrap_or_default().trim_ascii();
    let mut fields = rest.split(|byte| *byte == b' ');
    let mut next = |skip: usize, expected| fields.nth(skip).ok_or_else(|| missing(expected));
    let state = next(0, "state")?.first().copied().ok_or_else(|| missing("state"))?;
    let parent_pid = narrow(number(next(0, "parent")?, 1)?)?;
    let flags = narrow(number(next(4, "flags")?, 1)?)?;
    let minor_faults = number(next(0, "minor faults")?, 1)?;
    let children_minor_faults = signed(next(0, "children's minor faults")?)?;
    let major_faults = number(next(0, "major faults")?, 1)?;
    let children_major_faults = signed(next(0, "children's major faults")?)?;
    let user_ticks = number(next(0, "user time")?, 1)?;
    let system_ticks = number(next(0, "system time")?, 1)?;
    let children_user_ticks = signed(next(0, "children's user time")?)?;
    let children_system_ticks = signed(next(0, "children's system time")?)?;
    let threads = narrow(number(next(2, "threads")?, 1)?)?;
    let start_ticks = number(next(1, "start time")?, 1)?;
    let resident_pages = signed(next(1, "resident pages")?)?;
    let block_delay_ticks = fields.nth(17).and_then(|field| number(field, 1).ok());
    Ok(PidStat {
        pid,
        name,
        state,
        parent_pid,
        flags,
        minor_faults,
        children_minor_faults,
        major_faults,
        children_major_faults,
        user_ticks,
        system_ticks,
        children_ticks: children_user_ticks.saturating_add(children_system_ticks),
        threads,
        start_ticks,
        resident_pages,
        block_delay_ticks,
    })
}

/// The kernel prints some counts as signed numbers; a negative one is a race, and means none.
fn signed(field: &[u8]) -> Result<u64, ParseError> {
    match field.strip_prefix(b"-") {
        Some(digits) => number(digits, 1).map(|_| 0),
        None => number(field, 1),
    }
}

fn narrow(value: u64) -> Result<u32, ParseError> {
    u32::try_from(value).map_err(|_| ParseError::NotANumber {
        line_number: 1,
        text: protocol::host_text::HostText::new(value.to_string().as_bytes()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A line of a program on Linux 6.18, with another name put in.
    fn line(name: &[u8]) -> Vec<u8> {
        let mut line = b"4711 (".to_vec();
        line.extend(name);
        line.extend(
            b") R 1 4711 4711 0 -1 4194304 120 7 3 9 250 50 5 6 20 0 3 0 88210 8192000 512 \
              18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 42 0 0 0 0 0 0 0 0 0 0\n",
        );
        line
    }

    #[test]
    fn the_fields_are_those_of_the_kernel() {
        let text = line(b"worker");
        let stat = parse(&text).unwrap();
        assert_eq!(stat.pid, 4711);
        assert_eq!((stat.state, stat.parent_pid, stat.threads), (b'R', 1, 3));
        assert_eq!((stat.minor_faults, stat.major_faults), (120, 3));
        assert_eq!((stat.children_minor_faults, stat.children_major_faults), (7, 9));
        assert_eq!((stat.user_ticks, stat.system_ticks, stat.children_ticks), (250, 50, 11));
        assert_eq!((stat.start_ticks, stat.resident_pages), (88_210, 512));
        assert_eq!(stat.block_delay_ticks, Some(42));
        assert!(!stat.is_kernel_thread());
    }

    #[test]
    fn a_name_may_hold_anything() {
        let names: [&[u8]; 8] = [
            b"a) R 1 1 (b",
            b"(sd-pam)",
            b"x\ny",
            b"   lead",
            b"tab\tx",
            b"\xff\xfe\xfdz",
            b"",
            b"kworker/u8:3-events_unbound_and_a_long_tail",
        ];
        for name in names {
            let text = line(name);
            let stat = parse(&text).unwrap();
            assert_eq!(stat.name, name);
            assert_eq!((stat.state, stat.parent_pid), (b'R', 1), "{name:?}");
        }
    }

    #[test]
    fn lines_that_are_none_are_refused_with_what_is_missing() {
        let cases: [(&str, &[u8], &str); 5] = [
            ("empty", b"", "line 1: no name"),
            ("no end of the name", b"1 (init R 0", "line 1: no name"),
            ("cut", b"1 (init) S 0 1", "line 1: no flags"),
            ("not a number", b"1 (init) S x 1", "line 1: `x` is not a number"),
            ("parentheses the wrong way round", b"1 )init( S 0", "line 1: no name"),
        ];
        for (name, text, want) in cases {
            assert_eq!(parse(text).unwrap_err().to_string(), want, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_line_or_an_error(text in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&text);
        }

        #[test]
        fn any_name_reads_back(name in prop::collection::vec(any::<u8>(), 0..64)) {
            let text = line(&name);
            prop_assert_eq!(parse(&text).unwrap().name, name.as_slice());
        }
    }
}

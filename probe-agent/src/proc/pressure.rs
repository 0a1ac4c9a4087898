//! Pressure stall information: for how long some task waited for a resource.
//!
//! Source: `/proc/pressure/{cpu,io,memory}`, Linux 4.20 and later.
//! Kernel reference: `Documentation/accounting/psi.rst`, `kernel/sched/psi.c`.
//! Missing without `CONFIG_PSI`; where it is switched off (`psi=0`, or
//! `CONFIG_PSI_DEFAULT_DISABLED`), by kernel version missing too, or reading fails with
//! `EOPNOTSUPP`.
//!
//! Only the counter is read: a window of our own choosing comes from two counters, and the
//! kernel's averages smooth over it.

use super::{
    ReadError, Root,
    parse::{ParseError, fields, lines, number},
};
use protocol::observed::{Feature, Reason, Switch};
use rustix::io::Errno;
use std::time::Duration;

/// Time since boot for which tasks waited for a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalled {
    /// At least one of them.
    pub some: Duration,
    /// All that were not idle at once. Kernels before 5.13 have no such line for processors.
    pub full: Option<Duration>,
}

/// Reads what one resource was waited for: `cpu`, `io` or `memory`.
///
/// # Errors
///
/// Why it is not known.
pub fn read(root: &Root, resource: &str) -> Result<Stalled, Reason> {
    let mut text = Vec::new();
    root.read_proc(&format!("pressure/{resource}"), &mut text)
        .map_err(|error| why_there_is_none(error, root))?;
    parse(&text).map_err(|error| Reason::NotUnderstood(error.shown()))
}

fn why_there_is_none(error: ReadError, root: &Root) -> Reason {
    // Where the kernel was told not to account it, newer ones make no files either.
    let is_off_at_boot = || {
        let mut line = Vec::new();
        root.read_proc("cmdline", &mut line).is_ok()
            && fields(line.trim_ascii())
                .any(|word| matches!(word, b"psi=0" | b"psi=n" | b"psi=off"))
    };
    match error.errno {
        Errno::OPNOTSUPP => Reason::SwitchedOff(Switch::Pressure),
        Errno::NOENT if is_off_at_boot() => Reason::SwitchedOff(Switch::Pressure),
        _ => error.reason_of_file(Feature::Pressure),
    }
}

/// Parses the file of one resource.
///
/// # Errors
///
/// Without a `some` line, or where a line has no `total`.
pub fn parse(text: &[u8]) -> Result<Stalled, ParseError> {
    let some = total_of(text, b"some ")?.ok_or(ParseError::MissingLine { expected: "some" })?;
    Ok(Stalled { some, full: total_of(text, b"full ")? })
}

fn total_of(text: &[u8], start: &[u8]) -> Result<Option<Duration>, ParseError> {
    let found =
        lines(text).find_map(|(line_number, line)| Some((line_number, line.strip_prefix(start)?)));
    let Some((line_number, rest)) = found else { return Ok(None) };
    let total = fields(rest)
        .find_map(|field| field.strip_prefix(b"total="))
        .ok_or(ParseError::MissingField { line_number, expected: "total" })?;
    number(total, line_number).map(|total| Some(Duration::from_micros(total)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::observed::Permission;

    #[test]
    fn totals() {
        let text = b"some avg10=0.00 avg60=1.11 avg300=0.68 total=2828208\n\
                     full avg10=0.00 avg60=0.91 avg300=0.56 total=2334731\n";
        let full = Some(Duration::from_micros(2_334_731));
        assert_eq!(parse(text), Ok(Stalled { some: Duration::from_micros(2_828_208), full }));
        let old = b"some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(parse(old), Ok(Stalled { some: Duration::from_micros(7), full: None }));
        let wrong = [
            ("empty", "", "no `some` line"),
            ("only full", "full total=1\n", "no `some` line"),
            ("no total", "some avg10=0.00\n", "line 1: no total"),
            ("negative", "some total=-1\n", "line 1: `-1` is not a number"),
        ];
        for (name, text, want) in wrong {
            assert_eq!(parse(text.as_bytes()).unwrap_err().to_string(), want, "{name}");
        }
    }

    #[test]
    fn pressure_that_is_switched_off_is_told_from_pressure_that_is_not_built_in() {
        let off = Reason::SwitchedOff(Switch::Pressure);
        let lacks = Reason::KernelLacks(Feature::Pressure);
        let cases = [
            ("not built in", "ro quiet\n", Errno::NOENT, lacks.clone()),
            ("no file where it is off", "ro psi=0 quiet\n", Errno::NOENT, off.clone()),
            ("a file that refuses", "ro\n", Errno::OPNOTSUPP, off.clone()),
            ("something else", "ro xpsi=0\n", Errno::NOENT, lacks.clone()),
        ];
        for (name, command_line, errno, want) in cases {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("proc")).unwrap();
            std::fs::write(folder.path().join("proc/cmdline"), command_line).unwrap();
            let root = Root::at(folder.path()).unwrap();
            assert_eq!(why_there_is_none(ReadError::from(errno), &root), want, "{name}");
            let refused = why_there_is_none(ReadError::from(Errno::ACCESS), &root);
            assert!(matches!(refused, Reason::NotPermitted(Permission::ReadFile { .. })));
        }
        assert_eq!(off.to_string(), "switched off: pressure stall information");
        assert_eq!(off.remedy().unwrap(), "boot with psi=1");
        assert_eq!(lacks.to_string(), "not in this kernel: /proc/pressure (CONFIG_PSI)");
        assert!(lacks.remedy().unwrap().contains("in case the kernel has it"));
    }
}

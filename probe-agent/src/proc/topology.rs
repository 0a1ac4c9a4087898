//! Which processors there are, and which of them share a core or a socket.
//!
//! Source: `/sys/devices/system/cpu/online` and, for each processor,
//! `/sys/devices/system/cpu/cpuN/topology/{physical_package_id,core_id}`, Linux 2.6.16 and later.
//! Kernel reference: `Documentation/admin-guide/cputopology.rst`. A core's number is unique within
//! its socket only. Some architectures say -1 for a socket that they do not know.

use super::{
    Root,
    parse::{ParseError, number},
};
use protocol::observed::{Feature, Observed, Reason};
use std::collections::BTreeSet;

/// Cores and sockets of the processors that are online.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Hardware threads.
    pub online: Observed<u32>,
    /// Cores.
    pub cores: Observed<u32>,
    /// Sockets.
    pub sockets: Observed<u32>,
}

/// Processors that a machine may have; the kernel's own limit is 8,192.
const MOST_PROCESSORS: u64 = 1 << 16;

/// Reads the topology.
pub fn read(root: &Root) -> Topology {
    let online = text_of(root, "sys/devices/system/cpu/online")
        .and_then(|text| parse_list(&text).map_err(|error| Reason::NotUnderstood(error.shown())));
    let online = match online {
        Ok(online) => online,
        Err(reason) => {
            let unknown = || Observed::Unknown(reason.clone());
            return Topology { online: unknown(), cores: unknown(), sockets: unknown() };
        }
    };
    let mut sockets = BTreeSet::new();
    let mut cores = BTreeSet::new();
    let mut placed = Ok(());
    for cpu in &online {
        let place = place_of(root, *cpu);
        match place {
            Ok((socket, core)) => {
                cores.insert((socket.clone(), core));
                sockets.insert(socket);
            }
            Err(reason) => placed = Err(reason),
        }
    }
    let counted = |count: usize| placed.clone().map(|()| count_of(count)).into();
    Topology {
        online: Observed::Known(count_of(online.len())),
        cores: counted(cores.len()),
        sockets: counted(sockets.len()),
    }
}

fn place_of(root: &Root, cpu: u64) -> Result<(Vec<u8>, Vec<u8>), Reason> {
    let file = |name| text_of(root, &format!("sys/devices/system/cpu/cpu{cpu}/topology/{name}"));
    Ok((file("physical_package_id")?, file("core_id")?))
}

fn text_of(root: &Root, path: &str) -> Result<Vec<u8>, Reason> {
    let mut text = Vec::new();
    root.read(path, &mut text).map_err(|error| error.reason_of_file(Feature::Field))?;
    Ok(text.trim_ascii().to_vec())
}

fn count_of(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The numbers of a list such as `0-3,8`.
///
/// # Errors
///
/// Where a part is no number or no range, or reaches further than any machine does.
pub fn parse_list(text: &[u8]) -> Result<Vec<u64>, ParseError> {
    let mut numbers = Vec::new();
    for part in text.trim_ascii().split(|byte| *byte == b',').filter(|part| !part.is_empty()) {
        let mut ends = part.splitn(2, |byte| *byte == b'-');
        let first = number(ends.next().unwrap_or_default(), 1)?;
        let last = ends.next().map_or(Ok(first), |last| number(last, 1))?;
        if last >= MOST_PROCESSORS {
            return Err(ParseError::MissingField {
                line_number: 1,
                expected: "processor number below 65536",
            });
        }
        numbers.extend(first..=last);
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{fs, path::Path};

    fn machine(folder: &Path, online: &str, places: &[(u32, &str, &str)]) -> Topology {
        let cpus = folder.join("sys/devices/system/cpu");
        fs::create_dir_all(folder.join("proc")).unwrap();
        fs::create_dir_all(&cpus).unwrap();
        fs::write(cpus.join("online"), online).unwrap();
        for (cpu, socket, core) in places {
            let topology = cpus.join(format!("cpu{cpu}/topology"));
            fs::create_dir_all(&topology).unwrap();
            fs::write(topology.join("physical_package_id"), format!("{socket}\n")).unwrap();
            fs::write(topology.join("core_id"), format!("{core}\n")).unwrap();
        }
        read(&Root::at(folder).unwrap())
    }

    #[test]
    fn threads_cores_and_sockets_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        // Two sockets of two cores of two threads; one thread is offline. Core numbers repeat.
        let places = [
            (0, "0", "0"),
            (1, "0", "1"),
            (2, "1", "0"),
            (3, "1", "1"),
            (4, "0", "0"),
            (5, "0", "1"),
            (6, "1", "0"),
        ];
        let found = machine(folder.path(), "0-6\n", &places);
        let known = |count| Observed::Known(count);
        assert_eq!(found, Topology { online: known(7), cores: known(4), sockets: known(2) });
    }

    #[test]
    fn a_machine_that_does_not_say_has_no_number() {
        let folder = tempfile::tempdir().unwrap();
        let found = machine(folder.path(), "0-1\n", &[(0, "0", "0")]);
        assert_eq!(found.online, Observed::Known(2));
        assert!(found.cores.known().is_none() && found.sockets.known().is_none());
    }

    #[test]
    fn lists_of_processors() {
        assert_eq!(parse_list(b"0-2,8\n").unwrap(), [0, 1, 2, 8]);
        assert_eq!(parse_list(b"\n").unwrap(), Vec::<u64>::new());
        for wrong in ["0-", "a", "0-99999999999", "1--2"] {
            assert!(parse_list(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_list_or_an_error(text in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse_list(&text);
        }
    }
}

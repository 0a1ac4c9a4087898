//! Which processors there are, and which of them share a core or a socket.
//!
//! Source: `/sys/devices/system/cpu/online` and, for each processor,
//! `/sys/devices/system/cpu/cpuN/topology/{physical_package_id,thread_siblings_list}`, Linux 2.6.16
//! and later. Kernel reference: `Documentation/admin-guide/cputopology.rst`. A core's own number
//! (`core_id`) tells nothing here: it is unique within its socket only, and where a socket holds two
//! dies not even there. Some architectures say -1 for a socket that they do not know.
//!
//! Where `/sys` is not there, as in some containers and in what support tools collect, what
//! `/proc/cpuinfo` says counts.

use super::{
    Root, cpuinfo,
    cpuinfo::CpuInfo,
    parse::{ParseError, number},
};
use crate::order;
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
    let told = of_sys(root);
    if told.cores.known().is_some() {
        return told;
    }
    match of_cpuinfo(root) {
        Some(info) if told.online.known().is_none_or(|online| *online == info.processors) => {
            let or_as_said = |said: Observed<u32>, found: Option<u32>| match found {
                Some(found) => Observed::Known(found),
                None => said,
            };
            Topology {
                online: Observed::Known(info.processors),
                cores: or_as_said(told.cores, info.places.map(|places| places.cores)),
                sockets: or_as_said(told.sockets, info.places.map(|places| places.sockets)),
            }
        }
        Some(_) | None => told,
    }
}

fn of_cpuinfo(root: &Root) -> Option<CpuInfo> {
    let mut text = Vec::new();
    root.read_proc("cpuinfo", &mut text).ok()?;
    cpuinfo::parse(&text).ok()
}

fn of_sys(root: &Root) -> Topology {
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
    let mut problems = [None, None];
    let [no_socket, no_core] = &mut problems;
    for cpu in &online {
        let file =
            |name| text_of(root, &format!("sys/devices/system/cpu/cpu{cpu}/topology/{name}"));
        note(file("physical_package_id").and_then(named), &mut sockets, no_socket);
        note(file("thread_siblings_list").and_then(named), &mut cores, no_core);
    }
    let [no_socket, no_core] = problems;
    let counted = |found: BTreeSet<Vec<u8>>, problem: Option<Reason>| match problem {
        None => Observed::Known(count_of(found.len())),
        Some(reason) => Observed::Unknown(reason),
    };
    Topology {
        online: Observed::Known(count_of(online.len())),
        cores: counted(cores, no_core),
        sockets: counted(sockets, no_socket),
    }
}

/// A name of something, unless it is the one for "unknown".
fn named(text: Vec<u8>) -> Result<Vec<u8>, Reason> {
    let is_none = text.is_empty() || text.starts_with(b"-");
    if is_none { Err(Reason::KernelLacks(Feature::Field)) } else { Ok(text) }
}

fn note(found: Result<Vec<u8>, Reason>, all: &mut BTreeSet<Vec<u8>>, problem: &mut Option<Reason>) {
    match found {
        Ok(name) => {
            all.insert(name);
        }
        Err(reason) => *problem = Some(reason),
    }
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
    order::ascending(&mut numbers);
    numbers.dedup();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{fs, path::Path};

    /// Processors with their sockets and the threads of their cores.
    fn machine(folder: &Path, online: &str, places: &[(u32, &str, &str)]) -> Topology {
        let cpus = folder.join("sys/devices/system/cpu");
        fs::create_dir_all(folder.join("proc")).unwrap();
        fs::create_dir_all(&cpus).unwrap();
        fs::write(cpus.join("online"), online).unwrap();
        for (cpu, socket, threads) in places {
            let topology = cpus.join(format!("cpu{cpu}/topology"));
            fs::create_dir_all(&topology).unwrap();
            fs::write(topology.join("physical_package_id"), format!("{socket}\n")).unwrap();
            fs::write(topology.join("thread_siblings_list"), format!("{threads}\n")).unwrap();
        }
        read(&Root::at(folder).unwrap())
    }

    #[test]
    fn threads_cores_and_sockets_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        // Two sockets of two cores of two threads; one thread is offline.
        let places = [
            (0, "0", "0,4"),
            (1, "0", "1,5"),
            (2, "1", "2,6"),
            (3, "1", "3"),
            (4, "0", "0,4"),
            (5, "0", "1,5"),
            (6, "1", "2,6"),
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
    fn a_socket_of_no_number_is_not_counted_and_takes_no_core_along() {
        let folder = tempfile::tempdir().unwrap();
        let found = machine(folder.path(), "0-1\n", &[(0, "-1", "0"), (1, "-1", "1")]);
        assert_eq!(found.cores, Observed::Known(2));
        assert_eq!(found.sockets, Observed::Unknown(Reason::KernelLacks(Feature::Field)));
    }

    #[test]
    fn what_sys_does_not_tell_cpuinfo_may() {
        let info = "processor: 0\nphysical id: 0\ncore id: 0\n\
                    processor: 1\nphysical id: 0\ncore id: 0\n";
        let unknown = Observed::Unknown(Reason::KernelLacks(Feature::Field));
        let known = Observed::Known;
        let cases = [
            ("it names cores", None, info, [known(2), known(1), known(1)]),
            ("beside /sys", Some("0-1\n"), info, [known(2), known(1), known(1)]),
            (
                "of other processors",
                Some("0-2\n"),
                info,
                [known(3), unknown.clone(), unknown.clone()],
            ),
            ("it only counts", None, "processor: 0\n", [known(1), unknown.clone(), unknown]),
        ];
        for (name, online, info, [online_now, cores, sockets]) in cases {
            let folder = tempfile::tempdir().unwrap();
            let found = match online {
                Some(online) => {
                    fs::create_dir_all(folder.path().join("proc")).unwrap();
                    fs::write(folder.path().join("proc/cpuinfo"), info).unwrap();
                    machine(folder.path(), online, &[])
                }
                None => {
                    fs::create_dir_all(folder.path().join("proc")).unwrap();
                    fs::write(folder.path().join("proc/cpuinfo"), info).unwrap();
                    read(&Root::at(folder.path()).unwrap())
                }
            };
            assert_eq!(found, Topology { online: online_now, cores, sockets }, "{name}");
        }
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

//! The processor's own counters, where it has several kinds of cores with counters of their own.
//!
//! Each kind is a device of its own: `cpu_core` and `cpu_atom`, or on ARM one named for each core. An
//! event that names none of them is of one kind only, and what runs on the other cores is not in it. So
//! it is opened on each, with the device's number in the upper half of `config`.
//!
//! Sources: `/sys/bus/event_source/devices/NAME/type`, Linux 2.6.36, and `cpus`, which only counters of
//! processors have, Linux 4.8 on ARM and 5.13 on x86. Kernel reference: `PERF_PMU_TYPE_SHIFT` in
//! `include/uapi/linux/perf_event.h`, `tools/perf/Documentation/intel-hybrid.txt`.

use crate::{
    order,
    proc::{Root, parse, topology},
};

/// Counters of one kind of core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorePmu {
    /// The device, `cpu_core`.
    pub name: String,
    /// Its number for events.
    pub kind: u32,
    /// The processors that have them.
    pub cpus: Vec<u32>,
}

const DEVICES: &str = "sys/bus/event_source/devices";

/// Of a machine with several kinds of cores, each; of any other none, because there is nothing to
/// choose.
pub fn of_hybrid(root: &Root) -> Vec<CorePmu> {
    let mut names = Vec::new();
    if root.list_names(DEVICES, |name| names.push(name.to_vec())).is_err() {
        return Vec::new();
    }
    order::ascending(&mut names);
    let mut found: Vec<CorePmu> = names.iter().filter_map(|name| read(root, name)).collect();
    if found.len() < 2 {
        found.clear();
    }
    found
}

fn read(root: &Root, name: &[u8]) -> Option<CorePmu> {
    const MOST_NAME_BYTES: usize = 64;
    let name = std::str::from_utf8(name).ok().filter(|name| name.len() <= MOST_NAME_BYTES)?;
    let text = |file: &str| {
        let mut text = Vec::new();
        root.read(&format!("{DEVICES}/{name}/{file}"), &mut text).ok()?;
        Some(text)
    };
    let cpus = topology::parse_list(&text("cpus")?).ok()?;
    let cpus = cpus.into_iter().filter_map(|cpu| u32::try_from(cpu).ok()).collect();
    let kind = parse::only_number(&text("type")?).ok()?;
    Some(CorePmu { name: name.to_owned(), kind: u32::try_from(kind).ok()?, cpus })
}

/// The number of the counters of a processor; `None` where there is nothing to choose.
pub fn kind_of(pmus: &[CorePmu], cpu: u32) -> Option<u32> {
    pmus.iter().find(|pmu| pmu.cpus.contains(&cpu)).map(|pmu| pmu.kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A device's name, and its files with their texts.
    type Device<'d> = (&'d str, &'d [(&'d str, &'d str)]);

    fn machine(devices: &[Device<'_>]) -> (tempfile::TempDir, Vec<CorePmu>) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("proc/self/ns")).unwrap();
        let bus = folder.path().join(DEVICES);
        fs::create_dir_all(&bus).unwrap();
        for (name, files) in devices {
            // Links, as the kernel has them.
            let device = folder.path().join("sys/devices").join(name);
            fs::create_dir_all(&device).unwrap();
            for (file, text) in *files {
                fs::write(device.join(file), text).unwrap();
            }
            std::os::unix::fs::symlink(&device, bus.join(name)).unwrap();
        }
        let found = of_hybrid(&Root::at(folder.path()).unwrap());
        (folder, found)
    }

    #[test]
    fn each_kind_of_core_has_its_counters_and_none_is_dropped() {
        let (_folder, found) = machine(&[
            ("cpu_core", &[("type", "4\n"), ("cpus", "0-3\n")]),
            ("software", &[("type", "1\n")]),
            ("cpu_atom", &[("type", "10\n"), ("cpus", "4-7,9\n")]),
            // Counters outside of cores have a `cpumask`.
            ("uncore_imc", &[("type", "14\n"), ("cpumask", "0\n")]),
        ]);
        let pmu = |name: &str, kind, cpus: &[u32]| CorePmu {
            name: name.to_owned(),
            kind,
            cpus: cpus.to_vec(),
        };
        let want = [pmu("cpu_atom", 10, &[4, 5, 6, 7, 9]), pmu("cpu_core", 4, &[0, 1, 2, 3])];
        assert_eq!(found, want);
        let kinds = [0, 3, 4, 9, 8].map(|cpu| kind_of(&found, cpu));
        assert_eq!(kinds, [Some(4), Some(4), Some(10), Some(10), None]);
    }

    #[test]
    fn where_there_is_one_kind_there_is_nothing_to_choose() {
        let devices: [&[Device<'_>]; 3] = [
            &[("cpu", &[("type", "4\n")]), ("software", &[("type", "1\n")])],
            &[("armv8_cortex_a72", &[("type", "8\n"), ("cpus", "0-3\n")])],
            &[("cpu_core", &[("type", "x"), ("cpus", "0")]), ("cpu_atom", &[("type", "4")])],
        ];
        for devices in devices {
            assert_eq!(machine(devices).1, [], "{devices:?}");
        }
    }
}

//! Trials of what the kernel counts and names: its functions, pressure, cgroups, delays, limits.

use super::{lacking, refused};
use crate::{
    instruments::capabilities::{decide, situation::Situation},
    proc::{
        Root, cgroup,
        mountinfo::{self, CgroupMount},
        parse, pid_stat, pressure,
    },
};
use protocol::{
    instruments::capabilities::{Barrier, Check, CheckId, Lacking, Measure, State, Switch},
    observed::{Reason, Switch as SwitchedOff},
};
use rustix::io::Errno;

pub(super) const IDS: &[CheckId] = &[
    CheckId::KernelSymbols,
    CheckId::Pressure,
    CheckId::Cgroups,
    CheckId::DelayAccounting,
    CheckId::OpenFiles,
];

pub(super) fn run(root: &Root, situation: &Situation, checks: &mut Vec<Check>) {
    checks.push(kernel_symbols(root, situation));
    checks.push(pressure(root));
    checks.push(cgroups(root));
    checks.push(delay_accounting(root, situation));
    checks.push(open_files(situation));
}

/// Files that a profile of very many threads on many processors keeps open.
const WANTED_OPEN_FILES: u64 = 4096;

fn open_files(situation: &Situation) -> Check {
    let id = CheckId::OpenFiles;
    let Some(limit) = situation.open_files else { return Check::new(id, State::Works) };
    let measure = Some(Measure::Limit(limit));
    if limit >= WANTED_OPEN_FILES {
        return Check { measure, ..Check::new(id, State::Works) };
    }
    let barriers = vec![Barrier::OpenFilesLimit { limit, wanted: WANTED_OPEN_FILES }];
    Check { measure, barriers, ..Check::new(id, State::InPart) }
}

fn kernel_symbols(root: &Root, situation: &Situation) -> Check {
    let id = CheckId::KernelSymbols;
    // Enough to be past the first symbols, some of which are at zero by their nature.
    let mut buffer = vec![0; 64 << 10];
    if let Err(error) = root.read_proc_once("kallsyms", &mut buffer)
        && !error.is_too_long()
    {
        return if super::is_refusal(error.errno) {
            refused(id, error.errno, decide::kernel_symbols(situation))
        } else {
            lacking(id, Some(error.errno), Barrier::Kernel(Lacking::Kallsyms))
        };
    }
    if has_addresses(&buffer) {
        return Check::new(id, State::Works);
    }
    // The names are there, and at address zero.
    Check { barriers: decide::kernel_symbols(situation), ..Check::new(id, State::Refused) }
}

/// Whether any line begins with an address that is not zero.
fn has_addresses(text: &[u8]) -> bool {
    parse::lines(text).any(|(_, line)| {
        let address = parse::fields(line).next().unwrap_or_default();
        address.iter().all(u8::is_ascii_hexdigit) && address.iter().any(|digit| *digit != b'0')
    })
}

fn pressure(root: &Root) -> Check {
    let id = CheckId::Pressure;
    match pressure::read(root, "cpu") {
        Ok(_) => Check::new(id, State::Works),
        Err(Reason::SwitchedOff(SwitchedOff::Pressure)) => {
            let barriers = vec![Barrier::Off(Switch::Pressure)];
            Check { barriers, ..Check::new(id, State::SwitchedOff) }
        }
        Err(Reason::NotPermitted(_)) => refused(id, Errno::ACCESS, vec![Barrier::FileMode]),
        Err(_) => lacking(id, None, Barrier::Kernel(Lacking::Pressure)),
    }
}

fn delay_accounting(root: &Root, situation: &Situation) -> Check {
    let id = CheckId::DelayAccounting;
    match situation.delay_accounting {
        Some(0) => {
            let barriers = vec![Barrier::Off(Switch::DelayAccounting)];
            Check { barriers, ..Check::new(id, State::SwitchedOff) }
        }
        // Kernels before 5.14 have no such sysctl and count unless they were told not to at boot.
        None if !counts_delays(root) => {
            lacking(id, None, Barrier::Kernel(Lacking::DelayAccounting))
        }
        Some(_) | None => Check::new(id, State::Works),
    }
}

/// Whether some process waited for storage by the kernel's account.
fn counts_delays(root: &Root) -> bool {
    const MOST: usize = 200;
    let mut pids = Vec::new();
    let _ = root.list_ids(".", &mut pids);
    let mut buffer = [0; 1024];
    pids.iter().take(MOST).any(|pid| {
        let text = root.read_proc_once(&format!("{pid}/stat"), &mut buffer);
        text.is_ok_and(|text| {
            pid_stat::parse(text)
                .is_ok_and(|stat| stat.block_delay_ticks.is_some_and(|ticks| ticks > 0))
        })
    })
}

/// What is mounted, and whether the agent's own cgroup is counted there.
fn cgroups(root: &Root) -> Check {
    let id = CheckId::Cgroups;
    let (mut mounts, mut own) = (Vec::new(), Vec::new());
    let read = root.read_proc("self/mountinfo", &mut mounts).is_ok()
        && root.read_proc("self/cgroup", &mut own).is_ok();
    let mounts = if read { mountinfo::parse_cgroup_mounts(&mounts) } else { Vec::new() };
    if mounts.is_empty() {
        return lacking(id, None, Barrier::Kernel(Lacking::Cgroups));
    }
    let memberships = cgroup::parse_memberships(&own);
    let holds = |file: &str| {
        let folders = mounts.iter().flat_map(|mount| {
            let below = memberships.iter().filter_map(|member| mount.folder_of(member.path));
            below.chain([mount.mount_point.clone()])
        });
        let mut text = Vec::new();
        folders
            .map(|folder| format!("{}/{file}", folder.trim_end_matches('/')))
            .any(|path| root.read(&path, &mut text).is_ok() && !text.is_empty())
    };
    let cpu = holds("cpu.stat") || holds("cpuacct.usage");
    let memory = holds("memory.stat");
    let is_of_a_controller = |mount: &&CgroupMount| {
        let names = mount.controllers.as_deref().unwrap_or_default();
        !parse_names(names).is_empty()
    };
    let v1 = mounts.iter().filter(is_of_a_controller).count();
    let v2 = mounts.iter().any(|mount| mount.controllers.is_none());
    let v1 = u32::try_from(v1).unwrap_or(u32::MAX);
    let measure = Some(Measure::Cgroups { v1, v2, cpu, memory });
    if cpu && memory {
        return Check { measure, ..Check::new(id, State::Works) };
    }
    let barriers = if memory { Vec::new() } else { vec![without_memory(root)] };
    Check { measure, barriers, ..Check::new(id, State::InPart) }
}

/// The options of a mount of version 1 that are names of controllers.
fn parse_names(options: &[u8]) -> Vec<&[u8]> {
    let others: [&[u8]; 6] = [b"rw", b"ro", b"", b"xattr", b"noprefix", b"clone_children"];
    options
        .split(|byte| *byte == b',')
        .filter(|name| {
            !others.contains(name)
                && !name.starts_with(b"name=")
                && !name.starts_with(b"release_agent=")
        })
        .collect()
}

/// Why no cgroup counts memory: `/proc/cgroups` lists the controllers of the kernel, and whether
/// each was left on at boot.
fn without_memory(root: &Root) -> Barrier {
    let mut text = Vec::new();
    let _ = root.read_proc("cgroups", &mut text);
    let line = parse::line_of(&text, "memory").map(|(_, rest)| rest);
    match line.and_then(|rest| parse::fields(rest).last()) {
        Some(b"0") => Barrier::Off(Switch::MemoryController),
        Some(_) => Barrier::Off(Switch::MemoryControllerBelow),
        None => Barrier::Kernel(Lacking::MemoryController),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_not_zero_is_one() {
        let hidden = b"0000000000000000 A fixed_percpu_data\n0000000000000000 T _text\n";
        let shown = b"0000000000000000 A fixed_percpu_data\nffffffff81000000 T _text\n";
        assert!(!has_addresses(hidden) && has_addresses(shown) && !has_addresses(b""));
    }

    #[test]
    fn options_of_a_mount_that_are_no_controllers_are_none() {
        assert_eq!(parse_names(b"rw,cpu,cpuacct"), [b"cpu".as_slice(), b"cpuacct"]);
        assert!(parse_names(b"rw,xattr,name=systemd").is_empty());
    }
}

//! What is mounted where: the cgroup hierarchies, tracefs, and what `/proc` hides.
//!
//! Source: `/proc/self/mountinfo`, Linux 2.6.26 and later. Kernel reference:
//! `Documentation/filesystems/proc.rst`, `fs/proc_namespace.c`.

use super::{
    cgroup::Controller,
    parse::{fields, lines, number},
};

/// One mounted cgroup hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupMount {
    /// The controllers of version 1, as mount options; `None` for version 2.
    pub controllers: Option<Vec<u8>>,
    /// Which cgroup the mount shows as its top: not `/` in a container that has no cgroup
    /// namespace.
    pub root: Vec<u8>,
    /// Where, relative to the file system's root.
    pub mount_point: String,
}

impl CgroupMount {
    /// Whether a controller of version 1 is in this hierarchy.
    pub fn has(&self, controller: Controller) -> bool {
        self.controllers.as_ref().is_some_and(|names| {
            names.split(|byte| *byte == b',').any(|name| name == controller.name())
        })
    }

    /// Whether the mount shows the hierarchy from its top on, as seen from the reader's namespace.
    pub fn is_whole(&self) -> bool {
        self.root == b"/"
    }

    /// The folder of a cgroup under this mount, relative to the file system's root; `None` where
    /// the mount does not show it.
    pub fn folder_of(&self, path: &[u8]) -> Option<String> {
        let below = match self.root.as_slice() {
            b"/" => path,
            root => path.strip_prefix(root)?,
        };
        let below = std::str::from_utf8(below).ok()?;
        // `/ab` is not above `/abc`. And `/../..` is how a cgroup outside of the reader's namespace
        // is written.
        let is_elsewhere = !below.is_empty() && !below.starts_with('/');
        if is_elsewhere || leads_up(below) {
            return None;
        }
        Some(format!("{}/{}", self.mount_point, below.trim_matches('/')))
    }
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its number.
    pub id: u64,
    /// The number of the mount that it is on.
    pub parent: u64,
    /// The file system's device, `major:minor`; the same for all mounts of one file system.
    pub device: Vec<u8>,
    /// Which folder of the file system the mount shows as its top.
    pub root: Vec<u8>,
    /// Where.
    pub mount_point: Vec<u8>,
    /// Whether nothing can be written there.
    pub is_read_only: bool,
    /// The type of the file system.
    pub kind: Vec<u8>,
    /// The file system's own options.
    pub options: Vec<u8>,
}

/// What a mount of `/proc` hides from those who may not trace a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hides {
    Nothing,
    /// What is in the files of a process, and not that it is there.
    Files,
    /// Processes as a whole.
    Processes,
}

impl Mount {
    /// What it hides, where it is one of `/proc`.
    fn hides(&self) -> Hides {
        let mut options = self.options.split(|byte| *byte == b',');
        let how = options.find_map(|option| option.strip_prefix(b"hidepid="));
        match how {
            None | Some(b"0" | b"off") => Hides::Nothing,
            // By number before Linux 5.8.
            Some(b"1" | b"noaccess") => Hides::Files,
            Some(_) => Hides::Processes,
        }
    }
}

/// Finds all mounts, in the kernel's order: a later one may be on top of an earlier one. Lines that
/// are not understood are skipped.
pub fn parse(text: &[u8]) -> Vec<Mount> {
    lines(text).filter_map(|(_, line)| parse_line(line)).collect()
}

/// Whether `/proc` is mounted so that it does not list every process: `hidepid` from 2 on, Linux 3.3.
/// Of several mounts at the same place, the last one is seen.
pub fn proc_hides_processes(text: &[u8]) -> bool {
    let is_proc = |mount: &Mount| mount.mount_point == b"/proc" && mount.kind == b"proc";
    let last = parse(text).into_iter().rev().find(is_proc);
    last.is_some_and(|mount| mount.hides() == Hides::Processes)
}

/// What `/proc` hides, and where tracefs is, by the mounts that are on top.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelMounts {
    /// Whether the mount at `/proc` hides processes of others, or what is in their files, from some.
    pub hides_processes: bool,
    /// Where tracefs is mounted, relative to the file system's root.
    pub tracefs: Option<&'static str>,
}

/// Finds the mounts of `/proc` and of tracefs. A later mount covers an earlier one.
pub fn parse_kernel_mounts(text: &[u8]) -> KernelMounts {
    let mut found = KernelMounts::default();
    for mount in parse(text) {
        match (mount.mount_point.as_slice(), mount.kind.as_slice()) {
            (b"/proc", b"proc") => found.hides_processes = mount.hides() != Hides::Nothing,
            (b"/sys/kernel/tracing", b"tracefs") => found.tracefs = Some("sys/kernel/tracing"),
            (b"/sys/kernel/tracing", _) => found.tracefs = None,
            (b"/sys/kernel/debug/tracing", b"tracefs") => {
                found.tracefs.get_or_insert("sys/kernel/debug/tracing");
            }
            _ => {}
        }
    }
    found
}

/// Finds the mounted cgroup hierarchies. Lines that are not understood are skipped.
pub fn parse_cgroup_mounts(text: &[u8]) -> Vec<CgroupMount> {
    parse(text).into_iter().filter_map(cgroup_mount).collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut before = fields(line);
    let id = number(before.next()?, 1).ok()?;
    let parent = number(before.next()?, 1).ok()?;
    let device = before.next()?.to_vec();
    let root = unescape(before.next()?);
    let mount_point = unescape(before.next()?);
    let is_read_only = before.next()?.split(|byte| *byte == b',').any(|option| option == b"ro");
    // Optional fields, then a lone hyphen, then the file system's own.
    let mut after = before.skip_while(|field| *field != b"-").skip(1);
    let kind = after.next()?.to_vec();
    let options = after.nth(1).unwrap_or_default().to_vec();
    Some(Mount { id, parent, device, root, mount_point, is_read_only, kind, options })
}

fn cgroup_mount(mount: Mount) -> Option<CgroupMount> {
    let controllers = match mount.kind.as_slice() {
        b"cgroup" => Some(mount.options),
        b"cgroup2" => None,
        _ => return None,
    };
    let mount_point = String::from_utf8(mount.mount_point).ok()?;
    let mount_point = mount_point.trim_start_matches('/').to_owned();
    if leads_up(&mount_point) {
        return None;
    }
    Some(CgroupMount { controllers, root: mount.root, mount_point })
}

fn leads_up(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// Undoes the kernel's `\040` for a space, and likewise for tab, newline and backslash.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, tail)) = rest.split_first() {
        let code = (*byte == b'\\')
            .then(|| tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok()))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(code) = code {
            plain.push(code);
            rest = tail.get(3..).unwrap_or_default();
        } else {
            plain.push(*byte);
            rest = tail;
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_versions_are_found_among_other_mounts() {
        let text = b"22 1 0:20 / / rw - ext4 /dev/vda rw\n\
            30 22 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
            31 22 0:27 /docker/abc /sys/fs/cgroup\\040two rw - cgroup2 cgroup2 rw\n";
        let mounts = parse_cgroup_mounts(text);
        assert_eq!(mounts.len(), 2);
        assert!(mounts[0].has(Controller::Cpu) && !mounts[0].has(Controller::Memory));
        assert!(mounts[0].is_whole() && !mounts[1].is_whole());
        assert_eq!(mounts[0].folder_of(b"/app").unwrap(), "sys/fs/cgroup/cpu,cpuacct/app");
        assert_eq!(mounts[1].folder_of(b"/docker/abc/x").unwrap(), "sys/fs/cgroup two/x");
        assert_eq!(mounts[1].folder_of(b"/docker/abc").unwrap(), "sys/fs/cgroup two/");
        assert_eq!(mounts[1].folder_of(b"/docker/abcd"), None);
        assert_eq!(mounts[1].folder_of(b"/other"), None);
        assert_eq!(mounts[0].folder_of(b"/../../other"), None);
    }

    #[test]
    fn a_mount_point_that_leads_up_is_none() {
        let text = b"30 22 0:26 / /srv/../../etc rw - cgroup2 cgroup2 rw\n";
        assert_eq!(parse_cgroup_mounts(text), []);
    }

    #[test]
    fn the_mount_on_top_decides() {
        let proc = |options: &str| format!("22 1 0:5 / /proc rw,nosuid - proc proc rw{options}\n");
        let trace = "30 22 0:12 / /sys/kernel/tracing rw - tracefs tracefs rw\n";
        let cover = "31 30 0:44 / /sys/kernel/tracing rw - tmpfs none rw\n";
        let debug = "32 22 0:12 / /sys/kernel/debug/tracing rw - tracefs tracefs rw\n";
        let cases = [
            ("plain", proc(""), false, None),
            ("a number", proc(",hidepid=2"), true, None),
            ("a word", proc(",gid=7,hidepid=invisible"), true, None),
            ("nothing hidden", proc(",hidepid=0"), false, None),
            ("covered by one that hides", proc("") + &proc(",hidepid=2"), true, None),
            ("covered by one that does not", proc(",hidepid=2") + &proc(""), false, None),
            ("tracefs", trace.to_owned(), false, Some("sys/kernel/tracing")),
            ("covered", format!("{trace}{cover}"), false, None),
            ("below debugfs", debug.to_owned(), false, Some("sys/kernel/debug/tracing")),
        ];
        for (name, text, hides_processes, tracefs) in cases {
            let want = KernelMounts { hides_processes, tracefs };
            assert_eq!(parse_kernel_mounts(text.as_bytes()), want, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_lines(text in prop::collection::vec(any::<u8>(), 0..400)) {
            for mount in parse_cgroup_mounts(&text) {
                mount.folder_of(&text);
            }
        }
    }

    #[test]
    fn the_last_mount_of_proc_tells_what_it_hides() {
        let line = |point: &str, options: &str| {
            format!("22 28 0:21 / {point} rw,nosuid shared:5 - proc proc {options}\n")
        };
        let cases = [
            (line("/proc", "rw"), false),
            (line("/proc", "rw,hidepid=2"), true),
            (line("/proc", "rw,gid=4,hidepid=invisible"), true),
            (line("/proc", "rw,hidepid=ptraceable"), true),
            (line("/proc", "rw,hidepid=1"), false),
            (line("/proc", "rw,hidepid=noaccess"), false),
            (line("/srv/proc", "rw,hidepid=2"), false),
            (line("/proc", "rw,hidepid=2") + &line("/proc", "rw"), false),
            (String::new(), false),
        ];
        for (text, want) in cases {
            assert_eq!(proc_hides_processes(text.as_bytes()), want, "{text}");
        }
    }
}

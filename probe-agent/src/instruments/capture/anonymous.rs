//! Takes out of files what could tell who or where it was: names of people and hosts, addresses, ids.
//! The same name stands for the same everywhere in one capture, at both of its ends. Numbers are as
//! the kernel gave them.
//!
//! Texts that people and programs write are gone through: command lines, mounts, paths of cgroups,
//! users. What the kernel prints in fixed words and numbers stays to the byte.

mod words;

use crate::order;
use crate::proc::{
    parse::{fields, line_of, lines, number},
    recorder::Files,
};
use protocol::redact;
use std::collections::{BTreeMap, BTreeSet};
use words::Words;

/// Users below this are the system's, and the same everywhere (`login.defs(5)`).
const FIRST_PERSON: u64 = 1000;

/// `nobody`, on every machine.
const NOBODY: u64 = 65_534;

/// Bytes of a command line that are kept.
const COMMAND_BYTES: usize = 2048;

/// Who stands for whom.
#[derive(Debug, Default)]
pub(super) struct Anonymous {
    words: Words,
    /// The users of the processes.
    uids: BTreeSet<u64>,
    /// Names that stand for those of people.
    people: BTreeMap<Vec<u8>, String>,
}

impl Anonymous {
    /// Looks through all files for names that are to be replaced.
    pub(super) fn of(instants: [&Files; 2]) -> Self {
        let mut found = Self::default();
        for (path, read) in instants.into_iter().flatten() {
            let Ok(text) = read else { continue };
            match kind(path) {
                Kind::Status => found.uids.extend(uids(text)),
                Kind::HostName => found.words.add_host(text.trim_ascii()),
                Kind::Users => found.people.extend(people(text)),
                Kind::Command | Kind::KernelCommand | Kind::Paths | Kind::Numbers => {}
            }
        }
        for (name, stand_in) in &found.people {
            found.words.add(name, stand_in);
        }
        for (path, read) in instants.into_iter().flatten() {
            found.words.note_ids(path.as_bytes());
            if let (Ok(text), Kind::Command | Kind::Paths) = (read, kind(path)) {
                found.words.note_ids(text);
            }
        }
        found
    }

    /// A path as it is sent.
    pub(super) fn path(&self, path: &str) -> String {
        if path.starts_with("sys/fs/") { self.words.replace(path) } else { path.to_owned() }
    }

    /// A file's content as it is sent, and how many secrets were taken out.
    pub(super) fn content(&self, path: &str, text: &[u8]) -> (Vec<u8>, u32) {
        match kind(path) {
            Kind::Numbers | Kind::Status => (text.to_vec(), 0),
            Kind::HostName => (b"host-1\n".to_vec(), 0),
            Kind::KernelCommand => (kernel_command(text), 0),
            Kind::Users => (self.users(text), 0),
            Kind::Command if text.is_empty() => (Vec::new(), 0),
            Kind::Command => {
                let arguments = text.strip_suffix(b"\0").unwrap_or(text);
                let line =
                    redact::command_line(arguments.split(|byte| *byte == 0), COMMAND_BYTES, true);
                let shown = line.text.raw();
                let mut line_text = self.words.replace(&String::from_utf8_lossy(&shown));
                line_text.push('\0');
                (line_text.into_bytes(), line.redacted)
            }
            Kind::Paths => {
                let text = String::from_utf8_lossy(text);
                let (text, redacted) = redact::text(&text);
                (self.words.replace(&text).into_bytes(), redacted)
            }
        }
    }

    /// The lines of the users who have a process, without what is said about them.
    fn users(&self, text: &[u8]) -> Vec<u8> {
        let mut kept = Vec::new();
        for (line_number, line) in lines(text) {
            let mut parts = line.split(|byte| *byte == b':');
            let (Some(name), Some(uid)) = (parts.next(), parts.nth(1)) else { continue };
            let Ok(uid) = number(uid, line_number) else { continue };
            if !self.uids.contains(&uid) {
                continue;
            }
            let shown = self.people.get(name).map_or(name, String::as_bytes);
            kept.extend_from_slice(shown);
            kept.extend_from_slice(format!(":x:{uid}:::/:\n").as_bytes());
        }
        kept
    }
}

/// What is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Fixed words and numbers.
    Numbers,
    /// They too, and who owns the process.
    Status,
    /// A process's arguments.
    Command,
    /// The kernel's arguments.
    KernelCommand,
    /// Paths and options that people chose.
    Paths,
    /// The list of users.
    Users,
    /// The machine's name.
    HostName,
}

fn kind(path: &str) -> Kind {
    let name = path.rsplit('/').next().unwrap_or_default();
    match (path, name) {
        ("etc/passwd", _) => Kind::Users,
        ("proc/sys/kernel/hostname", _) => Kind::HostName,
        ("proc/cmdline", _) => Kind::KernelCommand,
        (_, "cmdline") => Kind::Command,
        (_, "status") => Kind::Status,
        (_, "mountinfo" | "mounts" | "mountstats") => Kind::Paths,
        // The namespace's own name is a number.
        (_, "cgroup") if !path.contains("/ns/") => Kind::Paths,
        _ => Kind::Numbers,
    }
}

/// The effective user in a `status` file.
fn uids(text: &[u8]) -> Option<u64> {
    let (line_number, rest) = line_of(text, "Uid")?;
    number(fields(rest).nth(1)?, line_number).ok()
}

/// The people in a list of users, with what stands for them, in the order of their numbers.
fn people(text: &[u8]) -> Vec<(Vec<u8>, String)> {
    let mut found: Vec<(u64, Vec<u8>)> = lines(text)
        .filter_map(|(line_number, line)| {
            let mut parts = line.split(|byte| *byte == b':');
            let (name, uid) = (parts.next()?, number(parts.nth(1)?, line_number).ok()?);
            let is_person = uid >= FIRST_PERSON && uid != NOBODY && !name.is_empty();
            is_person.then(|| (uid, name.to_vec()))
        })
        .collect();
    order::ascending(&mut found);
    found.dedup();
    let numbered = found.into_iter().enumerate();
    numbered.map(|(index, (_, name))| (name, format!("user-{}", index + 1))).collect()
}

/// The one thing that a reader looks for: whether pressure is accounted.
fn kernel_command(text: &[u8]) -> Vec<u8> {
    let words: Vec<&[u8]> =
        fields(text.trim_ascii()).filter(|word| word.starts_with(b"psi=")).collect();
    [words.join(&b' '), b"\n".to_vec()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> Files {
        files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), Ok(text.as_bytes().to_vec())))
            .collect()
    }

    fn sent(anonymous: &Anonymous, path: &str, text: &str) -> String {
        String::from_utf8(anonymous.content(path, text.as_bytes()).0).unwrap()
    }

    #[test]
    fn people_hosts_addresses_and_ids_stand_for_others() {
        let id = "0123456789abcdef".repeat(4);
        let users = "root:x:0:0:root:/root:/bin/sh\nwww:x:33:33::/:\n\
                     alice:x:1001:1001:Alice A:/home/alice:/bin/sh\nbob:x:1000:1000::/:\n";
        let command = "/home/alice/bin/x\0--host=web-7.corp\0--peer\x0010.1.2.3:80\0\
                       --password=hunter2\0malice\0";
        let cgroup = format!("0::/system.slice/docker-{id}.scope\n");
        let start = files(&[
            ("etc/passwd", users),
            ("proc/sys/kernel/hostname", "web-7.corp\n"),
            ("proc/7/status", "Name:\tx\nUid:\t1001\t1001\t1001\t1001\n"),
            ("proc/8/status", "Uid:\t0\t0\t0\t0\n"),
            ("proc/7/cgroup", &cgroup),
            ("proc/7/cmdline", command),
        ]);
        let anonymous = Anonymous::of([&start, &files(&[])]);
        let stand_in = format!("{:064x}", 1);
        let cases = [
            ("etc/passwd", users, "root:x:0:::/:\nuser-2:x:1001:::/:\n"),
            ("proc/sys/kernel/hostname", "web-7.corp\n", "host-1\n"),
            (
                "proc/7/cmdline",
                command,
                "/home/user-2/bin/x --host=host-1 --peer address-1:80 --password=[redacted] \
                 malice\0",
            ),
            ("proc/7/cgroup", &cgroup, &format!("0::/system.slice/docker-{stand_in}.scope\n")),
        ];
        for (path, text, want) in cases {
            assert_eq!(sent(&anonymous, path, text), want, "{path}");
        }
        assert_eq!(
            anonymous.path(&format!("sys/fs/cgroup/system.slice/docker-{id}.scope/cpu.stat")),
            format!("sys/fs/cgroup/system.slice/docker-{stand_in}.scope/cpu.stat")
        );
    }

    #[test]
    fn numbers_stay_to_the_byte() {
        let anonymous = Anonymous::default();
        for (path, text) in [
            ("proc/7/stat", "7 (alice) S 1 10.0.0.1\n"),
            ("proc/stat", "cpu  1 2 3\n"),
            ("proc/self/ns/cgroup", "cgroup:[4026531835]"),
        ] {
            assert_eq!(sent(&anonymous, path, text), text);
        }
        assert_eq!(sent(&anonymous, "proc/cmdline", "root=UUID=1 psi=0 user=me\n"), "psi=0\n");
    }
}

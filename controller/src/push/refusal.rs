//! Why the start-up script starts no agent: each reason with what helps.

use crate::exit;
use protocol::host_text::HostText;

/// Why the script does not start the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No folder serves.
    NoPlace(NoPlace),
    /// The login sees no `/proc`.
    NoProc,
    /// Nothing on the target can check what arrives.
    NoCheck,
    /// What arrived is not what was sent.
    Altered,
    /// Programs are missing that the script needs.
    Lacks(Vec<String>),
    /// A limit of the login's is too low.
    Limited(Limit, u64),
}

/// What a login may have too little of (setrlimit(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Open files.
    Files,
    /// Bytes of a file.
    Bytes,
}

/// The folders that were tried, and what became of a start in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoPlace {
    /// Each folder, with what stands against it.
    places: Vec<(Obstacle, String)>,
    /// Why there is no start in memory; nothing where none was tried.
    memory: Option<NoMemory>,
}

/// Why one folder does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Not writable to this user.
    Unwritable,
    /// On a file system that is mounted for reading.
    ReadOnly,
    /// No room for the file.
    Full,
    /// Room, but no inode for one more file.
    NoInodes,
    /// The user's quota is used up.
    Quota,
    /// On a mount that forbids running files.
    NoExec,
    /// A file does not run there, and not for the mount's sake.
    Forbidden,
    /// Set by a variable, and no folder.
    Missing,
    /// What is made there belongs to another user.
    Foreign,
    /// Anything else.
    Failed,
}

/// Why the agent does not start in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoMemory {
    /// Nothing there makes a file in memory.
    NoTool,
    /// A file in memory does not run.
    Forbidden,
}

/// All obstacles, with the script's word for each.
const OBSTACLES: [(&str, Obstacle); 10] = [
    ("unwritable", Obstacle::Unwritable),
    ("readonly", Obstacle::ReadOnly),
    ("full", Obstacle::Full),
    ("inodes", Obstacle::NoInodes),
    ("quota", Obstacle::Quota),
    ("noexec", Obstacle::NoExec),
    ("forbidden", Obstacle::Forbidden),
    ("missing", Obstacle::Missing),
    ("foreign", Obstacle::Foreign),
    ("failed", Obstacle::Failed),
];

impl NoPlace {
    /// Reads what the script says of its places: `full=/tmp|noexec=/run`, and last what became of a
    /// start in memory, if one was tried.
    pub fn parse(line: &str) -> Self {
        let mut found = Self::default();
        for (word, place) in line.split('|').filter_map(|part| part.split_once('=')) {
            let known = OBSTACLES.iter().find(|(name, _)| *name == word);
            match (known, word, place.trim()) {
                (Some((_, obstacle)), _, place) => {
                    found.places.push((*obstacle, shown(place)));
                }
                (None, "memory", "none") => found.memory = Some(NoMemory::NoTool),
                (None, "memory", "forbidden") => found.memory = Some(NoMemory::Forbidden),
                (None, _, _) => {}
            }
        }
        found
    }

    fn has(&self, wanted: &[Obstacle]) -> bool {
        self.places.iter().any(|(obstacle, _)| wanted.contains(obstacle))
    }

    fn listed(&self) -> String {
        let listed: Vec<String> =
            self.places.iter().map(|(why, place)| format!("{place} {}", why.words())).collect();
        if listed.is_empty() { "none exists".to_owned() } else { listed.join(", ") }
    }

    /// Whether only such things are in the way as the setting `in_memory` overrules.
    fn is_overruled_in_memory(&self) -> bool {
        self.places.iter().all(|(obstacle, _)| obstacle.is_overruled_in_memory())
    }

    /// What helps, the nearest first: a folder that lets files run and has no room is nearly one that
    /// serves.
    fn remedy(&self) -> String {
        let found = OBSTACLES.iter().filter(|(_, obstacle)| self.has(&[*obstacle]));
        if let Some(words) = found.filter_map(|(_, obstacle)| obstacle.is_near()).next() {
            return words.to_owned();
        }
        let mount = if self.has(&[Obstacle::NoExec]) {
            "mount one of them without noexec, or give the user a writable home"
        } else {
            "give the user a writable home, or mount a tmpfs on one of them"
        };
        match self.memory {
            None if self.is_overruled_in_memory() => format!(
                "{mount}; or add --in-memory, which starts the agent from memory and so overrules \
                 that policy"
            ),
            None => mount.to_owned(),
            Some(NoMemory::NoTool) => format!(
                "{mount}; it did not start in memory either, which takes python3 or perl there"
            ),
            Some(NoMemory::Forbidden) => format!(
                "{mount}; it did not start in memory either: the kernel runs no file there that is \
                 in memory only. If `sysctl vm.memfd_noexec` says 2 there, an administrator can set \
                 it to 1"
            ),
        }
    }
}

impl Refusal {
    /// Reads the names of programs that are missing.
    pub fn lacks(names: &str) -> Self {
        Self::Lacks(names.split_ascii_whitespace().take(10).map(shown).collect())
    }

    /// Reads which limit is too low, and what it is.
    pub fn limited(line: &str) -> Option<Self> {
        let (limit, most) = line.split_once(' ')?;
        let limit = match limit {
            "files" => Limit::Files,
            "bytes" => Limit::Bytes,
            _ => return None,
        };
        Some(Self::Limited(limit, most.trim().parse().ok()?))
    }

    /// What happened, and what helps.
    pub fn sentence(&self, bytes: usize) -> String {
        match self {
            Self::NoPlace(no_place) => format!(
                "no place on the target for the agent ({}); it needs {bytes} bytes in a folder \
                 where files may be run: {}",
                no_place.listed(),
                no_place.remedy()
            ),
            Self::NoProc => {
                "the login sees no /proc on the target, from which everything is read; \
                             mount it there: mount -t proc proc /proc"
                    .to_owned()
            }
            Self::NoCheck => "the target has none of sha256sum, shasum, openssl and gzip, so what \
                              arrives there could not be checked; install one of them"
                .to_owned(),
            Self::Altered => "the agent was altered on its way to the target; it was not run. \
                              Something between here and there changes data"
                .to_owned(),
            Self::Lacks(programs) => format!(
                "the target has no {}, which the agent needs to start. Such programs come with \
                 coreutils, or with busybox and its links",
                programs.join(" and no ")
            ),
            Self::Limited(Limit::Files, most) => format!(
                "the login may open {most} files at a time, and the agent needs more to start: raise \
                 the limit there (`ulimit -n`, `nofile` in limits.conf)"
            ),
            Self::Limited(Limit::Bytes, most) => format!(
                "the login may write files of {most} bytes at most, and the agent needs {bytes} bytes: \
                 raise the limit there (`ulimit -f`, `fsize` in limits.conf)"
            ),
        }
    }

    /// The exit code for a command that ends with this.
    pub fn exit_code(&self) -> u8 {
        use Obstacle::{Forbidden, Full, NoExec, NoInodes, Quota};
        match self {
            Self::NoPlace(found) if found.has(&[Full, NoInodes, Quota]) => exit::NO_ROOM,
            Self::NoPlace(found) if found.has(&[NoExec, Forbidden]) => exit::CANNOT_RUN,
            Self::NoPlace(_) => exit::NO_ROOM,
            Self::NoProc | Self::NoCheck | Self::Lacks(_) | Self::Limited(..) => exit::CANNOT_RUN,
            Self::Altered => exit::ALTERED,
        }
    }
}

fn shown(word: &str) -> String {
    HostText::capped(word.as_bytes(), 100).to_string()
}

impl Obstacle {
    const fn words(self) -> &'static str {
        match self {
            Self::Unwritable => "is not writable",
            Self::ReadOnly => "is read-only",
            Self::Full => "is full",
            Self::NoInodes => "has no inode left",
            Self::Quota => "is at the user's quota",
            Self::NoExec => "forbids running files",
            Self::Forbidden => "runs no file, though it is not mounted noexec",
            Self::Missing => "is no folder",
            Self::Foreign => "makes what is put there another user's",
            Self::Failed => "takes no new file",
        }
    }

    /// What helps, where the place is nearly one that serves.
    const fn is_near(self) -> Option<&'static str> {
        match self {
            Self::Full => Some("free some room in one of them"),
            Self::NoInodes => Some("remove some files in one of them, however small (`df -i`)"),
            Self::Quota => Some("remove files of this user there, or raise the quota"),
            Self::Forbidden => Some(
                "a security module may forbid it (SELinux, AppArmor, fapolicyd): `id -Z` and the \
                 audit log there say which; let this user run files in one of them",
            ),
            Self::Unwritable
            | Self::ReadOnly
            | Self::NoExec
            | Self::Missing
            | Self::Foreign
            | Self::Failed => None,
        }
    }

    const fn is_overruled_in_memory(self) -> bool {
        match self {
            Self::Unwritable | Self::ReadOnly | Self::NoExec | Self::Missing => true,
            Self::Full
            | Self::NoInodes
            | Self::Quota
            | Self::Forbidden
            | Self::Foreign
            | Self::Failed => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(line: &str) -> Refusal {
        Refusal::NoPlace(NoPlace::parse(line))
    }

    #[test]
    fn each_reason_has_its_words_its_code_and_what_helps() {
        let cases = [
            (
                "full=/tmp|noexec=/run",
                exit::NO_ROOM,
                "/tmp is full, /run forbids",
                "free some room",
            ),
            ("inodes=/tmp", exit::NO_ROOM, "/tmp has no inode left", "`df -i`"),
            ("quota=/home/me", exit::NO_ROOM, "is at the user's quota", "raise the quota"),
            ("noexec=/tmp", exit::CANNOT_RUN, "/tmp forbids running files", "without noexec"),
            ("noexec=/tmp|readonly=/run", exit::CANNOT_RUN, "/run is read-only", "--in-memory"),
            ("forbidden=/tmp", exit::CANNOT_RUN, "not mounted noexec", "`id -Z`"),
            ("readonly=/tmp", exit::NO_ROOM, "/tmp is read-only", "mount a tmpfs"),
            ("unwritable=/tmp|missing=/gone", exit::NO_ROOM, "/gone is no folder", "writable home"),
            ("failed=/a b", exit::NO_ROOM, "/a b takes no new file", "writable home"),
            ("foreign=/a", exit::NO_ROOM, "another user's", "writable home"),
            ("noexec=/a|memory=none", exit::CANNOT_RUN, "/a forbids", "python3 or perl"),
            ("noexec=/a|memory=forbidden", exit::CANNOT_RUN, "/a forbids", "vm.memfd_noexec"),
            ("", exit::NO_ROOM, "none exists", "writable home"),
        ];
        for (line, code, found, helps) in cases {
            let refusal = refusal(line);
            let sentence = refusal.sentence(10);
            assert_eq!(refusal.exit_code(), code, "{line}: {sentence}");
            for words in [found, helps] {
                assert!(sentence.contains(words), "{line}: {words:?} is not in {sentence}");
            }
        }
    }

    #[test]
    fn a_start_in_memory_is_named_only_where_it_would_be_tried_and_was_not() {
        let cases = [
            ("noexec=/tmp|readonly=/run", true),
            ("noexec=/tmp|memory=none", false),
            ("noexec=/tmp|full=/run", false),
            ("forbidden=/tmp", false),
            ("noexec=/tmp|failed=/run", false),
        ];
        for (line, want) in cases {
            assert_eq!(refusal(line).sentence(1).contains("--in-memory"), want, "{line}");
        }
    }

    #[test]
    fn what_the_start_lacks_is_named() {
        let cases = [
            (Some(Refusal::lacks("dd head")), "the target has no dd and no head, which"),
            (Refusal::limited("files 8"), "may open 8 files at a time"),
            (
                Refusal::limited("bytes 512"),
                "files of 512 bytes at most, and the agent needs 10 bytes:",
            ),
        ];
        for (refusal, want) in cases {
            let refusal = refusal.unwrap();
            assert_eq!(refusal.exit_code(), exit::CANNOT_RUN, "{want}");
            assert!(refusal.sentence(10).contains(want), "{}", refusal.sentence(10));
        }
    }

    #[test]
    fn a_hostile_place_is_escaped() {
        assert!(!refusal("full=/\x1b[31m").sentence(1).contains('\x1b'));
    }
}

//! The mounted file systems: which do not answer, and how full the others are.
//!
//! Asking a file system whose server is gone can take for ever. So each that is not known to be of
//! this machine alone is asked by a child of its own, and has until the end of the window. An
//! automounter is not asked: a look must not mount anything.

mod desk;

use crate::{
    order,
    os::child,
    proc::{
        Root,
        file_system::{self, Place, Space},
        mountinfo::{self, Mount as Mounted},
    },
};
use desk::{Desk, Outcome, Pending, Question};
use protocol::{
    host_text::HostText,
    instruments::host_snapshot::{Mount, MountAnswer, Mounts},
    observed::{Feature, Observed, Reason},
    units::Percent,
};
use rustix::{fd::OwnedFd, io::Errno};
use std::{cmp::Reverse, collections::BTreeSet, sync::Arc, time::Duration};

/// For those that may not answer, all side by side.
static MAY_HANG: Desk = Desk::new(16);

/// For those of this machine, one after the other.
static LOCAL: Desk = Desk::new(1);

/// File systems without space of their own, which the kernel makes up; and the automounter.
const MADE_UP: [&[u8]; 27] = [
    b"autofs",
    b"binder",
    b"binfmt_misc",
    b"bpf",
    b"cgroup",
    b"cgroup2",
    b"configfs",
    b"debugfs",
    b"devpts",
    b"devtmpfs",
    b"efivarfs",
    b"fusectl",
    b"hugetlbfs",
    b"mqueue",
    b"nfsd",
    b"nsfs",
    b"overlay",
    b"proc",
    b"pstore",
    b"ramfs",
    b"resctrl",
    b"rootfs",
    b"rpc_pipefs",
    b"securityfs",
    b"selinuxfs",
    b"sysfs",
    b"tracefs",
];

/// File systems that are written once, and therefore full.
const FULL_BY_NATURE: [&[u8]; 5] = [b"cramfs", b"erofs", b"iso9660", b"romfs", b"squashfs"];

/// File systems that answer out of the memory of this machine.
const LOCAL_KINDS: [&[u8]; 19] = [
    b"bcachefs",
    b"btrfs",
    b"exfat",
    b"ext2",
    b"ext3",
    b"ext4",
    b"f2fs",
    b"hfs",
    b"hfsplus",
    b"jfs",
    b"minix",
    b"msdos",
    b"nilfs2",
    b"ntfs3",
    b"reiserfs",
    b"tmpfs",
    b"vfat",
    b"xfs",
    b"zfs",
];

type Answered = Result<Space, Errno>;

/// File systems that were asked.
pub(super) struct Asked {
    total: Result<u32, Reason>,
    /// Of a captured machine there is nobody to ask.
    never_asked: u32,
    asked: Vec<(Vec<Mounted>, Pending<Answered>)>,
}

/// Asks all file systems, and does not wait.
pub(super) fn ask(root: &Root) -> Asked {
    let mut text = Vec::new();
    let mounts = root
        .read_proc("self/mountinfo", &mut text)
        .map(|()| worth_asking(mountinfo::parse(&text)))
        .map_err(|error| error.reason_of_file(Feature::Field));
    let total = mounts.as_ref().map(|mounts| count(mounts.len())).map_err(Clone::clone);
    let mounts = mounts.unwrap_or_default();
    let never_asked =
        || Asked { total: total.clone(), never_asked: count(mounts.len()), asked: Vec::new() };
    let Some(top) = root.live_top() else { return never_asked() };
    let (local, may_hang): (Vec<_>, Vec<_>) =
        mounts.iter().cloned().partition(|mount| is_local(mount, &mounts));
    let put = |desk: &'static Desk, ask: fn(&OwnedFd, &Place) -> Answered, mounts: Vec<Mounted>| {
        let question = |mount: &Mounted| {
            let (top, place) = (Arc::clone(&top), Place::of(mount));
            let name = [mount.device.as_slice(), b" ", &mount.mount_point].concat();
            Question { name, ask: Box::new(move || ask(&top, &place?)) }
        };
        let questions = mounts.iter().map(question).collect();
        (mounts, desk.put(questions))
    };
    Asked {
        total,
        never_asked: 0,
        asked: vec![
            put(&MAY_HANG, child::space_of, may_hang),
            put(&LOCAL, file_system::space, local),
        ],
    }
}

/// The mounts to ask: each file system once, where it is not hidden below another mount.
fn worth_asking(mounts: Vec<Mounted>) -> Vec<Mounted> {
    let covered: BTreeSet<(u64, Vec<u8>)> =
        mounts.iter().map(|mount| (mount.parent, mount.mount_point.clone())).collect();
    let mut seen = BTreeSet::new();
    mounts
        .into_iter()
        .filter(|mount| !covered.contains(&(mount.id, mount.mount_point.clone())))
        // What cannot be written to cannot fill up, and one of this machine answers.
        .filter(|mount| !mount.is_read_only || !is_local_kind(mount))
        .filter(|mount| {
            // The space of an overlay is that of the file system it is on, which is listed too,
            // except from within a container.
            let is_top = mount.kind == b"overlay" && mount.mount_point == b"/";
            let kind = mount.kind.as_slice();
            is_top || !(MADE_UP.contains(&kind) || FULL_BY_NATURE.contains(&kind))
        })
        .filter(|mount| seen.insert(mount.device.clone()))
        .collect()
}

/// Whether nothing on the way to it, nor itself, can keep a reader waiting.
fn is_local(mount: &Mounted, all: &[Mounted]) -> bool {
    let is_above = |other: &&Mounted| {
        let rest = mount.mount_point.strip_prefix(other.mount_point.as_slice());
        let is_folder = other.mount_point.ends_with(b"/");
        rest.is_some_and(|rest| is_folder || rest.is_empty() || rest.starts_with(b"/"))
    };
    all.iter().filter(is_above).all(is_local_kind)
}

fn is_local_kind(mount: &Mounted) -> bool {
    LOCAL_KINDS.contains(&mount.kind.as_slice()) || mount.kind == b"overlay"
}

impl Asked {
    /// What came of it: all rows, ranked; the caller cuts. And the processor time that it cost.
    pub(super) fn finish(self) -> (Mounts, Duration) {
        let (mut ranked, mut cpu, mut not_asked) = (Vec::new(), Duration::ZERO, self.never_asked);
        let mut total = self.total;
        for (mounts, pending) in self.asked {
            for (mount, outcome) in mounts.iter().zip(pending.finish()) {
                match outcome {
                    Outcome::NotAsked => not_asked = not_asked.saturating_add(1),
                    Outcome::NoAnswer(waited) => ranked.push(row(mount, None, waited)),
                    // It was unmounted meanwhile, or something else is there now.
                    Outcome::Answered(answer) if answer.value == Err(Errno::NOENT) => {
                        total = total.map(|total| total.saturating_sub(1));
                    }
                    Outcome::Answered(answer) => {
                        cpu = cpu.saturating_add(answer.cpu);
                        ranked.push(row(mount, Some(answer.value), answer.took));
                    }
                }
            }
        }
        let fullest = |mount: &Mount| {
            let known = |share: &Observed<Percent>| share.known().copied().unwrap_or_default();
            known(&mount.used_pct).max(known(&mount.inodes_used_pct))
        };
        order::by_key(&mut ranked, |mount| (mount.answer, Reverse(fullest(mount))));
        let silent = ranked.iter().filter(|mount| mount.answer == MountAnswer::None);
        let no_answer_total = count(silent.count());
        (Mounts { total: total.into(), no_answer_total, not_asked, ranked }, cpu)
    }
}

fn row(mount: &Mounted, answer: Option<Answered>, waited: Duration) -> Mount {
    let unknown = || match &answer {
        None => Reason::NoAnswer,
        Some(Err(errno)) => Reason::Failed { errno: errno.raw_os_error() },
        // It has space without end, or does not say.
        Some(Ok(_)) => Reason::NoLimitSet,
    };
    let share = |part: fn(&Space) -> Option<Percent>| {
        let known = answer.and_then(|answer| answer.ok()).and_then(|space| part(&space));
        known.ok_or_else(unknown).into()
    };
    let errno = answer.and_then(Result::err);
    Mount {
        path: HostText::new(&mount.mount_point),
        kind: HostText::new(&mount.kind),
        answer: match (answer, errno) {
            (None, _) => MountAnswer::None,
            (Some(_), Some(Errno::STALE)) => MountAnswer::Stale,
            (Some(_), Some(Errno::ACCESS | Errno::PERM)) => MountAnswer::Refused,
            (Some(_), Some(_)) => MountAnswer::Failed,
            (Some(_), None) => MountAnswer::Answered,
        },
        errno: errno.map_or(0, |errno| errno.raw_os_error().unsigned_abs()),
        waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
        used_pct: share(Space::used),
        inodes_used_pct: share(Space::inodes_used),
    }
}

fn count(entries: usize) -> u32 {
    u32::try_from(entries).unwrap_or(u32::MAX)
}

//! Which threads are looked at.

use crate::{perf::sampler::Scope, proc::Root};
use rustix::{
    fd::{AsFd as _, BorrowedFd, OwnedFd},
    fs::{Dir, FileType, Mode, OFlags},
    io::Errno,
};

/// Cgroups below one another that are gone down into.
const DEEPEST: usize = 16;

/// Processes of a cgroup, or of the machine, that are looked at.
const MOST_PROCESSES: usize = 4096;

/// All threads of what is asked for, by process and thread. Those of the agent are left out: where
/// all of the machine is looked at, it would see itself looking.
pub fn list(root: &Root, scope: &Scope) -> Vec<(u32, u32)> {
    let mut pids = Vec::new();
    match scope {
        Scope::Process(pid) => pids.push(*pid),
        Scope::Processes(all) => pids.extend_from_slice(all),
        Scope::Cgroup(folder) => in_cgroup(folder.as_fd(), DEEPEST, &mut pids),
        Scope::Host => {
            let _ = root.list_ids(".", &mut pids);
        }
    }
    pids.truncate(MOST_PROCESSES);
    let own = [std::process::id(), parent()];
    let (mut threads, mut tids) = (Vec::new(), Vec::new());
    for pid in pids.into_iter().filter(|pid| !own.contains(pid)) {
        // One that ended has none.
        if root.list_ids(&format!("{pid}/task"), &mut tids).is_ok() {
            threads.extend(tids.iter().map(|tid| (pid, *tid)));
        }
    }
    threads
}

fn parent() -> u32 {
    rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs())
}

/// Processes of a cgroup and of those below it: `cgroup.procs`.
fn in_cgroup(folder: BorrowedFd<'_>, deeper: usize, pids: &mut Vec<u32>) {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::openat(folder, "cgroup.procs", flags, Mode::empty())
        && let Ok(text) = read(&file)
    {
        let lines = text.split(|byte| *byte == b'\n');
        pids.extend(lines.filter_map(|line| std::str::from_utf8(line).ok()?.parse::<u32>().ok()));
    }
    if deeper == 0 || pids.len() >= MOST_PROCESSES {
        return;
    }
    let Ok(entries) = Dir::read_from(folder) else { return };
    for entry in entries.flatten() {
        let is_folder = entry.file_type() == FileType::Directory;
        if !is_folder || entry.file_name().to_bytes().starts_with(b".") {
            continue;
        }
        let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        if let Ok(below) = rustix::fs::openat(folder, entry.file_name(), flags, Mode::empty()) {
            in_cgroup(below.as_fd(), deeper - 1, pids);
        }
    }
}

fn read(file: &OwnedFd) -> Result<Vec<u8>, Errno> {
    const MOST_BYTES: usize = 1 << 20;
    let (mut text, mut room) = (Vec::new(), vec![0; 16 << 10]);
    while text.len() < MOST_BYTES {
        match rustix::io::read(file, &mut room) {
            Ok(0) => break,
            Ok(length) => text.extend_from_slice(room.get(..length).unwrap_or_default()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_cgroup_has_the_processes_of_those_below_it_and_none_of_the_agent() {
        let root = Root::live().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        std::fs::create_dir(folder.path().join("below")).unwrap();
        std::fs::write(folder.path().join("cgroup.procs"), format!("{}\n", std::process::id()))
            .unwrap();
        std::fs::write(folder.path().join("below/cgroup.procs"), format!("{}\n", child.id()))
            .unwrap();
        let open = std::fs::File::open(folder.path()).unwrap();
        let found = list(&root, &Scope::Cgroup(Arc::new(open.into())));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, [(child.id(), child.id())]);
    }
}

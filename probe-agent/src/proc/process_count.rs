//! How many processes there are, and how many of them `/proc` shows.
//!
//! Source: the folder `/proc` itself. Kernel reference: `proc_root_getattr` in `fs/proc/root.c`,
//! `nr_processes` in `kernel/fork.c`.

use super::{ReadError, Root, Source, each_entry};
use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, FileType, StatxFlags},
    io::Errno,
};

impl Root {
    /// Counts the processes that `/proc` shows, and those that the whole machine has, where the
    /// kernel tells.
    ///
    /// The link count of `/proc` is that of its own entries and one for each process of the machine,
    /// also those that are hidden or in another pid namespace. Which of the entries count differs:
    /// the folders, or, as in 6.1, the files too. Another folder of the kernel's tells that.
    ///
    /// # Errors
    ///
    /// What the kernel answered; `ENOENT` of a snapshot, which cannot hold the count.
    pub fn count_processes(&self) -> Result<(u64, Option<u64>), ReadError> {
        let Source::Now(tree) = &self.source else { return Err(Errno::NOENT.into()) };
        // Where it is refused, as by old filters of system calls, the kernel does not tell.
        let links = links(&tree.proc, "").ok();
        let (mut seen, mut own) = (0, Entries::default());
        each_entry(&tree.proc, ".", |name, kind| {
            if name.iter().all(u8::is_ascii_digit) {
                seen += 1;
            } else if ![b"self".as_slice(), b"thread-self"].contains(&name) {
                // Those two are made for each reader, and belong to no folder.
                own.add(kind);
            }
        })?;
        let total = links.and_then(|links| links.checked_sub(own.links(files_count(&tree.proc))));
        // A number that is too small is no such count: something else than a kernel shows this.
        Ok((seen, total.filter(|total| *total > 0)))
    }
}

impl Root {
    /// What the whole machine has no more processes than, with one call; `None` where nobody tells. It
    /// is some 60 too many.
    pub fn most_processes(&self) -> Option<u64> {
        let Source::Now(tree) = &self.source else { return None };
        links(&tree.proc, "").ok()
    }
}

/// Entries of a folder of `/proc` that belong to the kernel itself.
#[derive(Clone, Copy, Debug, Default)]
struct Entries {
    folders: u64,
    others: u64,
}

impl Entries {
    const fn add(&mut self, kind: FileType) {
        if matches!(kind, FileType::Directory) {
            self.folders += 1;
        } else {
            self.others += 1;
        }
    }

    /// What the link count is for these alone. Every folder counts its parent's and its own entry.
    const fn links(self, files_count: bool) -> u64 {
        2 + self.folders + if files_count { self.others } else { 0 }
    }
}

/// Whether this kernel counts plain files as links of their folder: it does in a folder that has
/// both, and no processes.
fn files_count(proc: &OwnedFd) -> bool {
    const WITH_BOTH: &str = "tty";
    let mut entries = Entries::default();
    let listed = each_entry(proc, WITH_BOTH, |_, kind| entries.add(kind));
    listed.is_ok() && links(proc, WITH_BOTH) == Ok(entries.links(true))
}

fn links(proc: &OwnedFd, path: &str) -> Result<u64, Errno> {
    let status = rustix::fs::statx(proc, path, AtFlags::EMPTY_PATH, StatxFlags::NLINK)?;
    Ok(u64::from(status.stx_nlink))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_processes_are_counted_where_none_is_hidden() {
        let (seen, total) = Root::live().unwrap().count_processes().unwrap();
        // Others come and go meanwhile, and in a container they are not seen at all.
        assert!(seen > 0 && total.is_none_or(|total| total + 50 >= seen), "{seen} of {total:?}");
    }
}

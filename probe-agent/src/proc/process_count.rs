//! How many processes there are, and how many of them `/proc` shows.
//!
//! Source: the folder `/proc` itself. Kernel reference: `proc_root_getattr` in `fs/proc/root.c`,
//! `nr_processes` in `kernel/fork.c`.

use super::{ReadError, Root, Source, each_entry};
use rustix::{
    fs::{AtFlags, FileType, StatxFlags},
    io::Errno,
};

impl Root {
    /// Counts the processes that `/proc` shows, and those that the whole machine has, where the
    /// kernel tells.
    ///
    /// The link count of `/proc` is that of its own folders and one for each process of the machine,
    /// also those that are hidden or in another pid namespace.
    ///
    /// # Errors
    ///
    /// What the kernel answered; `ENOENT` of a snapshot, which cannot hold the count.
    pub fn count_processes(&self) -> Result<(u64, Option<u64>), ReadError> {
        let Source::Now(tree) = &self.source else { return Err(Errno::NOENT.into()) };
        // Where it is refused, as by old filters of system calls, the kernel does not tell.
        let links = rustix::fs::statx(&tree.proc, "", AtFlags::EMPTY_PATH, StatxFlags::NLINK);
        let (mut seen, mut own_folders) = (0_u64, 0_u64);
        each_entry(&tree.proc, ".", |name, kind| {
            if name.iter().all(u8::is_ascii_digit) {
                seen += 1;
            } else if kind == FileType::Directory {
                own_folders += 1;
            }
        })?;
        // Every folder counts its parent's and its own entry.
        let total =
            links.ok().and_then(|status| u64::from(status.stx_nlink).checked_sub(own_folders + 2));
        // A number that is too small is no such count: something else than a kernel shows this.
        Ok((seen, total.filter(|total| *total > 0)))
    }
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

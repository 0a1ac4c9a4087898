//! The first file system of a guest: a `cpio` archive that the kernel unpacks into memory.
//!
//! Kernel reference: `Documentation/driver-api/early-userspace/buffer-format.rst`. Owners are root,
//! whoever made it, which `cpio` itself could not do for an ordinary user.

use anyhow::{Context as _, Result};
use std::{
    fs,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::Path,
};

/// Modules for a network card, with what they depend on. Where one is built in, there is no file.
const MODULES: [&str; 8] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
];

/// What no guest needs: documents, and tables of foreign character sets.
const LEFT_OUT: [&str; 2] = ["usr/share", "usr/lib/x86_64-linux-gnu/gconv"];

/// Users that programs look up.
const PASSWD: &str =
    "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home/nobody:/bin/sh\n";
const GROUP: &str = "root:x:0:\nnogroup:x:65534:\n";

/// Packs programs, the modules of a kernel, and files of ours with their names.
pub fn pack(programs: &Path, kernel: &Path, files: &[(&str, &[u8])]) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    // Before anything is mounted, the first process has these.
    archive.folder("dev");
    archive.node("dev/console", 5, 1);
    archive.node("dev/null", 1, 3);
    for folder in ["etc", "home", "proc", "root", "run", "sys", "tmp"] {
        archive.folder(folder);
    }
    archive.file("etc/passwd", 0o644, PASSWD.as_bytes());
    archive.file("etc/group", 0o644, GROUP.as_bytes());
    for (name, bytes) in files {
        archive.file(name, 0o755, bytes);
    }
    add_folder(&mut archive, programs, "", &|_| true)?;
    let is_wanted = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        name.split_once(".ko").is_some_and(|(name, _)| MODULES.contains(&name))
    };
    // Debian moved it.
    for folder in ["lib/modules", "usr/lib/modules"] {
        if kernel.join(folder).is_dir() {
            archive.folder("lib/modules");
            add_folder(&mut archive, &kernel.join(folder), "lib/modules/", &is_wanted)?;
        }
    }
    Ok(archive.end())
}

/// Adds what is in a folder, below a place.
fn add_folder(
    archive: &mut Archive,
    folder: &Path,
    place: &str,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{place}{}", entry.file_name().to_string_lossy());
        let (path, kind) = (entry.path(), entry.file_type()?);
        if LEFT_OUT.contains(&name.as_str()) {
            continue;
        }
        if kind.is_dir() {
            archive.folder(&name);
            add_folder(archive, &path, &format!("{name}/"), is_wanted)?;
        } else if kind.is_symlink() {
            archive.add(&name, 0o120_777, (0, 0), fs::read_link(&path)?.as_os_str().as_bytes());
        } else if is_wanted(&name) {
            archive.file(&name, entry.metadata()?.mode() & 0o755, &fs::read(&path)?);
        }
    }
    Ok(())
}

/// An archive in the form `newc`.
#[derive(Debug, Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: usize,
}

impl Archive {
    fn folder(&mut self, name: &str) {
        self.add(name, 0o040_755, (0, 0), &[]);
    }

    fn file(&mut self, name: &str, mode: u32, bytes: &[u8]) {
        self.add(name, 0o100_000 | mode, (0, 0), bytes);
    }

    fn node(&mut self, name: &str, major: u32, minor: u32) {
        self.add(name, 0o020_600, (major, minor), &[]);
    }

    fn add(&mut self, name: &str, mode: u32, (major, minor): (u32, u32), bytes: &[u8]) {
        self.entries += 1;
        let (entry, size, name_size) = (self.entries, bytes.len(), name.len() + 1);
        // After the mark: inode, mode, user, group, links, time, size, the device that holds it, the
        // device that it is, the name's size, and a checksum that this form has not.
        let header = format!(
            "070701{entry:08x}{mode:08x}{0:08x}{0:08x}{1:08x}{0:08x}{size:08x}{0:08x}{0:08x}\
             {major:08x}{minor:08x}{name_size:08x}{0:08x}",
            0, 1
        );
        self.bytes.extend(header.as_bytes());
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend(bytes);
        self.align();
    }

    /// Every header and every content begins at a multiple of four.
    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn end(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_laid_out_as_the_kernel_reads_it() {
        let mut archive = Archive::default();
        archive.file("a", 0o644, b"xyz");
        let bytes = archive.bytes;
        // 110 bytes of header, the name with its end, and both parts filled up to four.
        assert_eq!(bytes.len(), 112 + 4);
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with("07070100000001000081a4"), "{text}");
        assert_eq!(text.get(54..62), Some("00000003"), "the size: {text}");
        assert_eq!(text.get(94..102), Some("00000002"), "the name's size: {text}");
        assert_eq!(text.get(110..), Some("a\0xyz\0"));
    }
}

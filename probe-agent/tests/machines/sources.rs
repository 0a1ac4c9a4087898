//! Where other machines' files come from, and how they become a tree that a [`Root`] reads.
//!
//! They are beside the project and not in it, because their licences differ from its own.
//!
//! [`Root`]: probe_agent::proc::Root

use flate2::read::GzDecoder;
use probe_agent::proc::pid_stat;
use std::{
    ffi::OsStr,
    fs,
    io::Read as _,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// One machine's files, or as many of them as somebody kept.
pub struct Machine {
    pub name: String,
    /// What holds `proc`, and perhaps `sys` and `etc`.
    pub root: PathBuf,
    _folder: TempDir,
}

/// The folder with the files of others; `None` where it is not beside this project.
pub fn data() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    folder.join("README.md").exists().then_some(folder)
}

/// Every machine, one after another: most tests need one at a time, and each is unpacked anew.
pub fn machines(data: &Path) -> impl Iterator<Item = Machine> {
    sources(data).into_iter().map(Source::unpack)
}

/// The machine of that name.
pub fn machine(data: &Path, name: &str) -> Machine {
    let found = sources(data).into_iter().find(|source| source.name == name);
    found.unwrap_or_else(|| panic!("there is no machine {name}")).unpack()
}

/// A machine that is still packed.
struct Source {
    name: String,
    path: PathBuf,
    form: Form,
}

/// How a machine is packed.
enum Form {
    Tar,
    Text,
    /// One file, which belongs there.
    Single(PathBuf),
}

fn sources(data: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    for path in files(&data.join("pcp")) {
        let name = name_of(&path);
        let form = if path.extension().is_some_and(|extension| extension == "tgz") {
            Form::Tar
        } else if let Some(place) = place_of_single_file(name) {
            Form::Single(place)
        } else {
            continue;
        };
        found.push(Source { name: format!("pcp/{name}"), path, form });
    }
    let path = data.join("prometheus-procfs/fixtures.ttar");
    found.push(Source { name: "prometheus-procfs".to_owned(), path, form: Form::Text });
    for path in raw_files(data) {
        let form = Form::Single(place_of_pair(name_of(&path)));
        found.push(Source { name: format!("jc/{}", name_of(&path)), path, form });
    }
    found
}

impl Source {
    fn unpack(self) -> Machine {
        let Self { name, path, form } = self;
        let folder = tempfile::tempdir().unwrap();
        let mut root = folder.path().to_owned();
        match form {
            Form::Tar => unpack_tar(&path, &root),
            Form::Text => {
                unpack_text(&path, &root);
                root.push("fixtures");
            }
            Form::Single(place) => copy(&path, &root.join(place)),
        }
        // Some have files of `/sys` alone.
        fs::create_dir_all(root.join("proc")).unwrap();
        Machine { name, root, _folder: folder }
    }
}

/// The raw files that have their expected JSON beside them.
pub fn raw_files(data: &Path) -> Vec<PathBuf> {
    let all = files(&data.join("jc/linux-proc"));
    all.into_iter().filter(|path| path.with_extension("json") != *path).collect()
}

/// Where a file of the name of a pair belongs: `net_dev` is `proc/net/dev`, `pid_stat` is of some
/// process.
pub fn place_of_pair(name: &str) -> PathBuf {
    let path = Path::new("proc");
    match name.split_once('_') {
        Some(("pid", rest)) => path.join("1").join(rest),
        Some((folder @ ("net" | "driver" | "scsi"), rest)) => path.join(folder).join(rest),
        Some(_) | None => path.join(name),
    }
}

/// Where a single file belongs, by its name; `None` for one that no reader would open.
fn place_of_single_file(name: &str) -> Option<PathBuf> {
    let places = [
        ("cpuinfo-", "proc/cpuinfo"),
        ("procnet-snmp6-", "proc/net/snmp6"),
        ("procnet-snmp-", "proc/net/snmp"),
        ("interrupts-", "proc/interrupts"),
        ("softirqs-", "proc/softirqs"),
    ];
    if name.ends_with(".bz2") {
        return None;
    }
    if let Some(rest) = name.strip_prefix("proc_net_") {
        return Some(Path::new("proc/net").join(rest));
    }
    places.iter().find(|(start, _)| name.starts_with(start)).map(|(_, place)| place.into())
}

impl Machine {
    /// The processes that the machine has a folder for.
    pub fn pids(&self) -> Vec<u32> {
        let entries = fs::read_dir(self.root.join("proc")).unwrap();
        let pids = entries.filter_map(|entry| name_of(&entry.unwrap().path()).parse().ok());
        let mut pids: Vec<u32> = pids.collect();
        pids.sort_unstable();
        pids
    }

    /// Whether a process has a line that can be read.
    pub fn has_line(&self, pid: u32) -> bool {
        let line = self.text(&format!("proc/{pid}/stat"));
        line.is_some_and(|line| pid_stat::parse(&line).is_ok())
    }

    /// A file's text; `None` where the machine has none.
    pub fn text(&self, path: &str) -> Option<Vec<u8>> {
        fs::read(self.root.join(path)).ok()
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn name_of(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, to).unwrap();
}

/// Unpacks an archive that may be packed.
fn unpack_tar(path: &Path, root: &Path) {
    let mut bytes = fs::read(path).unwrap();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut plain = Vec::new();
        GzDecoder::new(bytes.as_slice()).read_to_end(&mut plain).unwrap();
        bytes = plain;
    }
    for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().into_owned();
        let path = path.strip_prefix("./").unwrap_or(&path);
        let kind = entry.header().entry_type();
        if !is_of_interest(path) || kind.is_dir() && path.starts_with("sys/fs/cgroup") {
            continue;
        }
        let place = root.join(path);
        fs::create_dir_all(if kind.is_dir() { &place } else { place.parent().unwrap() }).unwrap();
        if kind.is_file() {
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            fs::write(&place, content).unwrap();
        } else if kind.is_symlink() {
            symlink(entry.link_name().unwrap().unwrap(), &place).unwrap();
        }
    }
}

/// Most of what some archives hold is read by nothing here, and takes long to write.
fn is_of_interest(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let is_of_cgroup =
        name == "memory.current" || name == "memory.max" || name == "cgroup.controllers";
    match path.strip_prefix("sys/fs/cgroup") {
        Ok(_) => is_of_cgroup,
        Err(_) => ["proc", "sys/block", "sys/devices/system/cpu"]
            .iter()
            .any(|folder| path.starts_with(folder)),
    }
}

/// Unpacks an archive that is a text: `Path:`, then `Lines:` and so many lines, or `SymlinkTo:`.
/// `NULLBYTE` stands for a zero, and `EOF` ends a last line that has no newline.
fn unpack_text(path: &Path, root: &Path) {
    let text = fs::read(path).unwrap();
    let mut lines = text.split(|byte| *byte == b'\n');
    while let Some(line) = lines.next() {
        let Some(path) = after(line, "Path: ") else { continue };
        let inside = path.strip_prefix("fixtures/").unwrap_or(path);
        if !is_of_interest(Path::new(inside)) {
            continue;
        }
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let what = lines.next().unwrap();
        if let Some(link) = after(what, "SymlinkTo: ") {
            symlink(link, &path).unwrap();
        } else if let Some(count) = after(what, "Lines: ") {
            let mut content = Vec::new();
            for line in lines.by_ref().take(count.parse().unwrap()) {
                content.extend_from_slice(line);
                content.push(b'\n');
            }
            fs::write(&path, plain(&content)).unwrap();
        }
    }
}

fn after<'l>(line: &'l [u8], start: &str) -> Option<&'l str> {
    std::str::from_utf8(line.strip_prefix(start.as_bytes())?).ok()
}

fn plain(content: &[u8]) -> Vec<u8> {
    let content = content.strip_suffix(b"EOF\n").unwrap_or(content);
    let mut plain = Vec::with_capacity(content.len());
    let mut rest = content;
    while let Some((byte, tail)) = rest.split_first() {
        if let Some(tail) = rest.strip_prefix(b"NULLBYTE") {
            plain.push(0);
            rest = tail;
        } else {
            plain.push(*byte);
            rest = tail;
        }
    }
    plain
}

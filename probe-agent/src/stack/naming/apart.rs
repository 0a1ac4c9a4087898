//! What of a process is in files of its own: names and lines that were taken out of a program, and maps
//! that a runtime wrote.
//!
//! All of it is opened on threads that can be left behind: whoever mounts a file system in a process's
//! root chooses when it answers.

use crate::{
    abandonable::{Crew, Outcome},
    os::mapped_file::MappedFile,
    proc::{
        PATIENCE, Root,
        inside_root::{InsideRoot, Opened},
    },
    stack::{
        debug_files::{self, Files, Lookup},
        elf::ElfFile,
        images::Code,
        perf_map,
    },
};
use rustix::fd::OwnedFd;
use std::{
    hash::{Hash, Hasher},
    sync::Arc,
    time::Duration,
};

/// What was taken out of a program.
#[derive(Debug, Default)]
pub enum Apart {
    /// It is here.
    Found(DebugFile),
    /// Only that of another build is.
    OfAnotherBuild,
    /// It is not here.
    #[default]
    None,
}

/// A file for debuggers.
#[derive(Debug)]
pub struct DebugFile {
    file: MappedFile,
    shared: Option<MappedFile>,
}

impl DebugFile {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.file
    }

    /// Those of the file with what several have in common.
    pub fn shared(&self) -> Option<&[u8]> {
        self.shared.as_deref()
    }
}

/// A program whose other part is looked for.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its bytes.
    pub code: Arc<Code>,
    /// Its path, in the namespace of its processes.
    pub path: Vec<u8>,
    /// The processes, by whose roots the file is looked for.
    pub pids: Vec<u32>,
    /// Their parents, for when they have ended.
    pub parents: Vec<u32>,
}

impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, &self.pids, &self.parents) == (&other.path, &other.pids, &other.parents)
    }
}

impl Eq for Program {}

impl Hash for Program {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.path, &self.pids, &self.parents).hash(state);
    }
}

/// A map that a process may have written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Map {
    /// The process; then, where it has ended, its parent.
    pub pids: Vec<u32>,
    /// The number that is in the file's name.
    pub inner_pid: u32,
    /// Who may have written it.
    pub owners: Vec<u32>,
}

/// Looks for them.
pub struct Finder {
    programs: Option<Crew<Program, Apart>>,
    maps: Option<Crew<Map, Option<Vec<u8>>>>,
    cpu: Duration,
}

impl Finder {
    /// Looks below the roots of this machine's processes; on another one's files, nowhere.
    pub fn new(root: &Root) -> Self {
        let programs = root
            .live_proc()
            .map(|proc| Crew::new(PATIENCE, move |program: &Program| apart(&proc, program)));
        let maps =
            root.live_proc().map(|proc| Crew::new(PATIENCE, move |map: &Map| map_of(&proc, map)));
        Self { programs, maps, cpu: Duration::ZERO }
    }

    /// Processor time of other threads that looked.
    pub const fn cpu(&self) -> Duration {
        self.cpu
    }

    /// Looks for what was taken out of some programs.
    pub fn apart(&mut self, programs: Vec<Program>) -> Vec<Apart> {
        let Some(crew) = self.programs.as_ref().filter(|_| !programs.is_empty()) else {
            return programs.iter().map(|_| Apart::None).collect();
        };
        let done = crew.each(programs);
        self.cpu += done.cpu;
        let outcomes = done.outcomes.into_iter();
        outcomes.map(|outcome| returned(outcome).unwrap_or_default()).collect()
    }

    /// Reads a map: the text, or its end where it is longer than what is read.
    pub fn map(&mut self, map: Map) -> Option<Vec<u8>> {
        let mut done = self.maps.as_ref()?.each(vec![map]);
        self.cpu += done.cpu;
        returned(done.outcomes.pop()?)?
    }
}

fn returned<T>(outcome: Outcome<T>) -> Option<T> {
    match outcome {
        Outcome::Returned(value) => Some(value),
        Outcome::Hangs | Outcome::NotTried => None,
    }
}

/// A mapped file as its bytes.
pub struct Mapped(MappedFile);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Files for InsideRoot<'_> {
    type Bytes = Mapped;

    fn open(&self, path: &[u8]) -> Option<Mapped> {
        let opened = InsideRoot::open(self, path).ok()?;
        MappedFile::map(&opened.file).ok().map(Mapped)
    }
}

/// The folder of a distribution below some root, and nothing else there: beside a program of another
/// root is what that one's owner put there.
struct OfDistribution<'b, 'p>(&'b InsideRoot<'p>);

impl Files for OfDistribution<'_, '_> {
    type Bytes = Mapped;

    fn open(&self, path: &[u8]) -> Option<Mapped> {
        path.starts_with(b"/usr/lib/debug/").then(|| Files::open(self.0, path)).flatten()
    }
}

/// Looks below each root in turn: a program that was taken apart elsewhere may have its other part
/// only here. It counts only if it is of the same build.
fn apart(proc: &OwnedFd, program: &Program) -> Apart {
    let Ok(image) = ElfFile::parse(program.code.bytes()) else { return Apart::None };
    let mut tried = Vec::new();
    let mut found = Apart::None;
    let own = program.pids.iter().map(|pid| (pid.to_string(), true));
    let others = program.parents.iter().map(u32::to_string).chain(["self".to_owned()]);
    for (process, is_its_own) in own.chain(others.map(|other| (other, false))) {
        let Ok(root) = InsideRoot::of(proc, &process) else { continue };
        let Ok(id) = root.id() else { continue };
        if tried.contains(&id) {
            continue;
        }
        let path = root.path_below(&program.path);
        let here = match is_its_own {
            true => look(&image, path, &root),
            false => look(&image, path, &OfDistribution(&root)),
        };
        match here {
            Apart::Found(_) => return here,
            Apart::OfAnotherBuild => found = here,
            Apart::None => {}
        }
        tried.push(id);
    }
    found
}

/// Looks in one root.
fn look(image: &ElfFile<'_>, path: &[u8], files: &impl Files<Bytes = Mapped>) -> Apart {
    let (debug, path) = match debug_files::split_from(image, path, files) {
        Lookup::Found { bytes, path } => (bytes, path),
        Lookup::OfAnotherBuild { .. } => return Apart::OfAnotherBuild,
        Lookup::None => return Apart::None,
    };
    let shared =
        ElfFile::parse(debug.as_ref()).ok().and_then(|debug| {
            match debug_files::shared_with(&debug, &path, files) {
                Lookup::Found { bytes, .. } => Some(bytes.0),
                Lookup::OfAnotherBuild { .. } | Lookup::None => None,
            }
        });
    Apart::Found(DebugFile { file: debug.0, shared })
}

/// Reads a map where its owner is one of those who may write it. Like perf, which takes none of
/// somebody else's: the folder is everybody's. Source: `dso__load` in the kernel's
/// `tools/perf/util/symbol.c`.
fn map_of(proc: &OwnedFd, map: &Map) -> Option<Vec<u8>> {
    // Where the first is still there, what is in other roots is another process's.
    let root = map.pids.iter().find_map(|pid| InsideRoot::of(proc, &pid.to_string()).ok())?;
    let path = format!("/{}", perf_map::path(map.inner_pid));
    let Opened { file, status, .. } = root.open(path.as_bytes()).ok()?;
    if !map.owners.contains(&status.st_uid) {
        return None;
    }
    let bytes = u64::try_from(status.st_size).unwrap_or_default();
    let most = u64::try_from(perf_map::MOST_BYTES).unwrap_or(u64::MAX);
    let mut at = bytes.saturating_sub(most);
    let mut text = Vec::new();
    let mut room = vec![0; 64 << 10];
    // It may grow as fast as it is read.
    while text.len() < perf_map::MOST_BYTES {
        match rustix::io::pread(&file, &mut room, at) {
            Ok(0) => break,
            Ok(length) => {
                text.extend_from_slice(room.get(..length)?);
                at = at.saturating_add(u64::try_from(length).ok()?);
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(text)
}

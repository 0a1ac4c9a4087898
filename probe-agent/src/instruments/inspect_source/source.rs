//! Reads a source as a process sees it, on a thread that can be left behind: whoever mounts a file
//! system in a process's root chooses when it answers.

use super::jail;
use crate::{
    abandonable::{Crew, Outcome},
    call::Context,
    proc::{
        PATIENCE,
        inside_root::{InsideRoot, NotOpened, Opened},
    },
};
use protocol::instruments::inspect_source::Text;
use rustix::{fd::OwnedFd, io::Errno};

/// Of a longer file, so much is read.
const MOST_BYTES: usize = 4 << 20;

/// A source to be read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// Processes as which it is read: the first that is still there.
    pub pids: Vec<u32>,
    /// Whether the agent's own root will do where none is.
    pub or_agent: bool,
    /// Its path.
    pub path: Vec<u8>,
    /// The path of the program that was made of it.
    pub program: Option<Vec<u8>>,
}

/// A source that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its bytes, or the start of them.
    pub bytes: Vec<u8>,
    /// Whether those are all.
    pub is_whole: bool,
    /// Where it is in the root, without links.
    pub path: Vec<u8>,
    /// The process as which it was read; none where that was the agent itself.
    pub pid: Option<u32>,
    /// Whether it was changed after the program's file was.
    pub is_newer: Option<bool>,
}

/// Reads it.
///
/// # Errors
///
/// Why it is not shown.
pub fn read(wanted: Wanted, context: &Context<'_>) -> Result<Source, Text> {
    jail::check(&wanted.path)?;
    let proc = context.root.live_proc().ok_or(Text::Gone)?;
    let crew = Crew::new(PATIENCE, move |wanted: &Wanted| read_in_any_root(&proc, wanted));
    let mut done = crew.each(vec![wanted]);
    context.add_cpu(done.cpu);
    match done.outcomes.pop() {
        Some(Outcome::Returned(read)) => read,
        Some(Outcome::Hangs | Outcome::NotTried) | None => Err(Text::Hangs),
    }
}

fn read_in_any_root(proc: &OwnedFd, wanted: &Wanted) -> Result<Source, Text> {
    let mut why = Text::Gone;
    for pid in &wanted.pids {
        match InsideRoot::of(proc, &pid.to_string()) {
            Ok(root) => return read_in(&root, wanted, Some(*pid)),
            Err(Errno::ACCESS | Errno::PERM) => why = Text::NotPermitted,
            Err(_) => {}
        }
    }
    if why == Text::Gone && wanted.or_agent {
        let root = InsideRoot::of(proc, "self").map_err(|_| Text::Failed)?;
        return read_in(&root, wanted, None);
    }
    Err(why)
}

fn read_in(root: &InsideRoot<'_>, wanted: &Wanted, pid: Option<u32>) -> Result<Source, Text> {
    let Opened { file, path, status } = root.open(&wanted.path).map_err(state_of)?;
    jail::check(&path)?;
    let (bytes, is_whole) =
        read_start(&file).map_err(|errno| state_of(NotOpened::Refused(errno)))?;
    let program = wanted.program.as_deref().and_then(|path| root.open(root.path_below(path)).ok());
    let is_newer = program.map(|program| {
        let changed = |status: &rustix::fs::Stat| (status.st_mtime, status.st_mtime_nsec);
        changed(&status) > changed(&program.status)
    });
    Ok(Source { bytes, is_whole, path, pid, is_newer })
}

/// The start of a file, and whether that is all of it.
fn read_start(file: &OwnedFd) -> Result<(Vec<u8>, bool), Errno> {
    let mut bytes = Vec::new();
    let mut room = vec![0; 64 << 10];
    loop {
        match rustix::io::read(file, &mut room) {
            Ok(0) => return Ok((bytes, true)),
            Ok(length) => bytes.extend_from_slice(room.get(..length).unwrap_or_default()),
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        }
        if bytes.len() > MOST_BYTES {
            bytes.truncate(MOST_BYTES);
            return Ok((bytes, false));
        }
    }
}

fn state_of(why: NotOpened) -> Text {
    match why {
        NotOpened::NoPath => Text::NoPath,
        NotOpened::Refused(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => Text::NotThere,
        NotOpened::Refused(Errno::ACCESS | Errno::PERM) => Text::NotPermitted,
        NotOpened::Refused(_) => Text::Failed,
        NotOpened::TooFar => Text::TooFar,
        NotOpened::OfTheKernel => Text::OfTheKernel,
        NotOpened::NoFile => Text::NotAFile,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::Root;
    use std::{fs, os::unix::fs::symlink, sync::Arc};

    fn proc() -> Arc<OwnedFd> {
        Root::live().unwrap().live_proc().unwrap()
    }

    fn wanted(path: &std::path::Path) -> Wanted {
        let path = path.as_os_str().as_encoded_bytes().to_vec();
        Wanted { pids: vec![std::process::id()], or_agent: false, path, program: None }
    }

    #[test]
    fn a_link_to_what_is_no_source_is_not_followed_to_its_text() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("plain"), "secret").unwrap();
        fs::create_dir(at(".ssh")).unwrap();
        fs::write(at(".ssh/x.py"), "secret").unwrap();
        fs::write(at("real.py"), "text").unwrap();
        for (link, target) in
            [("a.py", "plain"), ("b.py", ".ssh/x.py"), ("c.py", "real.py"), ("d.py", "/etc/passwd")]
        {
            symlink(target, at(link)).unwrap();
        }
        let read = |name: &str| read_in_any_root(&proc(), &wanted(&at(name)));
        assert_eq!(read("a.py").unwrap_err(), Text::NotASource);
        assert_eq!(read("b.py").unwrap_err(), Text::Secret);
        assert_eq!(read("d.py").unwrap_err(), Text::NotASource);
        assert_eq!(read("missing.py").unwrap_err(), Text::NotThere);
        let source = read("c.py").unwrap();
        assert_eq!((source.bytes.as_slice(), source.is_whole), (b"text".as_slice(), true));
        assert!(source.path.ends_with(b"/real.py"));
    }

    #[test]
    fn of_a_file_that_is_too_long_the_start_is_read_and_that_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("long.c");
        fs::write(&file, vec![b'\n'; MOST_BYTES + 1]).unwrap();
        let source = read_in_any_root(&proc(), &wanted(&file)).unwrap();
        assert_eq!((source.bytes.len(), source.is_whole), (MOST_BYTES, false));
        fs::write(&file, vec![b'\n'; MOST_BYTES]).unwrap();
        assert!(read_in_any_root(&proc(), &wanted(&file)).unwrap().is_whole);
    }

    #[test]
    fn a_source_of_a_process_that_ended_is_read_in_the_agents_root_only_where_that_will_do() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.c");
        fs::write(&file, "x").unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let gone = Wanted { pids: vec![child.id()], ..wanted(&file) };
        assert_eq!(read_in_any_root(&proc(), &gone).unwrap_err(), Text::Gone);
        let source = read_in_any_root(&proc(), &Wanted { or_agent: true, ..gone }).unwrap();
        assert_eq!(source.pid, None);
    }

    #[test]
    fn a_source_that_was_changed_after_the_program_was_built_is_newer() {
        let folder = tempfile::tempdir().unwrap();
        let (file, program) = (folder.path().join("a.c"), folder.path().join("a"));
        for (source_s, program_s, is_newer) in [(100, 200, false), (200, 100, true)] {
            for (path, seconds) in [(&file, source_s), (&program, program_s)] {
                fs::write(path, "x").unwrap();
                let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
                fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
            }
            let program = Some(program.as_os_str().as_encoded_bytes().to_vec());
            let source = read_in_any_root(&proc(), &Wanted { program, ..wanted(&file) }).unwrap();
            assert_eq!(source.is_newer, Some(is_newer));
        }
        let none = Some(b"/nothing".to_vec());
        let source = read_in_any_root(&proc(), &Wanted { program: none, ..wanted(&file) }).unwrap();
        assert_eq!(source.is_newer, None);
    }
}

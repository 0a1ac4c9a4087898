//! Folders that are named like a session's, and their removal: the one place, beside the agent's own
//! first act, that removes anything.
//!
//! Nothing is followed: each step goes from an open folder to a name in it (`openat` with
//! `O_NOFOLLOW`, `unlinkat`), so that what is put in the way of a path later is not taken for it.

use crate::{
    abandonable::{Crew, Outcome},
    os::clock,
};
use protocol::{
    handshake::Token,
    host_text::HostText,
    sweep::{Became, FILE, Folder, Left, PLACES, Spared, token_of_folder},
};
use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Dir, FileType, Mode, OFlags},
    io::Errno,
};
use std::{
    ffi::OsStr,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// A folder that is named like a session's.
#[derive(Debug)]
pub struct Candidate {
    place: Arc<OwnedFd>,
    name: Vec<u8>,
    path: PathBuf,
    /// The session.
    pub token: Token,
}

/// What was found in all places.
#[derive(Debug, Default)]
pub struct Found {
    /// The folders.
    pub candidates: Vec<Candidate>,
    /// Places whose file system does not answer.
    pub silent: Vec<Folder>,
}

/// How long a file system may take with one place: that of a home may be gone.
const PATIENCE: Duration = Duration::from_secs(2);

/// From when on a folder is of a dead session where no process can be seen: a session has its folder
/// for as long as its agent takes to arrive and to start.
const OLD: Duration = Duration::from_secs(600);

/// Names that are looked at in one place.
const MOST_NAMES: usize = 1_000_000;

/// The places in which a session of this login may put its folder.
fn places() -> Vec<PathBuf> {
    let own = ["XDG_RUNTIME_DIR", "HOME"].into_iter().filter_map(std::env::var_os);
    let own = own.map(PathBuf::from).filter(|place| place.is_absolute());
    PLACES.into_iter().map(PathBuf::from).chain(own).collect()
}

/// Finds the folders.
pub fn find() -> Found {
    find_in(places())
}

fn find_in(places: Vec<PathBuf>) -> Found {
    let crew: Crew<PathBuf, _> = Crew::new(PATIENCE, |place: &PathBuf| list(place));
    let mut found = Found::default();
    let mut known = Vec::new();
    for (place, outcome) in places.iter().zip(crew.each(places.clone()).outcomes) {
        match outcome {
            // One place may have two names.
            Outcome::Returned(Some((identity, candidates))) if !known.contains(&identity) => {
                known.push(identity);
                found.candidates.extend(candidates);
            }
            Outcome::Returned(_) => {}
            Outcome::Hangs | Outcome::NotTried => found.silent.push(Folder {
                path: HostText::new(place.as_os_str().as_bytes()),
                became: Became::Left(Left::DoesNotAnswer),
            }),
        }
    }
    found
}

/// Which folder it is, and what is in it.
type Listed = ((u64, u64), Vec<Candidate>);

fn list(path: &Path) -> Option<Listed> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let place = Arc::new(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let identity = rustix::fs::fstat(&*place).ok()?;
    let entries = Dir::read_from(&*place).ok()?;
    let candidate = |name: &[u8]| {
        let token = token_of_folder(name)?;
        let path = path.join(OsStr::from_bytes(name));
        Some(Candidate { place: Arc::clone(&place), name: name.to_vec(), path, token })
    };
    let names = entries.take(MOST_NAMES).filter_map(Result::ok);
    let candidates = names.filter_map(|entry| candidate(entry.file_name().to_bytes())).collect();
    Some(((identity.st_dev, identity.st_ino), candidates))
}

/// What is known of the session of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It is alive.
    Alive,
    /// It is not.
    Dead,
    /// Processes cannot be seen here.
    Unknown,
}

impl Candidate {
    /// Removes the folder, where it is of a dead session of this user and nothing else is in it.
    /// None where it is gone already.
    pub fn sweep(&self, life: Life, is_dry_run: bool) -> Option<Folder> {
        let became = match self.decide(life) {
            Ok(()) if is_dry_run => Became::WouldRemove,
            Ok(()) => match self.remove() {
                Ok(()) => Became::Removed,
                Err(errno) => Became::Left(Left::NotRemoved { errno: errno.raw_os_error() }),
            },
            Err(became) => became?,
        };
        let path = self.path.clone().into_os_string().into_vec();
        Some(Folder { path: HostText::new(&path), became })
    }

    fn open(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&*self.place, self.name.as_slice(), flags, Mode::empty())
    }

    /// Whether it may be removed; otherwise what is said of it, or nothing where it is gone.
    fn decide(&self, life: Life) -> Result<(), Option<Became>> {
        let spared = |why| Err(Some(Became::Spared(why)));
        let left = |why| Err(Some(Became::Left(why)));
        let name = self.name.as_slice();
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let stat = match rustix::fs::statat(&*self.place, name, flags) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Err(None),
            Err(errno) => return left(Left::NotRemoved { errno: errno.raw_os_error() }),
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return spared(Spared::NoFolder);
        }
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return spared(Spared::OfUser { uid: stat.st_uid });
        }
        if life == Life::Alive {
            return spared(Spared::Alive);
        }
        let seconds = u64::try_from(stat.st_mtime).unwrap_or_default();
        let age = clock::wall().saturating_sub(Duration::from_secs(seconds));
        if life == Life::Unknown && age < OLD {
            return left(Left::TooYoung);
        }
        match self.open().and_then(|folder| holds_nothing_else(&folder)) {
            Ok(true) => Ok(()),
            Ok(false) => left(Left::HoldsOthers),
            Err(Errno::NOENT) => Err(None),
            // It was exchanged since it was looked at.
            Err(Errno::LOOP | Errno::NOTDIR) => spared(Spared::NoFolder),
            Err(errno) => left(Left::NotRemoved { errno: errno.raw_os_error() }),
        }
    }

    fn remove(&self) -> Result<(), Errno> {
        let folder = self.open()?;
        match rustix::fs::unlinkat(&folder, FILE, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        // Only a folder that is empty goes.
        rustix::fs::unlinkat(&*self.place, self.name.as_slice(), AtFlags::REMOVEDIR)
    }
}

/// Whether a folder holds at most a session's one file.
fn holds_nothing_else(folder: &OwnedFd) -> Result<bool, Errno> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if name != FILE.as_bytes() || !is_file {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn name(number: u32) -> String {
        format!(".sysmcp-{number:032x}")
    }

    /// What becomes of everything in a place, by its last digit.
    fn swept(place: &Path, life: Life, is_dry_run: bool) -> Vec<(char, Became)> {
        // The same place by another name is looked at once.
        let found = find_in(vec![place.to_owned(), place.join(".")]);
        assert!(found.silent.is_empty());
        let folders = found.candidates.iter().filter_map(|it| it.sweep(life, is_dry_run));
        let mut became: Vec<_> = folders
            .map(|folder| (folder.path.as_str().chars().last().unwrap(), folder.became))
            .collect();
        became.sort_by_key(|(last, _)| *last);
        became
    }

    #[test]
    fn a_folder_goes_where_it_holds_only_what_a_session_puts_there() {
        let place = tempfile::tempdir().unwrap();
        let at = |number| place.path().join(name(number));
        for number in [1, 2, 3, 4] {
            fs::create_dir(at(number)).unwrap();
        }
        fs::write(at(1).join("a"), "agent").unwrap();
        fs::write(at(3).join("b"), "somebody's").unwrap();
        symlink("/etc/passwd", at(4).join("a")).unwrap();
        fs::write(place.path().join("kept"), "").unwrap();
        symlink(place.path().join("kept"), at(5)).unwrap();
        fs::write(at(6), "a file").unwrap();
        fs::create_dir(place.path().join(".sysmcp-notatoken")).unwrap();
        let want = [
            ('1', Became::WouldRemove),
            ('2', Became::WouldRemove),
            ('3', Became::Left(Left::HoldsOthers)),
            ('4', Became::Left(Left::HoldsOthers)),
            ('5', Became::Spared(Spared::NoFolder)),
            ('6', Became::Spared(Spared::NoFolder)),
        ];
        assert_eq!(swept(place.path(), Life::Dead, true), want);
        assert!(at(1).join("a").exists() && at(2).exists());
        let mut want = want;
        want[0].1 = Became::Removed;
        want[1].1 = Became::Removed;
        assert_eq!(swept(place.path(), Life::Dead, false), want);
        assert!(!at(1).exists() && !at(2).exists());
        assert!(at(3).join("b").exists() && at(4).join("a").is_symlink());
        assert!(at(5).is_symlink() && at(6).exists() && place.path().join("kept").exists());
        assert!(place.path().join(".sysmcp-notatoken").exists());
    }

    #[test]
    fn a_folder_stays_for_as_long_as_its_session_may_live() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join(format!(".sysmcp-{TOKEN}"));
        fs::create_dir(&folder).unwrap();
        let last = TOKEN.chars().last().unwrap();
        let cases = [
            (Life::Alive, Became::Spared(Spared::Alive)),
            (Life::Unknown, Became::Left(Left::TooYoung)),
        ];
        for (life, want) in cases {
            assert_eq!(swept(place.path(), life, false), [(last, want)]);
        }
        let old = std::time::SystemTime::now() - OLD - Duration::from_secs(5);
        fs::File::open(&folder).unwrap().set_modified(old).unwrap();
        assert_eq!(swept(place.path(), Life::Unknown, false), [(last, Became::Removed)]);
    }
}

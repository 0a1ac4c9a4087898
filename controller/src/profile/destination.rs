//! Where a profile is written to: a file that has its name once all of it is there, and nothing of it
//! otherwise.

use super::Document;
use crate::private;
use protocol::host_text;
use std::{
    fs,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

/// A file to be written.
#[derive(Clone, Debug)]
pub struct Destination {
    path: PathBuf,
    /// The name it has until it is complete.
    partial: PathBuf,
    /// Whether one that is there is replaced.
    replaces: bool,
}

/// Bytes of a file at most: a recording that a target made up can come to far more in some formats.
const MOST_BYTES: u64 = 1 << 30;

/// Why a file is not written.
#[derive(Debug, thiserror::Error)]
pub enum DestinationError {
    /// It is there.
    #[error("{} is there; name another file, or replace it with --force", shown(.path))]
    There {
        /// The file.
        path: PathBuf,
    },
    /// It is there and no file: a folder, a device, a link.
    #[error("{} is no ordinary file; name another one, or leave --output out for stdout", shown(.path))]
    NoFile {
        /// What was named.
        path: PathBuf,
    },
    /// It cannot be written.
    #[error("could not write {}: {error}", shown(.path))]
    Write {
        /// What.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

fn shown(path: &Path) -> String {
    host_text::printable(&path.to_string_lossy()).into_owned()
}

impl Destination {
    /// A file. Nothing is made yet.
    ///
    /// # Errors
    ///
    /// When there is something in its place that is not to be replaced.
    pub fn new(path: &Path, replaces: bool) -> Result<Self, DestinationError> {
        let path = std::path::absolute(path)
            .map_err(|error| DestinationError::Write { path: path.to_owned(), error })?;
        let Some(name) = path.file_name() else { return Err(DestinationError::NoFile { path }) };
        let partial = format!(".{}.partial-{}", name.to_string_lossy(), std::process::id());
        let destination = Self { partial: path.with_file_name(partial), path, replaces };
        destination.check()?;
        Ok(destination)
    }

    fn check(&self) -> Result<(), DestinationError> {
        let path = self.path.clone();
        match fs::symlink_metadata(&self.path) {
            Ok(found) if !found.is_file() => Err(DestinationError::NoFile { path }),
            Ok(_) if !self.replaces => Err(DestinationError::There { path }),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Writes a recording, unless it is given up meanwhile. The file is for this user alone, and no
    /// program.
    ///
    /// # Errors
    ///
    /// Why it is not there; nothing else is left then.
    pub fn write(
        &self,
        document: &Document,
        given_up: &AtomicBool,
    ) -> Result<(), DestinationError> {
        let failed = |path: &Path, error| DestinationError::Write { path: path.to_owned(), error };
        let file = private::options()
            .write(true)
            .create_new(true)
            .open(&self.partial)
            .map_err(|error| failed(&self.partial, error))?;
        let _partial = Partial(&self.partial);
        let mut out = BufWriter::new(Limited::new(file, given_up));
        document
            .write(&mut out)
            .and_then(|()| out.flush())
            .map_err(|error| failed(&self.path, error))?;
        // On Windows a file that is open keeps its name.
        drop(out);
        if self.replaces {
            self.check()?;
            return fs::rename(&self.partial, &self.path)
                .map_err(|error| failed(&self.path, error));
        }
        // A second name is given only where the first file of it is this one.
        match fs::hard_link(&self.partial, &self.path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(DestinationError::There { path: self.path.clone() })
            }
            // Not all file systems have second names.
            Err(_) => {
                self.check()?;
                fs::rename(&self.partial, &self.path).map_err(|error| failed(&self.path, error))
            }
        }
    }
}

/// The file under its first name, which goes.
struct Partial<'p>(&'p Path);

impl Drop for Partial<'_> {
    fn drop(&mut self) {
        // Where it was renamed, there is none.
        let _ = fs::remove_file(self.0);
    }
}

/// A writer that takes so much and no more, and nothing once it is given up.
pub struct Limited<'g, W> {
    out: W,
    left: u64,
    given_up: &'g AtomicBool,
}

impl<'g, W> Limited<'g, W> {
    /// Writes to another one.
    pub const fn new(out: W, given_up: &'g AtomicBool) -> Self {
        Self { out, left: MOST_BYTES, given_up }
    }
}

impl<W: Write> Write for Limited<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.given_up.load(Ordering::Relaxed) {
            return Err(io::Error::other("it was given up"));
        }
        let written = self.out.write(bytes)?;
        self.left = self
            .left
            .checked_sub(u64::try_from(written).unwrap_or(u64::MAX))
            .ok_or_else(|| io::Error::other(format!("it is longer than {MOST_BYTES} bytes")))?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Format, tests::profile};

    static GO_ON: AtomicBool = AtomicBool::new(false);

    fn document(format: Format) -> Document {
        Document::new(profile(), format)
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_is_whole_and_not_written_over_unless_that_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.folded");
        let destination = Destination::new(&path, false).unwrap();
        assert!(names(folder.path()).is_empty());
        destination.write(&document(Format::Folded), &GO_ON).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 4);
        assert_eq!(names(folder.path()), ["out.folded"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        // It came meanwhile, or it was there before.
        let again = destination.write(&document(Format::Folded), &GO_ON).unwrap_err();
        assert!(matches!(again, DestinationError::There { .. }), "{again}");
        let error = Destination::new(&path, false).unwrap_err();
        assert!(error.to_string().ends_with("or replace it with --force"), "{error}");
        let forced = Destination::new(&path, true).unwrap();
        forced.write(&document(Format::Speedscope), &GO_ON).unwrap();
        assert!(fs::read_to_string(&path).unwrap().starts_with('{'));
        assert_eq!(names(folder.path()), ["out.folded"]);
    }

    #[test]
    fn one_that_is_given_up_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        for format in Format::ALL {
            let destination = Destination::new(&path, false).unwrap();
            destination.write(&document(format), &AtomicBool::new(true)).unwrap_err();
            assert!(names(folder.path()).is_empty());
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        for path in [Path::new("/dev/null"), folder.path(), &link, Path::new("/")] {
            let error = Destination::new(path, true).unwrap_err();
            assert!(matches!(error, DestinationError::NoFile { .. }), "{error}");
        }
        let missing = folder.path().join("missing/out");
        let destination = Destination::new(&missing, false).unwrap();
        let error = destination.write(&document(Format::Folded), &GO_ON).unwrap_err();
        assert!(error.to_string().contains("could not write"), "{error}");
    }
}

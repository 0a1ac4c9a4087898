//! What was done, written down before and after: append-only JSON lines, chained by digest.
//!
//! Each line holds the digest of the line before and its own, so that a line which is changed,
//! removed or put in between breaks the chain. Several controllers may write one log: each takes a
//! lock on the file for a line. Secrets are taken out; a keyed digest of the whole parameters
//! lets two calls be told to be the same.
//!
//! What this does not show: lines cut off at the end, and a log rewritten as a whole by someone who
//! may write the file.

pub mod bounded;
pub mod chain;
mod key;
pub mod record;
pub mod replay;

use crate::private;
use record::{Event, Record};
use std::{
    fs::File,
    io::{Read, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

/// An audit log that is being written.
#[derive(Debug)]
pub struct Audit {
    path: PathBuf,
    /// Names this run of the controller.
    session: String,
    key: key::Key,
    file: Mutex<File>,
}

impl Audit {
    /// Opens a log, and makes it and its folder where there is none, for this user alone.
    ///
    /// # Errors
    ///
    /// When it cannot be written; then nothing may be done.
    pub fn open(path: &Path) -> Result<Self, AuditError> {
        fn failed<E: ToString>(doing: &'static str, path: &Path) -> impl Fn(E) -> AuditError {
            move |error| AuditError {
                doing,
                path: path.display().to_string(),
                reason: error.to_string(),
            }
        }
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            private::make_folder(folder).map_err(failed("make the folder of", path))?;
        }
        let mut options = private::options();
        let file = options.read(true).append(true).create(true).open(path);
        let file = file.map_err(failed("open", path))?;
        file.lock().map_err(failed("lock", path))?;
        let key = key::Key::beside(path).map_err(failed("have a key for", path));
        file.unlock().map_err(failed("unlock", path))?;
        let session = key::random_name().map_err(failed("name a session of", path))?;
        Ok(Self { path: path.to_owned(), session, key: key?, file: Mutex::new(file) })
    }

    /// A keyed digest of parameters as they were given, secrets included.
    pub fn digest(&self, parameters: &serde_json::Value) -> String {
        self.key.digest(parameters.to_string().as_bytes())
    }

    /// Writes one line.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn write(&self, event: &Event) -> Result<(), AuditError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        self.append(&mut file, event).map_err(|error| AuditError {
            doing: "write",
            path: self.path.display().to_string(),
            reason: error.to_string(),
        })
    }

    fn append(&self, file: &mut File, event: &Event) -> std::io::Result<()> {
        // Other controllers may write too: what was last is known only under the lock.
        file.lock()?;
        let written = self.append_locked(file, event);
        let unlocked = file.unlock();
        written.and(unlocked)
    }

    fn append_locked(&self, file: &mut File, event: &Event) -> std::io::Result<()> {
        let last = last_line(file)?;
        let (sequence, previous) = chain::continue_after(&last.bytes);
        let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let record = Record { sequence, time, session: self.session.clone(), event };
        let body = serde_json::to_string(&record).map_err(std::io::Error::other)?;
        let mut line = chain::sealed(&previous, &body);
        line.push('\n');
        if !last.is_complete {
            // A line that was cut off by a crash stays as it is; ours starts a new one.
            line.insert(0, '\n');
        }
        let written = file.write_all(line.as_bytes());
        if written.is_err() {
            // On a disk that is full a part of it may stand there. Where it cannot be taken away
            // again, it is reported like any other line that was cut off.
            let _ = file.set_len(last.end);
        }
        written
    }
}

/// The end of the log.
struct LastLine {
    bytes: Vec<u8>,
    is_complete: bool,
    /// Bytes of the whole log.
    end: u64,
}

/// Reads the last line that holds anything, without reading the whole log.
fn last_line(file: &mut File) -> std::io::Result<LastLine> {
    const STEP: u64 = 16 << 10;
    let length = file.seek(SeekFrom::End(0))?;
    let mut taken = STEP.min(length);
    loop {
        file.seek(SeekFrom::Start(length - taken))?;
        let mut tail = Vec::new();
        Read::by_ref(file).take(taken).read_to_end(&mut tail)?;
        let is_complete = tail.last().is_none_or(|byte| *byte == b'\n');
        let content = tail.trim_ascii_end();
        let start = content.iter().rposition(|byte| *byte == b'\n');
        if start.is_some() || taken == length {
            let line = content.get(start.map_or(0, |start| start + 1)..).unwrap_or_default();
            return Ok(LastLine { bytes: line.to_vec(), is_complete, end: length });
        }
        taken = (taken * 4).min(length);
    }
}

/// The audit log cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("could not {doing} the audit log {path}: {reason}")]
pub struct AuditError {
    /// What was being done.
    pub doing: &'static str,
    /// The file.
    pub path: String,
    /// Why.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use chain::{Break, verify};

    fn refused(tool: &str) -> Event {
        Event::Refused {
            tool: tool.to_owned(),
            parameters: serde_json::json!({}),
            parameters_bytes: None,
            reason: "for a test".to_owned(),
        }
    }

    #[test]
    fn lines_of_several_writers_make_one_chain() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/er/audit.jsonl");
        let audits = [Audit::open(&path).unwrap(), Audit::open(&path).unwrap()];
        std::thread::scope(|scope| {
            for audit in &audits {
                scope.spawn(move || {
                    for _ in 0..50 {
                        audit.write(&refused("x")).unwrap();
                    }
                });
            }
        });
        let verdict = verify(&std::fs::read(&path).unwrap());
        assert_eq!((verdict.lines, verdict.breaks), (100, Vec::new()));
    }

    #[test]
    fn those_that_start_together_share_one_key() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("audit.jsonl");
            let digest = || Audit::open(&path).unwrap().digest(&serde_json::json!({}));
            let digests: Vec<String> = std::thread::scope(|scope| {
                let starting: Vec<_> = (0..8).map(|_| scope.spawn(digest)).collect();
                starting.into_iter().map(|started| started.join().unwrap()).collect()
            });
            assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
        }
    }

    #[test]
    fn the_log_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/audit.jsonl");
        Audit::open(&path).unwrap().write(&refused("x")).unwrap();
        for (path, want) in [(path.clone(), 0o600), (path.parent().unwrap().to_owned(), 0o700)] {
            assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, want);
        }
    }

    #[test]
    fn a_line_cut_off_by_a_crash_is_followed_by_whole_ones_and_reported() {
        // The last one is cut within a character.
        let cuts: [&[u8]; 3] = [b"{", b"{\"sequence\":2,\"ti", b"{\"sequence\":2,\"ti\xc3"];
        for cut in cuts {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("audit.jsonl");
            Audit::open(&path).unwrap().write(&refused("first")).unwrap();
            let mut file = File::options().append(true).open(&path).unwrap();
            file.write_all(cut).unwrap();
            let audit = Audit::open(&path).unwrap();
            for tool in ["third", "fourth"] {
                audit.write(&refused(tool)).unwrap();
            }
            let verdict = verify(&std::fs::read(&path).unwrap());
            let reason = "not whole: cut off or changed";
            assert_eq!(verdict.breaks, [Break { first: 2, last: 2, reason }], "{cut:?}");
            assert_eq!(verdict.lines, 4);
        }
    }

    #[test]
    fn a_line_longer_than_what_is_read_at_once_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let audit = Audit::open(&path).unwrap();
        audit.write(&refused(&"x".repeat(100_000))).unwrap();
        audit.write(&refused("y")).unwrap();
        let verdict = verify(&std::fs::read(&path).unwrap());
        assert_eq!((verdict.lines, verdict.breaks), (2, Vec::new()));
    }

    #[test]
    fn a_log_that_cannot_be_opened_names_the_file() {
        let error = Audit::open(Path::new("/proc/nowhere/audit.jsonl")).unwrap_err();
        assert!(error.to_string().contains("the audit log /proc/nowhere"), "{error}");
    }
}

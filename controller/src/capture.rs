//! Keeps the files of a capture: in a folder of the machine the controller runs on, and nowhere else.
//!
//! They come from a target, so a path is checked before anything is made of it. The folder is filled
//! under another name beside its own, and gets its own when all is there; what is half written goes.

use protocol::{
    host_text::{self, HostText},
    instruments::capture::{Instant, Item},
};
use serde_json::{Map, Value};
use std::{
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Component, Path, PathBuf},
    time::SystemTime,
};

/// A folder that is being filled.
pub struct Keeper {
    folder: PathBuf,
    /// The name it has until it is complete.
    partial: PathBuf,
    left: usize,
    files: usize,
    /// The first thing that went wrong. What comes after it is not kept.
    problem: Option<CaptureError>,
}

/// Files that are kept at most, whatever is sent.
const MOST_FILES: usize = 50_000;

/// Why files are not kept.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The folder holds something.
    #[error("{} is there and not empty; name another folder", shown(.folder))]
    NotEmpty {
        /// The folder.
        folder: PathBuf,
    },
    /// It is a file.
    #[error("{} is no folder; name another one", shown(.folder))]
    NotAFolder {
        /// What was named.
        folder: PathBuf,
    },
    /// Something could not be written.
    #[error("could not write {}: {error}", shown(.path))]
    Write {
        /// What.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A path that a file of a machine does not have.
    #[error("the target sent a file that is none of /proc, /sys or /etc: {path}")]
    Path {
        /// The path.
        path: HostText,
    },
    /// More than was asked for.
    #[error("the target sent more than was asked for")]
    TooMuch,
}

fn shown(path: &Path) -> String {
    host_text::printable(&path.to_string_lossy()).into_owned()
}

impl Keeper {
    /// Makes ready to fill a folder with at most so many bytes.
    ///
    /// # Errors
    ///
    /// When it is there and not empty, or cannot be made.
    pub fn begin(folder: &Path, max_bytes: usize) -> Result<Self, CaptureError> {
        let folder = std::path::absolute(folder)
            .map_err(|error| CaptureError::Write { path: folder.to_owned(), error })?;
        match fs::read_dir(&folder).map(|entries| entries.count()) {
            Ok(1..) => return Err(CaptureError::NotEmpty { folder }),
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                return Err(CaptureError::NotAFolder { folder });
            }
            Ok(0) | Err(_) => {}
        }
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let partial = folder.with_file_name(format!(".{name}.partial-{}", std::process::id()));
        let make = |path: PathBuf| {
            fs::create_dir(&path).map_err(|error| CaptureError::Write { path, error })
        };
        make(partial.clone())?;
        // The agent counts no path and no note of what could not be read.
        let left = max_bytes.saturating_mul(2);
        let keeper = Self { folder, partial, left, files: 0, problem: None };
        for instant in [Instant::Same, Instant::Start, Instant::End] {
            make(keeper.partial.join(instant.folder()))?;
        }
        Ok(keeper)
    }

    /// Keeps a file. What goes wrong is told by [`Keeper::finish`].
    pub fn keep(&mut self, item: &Item) {
        if self.problem.is_none() {
            self.problem = self.write(item).err();
        }
    }

    fn write(&mut self, item: &Item) -> Result<(), CaptureError> {
        let path = relative(&item.path)
            .ok_or_else(|| CaptureError::Path { path: HostText::new(&item.path) })?;
        self.files += 1;
        self.left = self
            .left
            .checked_sub(item.bytes.len())
            .filter(|_| self.files <= MOST_FILES)
            .ok_or(CaptureError::TooMuch)?;
        let path = self.partial.join(item.instant.folder()).join(path);
        let parent = path.parent().unwrap_or(&self.partial);
        fs::create_dir_all(parent)
            .and_then(|()| fs::File::create_new(&path)?.write_all(&item.bytes))
            .map_err(|error| CaptureError::Write { path: path.clone(), error })
    }

    /// Completes the folder: says in `machine.toml` where it is from, and gives it its name.
    ///
    /// # Errors
    ///
    /// What went wrong; nothing is left then.
    pub fn finish(
        mut self,
        report: &Map<String, Value>,
        why: &str,
        now: SystemTime,
    ) -> Result<(), CaptureError> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        let path = self.partial.join("machine.toml");
        fs::write(&path, machine(report, why, now))
            .map_err(|error| CaptureError::Write { path, error })?;
        fs::rename(&self.partial, &self.folder)
            .map_err(|error| CaptureError::Write { path: self.folder.clone(), error })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Gone already where it has its name.
        let _ = fs::remove_dir_all(&self.partial);
    }
}

/// A path below a folder of a machine, if it is one.
fn relative(path: &[u8]) -> Option<PathBuf> {
    const LONGEST: usize = 1024;
    let path = Path::new(std::str::from_utf8(path).ok()?);
    if path == Path::new("not-read") {
        return Some(path.to_owned());
    }
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let is_below = ["proc", "sys", "etc"].iter().any(|top| path.starts_with(top));
    // On Windows they would separate, or lead to something else than a file.
    let is_name = !cfg!(windows) || !path.to_str().is_some_and(|path| path.contains(['\\', ':']));
    (is_plain && is_name && is_below && path.as_os_str().len() <= LONGEST).then(|| path.to_owned())
}

/// The text of `machine.toml`.
fn machine(report: &Map<String, Value>, why: &str, now: SystemTime) -> String {
    let taken = humantime::format_rfc3339_seconds(now).to_string();
    let mut text = String::from(
        "# A machine's files at both ends of a window, taken by `sysmcp capture`.\n\
         # Ask about it with the target snapshot:FOLDER.\n\n",
    );
    let mut line = |name: &str, value: &Value| {
        // A value that was not measured has no line.
        let _ = match value {
            Value::String(word) => writeln!(text, "{name} = {}", quoted(word)),
            Value::Number(number) => writeln!(text, "{name} = {number}"),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Ok(()),
        };
    };
    let at = |path: &[&str]| {
        let mut value = report.get(*path.first().unwrap_or(&""));
        for name in path.iter().skip(1) {
            value = value.and_then(|value| value.get(name));
        }
        value.cloned().unwrap_or_default()
    };
    line("why", &Value::String(why.to_owned()));
    line("taken", &Value::String(taken));
    line("host", &Value::String("host-1".to_owned()));
    for name in ["distribution", "kernel", "architecture", "agent_uid", "page_bytes"] {
        line(name, &at(&[name]));
    }
    line("window_ms", &at(&["meta", "window_ms"]));
    for instant in ["start", "end"] {
        for clock in ["monotonic_us", "since_boot_us", "wall_us"] {
            line(&format!("{instant}_{clock}"), &at(&[instant, clock]));
        }
    }
    text.push_str("\n[left_out]\n");
    for name in ["processes", "details", "files"] {
        let _ = writeln!(text, "{name} = {}", at(&["left_out", name]));
    }
    text
}

/// A text as TOML writes it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            _ if character.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(character));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn item(path: &str, bytes: &[u8]) -> Item {
        Item { instant: Instant::Start, path: path.into(), bytes: bytes.to_vec() }
    }

    fn report() -> Map<String, Value> {
        let clocks = json!({"monotonic_us": 5, "since_boot_us": 6, "wall_us": 7});
        let report = json!({
            "kernel": "6.1 \"odd\"", "distribution": null, "agent_uid": 0, "page_bytes": 4096,
            "start": clocks, "end": clocks, "left_out": {"processes": 1, "details": 2, "files": 0},
            "meta": {"window_ms": 1003},
        });
        report.as_object().unwrap().clone()
    }

    #[test]
    fn a_folder_gets_its_name_when_all_is_there() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("web 1");
        let mut keeper = Keeper::begin(&folder, 1000).unwrap();
        keeper.keep(&item("proc/7/stat", b"7 (it) S"));
        assert!(!folder.exists());
        keeper.finish(&report(), "a \"why\"\n", SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(fs::read(folder.join("start/proc/7/stat")).unwrap(), b"7 (it) S");
        let machine = fs::read_to_string(folder.join("machine.toml")).unwrap();
        let machine: toml::Table = machine.parse().unwrap();
        assert_eq!(machine["why"].as_str(), Some("a \"why\"\n"));
        assert_eq!(machine["kernel"].as_str(), Some("6.1 \"odd\""));
        assert_eq!(machine["taken"].as_str(), Some("1970-01-01T00:00:00Z"));
        assert_eq!(machine["end_wall_us"].as_integer(), Some(7));
        assert_eq!(machine["left_out"]["details"].as_integer(), Some(2));
        assert!(!machine.contains_key("distribution"));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
        assert!(matches!(Keeper::begin(&folder, 1), Err(CaptureError::NotEmpty { .. })));
    }

    #[test]
    fn what_a_hostile_target_sends_leaves_nothing() {
        let hostile = [
            item("/etc/passwd", b"x"),
            item("proc/../../x", b"x"),
            item("../x", b"x"),
            item("home/me/.profile", b"x"),
            item("", b"x"),
            item("proc/big", &[0; 3000]),
        ];
        for item in hostile {
            let parent = tempfile::tempdir().unwrap();
            let folder = parent.path().join("it");
            let mut keeper = Keeper::begin(&folder, 1000).unwrap();
            keeper.keep(&item);
            keeper.keep(&self::item("proc/stat", b"x"));
            assert!(keeper.finish(&report(), "", SystemTime::UNIX_EPOCH).is_err());
            assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0, "{:?}", item.path);
        }
    }

    #[test]
    fn one_that_is_given_up_leaves_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let mut keeper = Keeper::begin(&parent.path().join("it"), 1000).unwrap();
        keeper.keep(&item("proc/stat", b"x"));
        drop(keeper);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(Keeper::begin(&file, 1), Err(CaptureError::NotAFolder { .. })));
    }
}

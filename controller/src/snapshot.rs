//! A folder with a machine's files, looked at as a target: whether it is one, and what it says of
//! itself. The files are read by an agent; here only `machine.toml` is, which `sysmcp capture`
//! wrote and a person may have changed.

use protocol::host_text::{self, HostText};
use serde::Deserialize;
use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// Why a folder is no snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is no snapshot: {why}. It is a folder that `sysmcp capture` wrote, or one with a copy of \
     /proc in it, named proc",
    host_text::printable(&.folder.to_string_lossy())
)]
pub struct NotASnapshot {
    /// The folder.
    folder: PathBuf,
    why: Problem,
}

/// What is wrong with a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("there is no such folder")]
    Missing,
    #[error("it cannot be opened by you")]
    Refused,
    #[error("it is not a folder")]
    NotAFolder,
    #[error("it has no proc in it")]
    Empty,
    #[error("it has an end/ without its start/ and same/")]
    Incomplete,
    #[error("its proc is this machine's own, not a copy; ask about the target `local` instead")]
    Live,
}

/// Checks that a folder is a snapshot, as far as that shows without reading it.
///
/// # Errors
///
/// Why it is not.
pub fn check(folder: &Path) -> Result<(), NotASnapshot> {
    let is_folder = |name: &str| folder.join(name).is_dir();
    let problem = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Some(Problem::Missing),
        Err(error) if error.kind() == ErrorKind::NotADirectory => Some(Problem::NotAFolder),
        Err(_) => Some(Problem::Refused),
        Ok(_) if is_folder("end") => {
            (!is_folder("start") || !is_folder("same")).then_some(Problem::Incomplete)
        }
        Ok(_) if !is_folder("proc") => Some(Problem::Empty),
        Ok(_) => folder.join("proc/self/exe").exists().then_some(Problem::Live),
    };
    match problem {
        None => Ok(()),
        Some(why) => Err(NotASnapshot { folder: folder.to_owned(), why }),
    }
}

/// What a snapshot says of itself.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Machine {
    taken: Option<String>,
    host: Option<String>,
    distribution: Option<String>,
    kernel: Option<String>,
    architecture: Option<String>,
    window_ms: Option<u64>,
    left_out: LeftOut,
}

/// What was not taken along.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LeftOut {
    processes: u64,
    details: u64,
}

/// Bytes of each text that is repeated.
const TEXT_BYTES: usize = 80;

/// When and where the files were taken, and what was left out, in a sentence.
pub fn describe(folder: &Path) -> String {
    let text = fs::read_to_string(folder.join("machine.toml")).unwrap_or_default();
    let Ok(machine) = toml::from_str::<Machine>(&text) else {
        return "its machine.toml was not understood".to_owned();
    };
    let Some(taken) = machine.taken.as_deref().map(shown) else {
        return "when and where its files were taken is not noted".to_owned();
    };
    let word = |word: &Option<String>| word.as_deref().map(shown).unwrap_or_default();
    let mut sentence = format!("taken {taken}");
    for (before, text) in [
        (" of ", word(&machine.host)),
        (", ", word(&machine.distribution)),
        (", Linux ", word(&machine.kernel)),
        (" ", word(&machine.architecture)),
    ] {
        if !text.is_empty() {
            sentence.push_str(before);
            sentence.push_str(&text);
        }
    }
    if let Some(window_ms) = machine.window_ms {
        sentence.push_str(&format!("; its window was {window_ms} ms, whatever is asked for"));
    }
    let LeftOut { processes, details } = machine.left_out;
    if processes > 0 {
        sentence.push_str(&format!("; {processes} processes were left out"));
    }
    if details > 0 {
        sentence.push_str(&format!("; of {details} processes only the line was taken"));
    }
    sentence
}

fn shown(text: &str) -> String {
    HostText::capped(text.as_bytes(), TEXT_BYTES).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_snapshot_is_named_with_what_one_is() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "").unwrap();
        fs::create_dir_all(at("empty")).unwrap();
        fs::create_dir_all(at("half/end")).unwrap();
        let cases = [
            ("nowhere", "there is no such folder"),
            ("file", "it is not a folder"),
            ("empty", "it has no proc in it"),
            ("half", "without its start/"),
        ];
        for (name, want) in cases {
            let error = check(&at(name)).unwrap_err().to_string();
            assert!(error.contains(want) && error.contains(name), "{error}");
            assert!(error.contains("sysmcp capture"), "{error}");
        }
        assert!(check(Path::new("/")).unwrap_err().to_string().contains("`local`"));
        fs::create_dir_all(at("plain/proc")).unwrap();
        assert_eq!(check(&at("plain")), Ok(()));
    }

    #[test]
    fn it_says_when_and_where_it_was_taken_and_what_is_not_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("machine.toml");
        assert!(describe(folder.path()).contains("not noted"));
        fs::write(
            &file,
            "taken = \"2026-01-02\"\nhost = \"host-1\\u001b\"\nkernel = \"6.1\"\n\
                          window_ms = 1003\nagent_uid = 0\n[left_out]\nprocesses = 7\n",
        )
        .unwrap();
        assert_eq!(
            describe(folder.path()),
            "taken 2026-01-02 of host-1\\x1b, Linux 6.1; its window was 1003 ms, whatever is asked \
             for; 7 processes were left out"
        );
        fs::write(&file, "taken = ").unwrap();
        assert!(describe(folder.path()).contains("not understood"));
    }
}

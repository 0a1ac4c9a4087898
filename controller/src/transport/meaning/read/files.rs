//! The files of an SSH configuration: which, in which order, and whose they may be.
//!
//! See `process_config_files` in OpenSSH's ssh.c, `read_config_file_depth` and `Include` in its
//! readconf.c.

use super::{Outside, Reading, keywords, outside, words};
use crate::private;
use std::{
    fs::File,
    io::{ErrorKind, Read as _},
    path::{Path, PathBuf},
};

/// The longest file that is read, in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// How deep files may include files.
const DEEPEST: usize = 16;

/// A file that the configuration begins with.
#[derive(Clone, Copy, Debug)]
pub enum Start<'f> {
    /// One that is named on the command line, which has to exist.
    Named(&'f Path),
    /// The user's own.
    Users,
    /// The machine's.
    Machines,
}

/// How a file is read.
#[derive(Clone, Copy)]
struct Manner {
    /// Whether it is the user's own, or included by it.
    is_users: bool,
    /// Whether it may belong to the user or root alone.
    is_guarded: bool,
    /// Whether it has to be there.
    is_needed: bool,
    /// Whether it is included where nothing applies.
    is_idle: bool,
    depth: usize,
}

/// Reads a file, and what it includes.
pub fn read(reading: &mut Reading<'_>, start: Start<'_>) -> Result<(), Outside> {
    let manner = |is_users, is_guarded, is_needed| Manner {
        is_users,
        is_guarded,
        is_needed,
        is_idle: false,
        depth: 0,
    };
    let (file, manner) = match start {
        Start::Named(file) => (file.to_owned(), manner(true, false, true)),
        Start::Users => (reading.home.join(".ssh/config"), manner(true, true, false)),
        Start::Machines => (reading.sources.system.join("ssh_config"), manner(false, false, false)),
    };
    read_file(reading, &file, manner, true)
}

fn read_file(
    reading: &mut Reading<'_>,
    file: &Path,
    manner: Manner,
    is_in_force: bool,
) -> Result<(), Outside> {
    let Some(text) = text(file, manner)? else {
        return Ok(());
    };
    let mut is_in_force = is_in_force;
    for (index, text) in text.split('\n').enumerate() {
        let number = index + 1;
        let refuse = |problem: &str| outside(file, number, problem);
        let Some(line) = words::line(text).map_err(refuse)? else {
            continue;
        };
        match line.keyword.as_str() {
            "host" => {
                if line.words.is_empty() || line.words.iter().any(String::is_empty) {
                    return Err(refuse("Host without a pattern"));
                }
                is_in_force = !manner.is_idle && applies(&line.words, reading.host);
            }
            "include" => {
                for word in &line.words {
                    let included = included(reading, word, manner).map_err(|why| refuse(&why))?;
                    let manner = Manner {
                        is_guarded: true,
                        is_needed: true,
                        is_idle: manner.is_idle || !is_in_force,
                        depth: manner.depth + 1,
                        ..manner
                    };
                    if manner.depth > DEEPEST {
                        return Err(refuse("files that include each other"));
                    }
                    for file in included {
                        read_file(reading, &file, manner, is_in_force)?;
                    }
                }
            }
            _ => {
                let set = keywords::set(&line, &reading.sources.defaults);
                let set = set.map_err(|problem| refuse(&problem))?;
                if is_in_force {
                    reading.take(set, manner.is_users).map_err(|problem| refuse(&problem))?;
                }
            }
        }
    }
    Ok(())
}

/// Whether a block applies: one pattern matches, and none does that begins with `!`.
fn applies(patterns: &[String], host: &str) -> bool {
    let is_match = |pattern: &str| words::matches(pattern, host);
    let is_against = |pattern: &String| pattern.strip_prefix('!').is_some_and(is_match);
    let is_for = |pattern: &String| !pattern.starts_with('!') && is_match(pattern);
    !patterns.iter().any(is_against) && patterns.iter().any(is_for)
}

/// The text of a file; `None` where there is no such file and none is needed.
fn text(file: &Path, manner: Manner) -> Result<Option<String>, Outside> {
    let refuse = |problem: &str| outside(file, 0, problem);
    let mut open = match File::open(file) {
        Ok(open) => open,
        Err(error) if error.kind() == ErrorKind::NotFound && !manner.is_needed => return Ok(None),
        Err(error) => return Err(refuse(&error.to_string())),
    };
    let about = open.metadata().map_err(|error| refuse(&error.to_string()))?;
    if !about.is_file() && !manner.is_needed {
        return Err(refuse("it is no file"));
    }
    if let Some(why) = private::why_no_configuration(&about).filter(|_| manner.is_guarded) {
        return Err(refuse(why));
    }
    let mut bytes = Vec::new();
    let read = open.by_ref().take(MOST_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| refuse(&error.to_string()))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MOST_BYTES {
        return Err(refuse("it is longer than a configuration"));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| refuse("it is not UTF-8"))
}

/// The files that a word of `Include` means, in the order of their bytes.
fn included(reading: &Reading<'_>, word: &str, manner: Manner) -> Result<Vec<PathBuf>, String> {
    let odd = || format!("Include of {word}");
    if word.is_empty() || word.contains(['[', ']', '{', '}', '\\', '$', '%']) {
        return Err(odd());
    }
    let pattern = match word.strip_prefix('~') {
        Some(_) if !manner.is_users => return Err(odd()),
        Some(below) => reading.home.join(below.strip_prefix('/').ok_or_else(odd)?),
        None if word.starts_with('/') => PathBuf::from(word),
        None if manner.is_users => reading.home.join(".ssh").join(word),
        None => reading.sources.system.join(word),
    };
    let (Some(folder), Some(name)) = (pattern.parent(), pattern.file_name()) else {
        return Err(odd());
    };
    let is_pattern = |text: &str| text.contains(['*', '?']);
    let name = name.to_str().ok_or_else(odd)?;
    if folder.to_str().is_none_or(is_pattern) || word.ends_with('/') {
        return Err(odd());
    }
    if !is_pattern(name) {
        let is_there = pattern.try_exists().map_err(|error| error.to_string())?;
        let is_dangling = !is_there && pattern.symlink_metadata().is_ok();
        return if is_dangling {
            Err(odd())
        } else {
            Ok(is_there.then_some(pattern).into_iter().collect())
        };
    }
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.to_string()),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| error.to_string())?.file_name();
        // A name that is not UTF-8 could match.
        let entry = entry.to_str().ok_or_else(odd)?;
        let is_hidden = entry.starts_with('.') && !name.starts_with('.');
        if !is_hidden && words::matches(name, entry) {
            files.push(folder.join(entry));
        }
    }
    files.sort_unstable_by(|one, other| one.as_os_str().cmp(other.as_os_str()));
    Ok(files)
}

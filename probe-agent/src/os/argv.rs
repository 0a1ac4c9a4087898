//! What may be executed: every vector of arguments is judged before there is a process for it.
//!
//! A program is one of a list, by its bare name; each of its options is one of a list too, and its value
//! has a type. What runs another program is unwrapped first, so that `timeout 5 sh` is judged by `sh`,
//! through as many wrappers as there are. Only what was admitted here can be started: `observer.rs`
//! takes nothing else.

mod forms;
mod wrappers;

#[cfg(test)]
mod tests;

use std::fmt;

/// The most words there are.
const MOST_WORDS: usize = 1024;

/// The most programs around a program.
const MOST_WRAPPERS: usize = 8;

/// Words that were judged, and may be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    words: Vec<String>,
    /// Which of the words are programs, the one that does the work last.
    programs: Vec<usize>,
}

impl Admitted {
    /// The words.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Which of them are programs.
    pub(super) fn is_program(&self, place: usize) -> bool {
        self.programs.contains(&place)
    }
}

/// Why words may not be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no program.
    NoProgram,
    /// Too many words, or too many programs around one.
    TooMany,
    /// A word has a byte that none has.
    Unprintable,
    /// The program is on no list. It is the innermost one.
    Program(String),
    /// A program is called by a path, which says nothing of what it is.
    Path(String),
    /// The program is not called with this option.
    Option(String, String),
    /// The program's option does not have this value.
    Value(String, String, String),
    /// The program does not take this word.
    Word(String, String),
    /// The program needs words.
    Bare(String),
    /// It would run an admitted program as somebody else, or elsewhere.
    ChangesWho(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProgram => f.write_str("no program is named"),
            Self::TooMany => f.write_str("there are too many words"),
            Self::Unprintable => f.write_str("a word has a byte that no argument has"),
            Self::Program(program) => write!(f, "{program} is not on the list of programs"),
            Self::Path(path) => write!(f, "{path} is a path, and programs are called by name"),
            Self::Option(program, option) => write!(f, "{program} is not called with {option}"),
            Self::Value(program, option, value) => {
                write!(f, "{program} is not called with {option} of {value}")
            }
            Self::Word(program, word) => write!(f, "{program} does not take {word}"),
            Self::Bare(program) => write!(f, "{program} is not called without a word"),
            Self::ChangesWho(program) => {
                write!(f, "{program} changes who runs a program, or where")
            }
        }
    }
}

/// What follows an option or stands alone.
#[derive(Clone, Copy, Debug)]
enum Takes {
    /// Nothing.
    Nothing,
    /// A number in these limits.
    Number(u64, u64),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Numbers of processes with commas between.
    Pids,
    /// Names of system calls with commas between, behind this.
    Calls(&'static str),
}

/// An option, and what follows it.
#[derive(Clone, Copy, Debug)]
struct Opt {
    name: &'static str,
    takes: Takes,
}

const fn opt(name: &'static str, takes: Takes) -> Opt {
    Opt { name, takes }
}

/// What stands behind the options.
#[derive(Clone, Copy, Debug)]
enum Rest {
    /// Nothing.
    Nothing,
    /// So many numbers at most.
    Numbers(usize),
    /// A program that does nothing, so that there is something to observe, or nothing.
    Idler,
    /// Another program with its arguments, behind words of these types.
    Wrapped(&'static [Takes]),
}

/// How a program is called.
#[derive(Clone, Copy, Debug)]
struct Form {
    program: &'static str,
    /// Words that come first and choose what the program does.
    verbs: &'static [&'static str],
    options: &'static [Opt],
    rest: Rest,
    /// Whether what it runs is run as somebody else, or elsewhere.
    changes_who: bool,
}

/// Judges words that shall be executed.
///
/// # Errors
///
/// Why they may not be.
pub fn judge<W: AsRef<str>>(words: &[W]) -> Result<Admitted, Refused> {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    if words.len() > MOST_WORDS {
        return Err(Refused::TooMany);
    }
    // A newline is in texts of ours only, which are compared as a whole.
    if words.iter().any(|word| word.contains('\0')) {
        return Err(Refused::Unprintable);
    }
    let mut programs = Vec::new();
    let mut changes_who = None;
    let mut start = 0;
    loop {
        let (form, inner) = judge_one(words.get(start..).unwrap_or_default())?;
        programs.push(start);
        if form.changes_who {
            changes_who = Some(form.program.to_owned());
        }
        match inner {
            // What is inside decides first, so that the refusal names it.
            None => break,
            Some(_) if programs.len() > MOST_WRAPPERS => return Err(Refused::TooMany),
            Some(inner) => start += inner,
        }
    }
    match changes_who {
        Some(program) => Err(Refused::ChangesWho(program)),
        None => {
            Ok(Admitted { words: words.iter().map(|&word| word.to_owned()).collect(), programs })
        }
    }
}

/// Judges one program with its options. Gives the place of the program within it, if it runs one.
fn judge_one(words: &[&str]) -> Result<(&'static Form, Option<usize>), Refused> {
    let (program, arguments) = words.split_first().ok_or(Refused::NoProgram)?;
    if program.contains('/') {
        return Err(Refused::Path((*program).to_owned()));
    }
    let mut candidates = forms::OBSERVERS.iter().chain(wrappers::WRAPPERS);
    let is_meant = |form: &&Form| form.program == *program && arguments.starts_with(form.verbs);
    let Some(form) = candidates.find(is_meant) else {
        let is_known = forms::OBSERVERS.iter().any(|form| form.program == *program);
        return Err(match arguments.first() {
            Some(word) if is_known => Refused::Word((*program).to_owned(), (*word).to_owned()),
            None if is_known => Refused::Bare((*program).to_owned()),
            _ => Refused::Program((*program).to_owned()),
        });
    };
    let behind_verbs = 1 + form.verbs.len();
    let options = options(form, words.get(behind_verbs..).unwrap_or_default())?;
    let place = behind_verbs + options;
    let inner = rest(form, words.get(place..).unwrap_or_default())?;
    Ok((form, inner.map(|inner| place + inner)))
}

/// How many words are options and their values.
fn options(form: &Form, words: &[&str]) -> Result<usize, Refused> {
    let mut place = 0;
    while let Some(word) = words.get(place) {
        if *word == "--" {
            return Ok(place + 1);
        }
        if !word.starts_with('-') || *word == "-" {
            break;
        }
        let refused = || Refused::Option(form.program.to_owned(), (*word).to_owned());
        let (option, attached) = find_option(form, word).ok_or_else(refused)?;
        place += 1;
        let value = match (option.takes, attached) {
            (Takes::Nothing, None) => continue,
            (Takes::Nothing, Some(_)) => return Err(refused()),
            (_, Some(attached)) => attached,
            (_, None) => {
                place += 1;
                words.get(place - 1).copied().ok_or_else(refused)?
            }
        };
        if !option.takes.fits(value) {
            let (program, name) = (form.program.to_owned(), option.name.to_owned());
            return Err(Refused::Value(program, name, value.to_owned()));
        }
    }
    Ok(place)
}

/// An option by its name, and the value where it is in the same word: `-n5`, `--kill-after=5`.
fn find_option<'w>(form: &Form, word: &'w str) -> Option<(&'static Opt, Option<&'w str>)> {
    if let Some(option) = form.options.iter().find(|option| option.name == word) {
        return Some((option, None));
    }
    form.options.iter().find_map(|option| {
        let attached = word.strip_prefix(option.name)?;
        let attached = match option.name.starts_with("--") {
            true => attached.strip_prefix('=')?,
            false => attached,
        };
        Some((option, Some(attached)))
    })
}

/// Judges what is behind the options. Gives the place of the program in it, if there is one.
fn rest(form: &Form, words: &[&str]) -> Result<Option<usize>, Refused> {
    let unwanted = |word: &str| Refused::Word(form.program.to_owned(), word.to_owned());
    match form.rest {
        Rest::Nothing => words.first().map_or(Ok(None), |word| Err(unwanted(word))),
        Rest::Numbers(most) => {
            let is_wrong = |(place, word): &(usize, &&str)| {
                *place >= most || !Takes::Number(0, u64::MAX).fits(word)
            };
            let wrong = words.iter().enumerate().find(is_wrong);
            wrong.map_or(Ok(None), |(_, word)| Err(unwanted(word)))
        }
        Rest::Idler => match words {
            [] | [forms::IDLER] => Ok(None),
            [program, ..] if *program != forms::IDLER => {
                // It is a program that would be run, so it is what is refused.
                judge(words)?;
                Err(unwanted(program))
            }
            [_, word, ..] => Err(unwanted(word)),
            [program] => Err(unwanted(program)),
        },
        Rest::Wrapped(before) => {
            for (place, takes) in before.iter().enumerate() {
                let word = words.get(place).ok_or(Refused::NoProgram)?;
                if !takes.fits(word) {
                    return Err(unwanted(word));
                }
            }
            words.get(before.len()).map(|_| Some(before.len())).ok_or(Refused::NoProgram)
        }
    }
}

impl Takes {
    fn fits(self, word: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Number(least, most) => number(word).is_some_and(|n| (least..=most).contains(&n)),
            Self::OneOf(words) => words.contains(&word),
            Self::Pids => {
                let is_pid = |pid: &str| number(pid).is_some_and(|n| (1..=4_194_304).contains(&n));
                word.split(',').all(is_pid)
            }
            Self::Calls(before) => {
                word.strip_prefix(before).is_some_and(|names| names.split(',').all(is_call))
            }
        }
    }
}

/// Digits only: no sign, no space, nothing behind them.
fn number(word: &str) -> Option<u64> {
    let is_plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| word.parse().ok()).flatten()
}

/// What a system call may be named. `all`, `none` and names of groups mean something else to strace;
/// patterns and groups have characters that no call has.
fn is_call(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=48).contains(&name.len()) && name.bytes().all(is_plain)
}

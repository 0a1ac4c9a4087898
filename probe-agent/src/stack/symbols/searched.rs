//! From a name to the functions that have it.
//!
//! A name as people write it is not in a file: what compilers made of it is. So each symbol is demangled
//! that can be meant, which is one that has the last word of the name in it: compilers leave words as they
//! are.

use super::Symbols;
use crate::stack::demangle;
use protocol::host_text::HostText;
use std::ops::Range;

/// The most functions that are found.
const MOST_FOUND: usize = 64;

/// Symbols that are looked at between two questions whether to go on.
const AT_ONCE: usize = 1024;

/// A function with such a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name, as people write it.
    pub name: HostText,
    /// Its svmas; as far as the next symbol where its size is not known.
    pub svmas: Range<u64>,
}

/// What came of looking for a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// Functions that are called so.
    pub exact: Vec<Found>,
    /// Functions that have it in their name, and are not called so.
    pub partly: Vec<Found>,
}

impl Symbols<'_> {
    /// Looks for functions by name. Gives what was found when `go_on` says no.
    pub fn named(&self, name: &str, mut go_on: impl FnMut() -> bool) -> Search {
        let word = last_word(name);
        let entries = self.symbols.entries();
        let mut search = Search::default();
        for (number, entry) in entries.iter().enumerate() {
            if number % AT_ONCE == AT_ONCE - 1 && !go_on() {
                break;
            }
            let table = self.tables.get(usize::from(entry.table));
            let Some(raw) = table.and_then(|table| table.name(entry.name)) else { continue };
            if !holds(raw, word.as_bytes()) {
                continue;
            }
            let shown = demangle::shown(raw);
            let found = match (shown.as_str() == name, shown.as_str().contains(name)) {
                (true, _) => &mut search.exact,
                (false, true) => &mut search.partly,
                (false, false) => continue,
            };
            if found.len() < MOST_FOUND {
                let next = entries.get(number + 1).map_or(entry.start + 1, |next| next.start);
                let end = match entry.size {
                    0 => next,
                    size => entry.start.saturating_add(size.into()),
                };
                found.push(Found { name: shown, svmas: entry.start..end });
            }
        }
        search
    }
}

fn holds(raw: &[u8], word: &[u8]) -> bool {
    word.is_empty() || raw.windows(word.len()).any(|part| part == word)
}

/// The last word of a name, before its parameters; empty where compilers may have made something else
/// of it.
fn last_word(name: &str) -> &str {
    const REWRITTEN: [&str; 4] = ["operator", "closure", "namespace", "const"];
    let before = name.find('(').map_or(name, |at| name.get(..at).unwrap_or(name));
    let mut words = before.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let last = words.rfind(|word| !word.is_empty()).unwrap_or_default();
    let is_rewritten = REWRITTEN.contains(&last) || before.contains("operator");
    let is_plain = last.is_ascii() && !last.starts_with(|letter: char| letter.is_ascii_digit());
    // What is in angle brackets is often a type, which has a letter of its own.
    if is_rewritten || !is_plain || before.ends_with('>') { "" } else { last }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_that_is_looked_for_is_one_that_compilers_leave() {
        let cases = [
            ("main", "main"),
            ("ns::Type::method(unsigned int)", "method"),
            ("<app::Thing as core::fmt::Display>::fmt", "fmt"),
            ("ns::(anonymous namespace)::f(int)", "ns"),
            ("(anonymous namespace)::f(int)", ""),
            ("std::vector<int>", ""),
            ("operator new(unsigned long)", ""),
            ("ns::operator+(A, B)", ""),
            ("app::main::{{closure}}", ""),
            ("app::main::{closure#0}", ""),
            ("main.(*T).Do", "main"),
            ("\u{fc}ber", ""),
            ("", ""),
        ];
        for (name, word) in cases {
            assert_eq!(last_word(name), word, "{name}");
        }
    }
}

//! Words in a text that are replaced by others: names as they are, addresses and ids by their shape.

use std::{collections::BTreeMap, fmt::Write as _};

/// Words, and what stands for them.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Names of people and hosts.
    names: BTreeMap<String, String>,
    /// Addresses and ids, in the order in which they were found.
    by_shape: BTreeMap<String, String>,
    addresses: u64,
    ids: u64,
}

/// Digits from which on a number in hexadecimal is the id of something: a container, a pod, a disk.
const ID_DIGITS: usize = 32;

impl Words {
    /// A name, and what stands for it. A short one is a word like any other.
    pub(super) fn add(&mut self, name: &[u8], stand_in: &str) {
        const SHORTEST: usize = 3;
        if let Ok(name) = std::str::from_utf8(name)
            && name.len() >= SHORTEST
        {
            self.names.insert(name.to_owned(), stand_in.to_owned());
        }
    }

    /// The name of the machine, and its first part.
    pub(super) fn add_host(&mut self, name: &[u8]) {
        let first = name.split(|byte| *byte == b'.').next().unwrap_or_default();
        self.add(first, "host-1");
        self.add(name, "host-1");
    }

    /// Takes note of the addresses and ids in a text.
    pub(super) fn note_ids(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        for word in words(&text) {
            if self.by_shape.contains_key(word) {
                continue;
            }
            if is_address(word) {
                self.addresses += 1;
                self.by_shape.insert(word.to_owned(), format!("address-{}", self.addresses));
            } else if is_id(word) {
                self.ids += 1;
                self.by_shape.insert(word.to_owned(), stand_in(word, self.ids));
            }
        }
    }

    /// The text with other words in their places.
    pub(super) fn replace(&self, text: &str) -> String {
        let mut replaced = String::with_capacity(text.len());
        let mut rest = text;
        for word in words(text) {
            let Some(at) = rest.find(word) else { continue };
            let (before, after) = rest.split_at(at);
            replaced.push_str(before);
            replaced.push_str(&self.stand_in(word));
            rest = after.get(word.len()..).unwrap_or_default();
        }
        replaced.push_str(rest);
        replaced
    }

    fn stand_in(&self, word: &str) -> String {
        if let Some(other) = self.names.get(word).or_else(|| self.by_shape.get(word)) {
            return other.clone();
        }
        // A name may be a part of a word that is longer: `alice@host`, `docker-ID.scope`.
        let mut replaced = String::with_capacity(word.len());
        let mut part = String::new();
        for character in word.chars().chain(std::iter::once('\0')) {
            if character.is_alphanumeric() {
                part.push(character);
                continue;
            }
            let other = self.names.get(&part).or_else(|| self.by_shape.get(&part));
            replaced.push_str(other.unwrap_or(&part));
            part.clear();
            if character != '\0' {
                replaced.push(character);
            }
        }
        replaced
    }
}

/// The words of a text: names, addresses and ids hold no other characters. A long id within a word
/// is a word too.
fn words(text: &str) -> Vec<&str> {
    let is_of_word = |character: char| {
        character.is_alphanumeric() || matches!(character, '.' | '-' | '_' | ':' | '@')
    };
    let mut found = Vec::new();
    for word in text.split(|character| !is_of_word(character)) {
        // A port, a trailing colon, or a colon between fields is no part of an address of version 4.
        if word.matches(':').count() < 3 && !word.contains("::") {
            for part in word.split(':').flat_map(|part| part.split('@')) {
                push(part, &mut found);
            }
        } else {
            found.push(word);
        }
    }
    found.retain(|word| !word.is_empty());
    found
}

fn push<'t>(word: &'t str, found: &mut Vec<&'t str>) {
    if is_address(word) || is_id(word) {
        found.push(word);
        return;
    }
    let has_id = word.split(['-', '.', '_']).any(is_id);
    if has_id {
        found.extend(word.split(['-', '.', '_']));
    } else {
        found.push(word);
    }
}

/// An address of either version that is not one of every machine.
fn is_address(word: &str) -> bool {
    if let Ok(address) = word.parse::<std::net::Ipv4Addr>() {
        return !address.is_loopback() && !address.is_unspecified();
    }
    // Hardware addresses look like it, and are to be replaced as well.
    let is_hexadecimal = word.chars().all(|letter| letter.is_ascii_hexdigit() || letter == ':');
    let parsed = word.parse::<std::net::Ipv6Addr>();
    match parsed {
        Ok(address) => !address.is_loopback() && !address.is_unspecified(),
        Err(_) => is_hexadecimal && word.matches(':').count() == 5,
    }
}

/// A long number in hexadecimal, with or without hyphens.
fn is_id(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_hexdigit).count();
    let others =
        word.chars().filter(|letter| !letter.is_ascii_hexdigit() && !matches!(letter, '-' | '_'));
    digits >= ID_DIGITS && others.count() == 0
}

/// A number in the shape of the id it stands for.
fn stand_in(id: &str, number: u64) -> String {
    let width = id.chars().filter(char::is_ascii_hexdigit).count();
    let mut digits = String::new();
    let _ = write!(digits, "{number:0width$x}");
    let mut digits = digits.chars();
    id.chars()
        .map(
            |letter| if letter.is_ascii_hexdigit() { digits.next().unwrap_or('0') } else { letter },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        let cases = [
            ("10.1.2.3", true, false),
            ("127.0.0.1", false, false),
            ("1.2.3", false, false),
            ("2001:db8::7", true, false),
            ("::1", false, false),
            ("aa:bb:cc:dd:ee:ff", true, false),
            ("12:30:45", false, false),
            ("6fd2b8a1-0c1e-4d3a-9b7e-aabbccddeeff", false, true),
            ("deadbeef", false, false),
        ];
        for (word, address, id) in cases {
            assert_eq!((is_address(word), is_id(word)), (address, id), "{word}");
        }
        assert_eq!(
            stand_in("6fd2b8a1-0c1e-4d3a-9b7e-aabbccddeeff", 0x2a),
            "00000000-0000-0000-0000-00000000002a"
        );
    }

    #[test]
    fn the_same_word_has_the_same_stand_in_and_others_stay() {
        let mut words = Words::default();
        words.add(b"alice", "user-1");
        words.note_ids(b"--peer 10.1.2.3:80,10.1.2.4 [2001:db8::7]:22");
        let text = "alice@10.1.2.4:/srv malice 10.1.2.3 [2001:db8::7] 1:2:memory:/a.b-c";
        assert_eq!(
            words.replace(text),
            "user-1@address-2:/srv malice address-1 [address-3] 1:2:memory:/a.b-c"
        );
    }
}

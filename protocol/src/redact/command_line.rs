//! The arguments of a process, as one line that may be shown.

use super::{PLACEHOLDER, flags::Words, text_after};
use crate::host_text::{HostText, Rest};

/// Bytes that are looked at beyond those that can be shown.
///
/// A secret is known by its end too: a token by its length, a URL's password by the `@`.
const LOOKAHEAD: usize = 1024;

/// Of a line that was looked at in part, the end that is not shown even where there is room: what
/// was cut there may be a secret that cannot be known.
const HIDDEN: usize = 256;

/// Stands for the rest of an argument that was cut: the end of whatever may have begun before.
const CUT: &str = ".@";

/// A command line that may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// The arguments with a space between them, escaped and capped.
    pub text: HostText,
    /// How many secrets were taken out of what was looked at.
    pub redacted: u32,
}

/// Takes the secrets out of an argument vector, and keeps at most `cap` bytes of what is left.
///
/// However long the arguments are, a part of a fixed length is looked at; the rest is stated. Where
/// the arguments themselves were not read to their end, `is_whole` is false.
pub fn command_line<'a>(
    arguments: impl IntoIterator<Item = &'a [u8]>,
    cap: usize,
    is_whole: bool,
) -> CommandLine {
    let mut line = Line { unseen: cap + LOOKAHEAD, ..Line::default() };
    let mut left = 0_usize;
    for (index, argument) in arguments.into_iter().enumerate() {
        let space = usize::from(index > 0);
        if line.unseen == 0 || line.text.len() > cap {
            left += space + argument.len();
        } else {
            line.text.push_str(if index > 0 { " " } else { "" });
            left += line.add(argument);
        }
    }
    let rest = Rest { bytes: left, is_known: is_whole };
    CommandLine {
        text: HostText::start_of(&to_bytes(&line.text), cap, rest),
        redacted: line.redacted,
    }
}

/// The line, as far as it is made.
#[derive(Default)]
struct Line {
    text: String,
    words: Words,
    redacted: u32,
    /// Bytes that may still be looked at.
    unseen: usize,
    /// Whether the next argument is a script, whose words are words of their own.
    script: Script,
}

/// Whether a script is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Script {
    /// No shell was named.
    #[default]
    NoShell,
    /// One was.
    Shell,
    /// And its `-c`.
    Next,
}

impl Script {
    /// After one more argument.
    fn after(self, argument: &str) -> Self {
        const SHELLS: [&str; 7] = ["sh", "ash", "bash", "dash", "ksh", "mksh", "zsh"];
        let name = argument.rsplit('/').next().unwrap_or_default();
        let is_c = argument.strip_prefix('-').is_some_and(|letters| {
            letters.ends_with('c') && letters.bytes().all(|letter| letter.is_ascii_lowercase())
        });
        match self {
            Self::NoShell if SHELLS.contains(&name.trim_start_matches('-')) => Self::Shell,
            Self::Shell if is_c => Self::Next,
            // The script itself is over.
            Self::Next => Self::NoShell,
            Self::NoShell | Self::Shell => self,
        }
    }
}

impl Line {
    /// Adds an argument. Returns how many bytes of it are left.
    fn add(&mut self, argument: &[u8]) -> usize {
        let seen = argument.get(..self.unseen).unwrap_or(argument);
        let mut left = argument.len() - seen.len();
        self.unseen -= seen.len();
        let word = to_text(seen);
        let is_script = self.script == Script::Next;
        self.script = self.script.after(&word);
        if self.words.take_as_value(&word) {
            self.text.push_str(PLACEHOLDER);
            self.redacted += 1;
        } else if let Some(name) = self.name_of_the_rest(&word).filter(|_| !is_script) {
            self.redacted += 1;
            self.push(&format!("{name}{PLACEHOLDER}"));
        } else if left == 0 {
            self.push(&word);
        } else {
            let start = self.text.len();
            // What was cut may be what ends a token, or a password in a URL.
            self.push(&format!("{word}{CUT}"));
            let end = self.text.strip_suffix(CUT).map_or(self.text.len(), str::len);
            let kept = self.text.floor_char_boundary(end.saturating_sub(HIDDEN).max(start));
            left += to_bytes(self.text.get(kept..end).unwrap_or_default()).len();
            self.text.truncate(kept);
        }
        left
    }

    /// The part to keep of an argument that is a secret from there on, spaces and all:
    /// `--password=hunter 2`.
    fn name_of_the_rest<'w>(&self, word: &'w str) -> Option<&'w str> {
        let name = word.get(..self.words.attached(word)?)?;
        (!name.contains(char::is_whitespace)).then_some(name)
    }

    /// Adds a text without its secrets.
    fn push(&mut self, text: &str) {
        let (shown, redacted) = text_after(&mut self.words, text);
        self.text.push_str(&shown);
        self.redacted += redacted;
    }
}

/// Stands for byte 0 of those that are no text, and the next characters for the next bytes. They are
/// of private use (plane 16), so few have them, and whoever has loses nothing.
const FIRST_BYTE: u32 = 0x0010_ff00;

/// Bytes as a text in which secrets can be looked for. [`to_bytes`] gives them back.
fn to_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let stand_in = |byte: &u8| char::from_u32(FIRST_BYTE + u32::from(*byte));
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if byte_of(character).is_some() {
                text.extend(
                    character.encode_utf8(&mut [0; 4]).as_bytes().iter().filter_map(stand_in),
                );
            } else {
                text.push(character);
            }
        }
        text.extend(chunk.invalid().iter().filter_map(stand_in));
    }
    text
}

/// The byte that a character stands for.
fn byte_of(character: char) -> Option<u8> {
    u8::try_from(u32::from(character).checked_sub(FIRST_BYTE)?).ok()
}

fn to_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match byte_of(character) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{host_text::MAX_BYTES, redact::tests::cost};
    use proptest::prelude::*;

    fn shown(arguments: &[&str]) -> String {
        command_line(arguments.iter().map(|word| word.as_bytes()), MAX_BYTES, true).text.to_string()
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_as_escapes() {
        let cases: [(&[&[u8]], &str); 5] = [
            (&[b"bad \xff\xfe", b"\xc3"], "bad \\xff\\xfe \\xc3"),
            (&["töö".as_bytes(), b"t\xc3\xb6\xc3"], "töö tö\\xc3"),
            (&[b"app", b"--password=h\xffx", b"y\xff"], "app --password=[redacted] y\\xff"),
            (&["\u{10ffff}\u{10fffe}".as_bytes()], "\u{10ffff}\u{10fffe}"),
            (&["�".as_bytes()], "�"),
        ];
        for (arguments, want) in cases {
            let line = command_line(arguments.iter().copied(), MAX_BYTES, true);
            assert_eq!(line.text.as_str(), want, "{arguments:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(to_bytes(&to_text(&bytes)), bytes);
        }

        #[test]
        fn any_text_comes_back(text in "\\PC{0,40}[\u{10ff00}-\u{10ffff}]{0,5}") {
            prop_assert_eq!(to_bytes(&to_text(text.as_bytes())), text.as_bytes());
        }
    }

    #[test]
    fn secrets_in_command_lines_go_and_flag_names_stay() {
        let cases: [(&[&str], &str); 28] = [
            (&["app", "--password=hunter2"], "app --password=[redacted]"),
            (&["app", "--password", "hunter2", "-v"], "app --password [redacted] -v"),
            (&["app", "--apiKey", "hunter2"], "app --apiKey [redacted]"),
            (&["app", "--no-password", "--verbose"], "app --no-password --verbose"),
            (&["app", "-pS3cret"], "app -p[redacted]"),
            (&["sshd", "-p2222"], "sshd -p2222"),
            (&["cc", "-pthread"], "cc -pthread"),
            (&["find", "-print0"], "find -print0"),
            (&["app", "-print_stats=1"], "app -print_stats=1"),
            (&["app", "-password=x"], "app -password=[redacted]"),
            (&["/usr/bin/mysql", "-p12345"], "/usr/bin/mysql -p[redacted]"),
            (&["redis-cli", "-a", "hunter2", "ping"], "redis-cli -a [redacted] ping"),
            (&["curl", "-u", "me:hunter2", "http://h/"], "curl -u [redacted] http://h/"),
            (&["env", "TOKEN=abc", "run"], "env TOKEN=[redacted] run"),
            (&["env", "PWD=/srv", "run"], "env PWD=/srv run"),
            (&["java", "-Ddb.password=x y", "A"], "java -Ddb.password=[redacted] A"),
            (&["docker", "run", "-e", "DB_PASSWORD=x"], "docker run -e DB_PASSWORD=[redacted]"),
            (&["app", "--env=DB_PASSWORD=x"], "app --env=DB_PASSWORD=[redacted]"),
            (&["app", "postgres://u:hunter2@db/x"], "app postgres://u:[redacted]@db/x"),
            (&["app", "http://h/?token=abc&page=2"], "app http://h/?token=[redacted]&page=2"),
            (&["curl", "-H", "Authorization: Bearer abcdef"], "curl -H Authorization: [redacted]"),
            (&["app", "--password-file", "/run/pw"], "app --password-file /run/pw"),
            (&["app", "Server=x;Password=hunter2;Db=y"], "app Server=x;Password=[redacted];Db=y"),
            (&["app", "ghp_0123456789abcdefghijKLMN"], "app [redacted]"),
            (&["nginx: worker process"], "nginx: worker process"),
            // One argument is one value, except of a shell.
            (&["env", "TOKEN=a b", "run"], "env TOKEN=[redacted] run"),
            (&["/bin/sh", "-c", "TOKEN=a run"], "/bin/sh -c TOKEN=[redacted] run"),
            (&["sh", "-c", "run", "TOKEN=a b"], "sh -c run TOKEN=[redacted]"),
        ];
        for (arguments, want) in cases {
            assert_eq!(shown(arguments), want, "{arguments:?}");
        }
    }

    #[test]
    fn a_command_line_counts_what_it_lost() {
        let words: [&[u8]; 3] = [b"a", b"--token=x", b"u://b:c@d"];
        assert_eq!(command_line(words, MAX_BYTES, true).redacted, 2);
    }

    #[test]
    fn a_huge_argument_is_cut_with_its_length() {
        let huge = "a".repeat(2_000_000);
        let text = shown(&["app", &huge]);
        assert!(text.contains("more bytes]") && text.len() < 700, "{}", text.len());
    }

    #[test]
    fn what_is_left_is_counted() {
        let many = vec!["12345678"; 10_000];
        let all = many.join(" ").len();
        let one = "a".repeat(2_000_000);
        let cases: [(&[&str], usize); 3] =
            [(&many, all), (&["app", &one], one.len() + 4), (&["app", &one, "b"], one.len() + 6)];
        for (arguments, all) in cases {
            let text = shown(arguments);
            let (start, note) = text.split_once('…').unwrap();
            assert_eq!(note, format!("[{} more bytes]", all - start.len()), "{text}");
        }
        let unread = command_line([one.as_bytes()], 10, false).text.to_string();
        assert_eq!(unread, "aaaaaaaaaa…[at least 1999990 more bytes]");
    }

    #[test]
    fn the_end_of_what_was_not_looked_at_does_not_show_a_secret() {
        let long = |length: usize| "s3cret".repeat(length / 6 + 1);
        let cases = [
            format!("u://me:{}@host", long(3000)),
            format!("eyJ{}.{}.{}", long(20), long(3000), long(30)),
            format!("app --password '{}'", long(3000)),
            format!("-----BEGIN RSA PRIVATE KEY-----\n{}", long(3000)),
            // Placeholders make room for what is behind them, up to where nothing was looked at.
            format!("{0}u://me:{1}", format!("token={} ", long(300)).repeat(4), long(3000)),
            format!("{0}ghp_{1}", format!("token={} ", long(370)).repeat(4), long(3000)),
        ];
        for argument in cases {
            let line = shown(&["app", &argument]);
            assert!(!line.contains("s3cret") && line.contains(" more bytes]"), "{line}");
        }
    }

    #[test]
    fn a_hostile_line_costs_no_more_than_a_fixed_length_of_it() {
        for piece in ["pwd:", "password: x ", "--password ", "a://b:c@", "bearer "] {
            let [less, more] = [4 << 10, 1 << 20].map(|bytes| {
                let argument = piece.repeat(bytes / piece.len());
                cost(|| {
                    shown(&["app", &argument, &argument]);
                })
            });
            assert_eq!(less, more, "{piece:?}");
        }
    }

    proptest! {
        #[test]
        fn any_argument_vector_is_shown(words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..6)) {
            command_line(words.iter().map(Vec::as_slice), MAX_BYTES, true);
        }
    }
}

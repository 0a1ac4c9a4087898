//! Secrets that a flag announces: `--password hunter2`, `-pS3cret`, `TOKEN=abc`.
//!
//! The same rules hold for the words of an argument vector, for a script that is one argument of a
//! shell, for a title that a program gave itself, and for free text that quotes any of these. Who
//! takes a flag for a secret depends on the program, and the program may stand behind others:
//! `sudo timeout 9 redis-cli -a hunter2`. Every program that was named so far counts.

use super::{PLACEHOLDER, fields::is_name_byte, is_secret_name, looked_at, quoted::quoted_at};
use std::ops::Range;

/// A short flag that carries a secret.
struct SecretFlag {
    programs: &'static [&'static str],
    flag: &'static str,
    /// Whether the secret may be the next word. A bare `-p` of the mysql family asks at the
    /// terminal.
    takes_next_word: bool,
}

const SECRET_FLAGS: [SecretFlag; 6] = [
    SecretFlag {
        programs: &["mysql", "mysqldump", "mysqladmin", "mariadb", "mariadb-dump", "mariadb-admin"],
        flag: "-p",
        takes_next_word: false,
    },
    SecretFlag { programs: &["sshpass"], flag: "-p", takes_next_word: true },
    SecretFlag { programs: &["redis-cli"], flag: "-a", takes_next_word: true },
    SecretFlag {
        programs: &["ldapsearch", "ldapmodify", "ldapadd"],
        flag: "-w",
        takes_next_word: true,
    },
    SecretFlag { programs: &["curl"], flag: "-u", takes_next_word: true },
    SecretFlag { programs: &["zip", "unzip"], flag: "-P", takes_next_word: true },
];

/// What the words so far say about the next one.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    /// Which of [`SECRET_FLAGS`] are of a program that was named.
    is_of_a_named_program: [bool; SECRET_FLAGS.len()],
    is_value_next: bool,
}

impl Words {
    /// Whether an argument as a whole is the secret of the flag before it.
    pub(super) fn take_as_value(&mut self, argument: &str) -> bool {
        std::mem::take(&mut self.is_value_next) && !argument.starts_with("--")
    }

    /// Where the secrets are that flags announce in a text, or in the next argument.
    pub(super) fn secrets(&mut self, text: &str) -> Vec<Range<usize>> {
        looked_at(text.len());
        let mut secrets = Vec::new();
        let mut at = 0;
        while let Some((start, word)) = word_at(text, at) {
            at = start + word.len();
            let is_next = std::mem::take(&mut self.is_value_next) && may_be_a_value(word);
            let announced = if is_next { Some(0) } else { self.attached(word) };
            let Some(offset) = announced else {
                self.read(word);
                continue;
            };
            let Some((value, end)) = value_at(text, start + offset) else { continue };
            at = at.max(end);
            if text.get(value.clone()) != Some(PLACEHOLDER) {
                secrets.push(value);
            }
        }
        secrets
    }

    /// Where in a word its secret begins: `--password=`, `TOKEN=`, `-p`.
    pub(super) fn attached(&self, word: &str) -> Option<usize> {
        let bare = word.trim_start_matches(is_opening);
        let skipped = word.len() - bare.len();
        let mut from = 0;
        for (sign, _) in bare.match_indices('=') {
            let name = bare.get(from..sign).unwrap_or_default();
            from = sign + 1;
            if from < bare.len() && name.bytes().all(is_name_byte) && is_secret_name(name) {
                return Some(skipped + from);
            }
        }
        let (flag, value) = bare.split_at_checked(2)?;
        let is_secret = self.has(flag, |_| true) || (flag == "-p" && looks_like_a_password(value));
        let is_there = value.starts_with(|letter: char| !letter.is_whitespace());
        (is_secret && is_there).then_some(skipped + flag.len())
    }

    /// Takes note of a word that holds no secret: a flag before one, or a program.
    fn read(&mut self, word: &str) {
        let bare = word.trim_start_matches(is_opening).trim_end_matches(is_closing);
        if bare.starts_with('-') {
            // Behind `-Dname=value` and `--name:value` comes something else; a command's end ends
            // what its last flag could take.
            let name = bare.rsplit(':').next().unwrap_or_default();
            let is_secret = is_secret_name(name) || self.has(bare, |flag| flag.takes_next_word);
            self.is_value_next =
                is_secret && !bare.contains('=') && !word.ends_with([';', '|', '&']);
            return;
        }
        for name in programs(word) {
            for (flag, is_named) in SECRET_FLAGS.iter().zip(&mut self.is_of_a_named_program) {
                *is_named |= flag.programs.contains(&name);
            }
        }
    }

    /// Whether a program that was named has this flag, of the kind that is asked for.
    fn has(&self, found: &str, is_wanted: impl Fn(&SecretFlag) -> bool) -> bool {
        SECRET_FLAGS
            .iter()
            .zip(self.is_of_a_named_program)
            .any(|(flag, is_named)| is_named && flag.flag == found && is_wanted(flag))
    }
}

/// The next word, and where it begins.
fn word_at(text: &str, from: usize) -> Option<(usize, &str)> {
    let rest = text.get(from..)?;
    let word = rest.trim_start();
    let start = text.len() - word.len();
    let word = word.get(..word.find(char::is_whitespace).unwrap_or(word.len()))?;
    (!word.is_empty()).then_some((start, word))
}

/// What may stand before a word in a script, in a list or in a sentence.
const fn is_opening(letter: char) -> bool {
    matches!(letter, '"' | '\'' | '`' | '\\' | '$' | '(' | '[' | '{' | '<' | ';' | '|' | '&' | ',')
}

/// What may stand behind one. Not a bracket: those of the placeholder belong to it.
const fn is_closing(letter: char) -> bool {
    matches!(letter, '"' | '\'' | '`' | '\\' | ')' | ';' | '|' | '&' | ',' | ':' | '.')
}

/// Tells the secret of the flag before from the next flag, and from what a shell does next.
fn may_be_a_value(word: &str) -> bool {
    const NEXT: [&str; 8] = ["|", "||", "&", "&&", ";", "<", ">", ">>"];
    !word.trim_start_matches(is_opening).starts_with("--") && !NEXT.contains(&word)
}

/// Programs that a word may name: `/usr/bin/mysql`, `$(mysql`, `;mysql`.
fn programs(word: &str) -> impl Iterator<Item = &str> {
    let is_of_a_path = |byte: u8| is_name_byte(byte) || matches!(byte, b'/' | b'~' | b'+');
    let is_between = |letter| is_opening(letter) || is_closing_of_a_value(letter);
    word.split(is_between)
        .filter(move |path| path.bytes().all(is_of_a_path))
        .filter_map(|path| path.rsplit('/').next())
}

/// The secret that begins here, and where the text goes on.
fn value_at(text: &str, start: usize) -> Option<(Range<usize>, usize)> {
    let from = match quoted_at(text, start) {
        None => start,
        Some(quoted) => {
            let behind = text.get(quoted.end..).unwrap_or_default();
            let word_end = behind.find(char::is_whitespace).unwrap_or(behind.len());
            let is_end = |letter| is_closing_of_a_value(letter) || matches!(letter, ']' | '}');
            if behind.get(..word_end)?.chars().all(is_end) {
                let is_there = !quoted.content.is_empty();
                return is_there.then_some((quoted.content, quoted.end));
            }
            // A shell makes one word of `'a b'c`.
            quoted.end
        }
    };
    let mut is_escaped = false;
    let behind = text.get(from..)?;
    let length = behind.find(|letter: char| {
        let is_end = letter.is_whitespace() && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        is_end
    });
    let end = from + length.unwrap_or(behind.len());
    let value = text.get(start..end)?.trim_end_matches(is_closing_of_a_value);
    (!value.is_empty()).then_some((start..start + value.len(), end))
}

/// Ends what a value stands in, not the value.
const fn is_closing_of_a_value(letter: char) -> bool {
    matches!(letter, '"' | '\'' | '`' | ')' | ';' | ',')
}

/// Tells `-pS3cret` from `-p8080`, `-pthread`, `-print0`, `-profile=x` and `-p/run/x.pid`.
fn looks_like_a_password(value: &str) -> bool {
    let value = value.trim_start_matches(['"', '\'']).trim_end_matches(is_closing_of_a_value);
    let flag = value.split_once('=').map_or(value, |(flag, _)| flag);
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit() || b":.,-".contains(&byte));
    let is_word = flag.bytes().all(|byte| byte.is_ascii_lowercase() || b"-_".contains(&byte))
        || flag == "rint0";
    let is_path = value.starts_with(['/', '.', '~']);
    !is_number && !is_word && !is_path
}

#[cfg(test)]
mod tests {
    use crate::{
        host_text::MAX_BYTES,
        redact::{command_line, text},
    };

    /// What is shown of an argument vector.
    fn line(arguments: &[&str]) -> String {
        let bytes = arguments.iter().map(|word| word.as_bytes());
        command_line(bytes, MAX_BYTES, true).text.to_string()
    }

    #[test]
    fn a_script_and_a_title_lose_their_secrets_as_words_do() {
        let cases = [
            (
                "sleep 30; mysqldump --password hunter2 db",
                "sleep 30; mysqldump --password [redacted] db",
            ),
            ("mysqldump -u root -pS3cret db", "mysqldump -u root -p[redacted] db"),
            ("mysqldump -u root -psecret; ls", "mysqldump -u root -p[redacted]; ls"),
            ("curl -u me:hunter2 http://x/", "curl -u [redacted] http://x/"),
            ("curl -u 'me:hunter 2' http://x/", "curl -u '[redacted]' http://x/"),
            ("app --token abcdef123", "app --token [redacted]"),
            ("echo PING | redis-cli -a hunter2", "echo PING | redis-cli -a [redacted]"),
            ("x=$(redis-cli -a hunter2)", "x=$(redis-cli -a [redacted])"),
            ("(/opt/bin/redis-cli -a hunter2)", "(/opt/bin/redis-cli -a [redacted])"),
            ("true;mysql -phunter", "true;mysql -p[redacted]"),
            ("ssh db \"mysql -psecret\"", "ssh db \"mysql -p[redacted]\""),
            ("mysql -p's3 cret' db", "mysql -p'[redacted]' db"),
            ("mysql -p's3 'cret db", "mysql -p[redacted] db"),
            ("app --password 'it is mine", "app --password '[redacted]"),
            (r"app --password hunter\ 2 -v", "app --password [redacted] -v"),
            ("app --password=a,b;c -v", "app --password=[redacted] -v"),
            ("TOKEN=a,b run", "TOKEN=[redacted] run"),
            (
                "TOKEN='a b' run --password y && exec z",
                "TOKEN='[redacted]' run --password [redacted] && exec z",
            ),
            ("run -e TOKEN=a,b image", "run -e TOKEN=[redacted] image"),
            ("run --env=TOKEN=a,b image", "run --env=TOKEN=[redacted] image"),
            (r#"["--password", "hunter 2"], 3"#, r#"["--password", "[redacted]"], 3"#),
            (r#"curl -d "{\"token\":\"a b\"}""#, r#"curl -d "{\"token\":\"[redacted]\"}""#),
            ("app --authorization Bearer abcdef", "app --authorization [redacted] [redacted]"),
        ];
        for (script, want) in cases {
            assert_eq!(text(script).0, want, "as free text");
            let want = format!("bash -ec {want}").replace('\\', "\\\\");
            assert_eq!(line(&["bash", "-ec", script]), want);
        }
    }

    #[test]
    fn a_program_is_found_behind_others() {
        let cases: [(&[&str], &str); 9] = [
            (&["sudo", "-u", "x", "mysql", "-pS3cret"], "sudo -u x mysql -p[redacted]"),
            (&["nice", "-n", "5", "curl", "-u", "a:b"], "nice -n 5 curl -u [redacted]"),
            (&["env", "A=b", "sshpass", "-p", "x", "ssh"], "env A=b sshpass -p [redacted] ssh"),
            (&["postgres: mysql -psecret"], "postgres: mysql -p[redacted]"),
            (&["timeout", "9", "redis-cli", "-a", "x"], "timeout 9 redis-cli -a [redacted]"),
            (
                &["env", "A=b", "nice", "-n", "5", "mysql", "-psecret"],
                "env A=b nice -n 5 mysql -p[redacted]",
            ),
            // What is named after a program takes nothing back.
            (&["curl", "-o", "/tmp/mysql", "-u", "me:x"], "curl -o /tmp/mysql -u [redacted]"),
            (&["nohup", "sh", "-c", "exec mysql -psecret"], "nohup sh -c exec mysql -p[redacted]"),
            (
                &["sh", "-c", "exec \"$@\"", "mysql", "-psecret"],
                "sh -c exec \"$@\" mysql -p[redacted]",
            ),
        ];
        for (arguments, want) in cases {
            assert_eq!(line(arguments), want);
            assert_eq!(text(&arguments.join(" ")).0, want);
        }
    }

    #[test]
    fn what_only_looks_like_a_secret_stays() {
        let cases = [
            "/usr/sbin/sshd -p 2222 -D",
            "sshd -p2222",
            "cc -pthread -c x.c",
            "cc -pthread; ls",
            "find . -print0",
            "app -p/run/x.pid",
            "app --password-file /run/pw -v",
            "app --no-password --verbose",
            "mysqldump --password | gzip > dump.gz",
            "mysql -p mydb",
            "sudo -u postgres psql -p 5432",
            "redis-server *:6379",
            "tar -a -c -f x.tar src",
            "ssh -p 2222 curl.example",
            "nginx: worker process",
            "postgres: 14/main: walwriter",
            "java -Dcom.example.password.file=/run/pw Main",
            "a - token - of thanks",
            "--password",
            "--password ;",
            "-----BEGIN CERTIFICATE-----",
        ];
        for given in cases {
            assert_eq!(text(given), (given.into(), 0));
            assert_eq!(line(&["sh", "-c", given]), format!("sh -c {given}"));
            let words: Vec<&str> = given.split(' ').collect();
            // As words of their own, what a shell would do next is a secret like any other.
            if !given.contains(['|', ';']) {
                assert_eq!(line(&words), given);
            }
        }
    }
}

//! Secrets, taken out of what people and models read.
//!
//! Command lines carry passwords and tokens in argv, in `KEY=value` words, in URLs and in headers.
//! They are taken out on the target, before the text crosses the wire, and again wherever free
//! text is written down (audit, error texts). The name of a flag stays, its value goes.
//!
//! This finds what is named or shaped like a secret. A secret that looks like any other word is
//! not found; `docs/safety.md` says so.

use crate::host_text::{self, HostText};
use regex_lite::{Captures, Match, Regex};
use serde_json::Value;
use std::{borrow::Cow, sync::LazyLock};

/// Stands where a secret stood.
pub const PLACEHOLDER: &str = "[redacted]";

/// Bytes of one argument that are looked at. The rest of a longer one is cut, not scanned.
const ARGUMENT_BYTES: usize = 4096;

/// A command line that may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// The arguments with a space between them, escaped and capped.
    pub text: HostText,
    /// How many secrets were taken out.
    pub redacted: u32,
}

/// Takes the secrets out of an argument vector, and keeps at most `cap` bytes of what is left.
pub fn command_line<'a>(arguments: impl IntoIterator<Item = &'a [u8]>, cap: usize) -> CommandLine {
    let mut redacted = 0;
    let mut words: Vec<String> = Vec::new();
    let mut program = String::new();
    let mut value_is_secret = false;
    let mut length = 0;
    for (index, argument) in arguments.into_iter().enumerate() {
        let scanned = argument.get(..ARGUMENT_BYTES).unwrap_or(argument);
        let word = String::from_utf8_lossy(scanned);
        let is_value = value_is_secret && !word.starts_with("--");
        value_is_secret = false;
        let shown = if is_value {
            redacted += 1;
            PLACEHOLDER.to_owned()
        } else if let Some(kept) = attached_secret(&program, &word) {
            redacted += 1;
            format!("{kept}{PLACEHOLDER}")
        } else {
            value_is_secret = names_a_secret_flag(&program, &word);
            let (shown, count) = text(&word);
            redacted += count;
            shown.into_owned()
        };
        if index == 0 {
            word.rsplit('/').next().unwrap_or_default().clone_into(&mut program);
        }
        // An argument that was cut before it was scanned must not look whole.
        let cut = argument.len() - scanned.len();
        let shown = if cut > 0 { format!("{shown}…[{cut} more bytes]") } else { shown };
        length += shown.len() + 1;
        words.push(shown);
        if length > 2 * host_text::MAX_BYTES {
            break;
        }
    }
    CommandLine { text: HostText::capped(words.join(" ").as_bytes(), cap), redacted }
}

/// Parts of names that announce a secret, without punctuation and in lower case.
const SECRET_NAMES: [&str; 15] = [
    "accesskey",
    "apikey",
    "authorization",
    "authtoken",
    "clientsecret",
    "connectionstring",
    "cookie",
    "credential",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "pwd",
    "secret",
    "token",
];

/// Whether a flag's, variable's or field's name announces a secret.
///
/// Case and punctuation do not count: `apiKey`, `API_KEY` and `--api-key` are one name. A name that
/// ends in `file`, `path`, `dir` or `stdin` says where a secret is kept, not what it is.
pub fn is_secret_name(name: &str) -> bool {
    const PLACES: [&str; 5] = ["file", "path", "dir", "stdin", "ttl"];
    let plain = plain(name);
    holds_secret_name(&plain)
        && !PLACES.iter().any(|place| plain.ends_with(place))
        // The shell's working directory.
        && plain != "pwd"
        && plain != "oldpwd"
}

fn holds_secret_name(plain: &str) -> bool {
    SECRET_NAMES.iter().any(|part| plain.contains(part))
}

/// Letters and digits in lower case.
fn plain(text: &str) -> String {
    text.bytes()
        .filter(u8::is_ascii_alphanumeric)
        .map(|byte| char::from(byte.to_ascii_lowercase()))
        .collect()
}

/// The part to keep of a word that carries its secret behind it: `--password=`, `TOKEN=`, `-p`.
fn attached_secret<'a>(program: &str, word: &'a str) -> Option<&'a str> {
    if let Some((name, value)) = word.split_once('=')
        && !value.is_empty()
        && !name.contains(char::is_whitespace)
        && !name.contains("://")
        && is_secret_name(name)
    {
        return word.get(..=name.len());
    }
    let (flag, value) = word.split_at_checked(2)?;
    if value.is_empty() {
        return None;
    }
    let known = SECRET_FLAGS.iter().any(|(names, flags)| {
        names.contains(&program) && flags.contains(&flag) && !flag.starts_with("--")
    });
    (known || (flag == "-p" && looks_like_a_password(value))).then_some(flag)
}

/// Programs whose short flags carry a secret, attached or as the next word.
const SECRET_FLAGS: [(&[&str], &[&str]); 6] = [
    (&["mysql", "mysqldump", "mysqladmin", "mariadb", "mariadb-dump", "mariadb-admin"], &["-p"]),
    (&["sshpass"], &["-p"]),
    (&["redis-cli"], &["-a"]),
    (&["ldapsearch", "ldapmodify", "ldapadd"], &["-w"]),
    (&["curl"], &["-u"]),
    (&["zip", "unzip"], &["-P"]),
];

/// Whether the next word is this flag's secret.
fn names_a_secret_flag(program: &str, word: &str) -> bool {
    if !word.starts_with('-') || word.contains('=') {
        return false;
    }
    is_secret_name(word)
        // A bare `-p` of the mysql family asks at the terminal; of the others it takes a word.
        || SECRET_FLAGS.iter().skip(1).any(|(names, flags)| {
            names.contains(&program) && flags.contains(&word)
        })
}

/// Tells `-pS3cret` from `-p8080`, `-pthread`, `-print0`, `-profile=x` and `-p/run/x.pid`.
fn looks_like_a_password(value: &str) -> bool {
    let flag = value.split_once('=').map_or(value, |(flag, _)| flag);
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit() || b":.,-".contains(&byte));
    let is_word = flag.bytes().all(|byte| byte.is_ascii_lowercase() || b"-_".contains(&byte))
        || flag == "rint0";
    let is_path = value.starts_with(['/', '.', '~']);
    !is_number && !is_word && !is_path
}

/// Takes the secrets out of free text. Returns it unchanged, and zero, where there are none.
pub fn text(text: &str) -> (Cow<'_, str>, u32) {
    let mut shown = Cow::Borrowed(text);
    let mut redacted = 0;
    // What stands where a secret stood may make the text around it another shape. Each round takes
    // out at least a letter, so that there is a last one.
    while let Some((kept, count)) = without_shapes(&shown) {
        shown = Cow::Owned(kept);
        redacted += count;
    }
    (shown, redacted)
}

/// The text without secrets of any shape, and how many those were; `None` where there are none.
fn without_shapes(text: &str) -> Option<(String, u32)> {
    let mut shown = Cow::Borrowed(text);
    let mut redacted = 0;
    let holds_secret_name = holds_secret_name(&plain(text));
    for shape in SHAPES.iter() {
        let may_hold = match shape.hint {
            Hint::SecretName => holds_secret_name,
            Hint::Literals(literals) => literals.iter().any(|literal| text.contains(literal)),
        };
        if !may_hold {
            continue;
        }
        let (kept, count) = shape.without_values(&shown);
        if count > 0 {
            shown = Cow::Owned(kept);
            redacted += count;
        }
    }
    (redacted > 0).then(|| (shown.into_owned(), redacted))
}

/// Takes the secrets out of a JSON value: by the name of a field, and inside every string.
pub fn json(value: &mut Value) -> u32 {
    match value {
        Value::String(string) => {
            let (shown, count) = text(string);
            if count > 0 {
                *string = shown.into_owned();
            }
            count
        }
        Value::Array(items) => items.iter_mut().map(json).sum(),
        Value::Object(fields) => fields
            .iter_mut()
            .map(|(name, value)| {
                if is_secret_name(name) && !value.is_null() {
                    *value = Value::String(PLACEHOLDER.to_owned());
                    1
                } else {
                    json(value)
                }
            })
            .sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// The form of a secret in text.
struct Shape {
    /// Without this, the pattern need not be tried: most command lines hold no secret.
    hint: Hint,
    pattern: Regex,
}

impl Shape {
    /// The text with a placeholder for every value of this shape, and how many those were.
    fn without_values(&self, text: &str) -> (String, u32) {
        let mut kept = String::new();
        let mut redacted = 0;
        let (mut copied, mut start) = (0, 0);
        while let Some(found) = self.pattern.captures_at(text, start) {
            let Some(value) = value_of(&found) else { break };
            if found.name("name").is_some_and(|name| !is_secret_name(name.as_str())) {
                // What this name is followed by may be a secret's name: `pwd: --password=x`.
                start = value.start();
                continue;
            }
            start = value.end();
            if value.as_str() != PLACEHOLDER {
                kept.push_str(text.get(copied..value.start()).unwrap_or_default());
                kept.push_str(PLACEHOLDER);
                copied = value.end();
                redacted += 1;
            }
        }
        kept.push_str(text.get(copied..).unwrap_or_default());
        (kept, redacted)
    }
}

/// The secret of a match: its named part, or the whole of a shape that is all secret.
fn value_of<'t>(found: &Captures<'t>) -> Option<Match<'t>> {
    ["value", "double_quoted", "single_quoted", "word"]
        .iter()
        .find_map(|group| found.name(group))
        .or_else(|| found.get(0))
}

enum Hint {
    SecretName,
    Literals(&'static [&'static str]),
}

/// In the order in which they are taken out: a header whole, before its name and its scheme could
/// be read as a field and its value.
static SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    let separated = |name: &str| name.chars().map(String::from).collect::<Vec<_>>().join("[_.-]?");
    let names = SECRET_NAMES.map(separated).join("|");
    let field = format!(
        r#"(?i)(?P<name>[A-Za-z0-9_.-]*(?:{names})[A-Za-z0-9_.-]*)["']?\s*[=:]\s*(?:"(?P<double_quoted>[^"]+)"|'(?P<single_quoted>[^']+)'|(?P<word>[^\s;&,"']+))"#
    );
    let shapes = [
        // A private key, whole or cut off.
        (
            Hint::Literals(&["-----BEGIN"]),
            r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
        ),
        // The password in a URL's user part.
        (
            Hint::Literals(&["://"]),
            r#"[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@?#"']*:(?P<value>[^\s/"']+)@"#,
        ),
        // A header's credentials, with their scheme.
        (
            Hint::SecretName,
            r#"(?i)\bauthorization["']?\s*[:=]\s*["']?(?P<value>[A-Za-z-]+\s+[^\s"']+)"#,
        ),
        (Hint::Literals(&["earer", "EARER"]), r"(?i)\bbearer\s+(?P<value>[A-Za-z0-9+/=._~-]{4,})"),
        // name=value, name: value, "name":"value".
        (Hint::SecretName, field.as_str()),
        // Tokens that say by their shape whose they are.
        (
            Hint::Literals(&["gh", "glpat-"]),
            r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})",
        ),
        (
            Hint::Literals(&["sk-", "xox", "tok_"]),
            r"\b(?:sk-[A-Za-z0-9_-]{20,}|xox[abprs]-[A-Za-z0-9-]{10,}|tok_[0-9a-f]{32})",
        ),
        (Hint::Literals(&["AKIA", "AIza"]), r"\b(?:AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,})"),
        (Hint::Literals(&["eyJ"]), r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"),
    ];
    // A pattern that does not compile is a bug that a test finds; it must not end an agent.
    shapes
        .into_iter()
        .filter_map(|(hint, shape)| Regex::new(shape).ok().map(|pattern| Shape { hint, pattern }))
        .collect()
});

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn shown(arguments: &[&str]) -> String {
        command_line(arguments.iter().map(|word| word.as_bytes()), host_text::MAX_BYTES)
            .text
            .to_string()
    }

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(SHAPES.len(), 9);
    }

    #[test]
    fn secrets_in_command_lines_go_and_flag_names_stay() {
        let cases: [(&[&str], &str); 25] = [
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
        ];
        for (arguments, want) in cases {
            assert_eq!(shown(arguments), want, "{arguments:?}");
        }
    }

    #[test]
    fn a_command_line_counts_what_it_lost() {
        let words: [&[u8]; 3] = [b"a", b"--token=x", b"u://b:c@d"];
        assert_eq!(command_line(words, host_text::MAX_BYTES).redacted, 2);
    }

    #[test]
    fn a_name_that_is_no_secret_does_not_hide_the_secret_behind_it() {
        let cases = [
            ("pwd\n: --password=hunter2", "pwd\n: --password=[redacted]"),
            ("token_file=token=hunter2", "token_file=token=[redacted]"),
            ("password=u://a:b@hunter2", "password=[redacted]"),
            ("password=[redacted]hunter2", "password=[redacted]"),
            // The placeholder of one secret makes a password of a URL of what follows it.
            ("y://apikey:/&@", "y://apikey:[redacted]"),
        ];
        for (given, want) in cases {
            assert_eq!(text(given).0, want, "{given:?}");
        }
    }

    #[test]
    fn a_private_key_goes_even_when_it_was_cut_off() {
        let (shown, count) = text("x -----BEGIN RSA PRIVATE KEY-----\nMIIE");
        assert_eq!((shown.as_ref(), count), ("x [redacted]", 1));
    }

    #[test]
    fn json_loses_secret_fields_and_secret_words() {
        let mut value =
            json!({"apiKey": "a", "note": "password: b", "pid": 3, "list": ["TOKEN=c"]});
        assert_eq!(json(&mut value), 3);
        assert_eq!(
            value,
            json!({
                "apiKey": "[redacted]", "note": "password: [redacted]", "pid": 3,
                "list": ["TOKEN=[redacted]"]
            })
        );
    }

    #[test]
    fn a_huge_argument_is_cut_with_its_length() {
        let huge = "a".repeat(2_000_000);
        let text = shown(&["app", &huge]);
        assert!(text.contains("more bytes]") && text.len() < 700, "{}", text.len());
    }

    proptest! {
        #[test]
        fn redacting_again_changes_nothing(words in prop::collection::vec("[ -~]{0,40}", 0..6)) {
            let joined = words.join(" ");
            let (once, _) = text(&joined);
            let (twice, count) = text(&once);
            prop_assert_eq!(count, 0, "{} -> {} -> {}", joined, once, twice);
        }

        #[test]
        fn any_argument_vector_is_shown(words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..6)) {
            command_line(words.iter().map(Vec::as_slice), host_text::MAX_BYTES);
        }
    }
}

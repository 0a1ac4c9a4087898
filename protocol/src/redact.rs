//! Secrets, taken out of what people and models read.
//!
//! Command lines carry passwords and tokens in argv, in `KEY=value` words, in URLs and in headers.
//! They are taken out on the target, before the text crosses the wire, and again wherever free
//! text is written down (audit, error texts). The name of a flag stays, its value goes.
//!
//! This finds what is named or shaped like a secret. A secret that looks like any other word is
//! not found; `docs/safety.md` says so.

mod command_line;
mod fields;
mod flags;
mod quoted;
mod shapes;

pub use command_line::{CommandLine, command_line};

use flags::Words;
use serde_json::Value;
use shapes::SHAPES;
use std::{borrow::Cow, ops::Range};

/// Stands where a secret stood.
pub const PLACEHOLDER: &str = "[redacted]";

/// Takes the secrets out of free text. Returns it unchanged, and zero, where there are none.
pub fn text(text: &str) -> (Cow<'_, str>, u32) {
    text_after(&mut Words::default(), text)
}

/// Rounds after which a text is given up. What people write is done after two.
const MOST_ROUNDS: usize = 8;

/// Takes the secrets out of a text that follows other words.
fn text_after<'t>(words: &mut Words, text: &'t str) -> (Cow<'t, str>, u32) {
    let mut shown = Cow::Borrowed(text);
    let mut redacted = 0;
    // What stands where a secret stood may make the text around it another shape, so it is done
    // again until nothing is found.
    for _ in 0..MOST_ROUNDS {
        let mut read = words.clone();
        let Some((kept, count)) = round(&mut read, &shown) else {
            *words = read;
            return (shown, redacted);
        };
        shown = Cow::Owned(kept);
        redacted += count;
    }
    // Whoever wrote this wanted it to take long.
    (Cow::Borrowed(PLACEHOLDER), redacted + 1)
}

/// The text without the secrets that are found in it, and how many those were; `None` where there
/// are none.
fn round(words: &mut Words, text: &str) -> Option<(String, u32)> {
    let mut shown = Cow::Borrowed(text);
    let mut redacted = 0;
    let lower = text.to_ascii_lowercase();
    let mut take_out = |find: &mut dyn FnMut(&str) -> Vec<Range<usize>>| {
        let secrets = find(&shown);
        if !secrets.is_empty() {
            redacted += u32::try_from(secrets.len()).unwrap_or(u32::MAX);
            shown = Cow::Owned(without(&shown, &secrets));
        }
    };
    for shape in &SHAPES.phrases {
        take_out(&mut |text| shape.secrets(text, &lower));
    }
    take_out(&mut |text| words.secrets(text));
    take_out(&mut fields::secrets);
    for shape in &SHAPES.tokens {
        take_out(&mut |text| shape.secrets(text, &lower));
    }
    (redacted > 0).then(|| (shown.into_owned(), redacted))
}

/// The text with a placeholder for each of these parts, which are in order and apart.
fn without(text: &str, secrets: &[Range<usize>]) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut copied = 0;
    for secret in secrets {
        kept.push_str(text.get(copied..secret.start).unwrap_or_default());
        kept.push_str(PLACEHOLDER);
        copied = secret.end;
    }
    kept.push_str(text.get(copied..).unwrap_or_default());
    kept
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

/// Takes note of bytes that were looked at. Tests add them up: whoever writes a text decides how
/// long looking at it takes, so that must grow with its length and not with its square.
fn looked_at(bytes: usize) {
    #[cfg(test)]
    tests::LOOKED_AT.with(|sum| sum.set(sum.get() + bytes));
    #[cfg(not(test))]
    let _ = bytes;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use std::cell::Cell;

    thread_local! {
        pub(super) static LOOKED_AT: Cell<usize> = const { Cell::new(0) };
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

    const PIECES: [&str; 34] = [
        " ",
        " ",
        " ",
        "\n",
        "\"",
        "'",
        "\\",
        "=",
        ":",
        ";",
        "|",
        ",",
        "(",
        "[",
        "]",
        "@",
        "://",
        "/",
        "-",
        "--",
        "-p",
        "-u",
        "--password",
        "--token",
        "token",
        "pwd",
        "PWD",
        "mysql",
        "curl",
        "redis-cli",
        "bearer",
        "authorization",
        "x",
        PLACEHOLDER,
    ];

    const PLANTED: [&str; 6] = [
        "--password zqxj7secret",
        "TOKEN=zqxj7secret",
        "mysql -pzqxj7secret",
        "curl -u me:zqxj7secret",
        "redis-cli -a zqxj7secret",
        "token: zqxj7secret",
    ];

    /// Bytes that are looked at while secrets are taken out.
    pub(super) fn cost(work: impl FnOnce()) -> usize {
        LOOKED_AT.set(0);
        work();
        LOOKED_AT.get()
    }

    #[test]
    fn the_cost_of_a_text_grows_with_its_length_and_not_with_its_square() {
        /// Times that a byte may be looked at, all shapes and rounds together.
        const TIMES: usize = 100;
        let hostile = [
            "pwd:",
            "pwd: ",
            "password: x ",
            "password=\"",
            "--password ",
            "--password '",
            "token_file=",
            "bearer ",
            "authorization: ",
            "a://b:",
            "a://b:c@",
            "-----BEGIN PRIVATE KEY-----",
            "eyJ.",
            "\\\"token\\\":",
            "password:\\",
            "mysql -p' ",
        ];
        for piece in hostile {
            for bytes in [4 << 10, 16 << 10] {
                let given = piece.repeat(bytes / piece.len());
                let cost = cost(|| {
                    text(&given);
                });
                assert!(cost <= TIMES * bytes, "{piece:?} of {bytes} bytes: {cost} looked at");
            }
        }
    }

    /// A text that grows a secret in every round, by hand: what is given up is not shown.
    #[test]
    fn a_text_that_never_comes_to_an_end_is_not_shown() {
        let nested = "u://a:".repeat(MOST_ROUNDS + 2) + &"@".repeat(MOST_ROUNDS + 2);
        let (shown, count) = text(&nested);
        assert!(count > 0);
        assert_eq!(text(&shown).1, 0, "{shown}");
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
        fn what_is_made_of_flags_and_quotes_is_redacted_once_and_for_all(
            pieces in prop::collection::vec(prop::sample::select(PIECES.as_slice()), 0..14),
        ) {
            let joined = pieces.concat();
            let (once, _) = text(&joined);
            let (twice, count) = text(&once);
            prop_assert_eq!(count, 0, "{} -> {} -> {}", joined, once, twice);
            // Some words between, which the last flag and the last sign of what is before take.
            let planted = format!("{joined} a b c {}", PLANTED.join(" "));
            let (shown, _) = text(&planted);
            prop_assert!(!shown.contains("zqxj7"), "{} -> {}", planted, shown);
        }
    }
}

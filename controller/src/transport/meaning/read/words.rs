//! Lines of an SSH configuration, and the words of a line.
//!
//! See `process_config_line_depth` in OpenSSH's readconf.c, `strdelim` and `argv_split` in its
//! misc.c. What those take only by accident is not taken here.

/// A line that says something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'l> {
    /// Its keyword, in lower case.
    pub keyword: String,
    /// Everything behind it.
    pub rest: &'l str,
    /// The words of that, without their quotes and without a comment.
    pub words: Vec<String>,
}

/// Splits one line, without its end; `None` where it says nothing.
///
/// # Errors
///
/// What there is about it that cannot be understood with certainty.
pub fn line(text: &str) -> Result<Option<Line<'_>>, &'static str> {
    let text = text.trim_end_matches([' ', '\t', '\r', '\n', '\u{c}']);
    if text.chars().any(|character| character.is_control() && character != '\t') {
        return Err("a control character");
    }
    let text = text.trim_start_matches([' ', '\t']);
    if text.is_empty() || text.starts_with('#') {
        return Ok(None);
    }
    let end = text.find(|character: char| !character.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (keyword, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    let spaced = rest.trim_start_matches([' ', '\t']);
    let (is_apart, rest) = match spaced.strip_prefix('=') {
        Some(rest) => (true, rest.trim_start_matches([' ', '\t'])),
        None => (spaced.len() < rest.len(), spaced),
    };
    if keyword.is_empty() || rest.is_empty() || !is_apart || rest.starts_with('=') {
        return Err("no keyword with a value");
    }
    let words = words(rest).ok_or("a quote without its other half")?;
    let keyword = keyword.to_ascii_lowercase();
    Ok(Some(Line { keyword, rest, words }))
}

/// The words of a text, up to a comment (`argv_split` in OpenSSH's misc.c).
fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = text.chars().peekable();
    loop {
        while rest.next_if(|next| matches!(next, ' ' | '\t')).is_some() {}
        if rest.peek().is_none_or(|next| *next == '#') {
            return Some(words);
        }
        let mut word = String::new();
        let mut quote = None;
        while let Some(next) = rest.next_if(|next| quote.is_some() || !matches!(next, ' ' | '\t')) {
            let is_escaped = |next: &char| {
                matches!(next, '\'' | '"' | '\\') || (*next == ' ' && quote.is_none())
            };
            match (next, quote) {
                ('\\', _) => word.push(rest.next_if(is_escaped).unwrap_or('\\')),
                ('\'' | '"', None) => quote = Some(next),
                (end, Some(start)) if end == start => quote = None,
                (other, _) => word.push(other),
            }
        }
        if quote.is_some() {
            return None;
        }
        words.push(word);
    }
}

/// Whether a pattern with `*` and `?` matches all of a name (`match_pattern` in OpenSSH's match.c).
pub fn matches(pattern: &str, name: &str) -> bool {
    // Bytes, as there: a `?` is one byte of a name.
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut from) = (0, 0);
    // Where the last star stands, and how much of the name it has taken.
    let mut star: Option<(usize, usize)> = None;
    while let Some(byte) = name.get(from) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(wanted) if *wanted == b'?' || wanted == byte => {
                at += 1;
                from += 1;
            }
            Some(_) | None => match star.as_mut() {
                Some((star, taken)) => {
                    *taken += 1;
                    at = *star + 1;
                    from = *taken;
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).is_none_or(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_as_openssh_splits_them() {
        let cases: [(&str, &str, &str, &[&str]); 14] = [
            ("Port 22", "port", "22", &["22"]),
            ("  \tPort\t=\t22 \t\r", "port", "22", &["22"]),
            ("Port=22", "port", "22", &["22"]),
            ("Port = 22 # usual", "port", "22 # usual", &["22"]),
            ("User a#b", "user", "a#b", &["a#b"]),
            ("User \"a b\" #c", "user", "\"a b\" #c", &["a b"]),
            ("Host a 'b c' \"d\"e", "host", "a 'b c' \"d\"e", &["a", "b c", "de"]),
            ("Host \"a'b\" 'c\"d'", "host", "\"a'b\" 'c\"d'", &["a'b", "c\"d"]),
            ("User a\\ b", "user", "a\\ b", &["a b"]),
            ("User \"a\\ b\"", "user", "\"a\\ b\"", &["a\\ b"]),
            ("User \\\"a\\\\b\\n", "user", "\\\"a\\\\b\\n", &["\"a\\b\\n"]),
            ("User \"\"", "user", "\"\"", &[""]),
            ("User #", "user", "#", &[]),
            (
                "ProxyCommand nc -x a=b %h",
                "proxycommand",
                "nc -x a=b %h",
                &["nc", "-x", "a=b", "%h"],
            ),
        ];
        for (text, keyword, rest, words) in cases {
            let line = line(text).unwrap().unwrap();
            assert_eq!((line.keyword.as_str(), line.rest), (keyword, rest), "{text}");
            assert_eq!(line.words, words, "{text}");
        }
    }

    #[test]
    fn empty_lines_and_comments_say_nothing() {
        for text in ["", " \t", "\r", "# Port 22", "\t#"] {
            assert_eq!(line(text), Ok(None), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_certain_is_not_understood() {
        for text in [
            "Port",
            "Port ",
            "Port=",
            "Port = ",
            "=Port 22",
            "Port==22",
            "Port = = 22",
            "\"Port\" 22",
            "Port\"22\"",
            "User \"a",
            "User 'a",
            "User a'b",
            "Po-rt 22",
            "User a\u{b}b",
            "User a\rb",
            "User a\0",
            "User\u{a0}a",
            "é 1",
        ] {
            assert!(line(text).is_err(), "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_line_is_split_or_refused(text in "[ \t='\"\\\\#A-Za-zé\r]{0,40}") {
            if let Ok(Some(line)) = line(&text) {
                proptest::prop_assert!(!line.keyword.is_empty() && text.contains(line.rest));
            }
        }

        #[test]
        fn a_pattern_matches_as_if_every_star_were_tried(
            pattern in "[ab?*]{0,7}", name in "[ab]{0,7}"
        ) {
            fn tried(pattern: &[u8], name: &[u8]) -> bool {
                match (pattern.split_first(), name.split_first()) {
                    (None, None) => true,
                    (Some((b'*', pattern)), None) => tried(pattern, name),
                    (Some((b'*', rest)), Some((_, after))) => {
                        tried(rest, name) || tried(pattern, after)
                    }
                    (Some((wanted, pattern)), Some((byte, name))) => {
                        (*wanted == b'?' || wanted == byte) && tried(pattern, name)
                    }
                    (None, Some(_)) | (Some(_), None) => false,
                }
            }
            let want = tried(pattern.as_bytes(), name.as_bytes());
            proptest::prop_assert_eq!(matches(&pattern, &name), want);
        }
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, want) in [
            ("*", "", true),
            ("*", "web", true),
            ("web", "web", true),
            ("web", "Web", false),
            ("web", "web1", false),
            ("web?", "web1", true),
            ("web?", "web", false),
            ("*.example", "a.b.example", true),
            ("*.example", "example", false),
            ("w*b*1", "web-b-1", true),
            ("w**b", "wb", true),
            ("*a*b", "ab-ac", false),
            ("[ab]", "a", false),
            ("{a,b}", "a", false),
            ("", "", true),
            ("", "a", false),
            ("??", "é", true),
        ] {
            assert_eq!(matches(pattern, name), want, "{pattern} {name}");
        }
    }
}

//! Secrets that their form gives away.

use super::{PLACEHOLDER, looked_at};
use regex_lite::Regex;
use std::{ops::Range, sync::LazyLock};

/// The form of a secret.
pub(super) struct Shape {
    /// In lower case. Without one of them the pattern need not be tried: most texts hold no secret.
    hints: &'static [&'static str],
    pattern: Regex,
}

impl Shape {
    /// Where the secrets of this shape are. `lower` is the text in lower case.
    pub(super) fn secrets(&self, text: &str, lower: &str) -> Vec<Range<usize>> {
        let mut secrets = Vec::new();
        if !self.hints.iter().any(|hint| lower.contains(hint)) {
            return secrets;
        }
        let mut start = 0;
        while let Some(found) = self.pattern.captures_at(text, start) {
            // The named part, or the whole of a shape that is all secret.
            let Some(secret) = found.name("value").or_else(|| found.get(0)) else { break };
            looked_at(secret.end() - start);
            start = secret.end();
            if secret.as_str() != PLACEHOLDER {
                secrets.push(secret.range());
            }
        }
        looked_at(text.len() - start);
        secrets
    }
}

/// Shapes by when they are taken out.
pub(super) struct Shapes {
    /// Of several words: before one of these could be read as a field's value.
    pub(super) phrases: Vec<Shape>,
    /// Of one word.
    pub(super) tokens: Vec<Shape>,
}

/// The shapes that are known.
///
/// Each is found in time that grows with the text alone: no pattern can match from one place to
/// the end of the text and leave the next search to begin in between.
pub(super) static SHAPES: LazyLock<Shapes> =
    LazyLock::new(|| Shapes { phrases: compiled(&PHRASES), tokens: compiled(&TOKENS) });

const PHRASES: [(&[&str], &str); 4] = [
    // A private key, whole or cut off.
    (
        &["-----begin"],
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
    ),
    // The password in a URL's user part.
    (&["://"], r#"[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@?#"']*:(?P<value>[^\s/"']+)@"#),
    // A header's credentials, with their scheme.
    (
        &["authorization"],
        r#"(?i)\bauthorization["']?\s*[:=]\s*["']?(?P<value>[A-Za-z-]+\s+[^\s"']+)"#,
    ),
    (&["bearer"], r"(?i)\bbearer\s+(?P<value>[A-Za-z0-9+/=._~-]{4,})"),
];

/// Tokens that say by their shape whose they are.
const TOKENS: [(&[&str], &str); 4] = [
    (
        &["gh", "glpat-"],
        r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})",
    ),
    (
        &["sk-", "xox", "tok_"],
        r"\b(?:sk-[A-Za-z0-9_-]{20,}|xox[abprs]-[A-Za-z0-9-]{10,}|tok_[0-9a-f]{32})",
    ),
    (&["akia", "aiza"], r"\b(?:AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,})"),
    (&["eyj"], r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"),
];

/// A pattern that does not compile is a bug that a test finds; it must not end an agent.
fn compiled(shapes: &[(&'static [&'static str], &str)]) -> Vec<Shape> {
    shapes
        .iter()
        .filter_map(|(hints, pattern)| Some(Shape { hints, pattern: Regex::new(pattern).ok()? }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(SHAPES.phrases.len(), PHRASES.len());
        assert_eq!(SHAPES.tokens.len(), TOKENS.len());
    }
}

//! Fields whose name announces a secret: `name=value`, `name: value`, `"name":"value"`.
//!
//! It goes from one sign to the next, looking back for a name and forth for a value, and looks at
//! no byte more than a few times: a text cannot be made so that this takes long.

use super::{PLACEHOLDER, is_secret_name, looked_at, quoted::quoted_at};
use std::ops::Range;

/// Where the values of such fields are.
pub(super) fn secrets(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut secrets = Vec::new();
    let mut at = 0;
    while let Some(found) = bytes.get(at..).and_then(|rest| rest.iter().position(is_sign)) {
        let sign = at + found;
        let name = name_before(bytes.get(at..sign).unwrap_or_default());
        looked_at(found + 1);
        // What a name that is none is followed by may be a secret's name: `pwd: --password=x`.
        at = sign + 1;
        if is_secret_name(name)
            && let Some((value, end)) = value_after(text, at)
        {
            looked_at(end - at);
            at = end;
            if text.get(value.clone()) != Some(PLACEHOLDER) {
                secrets.push(value);
            }
        }
    }
    secrets
}

const fn is_sign(byte: &u8) -> bool {
    matches!(byte, b'=' | b':')
}

/// Letters that a field's name is made of.
pub(super) const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')
}

/// The name at the end of what stands before a sign, without the quote behind it.
fn name_before(text: &[u8]) -> &str {
    let text = text.trim_ascii_end();
    let text = text.strip_suffix(b"\"").or_else(|| text.strip_suffix(b"'")).unwrap_or(text);
    let escapes = text.iter().rev().take_while(|byte| **byte == b'\\').count();
    let text = text.get(..text.len() - escapes).unwrap_or_default();
    let length = text.iter().rev().take_while(|byte| is_name_byte(**byte)).count();
    let name = text.get(text.len() - length..).unwrap_or_default();
    std::str::from_utf8(name).unwrap_or_default()
}

/// The value behind a sign, and where the text goes on.
fn value_after(text: &str, sign_end: usize) -> Option<(Range<usize>, usize)> {
    let rest = text.get(sign_end..)?;
    // `==`, `:=` and `=>` are signs too.
    let value = rest.trim_start_matches(['=', ':', '>']).trim_start();
    let start = text.len() - value.len();
    if let Some(quoted) = quoted_at(text, start) {
        return (!quoted.content.is_empty()).then_some((quoted.content, quoted.end));
    }
    let is_end =
        |letter: char| letter.is_whitespace() || matches!(letter, ';' | '&' | ',' | '"' | '\'');
    let end = start + value.find(is_end).unwrap_or(value.len());
    (end > start).then_some((start..end, end))
}

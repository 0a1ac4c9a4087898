//! A value between quotes.

use std::ops::Range;

/// What stands between two quotes, and where the text goes on behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Quoted {
    pub(super) content: Range<usize>,
    pub(super) end: usize,
}

/// The quoted value that begins at `start`; `None` where there is none.
///
/// The quotes may be escaped themselves, as in JSON inside of JSON: `\"value\"`. Without a closing
/// quote the value goes on to the end: a text that was cut must not lose what protects it.
pub(super) fn quoted_at(text: &str, start: usize) -> Option<Quoted> {
    let bytes = text.as_bytes();
    let escapes = backslashes(bytes.get(start..)?.iter());
    let opening = start + escapes;
    let quote = *bytes.get(opening).filter(|byte| matches!(byte, b'"' | b'\''))?;
    let first = opening + 1;
    let mut from = first;
    while let Some(closing) = position(bytes, from, quote) {
        let before = backslashes(bytes.get(from..closing)?.iter().rev());
        let is_closing = match escapes {
            // A shell takes a backslash between single quotes for itself.
            0 => quote == b'\'' || before % 2 == 0,
            _ => before == escapes,
        };
        if is_closing {
            let content = first..(closing - if escapes > 0 { before } else { 0 });
            return Some(Quoted { content, end: closing + 1 });
        }
        from = closing + 1;
    }
    Some(Quoted { content: first..text.len(), end: text.len() })
}

fn backslashes<'b>(bytes: impl Iterator<Item = &'b u8>) -> usize {
    bytes.take_while(|byte| **byte == b'\\').count()
}

fn position(bytes: &[u8], from: usize, byte: u8) -> Option<usize> {
    let found = bytes.get(from..)?.iter().position(|found| *found == byte)?;
    Some(from + found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_end_where_their_writer_ends_them() {
        let cases = [
            (r#""a b" c"#, Some(("a b", " c"))),
            ("'a b' c", Some(("a b", " c"))),
            (r#""a\"b" c"#, Some((r#"a\"b"#, " c"))),
            (r#""a\\" c"#, Some((r"a\\", " c"))),
            (r"'a\' c", Some((r"a\", " c"))),
            (r#"\"a\" c"#, Some(("a", " c"))),
            (r#"\"a\\\"b\" c"#, Some((r#"a\\\"b"#, " c"))),
            (r#""""#, Some(("", ""))),
            (r#""it's" c"#, Some(("it's", " c"))),
            (r#""cut off"#, Some(("cut off", ""))),
            ("\"", Some(("", ""))),
            ("plain", None),
            (r"\plain", None),
            ("", None),
        ];
        for (text, want) in cases {
            let found = quoted_at(text, 0).map(|found| (&text[found.content], &text[found.end..]));
            assert_eq!(found, want, "{text}");
        }
    }
}

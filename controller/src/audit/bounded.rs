//! The start of what a client gave, for the log. A client may give anything, of any size, and a
//! call must not fill the disk on which the log is kept, whether it is refused or answered.

use protocol::{host_text, redact};
use serde_json::{Map, Value};

/// Bytes of parameters that are kept as they are. Those of a call that is understood take less, unless
/// a whole file is one of them.
const PARAMETER_BYTES: usize = 2048;

/// Bytes of a single text of parameters that are too long.
const TEXT_BYTES: usize = 256;

/// Bytes that a number, a bracket or a quotation mark stands for in the count.
const BYTES_OF_A_VALUE: usize = 4;

/// Bytes in which secrets are looked for where only the start of a text is kept: far more than is
/// kept, as one that is cut in half looks like any other word.
const SCANNED_BYTES: usize = 64 << 10;

/// Parameters, or their start, secrets taken out; and how many bytes they had where it is only the
/// start.
pub fn parameters(given: &Value) -> (Value, Option<u64>) {
    let bytes = given.to_string().len();
    let (mut kept, cut) = if bytes <= PARAMETER_BYTES {
        (given.clone(), None)
    } else {
        let mut room = PARAMETER_BYTES;
        (start_of(given, &mut room).unwrap_or_default(), u64::try_from(bytes).ok())
    };
    redact::json(&mut kept);
    (kept, cut)
}

/// A text of ours in which a client's may stand: secrets taken out, printable, and at most so many
/// bytes of it.
pub fn sentence(text: &str, most_bytes: usize) -> String {
    let scanned = text.get(..text.floor_char_boundary(SCANNED_BYTES));
    let redacted = redact::text(scanned.unwrap_or(text)).0;
    let mut kept = host_text::printable(&redacted).into_owned();
    kept.truncate(kept.floor_char_boundary(most_bytes));
    kept
}

/// As much of a value as there is room for: names and short texts whole, of long ones the start,
/// and nothing behind the last that fits.
fn start_of(value: &Value, room: &mut usize) -> Option<Value> {
    *room = room.checked_sub(BYTES_OF_A_VALUE)?;
    Some(match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => Value::String(start_of_text(text, room)?),
        Value::Array(items) => items.iter().map_while(|item| start_of(item, room)).collect(),
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map_while(|(name, field)| {
                    Some((start_of_text(name, room)?, start_of(field, room)?))
                })
                .collect::<Map<_, _>>(),
        ),
    })
}

fn start_of_text(text: &str, room: &mut usize) -> Option<String> {
    *room = room.checked_sub(text.len().min(TEXT_BYTES))?;
    if text.len() <= TEXT_BYTES {
        return Some(text.to_owned());
    }
    Some(format!("{}…[{} bytes]", sentence(text, TEXT_BYTES), text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_short_is_kept_whole() {
        let given = json!({"limit": 5, "sort": "x\ny", "deep": [{"a": null}]});
        assert_eq!(parameters(&given), (given, None));
    }

    #[test]
    fn of_what_is_long_the_start_is_kept_and_its_length() {
        let long = "x".repeat(1_000_000);
        let many: Vec<u32> = (0..1_000_000).collect();
        let names: Map<String, Value> =
            (0..100_000).map(|name| (format!("{name}"), json!(null))).collect();
        let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
        let cases = [
            json!({"sort": long}),
            json!({long.as_str(): 1}),
            json!({"a": many}),
            json!(names),
            json!([many, long]),
            json!({"sort": long, "number": 5}),
            json!({"escapes": "\u{1b}".repeat(100_000)}),
            json!(vec![deep; 50]),
            json!(long),
        ];
        for given in cases {
            let bytes = given.to_string().len();
            let (kept, cut) = parameters(&given);
            let text = kept.to_string();
            assert!(text.len() < 4 * PARAMETER_BYTES, "{} bytes of {text:.100}", text.len());
            assert!(text.len() > 100, "{text}");
            assert_eq!(cut, u64::try_from(bytes).ok(), "{text:.100}");
        }
    }

    #[test]
    fn secrets_are_taken_out_of_what_is_kept() {
        let secret = "hunter2hunter2".repeat(2000);
        let given = json!({"password": secret, "url": format!("http://me:{secret}@x/")});
        let text = parameters(&given).0.to_string();
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("http://me:"), "{text}");
        assert!(!sentence(&format!("bad url http://me:{secret}@x/"), 100).contains("hunter2"));
    }

    #[test]
    fn a_text_that_is_long_to_search_is_not_searched_to_its_end() {
        let started = std::time::Instant::now();
        for unit in ["a://", "password=", "password: ", "-----BEGIN PRIVATE KEY-----", "bearer "] {
            sentence(&unit.repeat(10_000_000), 100);
        }
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }

    #[test]
    fn a_sentence_is_cut_between_characters() {
        assert_eq!(sentence("tö", 2), "t");
        assert_eq!(sentence("a\nb", 100), "a\\nb");
    }
}

//! The parameters of a call that is made by hand: a JSON object, and texts that are taken from files.

use serde_json::{Map, Value};
use std::{fs::File, io::Read};

/// Bytes that are read of a file. No text parameter may be that long, and its limit says so better.
const MOST_BYTES: u64 = 8 << 20;

/// Reads what `--params` and `--param-file` say.
///
/// # Errors
///
/// What is wrong with them, for a person.
pub fn read(object: &str, files: &[String]) -> Result<Map<String, Value>, String> {
    let mut parameters = serde_json::from_str::<Map<String, Value>>(object)
        .map_err(|error| format!("--params is not a JSON object: {error}"))?;
    for named in files {
        let (name, path) = named
            .split_once('=')
            .filter(|(name, path)| !name.is_empty() && !path.is_empty())
            .ok_or_else(|| format!("--param-file is `{named}`: expected NAME=FILE, or NAME=-"))?;
        let bytes = bytes(path).map_err(|error| format!("could not read {path}: {error}"))?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(format!(
                "{path} has more than {MOST_BYTES} bytes: too long for a parameter"
            ));
        }
        if parameters.insert(name.to_owned(), text(&bytes).into()).is_some() {
            return Err(format!("parameter {name} is given more than once: say it once"));
        }
    }
    Ok(parameters)
}

fn bytes(path: &str) -> std::io::Result<Vec<u8>> {
    let source: Box<dyn Read> = match path {
        "-" => Box::new(std::io::stdin().lock()),
        path => Box::new(File::open(path)?),
    };
    let mut bytes = Vec::new();
    source.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file's text. What `>` of a Windows shell writes is UTF-16 with a mark before it. Bytes that are no
/// text become the character that stands for such.
fn text(bytes: &[u8]) -> String {
    let unit: fn([u8; 2]) -> u16 = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return String::from_utf8_lossy(bytes).into_owned(),
    };
    let pairs = bytes.get(2..).unwrap_or_default().chunks_exact(2);
    let units: Vec<u16> = pairs.filter_map(|pair| Some(unit(pair.try_into().ok()?))).collect();
    String::from_utf16_lossy(&units)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_text_is_taken_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old=1.folded");
        let named = format!("folded={}", path.display());
        let utf16: Vec<u8> = [0xff, 0xfe]
            .into_iter()
            .chain("main;ä 3\n".encode_utf16().flat_map(u16::to_le_bytes))
            .collect();
        for (bytes, want) in [
            ("main;ä 3\n".as_bytes(), "main;ä 3\n"),
            (&utf16, "main;ä 3\n"),
            (b"a;\xff 3", "a;\u{fffd} 3"),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let found = read("{\"depth\": 3}", std::slice::from_ref(&named)).unwrap();
            assert_eq!(Value::Object(found), json!({"depth": 3, "folded": want}));
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large");
        File::create(&path).unwrap().set_len(MOST_BYTES + 1).unwrap();
        let large = format!("folded={}", path.display());
        for (object, file, want) in [
            ("[]", None, "--params is not a JSON object"),
            ("{}", Some("folded"), "--param-file is `folded`: expected NAME=FILE"),
            ("{}", Some("=x"), "expected NAME=FILE"),
            ("{}", Some("folded=/no/such"), "could not read /no/such: No such file"),
            ("{}", Some(large.as_str()), "has more than 8388608 bytes"),
            ("{\"folded\": \"a 1\"}", Some("folded=/dev/null"), "folded is given more than once"),
        ] {
            let files: Vec<String> = file.into_iter().map(str::to_owned).collect();
            let error = read(object, &files).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }
}

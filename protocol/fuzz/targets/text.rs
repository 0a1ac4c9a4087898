//! Any bytes from a target become text that no terminal obeys, and lose what is named a secret.

#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::{host_text::HostText, redact};

fuzz_target!(|bytes: &[u8]| {
    let text = HostText::new(bytes);
    let harmless = |character: char| !character.is_control() && character != '\u{202e}';
    assert!(text.as_str().chars().all(harmless));
    assert!(text.as_str().len() < 600);
    let line = redact::command_line(bytes.split(|byte| *byte == 0), 512, true);
    assert!(line.text.as_str().chars().all(harmless));
    let plain = String::from_utf8_lossy(bytes);
    let (once, _) = redact::text(&plain);
    let (_, again) = redact::text(&once);
    assert_eq!(again, 0, "{plain:?} -> {once:?}");
    // What follows a name that announces it is gone.
    let secret = "zqxj7secret";
    let planted = format!("{plain} --password={secret} TOKEN={secret}");
    let (shown, _) = redact::text(&planted);
    assert!(!shown.contains(secret), "{planted:?} -> {shown:?}");
    if let Ok(mut value) = serde_json::from_slice::<serde_json::Value>(bytes) {
        redact::json(&mut value);
    }
});

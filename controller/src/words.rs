//! What others said, as an error may repeat it.

use protocol::{host_text::HostText, redact};

/// A text without blanks around it, secrets taken out, escaped, and no longer than `most_bytes`.
pub fn of_others(text: &str, most_bytes: usize) -> HostText {
    let (text, _) = redact::text(text.trim());
    HostText::capped(text.as_bytes(), most_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_repeated_does_nothing_and_holds_no_secret() {
        let said =
            of_others("  \x1b[31mconnect to http://a:hunter2@b: refused \n", 200).to_string();
        assert!(said.contains("refused") && !said.ends_with(' '), "{said}");
        assert!(!said.contains('\x1b') && !said.contains("hunter2"), "{said}");
        assert!(of_others(&"a".repeat(500), 100).as_str().len() < 200);
    }
}

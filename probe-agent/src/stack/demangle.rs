//! Names as people write them, from those that compilers put into files.
//!
//! Rust's two schemes and that of C++; every other name stays as it is, Go's among them. A name can be
//! built to take exponential time or a deep stack, so that what goes in and what comes out is capped.

use cpp_demangle::{BorrowedSymbol, DemangleOptions, ParseOptions};
use protocol::host_text::{HostText, Rest};
use std::fmt::{self, Write};

/// The longest name that is looked into. A longer one is shown as it is.
const MOST_MANGLED_BYTES: usize = 4096;

/// The most that is shown of a name.
const MOST_SHOWN_BYTES: usize = 400;

/// How deep the parts of a name of C++ may lie in each other.
const DEEPEST: u32 = 96;

/// A name out of a table of symbols, as it is shown: without the version that a linker appends, and
/// without the hash that Rust appends.
pub fn shown(name: &[u8]) -> HostText {
    let name = without_version(name);
    let Some(text) = Some(name).filter(|name| name.len() <= MOST_MANGLED_BYTES) else {
        return plain(name);
    };
    let mut shown = Shown::default();
    // What was written before an error is the start of a name that is too long or too deep.
    let is_whole = match std::str::from_utf8(text).ok().and_then(rust) {
        Some(name) => write!(shown, "{name:#}").is_ok(),
        None => match cpp(text, &mut shown) {
            Some(is_whole) => is_whole,
            None => return plain(name),
        },
    };
    match (is_whole, shown.is_full) {
        (true, _) => plain(shown.text.as_bytes()),
        (false, true) => cut(shown.text.as_bytes()),
        (false, false) => plain(name),
    }
}

/// A name that is no compiler's, made harmless and short.
pub fn plain(name: &[u8]) -> HostText {
    HostText::capped(name, MOST_SHOWN_BYTES)
}

/// A name with something of ours behind it, which is not cut off.
pub fn with_suffix(name: &HostText, suffix: &str) -> HostText {
    HostText::new(&[&name.raw(), suffix.as_bytes()].concat())
}

fn cut(name: &[u8]) -> HostText {
    HostText::start_of(name, MOST_SHOWN_BYTES, Rest { bytes: 1, is_known: false })
}

/// `memcpy@@GLIBC_2.14` is `memcpy`.
fn without_version(name: &[u8]) -> &[u8] {
    match name.iter().position(|byte| *byte == b'@') {
        None | Some(0) => name,
        Some(at) => name.get(..at).unwrap_or(name),
    }
}

fn rust(name: &str) -> Option<rustc_demangle::Demangle<'_>> {
    let is_new = name.starts_with("_R");
    // Without its hash, a name of the first scheme could be one of C++.
    let is_first = || {
        name.starts_with("_ZN")
            && name.match_indices("17h").any(|(at, _)| {
                let (hash, rest) = name
                    .get(at + 3..)
                    .and_then(|rest| rest.split_at_checked(16))
                    .unwrap_or_default();
                hash.len() == 16
                    && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
                    && rest.starts_with('E')
            })
    };
    (is_new || is_first()).then(|| rustc_demangle::try_demangle(name).ok()).flatten()
}

/// Writes a name of C++. None if it is none; false if it could not be written in full.
fn cpp(name: &[u8], shown: &mut Shown) -> Option<bool> {
    if !name.starts_with(b"_Z") {
        return None;
    }
    let options = ParseOptions::default().recursion_limit(DEEPEST);
    let (symbol, rest) = BorrowedSymbol::with_tail_and_options(name, &options).ok()?;
    if !rest.is_empty() {
        return None;
    }
    let options = DemangleOptions::default().recursion_limit(DEEPEST);
    Some(symbol.structured_demangle(shown, &options).is_ok())
}

/// Takes what is written until it is longer than what is shown.
#[derive(Default)]
struct Shown {
    text: String,
    is_full: bool,
}

impl Write for Shown {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.text.len() > MOST_SHOWN_BYTES {
            self.is_full = true;
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_shown_as_people_write_them() {
        let cases: &[(&str, &[u8], &str)] = &[
            (
                "Rust",
                b"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
                "core::fmt::Formatter::pad",
            ),
            (
                "Rust, a part",
                b"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE.llvm.12345",
                "core::fmt::Formatter::pad",
            ),
            ("Rust, the new scheme", b"_RNvC7mycrate3foo", "mycrate::foo"),
            ("C++", b"_ZN5Store3putEiRKSs", "Store::put(int, std::string const&)"),
            ("C++ without a hash of Rust", b"_ZN3foo3barEv", "foo::bar()"),
            ("C++, a part", b"_Z3fooi.cold", "foo(int) [clone .cold]"),
            ("C", b"qsort_r", "qsort_r"),
            ("C with a version", b"memcpy@@GLIBC_2.14", "memcpy"),
            ("only an at sign", b"@plt", "@plt"),
            ("Go", b"main.(*Server).Serve-fm", "main.(*Server).Serve-fm"),
            ("Go, generic", b"main.Map[go.shape.int_0]", "main.Map[go.shape.int_0]"),
            ("almost C++", b"_Zebra", "_Zebra"),
            ("almost Rust", b"_Rust", "_Rust"),
            ("not UTF-8", b"a\xffb", "a\\xffb"),
            ("an escape of a terminal", b"a\x1b[31m", "a\\x1b[31m"),
        ];
        for (case, name, expected) in cases {
            assert_eq!(shown(name).as_str(), *expected, "{case}");
        }
    }

    #[test]
    fn a_name_that_would_not_end_is_cut_with_a_sign() {
        // Each parameter is a pair of the one before it: 2^40 letters.
        let mut bomb = b"_Z1fI1aE".to_vec();
        for _ in 0..40 {
            bomb.extend(b"N1pIT_T_EE");
        }
        let substitutions: Vec<u8> = (0..30).fold(b"_Z1fM1aS_".to_vec(), |mut name, step| {
            name.extend(
                format!(
                    "M{}_",
                    if step < 10 { "S".to_owned() + &step.to_string() } else { "S_".to_owned() }
                )
                .bytes(),
            );
            name
        });
        let deep = [b"_Z1f".to_vec(), vec![b'P'; 3000], b"i".to_vec()].concat();
        let long = [b"_ZN".to_vec(), b"9abcdefghi".repeat(45), b"Ev".to_vec()].concat();
        let huge = [b"_Z".to_vec(), vec![b'N'; 1 << 20]].concat();
        for name in [bomb, substitutions, deep, long.clone(), huge] {
            let text = shown(&name);
            assert!(text.as_str().len() <= 600, "{} bytes", text.as_str().len());
        }
        let text = shown(&long);
        assert!(text.as_str().starts_with("abcdefghi::abcdefghi::"), "{text}");
        assert!(text.as_str().contains("more bytes]"), "{text}");
    }

    #[test]
    fn what_is_said_behind_a_name_is_not_cut_off() {
        let long = plain(&[b'a'; 1000]);
        assert!(with_suffix(&long, "@plt").as_str().ends_with("@plt"));
        let escaped = plain(b"a\x1b\\");
        assert_eq!(with_suffix(&escaped, "@plt").as_str(), format!("{escaped}@plt"));
    }

    proptest! {
        #[test]
        fn no_name_makes_it_panic(
            start in prop_oneof![Just("_Z"), Just("_ZN"), Just("_R"), Just("_RNv"), Just("_RI")],
            rest in "[A-Za-z0-9_.@$]{0,80}",
        ) {
            let _ = shown(format!("{start}{rest}").as_bytes());
        }

        #[test]
        fn no_bytes_make_it_panic(name in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = shown(&name);
        }
    }
}

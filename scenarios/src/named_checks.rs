//! A test program whose checks have names of their own: words on its command line choose among them, as
//! for any test.

use anyhow::Result;
use std::process::ExitCode;

/// Lists the checks, or makes those that were asked for: `run` gets the words, and gives whether all
/// held.
pub fn main(
    names: impl Iterator<Item = &'static str>,
    run: impl FnOnce(&[String]) -> Result<bool>,
) -> ExitCode {
    let words = words(std::env::args().skip(1));
    if std::env::args().any(|word| word == "--list") {
        names.for_each(|name| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    match run(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What is left of the command line without the flags of Rust's own harness, which other tests get.
fn words(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut words = Vec::new();
    let mut is_value = false;
    for word in arguments {
        if !is_value && !word.starts_with('-') {
            words.push(word.clone());
        }
        is_value = ["--test-threads", "--format", "--color", "--skip"].contains(&word.as_str());
    }
    words
}

//! Checks on the source files.

use super::{exists, files};
use protocol::InstrumentId;

/// Lines of a file that are not tests.
fn lines_without_tests(text: &str) -> usize {
    let tests = text.lines().position(|line| line == "mod tests {");
    tests.unwrap_or_else(|| text.lines().count())
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

#[test]
fn every_source_file_says_what_it_is() {
    for file in files().iter().filter(|file| file.has_extension("rs")) {
        assert!(file.text.starts_with("//! "), "{} does not begin with `//! `", file.path);
    }
}

#[test]
fn no_source_file_is_too_long() {
    const MOST_LINES: usize = 500;
    for file in files().iter().filter(|file| file.has_extension("rs") && !is_test(&file.path)) {
        let lines = lines_without_tests(&file.text);
        assert!(lines <= MOST_LINES, "{} has {lines} lines beside its tests", file.path);
    }
}

#[test]
fn no_file_has_a_name_that_collects_everything() {
    const REFUSED: [&str; 10] = [
        "util", "utils", "common", "helper", "helpers", "misc", "imp", "types", "shared", "manager",
    ];
    for file in files() {
        for part in file.path.split(['/', '.']) {
            assert!(!REFUSED.contains(&part), "{}: `{part}` says nothing", file.path);
        }
    }
}

#[test]
fn unsafe_code_is_where_it_is_expected() {
    const PLACES: [&str; 3] =
        ["probe-agent/src/os/", "probe-agent/src/perf/", "probe-agent/src/bpf/"];
    // In two parts, so that this file does not hold the word.
    let word = concat!("uns", "afe ");
    for file in files().iter().filter(|file| file.has_extension("rs")) {
        let has_block = [format!("{word}{{"), format!("{word}fn"), format!("{word}impl")]
            .iter()
            .any(|form| file.text.contains(form.as_str()));
        assert!(
            !has_block || PLACES.iter().any(|place| file.path.starts_with(place)),
            "{} is not a place for it",
            file.path
        );
    }
}

/// The clocks of the machine that the agent runs on are not those of a snapshot.
#[test]
fn instruments_ask_the_root_what_time_it_is() {
    let is_of_this_machine =
        |path: &str| path.contains("/capabilities") || path.contains("self_test");
    let is_instrument = |path: &str| path.starts_with("probe-agent/src/instruments/");
    let files = files();
    for file in files.iter().filter(|file| is_instrument(&file.path)) {
        let code = file.text.split("mod tests {").next().unwrap_or_default();
        for clock in ["clock::monotonic()", "clock::since_boot()", "clock::wall()"] {
            let asks = code.contains(clock) && !is_of_this_machine(&file.path);
            assert!(!asks, "{} asks {clock} instead of its root", file.path);
        }
    }
}

#[test]
fn wire_types_have_no_attribute_that_the_wire_cannot_carry() {
    // `view` is for JSON alone.
    let wire = |path: &str| path.starts_with("protocol/src/") && !path.contains("/view/");
    for file in files().iter().filter(|file| wire(&file.path)) {
        for (index, line) in file.text.lines().enumerate() {
            let Some(attribute) = line.trim_start().strip_prefix("#[serde(") else { continue };
            for refused in ["skip_serializing_if", "untagged", "flatten", "tag ="] {
                assert!(
                    !attribute.contains(refused),
                    "{}:{}: postcard cannot carry `{refused}`",
                    file.path,
                    index + 1
                );
            }
        }
    }
}

#[test]
fn work_to_be_done_names_its_issue() {
    let word = concat!("TO", "DO");
    for file in files() {
        for (index, line) in file.text.lines().enumerate() {
            let has_issue = line.contains(&format!("{word}(#"));
            assert!(!line.contains(word) || has_issue, "{}:{}: {line}", file.path, index + 1);
        }
    }
}

#[test]
fn every_instrument_is_complete() {
    let tools = std::fs::read_to_string(crate::shell::root().join("docs/tools.md")).unwrap();
    for id in InstrumentId::ALL {
        let name = id.name();
        for path in [
            format!("protocol/src/instruments/{name}.rs"),
            format!("probe-agent/src/instruments/{name}.rs"),
            format!("controller/src/tools/{name}.rs"),
            format!("fixtures/golden/answers/{name}.txt"),
            format!("fixtures/golden/answers/{name}.json"),
        ] {
            assert!(exists(&path), "{name} lacks {path}");
        }
        assert!(tools.contains(&format!("\n## {name}: ")), "{name} lacks a place in docs/tools.md");
        let is_met = files()
            .iter()
            .filter(|file| file.path.starts_with("scenarios/tests/"))
            .any(|file| file.text.contains(&format!("\"{name}\"")));
        assert!(is_met, "{name} lacks a scenario");
    }
}

#[test]
fn nothing_tells_of_one_machine() {
    const REFUSED: [&str; 4] = ["/work/", "/root/", "index.crates.io-", "registry.npmjs.org"];
    for file in files().iter().filter(|file| !file.path.starts_with("xtask/src/tidy/")) {
        for refused in REFUSED {
            assert!(!file.text.contains(refused), "{} names {refused}", file.path);
        }
        if file.path.ends_with("Cargo.lock") {
            let foreign = file.text.lines().find(|line| {
                line.starts_with("source = ")
                    && !line.contains("registry+https://github.com/rust-lang/crates.io-index")
            });
            assert_eq!(foreign, None, "{}", file.path);
        }
    }
}

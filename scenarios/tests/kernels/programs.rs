//! The agent's own programs on other kernels, whose verifiers and types differ.

use super::{ROOT, booted};

/// Runs the agent's tests of its programs inside: every object loads, its programs find their places,
/// maps give what is in them, and what is counted agrees with `/proc`.
pub fn programs_load_and_count(kernel: &str) {
    let mut guest = booted(kernel);
    let words =
        ["env", "CI=true", "/agent-tests", "--test-threads", "1", "--nocapture", "bpf", "iterator"];
    let outcome = guest.run(ROOT, &words).unwrap();
    println!("{}", outcome.stdout);
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("every_object_loads"), "{}", outcome.stdout);
    // Nothing is left: the processes that loaded them are gone.
    assert_eq!(guest.sh("ls /sys/fs/bpf").unwrap(), "");
}

//! The tests of all crates, built once and run one program after another.
//!
//! `cargo test` for a part of the workspace builds what that part depends on with that part's
//! features: a second build of nearly everything. One build of everything is told apart here.

use crate::shell::{self, cargo};
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The crate whose tests measure, on a machine with few processors: one test at a time.
const SCENARIOS: &str = "scenarios";

/// How cargo is to tell what it builds.
pub const MESSAGES: &str = "json-render-diagnostics";

/// A program of tests.
#[derive(Debug, PartialEq, Eq)]
struct Tests {
    /// The folder of its crate, where cargo would run it.
    folder: PathBuf,
    /// The crate's name.
    package: String,
    /// What it is called: the crate's library or program, or a file of its folder of tests.
    name: String,
    executable: PathBuf,
}

/// All tests, built.
pub struct Suite(Vec<Tests>);

impl Suite {
    /// Builds all programs of the workspace, and all tests.
    pub fn build() -> Result<Self> {
        let mut build = cargo();
        build.args(["test", "--workspace", "--no-run", "--quiet"]);
        build.args(["--message-format", MESSAGES]);
        Self::of(&shell::output(&mut build)?)
    }

    /// What cargo's messages say was built.
    pub fn of(messages: &str) -> Result<Self> {
        let mut suite = Vec::new();
        for line in messages.lines() {
            let message: Value = serde_json::from_str(line)
                .with_context(|| format!("cargo said what is not JSON: {line}"))?;
            suite.extend(tests(&message)?);
        }
        if suite.is_empty() {
            bail!("cargo built no tests");
        }
        Ok(Self(suite))
    }

    /// The program of tests where one alone was built.
    pub fn only_executable(self) -> Result<PathBuf> {
        let [tests] = <[Tests; 1]>::try_from(self.0).map_err(|several| {
            anyhow::anyhow!("cargo built {} programs of tests", several.len())
        })?;
        Ok(tests.executable)
    }

    /// Runs all tests but the scenarios.
    pub fn run_units(&self, prepare: impl Fn(&mut Command)) -> Result<()> {
        let units = self.0.iter().filter(|tests| tests.package != SCENARIOS);
        run(units, &["--quiet"], prepare)
    }

    /// Runs the scenarios, one test at a time. One run tells all that is wrong.
    pub fn run_scenarios(&self, prepare: impl Fn(&mut Command)) -> Result<()> {
        let scenarios = self.0.iter().filter(|tests| tests.package == SCENARIOS);
        run(scenarios, &["--test-threads", "1"], prepare)
    }
}

/// The program of tests that a message tells of, if it does.
fn tests(message: &Value) -> Result<Option<Tests>> {
    let text = |pointer| message.pointer(pointer).and_then(Value::as_str);
    if message.pointer("/profile/test") != Some(&Value::Bool(true)) {
        return Ok(None);
    }
    let Some(executable) = text("/executable") else {
        return Ok(None);
    };
    let manifest = Path::new(text("/manifest_path").context("cargo names no manifest")?);
    let folder = manifest.parent().context("a manifest is in no folder")?;
    let package = folder.file_name().context("a crate has no name")?.to_string_lossy();
    Ok(Some(Tests {
        folder: folder.into(),
        package: package.into_owned(),
        name: text("/target/name").context("cargo names no target")?.into(),
        executable: executable.into(),
    }))
}

/// Runs programs of tests one after another, all of them, and says which failed.
fn run<'a>(
    programs: impl Iterator<Item = &'a Tests>,
    arguments: &[&str],
    prepare: impl Fn(&mut Command),
) -> Result<()> {
    let mut failed = Vec::new();
    for tests in programs {
        let called = format!("{} of {}", tests.name, tests.package);
        println!("-- {called}");
        let mut command = Command::new(&tests.executable);
        command.args(arguments);
        prepare(&mut command);
        if shell::run_in(&tests.folder, &mut command).is_err() {
            failed.push(called);
        }
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_tests_are_told_from_all_else_that_is_built() {
        let messages = [
            r#"{"reason":"compiler-artifact","manifest_path":"/p/protocol/Cargo.toml","target":{"name":"protocol"},"profile":{"test":false},"executable":null}"#,
            r#"{"reason":"compiler-artifact","manifest_path":"/p/controller/Cargo.toml","target":{"name":"sysmcp"},"profile":{"test":false},"executable":"/p/target/debug/sysmcp"}"#,
            r#"{"reason":"compiler-artifact","manifest_path":"/p/scenarios/Cargo.toml","target":{"name":"mcp"},"profile":{"test":true},"executable":"/p/target/debug/deps/mcp-1"}"#,
            r#"{"reason":"build-finished","success":true}"#,
        ];
        let Suite(found) = Suite::of(&messages.join("\n")).unwrap();
        let expected = Tests {
            folder: "/p/scenarios".into(),
            package: "scenarios".into(),
            name: "mcp".into(),
            executable: "/p/target/debug/deps/mcp-1".into(),
        };
        assert_eq!(found, [expected]);
        assert!(Suite::of(messages[3]).is_err());
        assert!(Suite::of("error: no such command").is_err());
    }
}

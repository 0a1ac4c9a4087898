//! Running other programs, and where things are.

use anyhow::{Context as _, Result, bail};
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The project's folder.
pub fn root() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    own.parent().map_or(own.clone(), PathBuf::from)
}

/// Runs a command in the project's folder; fails when it does.
pub fn run(command: &mut Command) -> Result<()> {
    run_in(&root(), command)
}

/// Runs a command in a folder; fails when it does.
pub fn run_in(folder: &Path, command: &mut Command) -> Result<()> {
    let shown = shown(command);
    let status =
        command.current_dir(folder).status().with_context(|| format!("could not run {shown}"))?;
    if !status.success() {
        bail!("{shown} failed: {status}");
    }
    Ok(())
}

/// Runs a command and gives back what it printed; fails when it does.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("could not run {shown}"))?;
    if !output.status.success() {
        bail!("{shown} failed: {}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// cargo, as this very command was started with.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

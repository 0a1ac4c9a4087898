//! The MCP clients that users have, installed for the tests from the public registries: the Python
//! SDK and the Inspector; readers of the profiles that are exported; and another server, to compare with.
//! Nothing of them is part of this project.

use crate::shell;
use anyhow::{Context as _, Result};
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Versions that the tests were written against.
const PYTHON_SDK: &str = "mcp==2.3.0";
/// A server for the same purpose.
const SERVER: &str = "linux-mcp-server==1.7.0";
/// The Inspector needs a newer Node.js than Debian has.
const NODE: [&str; 2] = ["node@22", "@modelcontextprotocol/inspector@2.12.0"];
/// Readers of profiles: speedscope, and the Firefox Profiler's without a window, which needs a newer
/// Node.js again.
const PROFILE_READERS: [&str; 3] =
    ["node@24", "speedscope@1.25.0", "@firefox-devtools/profiler-cli@0.10.0"];

/// Where the clients are.
#[derive(Debug)]
pub struct Peers {
    python: PathBuf,
    node: PathBuf,
    profile_readers: PathBuf,
}

/// Installs what is missing below `target/peers`.
pub fn install() -> Result<Peers> {
    let folder = shell::root().join("target/peers");
    fs::create_dir_all(&folder)?;
    let python = folder.join("python");
    once(&python, PYTHON_SDK, || {
        shell::run(Command::new("python3").args(["-m", "venv"]).arg(&python))?;
        let pip = python.join("bin/pip");
        shell::run(Command::new(pip).args(["install", "--quiet", PYTHON_SDK]))
    })?;
    let node = folder.join("node");
    from_npm(&node, &NODE)?;
    let profile_readers = folder.join("profile-readers");
    from_npm(&profile_readers, &PROFILE_READERS)?;
    Ok(Peers { python, node, profile_readers })
}

/// Installs packages of npm into a folder.
fn from_npm(folder: &Path, packages: &[&str]) -> Result<()> {
    once(folder, &packages.join(" "), || {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("package.json"), "{\"private\":true}")?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]);
        shell::run(npm.arg(folder).args(packages))
    })
}

/// Installs the server that sysmcp is compared with, and gives its program.
pub fn install_server() -> Result<PathBuf> {
    let folder = shell::root().join("target/peers/server");
    once(&folder, SERVER, || {
        shell::run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        let pip = folder.join("bin/pip");
        shell::run(Command::new(pip).args(["install", "--quiet", SERVER]))
    })?;
    Ok(folder.join("bin/linux-mcp-server"))
}

/// Installs into a folder unless this very thing is there already.
fn once(folder: &Path, what: &str, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let stamp = folder.join(".installed");
    if fs::read_to_string(&stamp).is_ok_and(|found| found == what) {
        return Ok(());
    }
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    install().with_context(|| format!("could not install {what}"))?;
    fs::write(&stamp, what)?;
    Ok(())
}

impl Peers {
    /// Tells the tests where they are.
    pub fn variables(&self) -> [(&'static str, OsString); 3] {
        [
            ("SYSMCP_TEST_PYTHON", self.python.join("bin/python").into()),
            ("SYSMCP_TEST_NODE", self.node.join("node_modules/.bin").into()),
            ("SYSMCP_TEST_PROFILE_READERS", self.profile_readers.join("node_modules/.bin").into()),
        ]
    }
}

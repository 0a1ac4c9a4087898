//! Builds the agents that the controller embeds.
//!
//! Static, for both processors, with nothing but the toolchain: no C compiler for the other
//! architecture. Beside each stands its digest, and the wire format that it speaks.

use crate::{
    setup,
    shell::{self, cargo},
};
use anyhow::{Context as _, Result};
use flate2::{Compression, write::GzEncoder};
use protocol::{WIRE_ID, handshake::Sha256};
use sha2::Digest as _;
use std::{
    fs,
    io::Write as _,
    num::NonZeroU64,
    path::{Path, PathBuf},
};

/// The processors, by the first part of their target's name.
const ARCHES: [&str; 2] = ["x86_64", "aarch64"];

/// Builds both agents into `target/agents`.
pub fn build() -> Result<()> {
    build_into("agents", &[], Packing::Smallest)
}

/// Builds agents that misbehave on request, for tests of what is left behind, into
/// `target/faulty-agents`. Never embedded.
pub fn build_faulty() -> Result<()> {
    build_into("faulty-agents", &["fault-injection"], Packing::Quick)
}

fn build_into(folder: &str, features: &[&str], packing: Packing) -> Result<()> {
    let folder = shell::root().join("target").join(folder);
    fs::create_dir_all(&folder)?;
    setup::add_targets(&ARCHES.map(target).each_ref().map(String::as_str))?;
    for (arch, file) in compile(features)? {
        write(&folder, arch, &file, packing)?;
    }
    Ok(())
}

fn target(arch: &str) -> String {
    format!("{arch}-unknown-linux-musl")
}

/// Builds the agent for each processor, and returns where each is. In one call, because the last step
/// of a build keeps a single processor busy for most of its time.
fn compile(features: &[&str]) -> Result<[(&'static str, PathBuf); 2]> {
    let folder = shell::root().join("target");
    let mut build = cargo();
    build
        .args(["build", "--quiet", "--package", "probe-agent", "--profile", "agent"])
        .args(["--features", &features.join(",")])
        .args(["--target-dir", &folder.to_string_lossy()])
        .env("CARGO_ENCODED_RUSTFLAGS", flags()?.join("\u{1f}"));
    for arch in ARCHES {
        build.args(["--target", &target(arch)]);
    }
    shell::run(&mut build)?;
    Ok(ARCHES.map(|arch| (arch, folder.join(target(arch)).join("agent/probe-agent"))))
}

/// Paths of this machine have no place in a file that goes to others; and without them the same
/// sources give the same file.
fn flags() -> Result<Vec<String>> {
    let home = std::env::var("CARGO_HOME")
        .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))
        .context("neither CARGO_HOME nor HOME is set")?;
    Ok(vec![
        format!("--remap-path-prefix={home}=/cargo"),
        format!("--remap-path-prefix={}=/sysmcp", shell::root().display()),
    ])
}

fn write(folder: &Path, arch: &str, file: &Path, packing: Packing) -> Result<()> {
    let bytes = fs::read(file).with_context(|| format!("could not read {}", file.display()))?;
    let sha256 = Sha256(sha2::Sha256::digest(&bytes).into());
    let packed = pack(&bytes, packing)?;
    let manifest = serde_json::json!({
        "arch": arch, "sha256": sha256.to_string(), "bytes": bytes.len(), "wire_id": WIRE_ID,
    });
    write_if_new(&folder.join(format!("{arch}.gz")), &packed)?;
    write_if_new(&folder.join(format!("{arch}.json")), manifest.to_string().as_bytes())?;
    println!("{arch}: {} bytes, {} packed, sha256 {sha256}", bytes.len(), packed.len());
    Ok(())
}

/// How much work packing is worth.
#[derive(Clone, Copy)]
enum Packing {
    /// Seconds, because it is sent over slow links: 3 % smaller, and the same format.
    Smallest,
    /// None: it never leaves this machine.
    Quick,
}

fn pack(bytes: &[u8], packing: Packing) -> Result<Vec<u8>> {
    match packing {
        Packing::Smallest => {
            let rounds = NonZeroU64::new(5).context("no rounds")?;
            let options = zopfli::Options { iteration_count: rounds, ..zopfli::Options::default() };
            let mut packed = Vec::new();
            zopfli::compress(options, zopfli::Format::Gzip, bytes, &mut packed)?;
            Ok(packed)
        }
        Packing::Quick => {
            let mut packer = GzEncoder::new(Vec::new(), Compression::best());
            packer.write_all(bytes)?;
            Ok(packer.finish()?)
        }
    }
}

/// Leaves a file alone that would not change, so that the controller is not built again for it.
fn write_if_new(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).ok().as_deref() != Some(bytes) {
        fs::write(path, bytes).with_context(|| format!("could not write {}", path.display()))?;
    }
    Ok(())
}

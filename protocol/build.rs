//! Computes the identity of the wire format: a digest of this crate's own sources.
//!
//! postcard is positional, so two builds that differ in one field read each other's bytes as
//! garbage without noticing. A digest over the sources changes with every such difference (and
//! with harmless ones too, which costs nothing: both sides come from one build).

use sha2::{Digest, Sha256};
use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=src");
    let mut paths = Vec::new();
    collect(Path::new("src"), &mut paths)?;
    paths.sort();
    let mut digest = Sha256::new();
    for path in &paths {
        digest.update(path.as_bytes());
        digest.update([0]);
        digest.update(fs::read(path)?);
        digest.update([0]);
    }
    let id: String = digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=SYSMCP_WIRE_ID={id}");
    Ok(())
}

fn collect(folder: &Path, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, paths)?;
        } else {
            paths.push(path.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

//! Embeds the agents that `cargo xtask agents` has built.
//!
//! Without them the controller builds all the same, and says at run time how to make them: a
//! developer who works on words and schemas need not cross-compile.

use std::{env, fmt::Write as _, fs, path::Path, path::PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../target/agents");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut table = String::from("pub(super) const EMBEDDED: &[super::Embedded] = &[\n");
    for arch in ["x86_64", "aarch64"] {
        if let Some(entry) = entry(&folder, arch)? {
            table.push_str(&entry);
        }
    }
    table.push_str("];\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("embedded.rs"), table)?;
    Ok(())
}

fn entry(folder: &Path, arch: &str) -> Result<Option<String>, Box<dyn std::error::Error>> {
    let manifest = folder.join(format!("{arch}.json"));
    let packed = folder.join(format!("{arch}.gz"));
    println!("cargo::rerun-if-changed={}", manifest.display());
    println!("cargo::rerun-if-changed={}", packed.display());
    let Ok(manifest) = fs::read_to_string(&manifest) else { return Ok(None) };
    let mut entry = String::new();
    writeln!(
        entry,
        "    super::Embedded {{ manifest: {manifest:?}, packed: include_bytes!({:?}) }},",
        packed.canonicalize()?
    )?;
    Ok(Some(entry))
}

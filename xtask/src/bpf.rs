//! Compiles the agent's eBPF programs anew, for both processors, into the objects that are committed
//! for machines without the compiler.

#[path = "../../probe-agent/bpf/compile.rs"]
mod compile;

use crate::{setup, shell};
use anyhow::{Error, Result};
use compile::Compiler;
use std::fs;

/// Compiles them.
pub fn run() -> Result<()> {
    setup::ensure(&[&setup::FOR_BPF])?;
    let folder = shell::root().join("probe-agent/bpf");
    let compiler = Compiler::find().map_err(Error::msg)?;
    for arch in ["x86_64", "aarch64"] {
        let output = folder.join("prebuilt").join(arch);
        fs::create_dir_all(&output)?;
        for source in compile::sources(&folder).map_err(Error::msg)? {
            let object = output.join(compile::object_name(&source));
            compiler.compile(&source, arch, &object).map_err(Error::msg)?;
            println!("{arch}: {} bytes, {}", fs::metadata(&object)?.len(), object.display());
        }
    }
    fs::write(folder.join("prebuilt/clang"), format!("{}\n", compiler.release()))?;
    Ok(())
}

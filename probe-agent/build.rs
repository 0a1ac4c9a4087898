//! Makes the eBPF objects that the agent brings along: by clang where it is there, else those that are
//! committed are taken.

#[path = "bpf/compile.rs"]
mod compile;

use compile::Compiler;
use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    let folder = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("bpf");
    let output = PathBuf::from(env::var("OUT_DIR")?);
    let arch = env::var("CARGO_CFG_TARGET_ARCH")?;
    let compiler = Compiler::find();
    match &compiler {
        // For whoever asks a build how it was made.
        Ok(compiler) => println!("cargo::metadata=clang={}", compiler.release()),
        Err(why) => println!("cargo::warning=the committed eBPF objects are taken: {why}"),
    }
    for source in compile::sources(&folder)? {
        let name = compile::object_name(&source);
        let object = output.join(&name);
        match &compiler {
            Ok(compiler) => compiler.compile(&source, &arch, &object)?,
            Err(_) => {
                fs::copy(folder.join("prebuilt").join(&arch).join(&name), object)?;
            }
        }
    }
    Ok(())
}

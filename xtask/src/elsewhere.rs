//! Checks the controller's types and lints for the systems that it is not run on here: Windows and
//! macOS.
//!
//! Nothing is linked, so neither a linker nor an SDK is needed. One dependency, ring, compiles C and
//! assembly in its build script all the same; clang does that for every system, and ring's own switch
//! for systems without headers (`RING_CORE_NOSTDLIBINC` in its build.rs) spares it the C library's.

use crate::{
    setup,
    shell::{self, cargo},
};
use anyhow::{Result, bail};
use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::Path,
};

/// The systems.
const TARGETS: [&str; 3] = ["x86_64-pc-windows-gnu", "x86_64-apple-darwin", "aarch64-apple-darwin"];

/// The one header of Apple's that ring asks for, with what it asks it.
const HEADER: (&str, &str) =
    ("TargetConditionals.h", "#define TARGET_OS_OSX 1\n#define TARGET_OS_IPHONE 0\n");

/// For code that asks for no C library.
const FLAGS: &str = "-DRING_CORE_NOSTDLIBINC=1 -ffreestanding -nostdlibinc";

/// Checks all of them.
pub fn run() -> Result<()> {
    setup::ensure(&[&setup::FOR_ELSEWHERE])?;
    let missing = check()?;
    if missing.is_empty() {
        return Ok(());
    }
    bail!("not checked, because their standard library was not fetched: {}", missing.join(", "))
}

/// Checks all of them, and adds those to a list that cannot be checked: whether rustup reaches its
/// server is not the project's doing.
pub fn run_noting(not_run: &Path) -> Result<()> {
    let mut list = OpenOptions::new().append(true).open(not_run)?;
    for target in check()? {
        writeln!(list, "types for {target}: not on this machine: its standard library")?;
    }
    Ok(())
}

/// Gives those that could not be checked.
fn check() -> Result<Vec<&'static str>> {
    let folder = shell::root().join("target/elsewhere");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(HEADER.0), HEADER.1)?;
    let mut missing = Vec::new();
    for target in TARGETS {
        if let Err(error) = setup::add_targets(&[target]) {
            println!("{target} is not checked: {error:#}");
            missing.push(target);
            continue;
        }
        println!("checking for {target}");
        let of = |name: &str| format!("{name}_{}", target.replace('-', "_"));
        let mut check = cargo();
        check.args(["clippy", "--quiet", "--package", "controller", "--target", target]);
        check.args(["--", "--deny", "warnings"]);
        check.env(of("CC"), "clang").env(of("AR"), "ar").env(of("CFLAGS"), FLAGS);
        check.env("CPATH", &folder);
        shell::run(&mut check)?;
    }
    Ok(missing)
}

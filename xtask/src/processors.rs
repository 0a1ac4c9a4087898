//! Programs for other processors, with which hosts of theirs are made: fetched once, and never
//! installed. `scenarios/src/hosts/processors.rs` runs them, in an emulator.

use crate::{
    debian::{Apt, once},
    shell,
};
use anyhow::Result;

/// The processors, as Debian names them.
const PROCESSORS: [&str; 3] = ["arm64", "armhf", "i386"];

/// A release that has all of them.
const RELEASE: &str = "bookworm";

/// A shell and all that the start of a session needs, in one file without libraries.
const PACKAGE: &str = "busybox-static";

/// Puts the programs below `target/processors`.
pub fn prepare() -> Result<()> {
    for arch in PROCESSORS {
        let into = shell::root().join("target/processors").join(arch);
        once(&into, &format!("{PACKAGE} of Debian {RELEASE} for {arch}"), || {
            println!("fetching programs for {arch}");
            Apt::of(&into, RELEASE, arch)?.fetch(PACKAGE, &into)
        })?;
    }
    Ok(())
}

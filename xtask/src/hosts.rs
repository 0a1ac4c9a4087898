//! The hosts of `scenarios/src/hosts.rs`, all of them: what comes of each is written to
//! `docs/targets.md`.

use crate::{
    agents, processors, servers, setup,
    shell::{self, cargo},
};
use anyhow::{Result, bail};

/// Attempts all hosts, or those with a word in their name, and writes their rows.
pub fn run(host: Option<&str>) -> Result<()> {
    if !setup::is_root()? {
        bail!("this needs root: the hosts run in namespaces of their own");
    }
    setup::ensure(&[&setup::FOR_A_TARGET, &setup::FOR_TESTS, &setup::FOR_SERVERS])?;
    agents::build()?;
    servers::prepare()?;
    processors::prepare()?;
    shell::run(cargo().args(["build", "--quiet", "--workspace"]))?;
    let mut tests = cargo();
    tests.args(["test", "--quiet", "--package", "scenarios", "--test", "hosts", "--"]).args(host);
    shell::run(tests.env("SYSMCP_BLESS", "1").env("SYSMCP_TEST_FULL", "1"))?;
    println!("written to docs/targets.md; read the difference with `git diff`");
    Ok(())
}

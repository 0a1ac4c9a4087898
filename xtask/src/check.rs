//! Everything that CI checks, in the order in which it fails fastest.

use crate::{
    accuracy, agents, elsewhere, fuzz, kernels, measure, peers, processors, servers, setup, shell,
    shell::cargo, suite::Suite,
};
use anyhow::{Context as _, Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

/// Runs the checks. With `full`, the slow matrices whole instead of sampled.
pub fn run(full: bool) -> Result<()> {
    let started = Instant::now();
    setup::ensure(&[
        &setup::FOR_A_TARGET,
        &setup::FOR_TESTS,
        &setup::FOR_FUZZING,
        &setup::FOR_ELSEWHERE,
    ])?;
    if full {
        setup::ensure(&[&setup::FOR_KERNELS])?;
    }
    // Nobody else can start one.
    let has_servers = setup::is_root()?;
    if has_servers {
        setup::ensure(&[&setup::FOR_SERVERS])?;
    }
    let not_run = fresh_list()?;
    step("format", || shell::run(cargo().args(["fmt", "--all", "--check"])))?;
    step("agents", || {
        agents::build()?;
        agents::build_faulty()
    })?;
    step("lints", || {
        shell::run(
            cargo()
                .args(["clippy", "--workspace", "--all-targets", "--all-features", "--quiet"])
                .args(["--", "--deny", "warnings"]),
        )
    })?;
    step("the controller's types on other systems", || elsewhere::run_noting(&not_run))?;
    let suite = step("build", Suite::build)?;
    step("unit tests", || {
        suite.run_units(|tests| {
            tests.env("SYSMCP_TEST_NOT_RUN", &not_run);
        })
    })?;
    let peers = step("the clients that users have", peers::install)?;
    if has_servers {
        step("the SSH servers of other releases", servers::prepare)?;
        step("programs for other processors", processors::prepare)?;
        if full {
            step("programs beside perf", || {
                setup::ensure(&[&setup::FOR_ACCURACY])?;
                accuracy::prepare()
            })?;
        }
    }
    step("scenarios", || {
        suite.run_scenarios(|tests| {
            tests.env("SYSMCP_TEST_NOT_RUN", &not_run).envs(peers.variables());
            if full {
                tests.env("SYSMCP_TEST_FULL", "1");
            }
        })
    })?;
    if full {
        step("the kill matrix, again and again", || kill_matrix(&not_run))?;
        step("other kernels", || kernels::run(None, None))?;
    }
    let seconds = if full { 600 } else { 15 };
    step("fuzzing", || fuzz::run(None, seconds))?;
    if full {
        step("measurements", measure::run)?;
    }
    report(&not_run)?;
    if !full {
        println!("only with --full: other kernels, the kill matrix again and again, measurements");
    }
    println!("all checks passed in {} s", started.elapsed().as_secs());
    Ok(())
}

/// What ends a session comes at another moment each time.
fn kill_matrix(not_run: &Path) -> Result<()> {
    for _ in 0..20 {
        let mut tests = cargo();
        tests.args(["test", "--package", "scenarios", "--test", "kill_matrix", "--"]);
        tests.args(["--test-threads", "1"]).env("SYSMCP_TEST_NOT_RUN", not_run);
        shell::run(&mut tests)?;
    }
    Ok(())
}

fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    println!("== {name}");
    let started = Instant::now();
    let result = work().with_context(|| format!("the check `{name}` failed"))?;
    println!("== {name}: {} s", started.elapsed().as_secs());
    Ok(result)
}

/// A list that tests add to when they cannot run.
fn fresh_list() -> Result<PathBuf> {
    let path = shell::root().join("target/not-run");
    fs::create_dir_all(shell::root().join("target"))?;
    fs::write(&path, "")?;
    Ok(path)
}

/// Shows what did not run. Root can have whatever is needed, so for root that is a failure; what a
/// machine does not have is shown.
fn report(not_run: &PathBuf) -> Result<()> {
    let list = fs::read_to_string(not_run)?;
    if list.is_empty() {
        return Ok(());
    }
    println!("== not run\n{list}");
    if setup::is_root()? && list.lines().any(|line| line.contains(": needs ")) {
        bail!("some checks did not run, although they could have");
    }
    Ok(())
}

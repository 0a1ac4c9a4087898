//! Fuzzing of what reads foreign bytes, guided by coverage, on the project's own toolchain.

use crate::{setup, shell, shell::cargo};
use anyhow::{Result, bail};
use std::{fs, path::Path, process::Command};

/// The crates with targets, and their targets.
const TARGETS: [(&str, &[&str]); 2] =
    [("protocol/fuzz", &["frames", "handshake", "text"]), ("probe-agent/fuzz", &["kernel_files"])];

/// What makes a build tell libFuzzer where it has been. All of them flags of the stable compiler.
const FLAGS: [&str; 8] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "-Coverflow-checks=on",
];

/// Files of this machine that the parsers' target starts from: real ones are further in than noise.
const SEEDS: [&str; 19] = [
    "/etc/passwd",
    "/proc/diskstats",
    "/proc/meminfo",
    "/proc/net/dev",
    "/proc/net/netstat",
    "/proc/net/snmp",
    "/proc/net/sockstat",
    "/proc/pressure/cpu",
    "/proc/self/cgroup",
    "/proc/self/io",
    "/proc/self/limits",
    "/proc/self/mountinfo",
    "/proc/self/schedstat",
    "/proc/self/stat",
    "/proc/self/status",
    "/proc/self/syscall",
    "/proc/stat",
    "/proc/vmstat",
    "/sys/fs/cgroup/memory.stat",
];

/// Runs every target, or the one that is named, for so many seconds.
pub fn run(only: Option<&str>, seconds: u64) -> Result<()> {
    setup::ensure(&[&setup::FOR_FUZZING])?;
    let mut ran = 0;
    for (folder, targets) in TARGETS {
        for target in targets.iter().filter(|target| only.is_none_or(|only| only == **target)) {
            fuzz(Path::new(folder), target, seconds)?;
            ran += 1;
        }
    }
    if ran == 0 {
        bail!("no target is called {}", only.unwrap_or_default());
    }
    Ok(())
}

fn fuzz(folder: &Path, target: &str, seconds: u64) -> Result<()> {
    println!("== {target}: {seconds} s");
    let built = shell::root().join("target/fuzz");
    let arch = std::env::consts::ARCH;
    let triple = format!("{arch}-unknown-linux-gnu");
    let mut build = cargo();
    build
        .args(["build", "--quiet", "--release", "--target", &triple, "--bin", target])
        .arg("--manifest-path")
        .arg(shell::root().join(folder).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&built)
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"));
    shell::run(&mut build)?;
    let corpus = built.join("corpus").join(target);
    let findings = built.join("findings").join(target);
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&findings)?;
    if target == "kernel_files" {
        for seed in SEEDS {
            // A machine that lacks one has the others.
            if let Ok(bytes) = fs::read(seed) {
                fs::write(corpus.join(seed.replace('/', "_")), bytes)?;
            }
        }
    }
    let mut run = Command::new(built.join(triple).join("release").join(target));
    run.arg(format!("-max_total_time={seconds}"))
        .args([
            "-verbosity=0",
            "-print_final_stats=1",
            "-max_len=20000",
            "-timeout=10",
            "-rss_limit_mb=1024",
        ])
        .arg(format!("-artifact_prefix={}/", findings.display()))
        .arg(&corpus);
    shell::run(&mut run)
}

//! Fuzzing of what reads foreign bytes, guided by coverage, on the project's own toolchain.

use crate::{setup, shell, shell::cargo};
use anyhow::{Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The target with the readers of kernel files.
const KERNEL_FILES: &str = "kernel_files";

/// Its source, in its crate.
const READERS: &str = "targets/kernel_files.rs";

/// The crates with targets, and their targets.
const TARGETS: [(&str, &[&str]); 2] = [
    ("protocol/fuzz", &["frames", "handshake", "text"]),
    ("probe-agent/fuzz", &[KERNEL_FILES, "perf_records", "tracers"]),
];

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

/// Runs every target, or the one that is named, for so many seconds, as many at a time as there are
/// processors.
pub fn run(only: Option<&str>, seconds: u64) -> Result<()> {
    setup::ensure(&[&setup::FOR_FUZZING])?;
    let mut runs = Vec::new();
    for (folder, targets) in TARGETS {
        for target in targets.iter().filter(|target| only.is_none_or(|only| only == **target)) {
            let program = build(Path::new(folder), target)?;
            runs.push((*target, Corpus::of(target)?.run(&program, seconds)));
        }
    }
    if runs.is_empty() {
        bail!("no target is called {}", only.unwrap_or_default());
    }
    side_by_side(runs, processors()?, seconds)
}

/// Runs the parsers' target for so many seconds on each reader by itself, so many at a time, or as
/// many as there are processors.
pub fn each_reader(seconds: u64, jobs: Option<usize>) -> Result<()> {
    setup::ensure(&[&setup::FOR_FUZZING])?;
    let folder = Path::new("probe-agent/fuzz");
    let program = build(folder, KERNEL_FILES)?;
    let source = fs::read_to_string(shell::root().join(folder).join(READERS))?;
    let runs = readers(&source).into_iter().map(|name| {
        let corpus = Corpus::of(&format!("{KERNEL_FILES}.{name}"))?;
        let mut run = corpus.run(&program, seconds);
        run.env("SYSMCP_FUZZ_READER", name);
        Ok((name, run))
    });
    let at_a_time = jobs.map_or_else(processors, Ok)?;
    side_by_side(runs.collect::<Result<Vec<_>>>()?, at_a_time, seconds)
}

fn processors() -> Result<usize> {
    Ok(std::thread::available_parallelism()?.get())
}

/// Runs all, so many at a time, and says how far each came; fails when one found a fault.
fn side_by_side(mut runs: Vec<(&str, Command)>, at_a_time: usize, seconds: u64) -> Result<()> {
    for runs in runs.chunks_mut(at_a_time.max(1)) {
        let started =
            runs.iter_mut().map(|(name, run)| Ok((*name, run.stderr(Stdio::piped()).spawn()?)));
        for (name, process) in started.collect::<Result<Vec<_>>>()? {
            let output = process.wait_with_output()?;
            let said = String::from_utf8_lossy(&output.stderr);
            if !output.status.success() {
                bail!("{name}: {}\n{said}", output.status);
            }
            let inputs = said.lines().find_map(|line| {
                line.strip_prefix("stat::number_of_executed_units:").map(str::trim)
            });
            println!("{name}: {} inputs in {seconds} s", inputs.unwrap_or("an unknown number of"));
        }
    }
    Ok(())
}

/// The names of the readers in the target's source.
fn readers(source: &str) -> Vec<&str> {
    let after = source.lines().filter_map(|line| line.strip_prefix("    (\""));
    after.filter_map(|rest| rest.split('"').next()).collect()
}

/// Builds a target and returns its path.
fn build(folder: &Path, target: &str) -> Result<PathBuf> {
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
    Ok(built.join(triple).join("release").join(target))
}

/// Where inputs that led somewhere new are kept, and those that led to a fault.
struct Corpus {
    inputs: PathBuf,
    findings: PathBuf,
}

impl Corpus {
    /// Makes the folders, and begins those of the parsers with real files.
    fn of(name: &str) -> Result<Self> {
        let built = shell::root().join("target/fuzz");
        let corpus = Self {
            inputs: built.join("corpus").join(name),
            findings: built.join("findings").join(name),
        };
        fs::create_dir_all(&corpus.inputs)?;
        fs::create_dir_all(&corpus.findings)?;
        if name.starts_with(KERNEL_FILES) {
            for seed in SEEDS {
                // A machine that lacks one has the others.
                if let Ok(bytes) = fs::read(seed) {
                    fs::write(corpus.inputs.join(seed.replace('/', "_")), bytes)?;
                }
            }
        }
        Ok(corpus)
    }

    /// The command that fuzzes from here.
    fn run(&self, program: &Path, seconds: u64) -> Command {
        let mut run = Command::new(program);
        run.arg(format!("-max_total_time={seconds}"))
            .args([
                "-verbosity=0",
                "-print_final_stats=1",
                "-max_len=20000",
                "-timeout=10",
                "-rss_limit_mb=1024",
            ])
            .arg(format!("-artifact_prefix={}/", self.findings.display()))
            .arg(&self.inputs);
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The functions of a source file that read a text: those outside of any block that take bytes.
    fn parsers(source: &str) -> Vec<&str> {
        let functions = source.split("\npub fn ").skip(1);
        let takes_bytes = |function: &&str| {
            let signature = function.split('{').next().unwrap();
            signature.contains("text: &") || signature.contains("bytes: &")
        };
        functions
            .filter(takes_bytes)
            .map(|function| function.split(['(', '<']).next().unwrap())
            .collect()
    }

    #[test]
    fn every_reader_of_a_kernel_file_is_fuzzed() {
        let folder = shell::root().join("probe-agent");
        let fuzzed = fs::read_to_string(folder.join("fuzz").join(READERS)).unwrap();
        let mut found = 0;
        for entry in fs::read_dir(folder.join("src/proc")).unwrap() {
            let path = entry.unwrap().path();
            let module = path.file_stem().unwrap().to_str().unwrap();
            // What the readers are made of is fuzzed with each of them.
            if path.is_dir() || module == "parse" {
                continue;
            }
            assert!(path.is_file());
            for function in parsers(&fs::read_to_string(&path).unwrap()) {
                let call = format!("{module}::{function}(");
                assert!(fuzzed.contains(&call), "{call} is not in {READERS}");
                found += 1;
            }
        }
        assert!(found > 20, "{found}");
    }
}

//! Debian's kernels, and what a guest needs to boot one: fetched once, and never installed.

mod initramfs;

use crate::{
    agents,
    debian::{Apt, once},
    setup,
    shell::{self, cargo},
    suite::{self, Suite},
};
use anyhow::{Context as _, Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A kernel: the first two numbers of its version, and the release of Debian that has it.
const KERNELS: [(&str, &str); 2] = [("6.1", "bookworm"), ("6.12", "trixie")];

/// The package that depends on the newest kernel of a release, in its flavour for clouds: the
/// smallest.
const NEWEST: &str = "linux-image-cloud-amd64";

/// The programs in a guest, and the release they are from.
const PROGRAMS: [&str; 3] = ["busybox-static", "dropbear-bin", "libcap2-bin"];
const PROGRAMS_FROM: &str = "bookworm";

/// What is fetched here is for this processor, which QEMU imitates wherever it runs.
const ARCH: &str = "amd64";
const TARGET: &str = "x86_64-unknown-linux-musl";

/// Runs the checks on every kernel, or on one; or only one check.
pub fn run(kernel: Option<&str>, check: Option<&str>) -> Result<()> {
    let wanted: Vec<_> = KERNELS
        .into_iter()
        .filter(|(name, _)| kernel.is_none_or(|kernel| kernel == *name))
        .collect();
    if wanted.is_empty() {
        let names = KERNELS.map(|(name, _)| name).join(", ");
        bail!("there is no kernel `{}`; there are {names}", kernel.unwrap_or_default());
    }
    setup::ensure(&[&setup::FOR_A_TARGET, &setup::FOR_KERNELS])?;
    agents::build()?;
    shell::run(cargo().args(["build", "--quiet", "--workspace"]))?;
    let check = check.unwrap_or_default();
    let start = |name: &str| format!("{}::{check}", module_of(name));
    let there = shell::output(tests().args(["--ignored", "--list", "--format", "terse"]))?;
    for (name, _) in &wanted {
        if !there.lines().any(|line| line.starts_with(&start(name))) {
            bail!("no check on Linux {name} begins with `{check}`; there are\n{there}");
        }
    }
    prepare(&wanted)?;
    // One at a time: they measure, on a machine with few processors.
    let mut tests = tests();
    tests.args(["--ignored", "--nocapture", "--test-threads", "1"]);
    shell::run(tests.args(wanted.iter().map(|(name, _)| start(name))))
}

/// The checks, as a program to which arguments may be added.
fn tests() -> Command {
    let mut tests = cargo();
    tests.args(["test", "--package", "scenarios", "--test", "kernels", "--"]);
    tests
}

/// The module with a kernel's checks.
fn module_of(kernel: &str) -> String {
    format!("linux_{}", kernel.replace('.', "_"))
}

/// Puts kernels, and their first file systems with the agent of now, below `target/kernels`.
fn prepare(kernels: &[(&str, &str)]) -> Result<()> {
    let folder = shell::root().join("target/kernels");
    let programs = folder.join("programs");
    once(&programs, &PROGRAMS.join(" "), || {
        let apt = Apt::of(&folder, PROGRAMS_FROM, ARCH)?;
        apt.fetch_with_dependencies(&PROGRAMS, &programs)
    })?;
    let agent = unpacked_agent()?;
    let (init, agent_tests) = (init()?, agent_tests()?);
    for (name, release) in kernels {
        let kernel = folder.join(name);
        once(&kernel, &format!("{NEWEST} of {release}"), || {
            let apt = Apt::of(&folder, release, ARCH)?;
            let package = newest_kernel(&apt)?;
            if !package.starts_with(&format!("linux-image-{name}.")) {
                bail!("the kernel of Debian {release} is {package}, not Linux {name}");
            }
            println!("fetching {package} of Debian {release}");
            apt.fetch(&package, &kernel)
        })?;
        let files = kernel.join("files");
        let image = one_file(&files.join("boot"), "vmlinuz-")?;
        fs::copy(image, kernel.join("vmlinuz"))?;
        let image = initramfs::pack(
            &programs.join("files"),
            &files,
            &[("probe-agent", &agent), ("scenarios", &init), ("agent-tests", &agent_tests)],
        )?;
        fs::write(kernel.join("initramfs"), image)?;
    }
    Ok(())
}

/// The agent that a controller would push.
fn unpacked_agent() -> Result<Vec<u8>> {
    let path = shell::root().join("target/agents/x86_64.gz");
    let packed = fs::read(&path).with_context(|| format!("could not read {}", path.display()))?;
    let mut agent = Vec::new();
    std::io::copy(&mut flate2::read::GzDecoder::new(packed.as_slice()), &mut agent)?;
    Ok(agent)
}

/// The guest's first process: the program of the scenarios, static.
fn init() -> Result<Vec<u8>> {
    shell::run(cargo().args(["build", "--quiet", "--package", "scenarios", "--target", TARGET]))?;
    let path = shell::root().join("target").join(TARGET).join("debug/scenarios");
    fs::read(&path).with_context(|| format!("could not read {}", path.display()))
}

/// The agent's own tests, static: those of its programs run inside too.
fn agent_tests() -> Result<Vec<u8>> {
    let mut build = cargo();
    build
        .args(["test", "--quiet", "--no-run", "--package", "probe-agent", "--lib"])
        .args(["--target", TARGET, "--message-format", suite::MESSAGES])
        // What is for debuggers is no use in a guest, and as large as all else.
        .env("CARGO_PROFILE_DEV_STRIP", "symbols");
    let path = Suite::of(&shell::output(&mut build)?)?.only_executable()?;
    fs::read(&path).with_context(|| format!("could not read {}", path.display()))
}

/// The package with the newest kernel of a release.
fn newest_kernel(apt: &Apt) -> Result<String> {
    let shown =
        shell::output(apt.command("apt-cache").args(["show", "--no-all-versions", NEWEST]))?;
    let depends = shown.lines().find_map(|line| line.strip_prefix("Depends: "));
    let package = depends.and_then(|depends| depends.split_whitespace().next());
    package.map(str::to_owned).with_context(|| format!("{NEWEST} depends on nothing"))
}

/// The one file in a folder whose name begins so.
fn one_file(folder: &Path, start: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start)))
        .with_context(|| format!("no {start}* in {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_its_checks_and_its_golden() {
        let path = shell::root().join("scenarios/tests/kernels.rs");
        let tests = fs::read_to_string(path).unwrap();
        for (name, _) in KERNELS {
            let line = format!("checks! {{ @on {} \"{name}\"", module_of(name));
            assert!(tests.contains(&line), "scenarios/tests/kernels.rs lacks `{line}`");
            let golden = format!("fixtures/golden/kernels/{name}.txt");
            assert!(shell::root().join(&golden).exists(), "there is no {golden}");
        }
    }
}

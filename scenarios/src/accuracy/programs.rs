//! The programs that both look at.

use super::{
    comparison::{Known, Measure},
    workload::{Running, build_c, compile, source, start, start_in_container, wait_for_file},
};
use anyhow::{Context as _, Result, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// What it is, as the page calls it. It is the name of the check too.
    pub name: &'static str,
    /// How it is built and run.
    pub how: &'static str,
    /// Whether every run looks at it, and not only a full one.
    pub in_sample: bool,
    /// Programs of which one is not there on every machine, and the packages that bring them.
    pub needs: &'static [(&'static str, &'static str)],
    /// Whether it runs in the files of a release that `cargo xtask accuracy` fetches.
    pub needs_release: bool,
    /// What is compared.
    pub measure: Measure,
    /// Differences whose reason is known.
    pub known: &'static [Known],
    /// Builds it in a folder and starts it.
    pub start: fn(&Path) -> Result<Running>,
}

const PLAIN: Program = Program {
    name: "",
    how: "",
    in_sample: false,
    needs: &[("gcc", "gcc")],
    needs_release: false,
    measure: Measure::Own,
    known: &[],
    start: c,
};

/// All of them, in the order of the page.
pub const PROGRAMS: &[Program] = &[
    Program {
        name: "C without frame pointers",
        how: "`shares.c`, `gcc -O2 -fomit-frame-pointer`",
        in_sample: true,
        ..PLAIN
    },
    Program {
        name: "C++",
        how: "`shares.cpp`, `g++ -O2`",
        needs: &[("g++", "g++")],
        start: cpp,
        ..PLAIN
    },
    Program {
        name: "Rust",
        how: "`shares.rs`, `rustc -O`",
        needs: &[("rustc", "rustc")],
        start: rust,
        ..PLAIN
    },
    Program {
        name: "Go",
        how: "`shares.go`, `go build -ldflags=-w`",
        needs: &[("go", "golang-go")],
        start: go,
        ..PLAIN
    },
    Program {
        name: "Python with its perf trampoline, in a container",
        how: "`shares.py`, `python3 -X perf` of Debian trixie, whose files are its root. All time is in \
              the interpreter, so that shares are of functions with what they call",
        needs: &[],
        needs_release: true,
        measure: Measure::TotalOf("py::"),
        start: python,
        ..PLAIN
    },
    Program {
        name: "Node.js",
        how: "`shares.js`, `node --perf-basic-prof --interpreted-frames-native-stack --no-turbo-inlining`",
        needs: &[("node", "nodejs")],
        start: node,
        ..PLAIN
    },
    Program {
        name: "Java",
        how: "`Shares.java`, `java -XX:+PreserveFramePointer`, and `jcmd PID Compiler.perfmap` once it \
              was compiled",
        needs: &[("javac", "default-jdk-headless"), ("jcmd", "default-jdk-headless")],
        start: java,
        ..PLAIN
    },
    Program {
        name: "A loop that is in the kernel",
        how: "`shares.c kernel`: reads, opens, pipes and small calls",
        start: kernel,
        ..PLAIN
    },
    Program {
        name: "A parent and its children",
        how: "`shares.c family`: children are born all the time and live for a tenth of a second",
        in_sample: true,
        start: family,
        ..PLAIN
    },
    Program {
        name: "Children that are other programs",
        how: "a shell that starts `gzip` again and again; its file has no names, so that all of it is one",
        needs: &[("gzip", "gzip")],
        start: compressors,
        ..PLAIN
    },
    Program {
        name: "A container with its own root",
        how: "`shares.c` on files in memory that only its mount namespace has, with the C library of \
              Debian trixie, beside which the host has another at the same path",
        needs_release: true,
        start: container,
        ..PLAIN
    },
    Program {
        name: "A program whose file was deleted",
        how: "`shares.c`; perf finds no names, so that it was given a copy of the file where it looks for \
              it, after it had recorded",
        in_sample: true,
        start: deleted,
        ..PLAIN
    },
];

impl Program {
    /// What is missing here to run it: programs with the package of each, or none.
    pub fn missing(&self) -> Vec<String> {
        let perf = ("perf", "linux-perf");
        let programs = self.needs.iter().chain([&perf]);
        let mut missing: Vec<String> = programs
            .filter(|(program, _)| !is_there(program))
            .map(|(program, package)| format!("{program} (package {package})"))
            .collect();
        if self.needs_release && !release().join("usr/bin/python3").exists() {
            missing.push("the files that `cargo xtask accuracy` fetches".to_owned());
        }
        missing
    }
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Where the files of another release of Debian are.
fn release() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/accuracy/trixie/files")
}

fn c(folder: &Path) -> Result<Running> {
    start(&mut Command::new(build_c(folder)?))
}

fn kernel(folder: &Path) -> Result<Running> {
    start(Command::new(build_c(folder)?).arg("kernel"))
}

fn family(folder: &Path) -> Result<Running> {
    start(Command::new(build_c(folder)?).arg("family"))
}

fn cpp(folder: &Path) -> Result<Running> {
    let source = source("shares.cpp").display().to_string();
    let options = ["g++", "-std=c++17", "-O2", "-fomit-frame-pointer", "-o", "shares-cpp", &source];
    compile(folder, &options)?;
    start(&mut Command::new(folder.join("shares-cpp")))
}

fn rust(folder: &Path) -> Result<Running> {
    let source = source("shares.rs").display().to_string();
    // Without tables for debuggers neither of both knows what was inlined.
    let options =
        ["rustc", "--edition=2024", "-O", "-Cstrip=debuginfo", "-o", "shares-rust", &source];
    compile(folder, &options)?;
    start(&mut Command::new(folder.join("shares-rust")))
}

fn go(folder: &Path) -> Result<Running> {
    let source = source("shares.go").display().to_string();
    compile(folder, &["go", "build", "-ldflags=-w", "-o", "shares-go", &source])?;
    start(&mut Command::new(folder.join("shares-go")))
}

fn python(folder: &Path) -> Result<Running> {
    fs::copy(source("shares.py"), folder.join("shares.py"))?;
    start_in_container(&release(), folder, "/usr/bin/python3 -X perf /mnt/shares.py")
}

fn node(folder: &Path) -> Result<Running> {
    let mut node = Command::new("node");
    node.args(["--perf-basic-prof", "--interpreted-frames-native-stack", "--no-turbo-inlining"]);
    start(node.arg(source("shares.js")).current_dir(folder))
}

fn java(folder: &Path) -> Result<Running> {
    let source = source("Shares.java").display().to_string();
    compile(folder, &["javac", "-d", ".", &source])?;
    let mut java = Command::new("java");
    java.args(["-XX:+PreserveFramePointer", "-XX:+UseSerialGC"]);
    java.args(["-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Shares*::*", "Shares"]);
    let running = start(java.current_dir(folder))?;
    let pid = running.pid.to_string();
    compile(folder, &["jcmd", &pid, "Compiler.perfmap"])?;
    wait_for_file(Path::new(&format!("/tmp/perf-{pid}.map")))?;
    Ok(running)
}

fn compressors(folder: &Path) -> Result<Running> {
    // Text that takes a tenth of a second.
    let lines: String =
        (0..40_000_u32).map(|at| format!("{at} {}\n", at.wrapping_mul(at))).collect();
    fs::write(folder.join("text"), lines)?;
    let script = "echo ready; while :; do gzip -6 -c text > /dev/null; done";
    start(Command::new("sh").args(["-c", script]).current_dir(folder))
}

fn container(folder: &Path) -> Result<Running> {
    build_c(folder)?;
    start_in_container(
        &release(),
        folder,
        "sh -c 'cp /mnt/shares-c /tmp/inside && umount -l /mnt && exec /tmp/inside'",
    )
}

fn deleted(folder: &Path) -> Result<Running> {
    let built = build_c(folder)?;
    let copy = folder.join("copy");
    fs::copy(&built, &copy)?;
    let mut running = start(&mut Command::new(&built))?;
    fs::remove_file(&built)?;
    running.deleted = Some((copy, folder.join("shares-c (deleted)")));
    Ok(running)
}

/// The version of perf, as it says it.
///
/// # Errors
///
/// When it cannot be run.
pub fn perf_version() -> Result<String> {
    let output = Command::new("perf").arg("--version").stdin(Stdio::null()).output();
    let output = output.context("could not run perf (package linux-perf)")?;
    ensure!(output.status.success(), "perf --version failed: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

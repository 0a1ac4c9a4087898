//! The other profiler: `perf record --call-graph dwarf`, read from what `perf script` prints.

use super::table::{Name, Shares, Table, shown};
use anyhow::{Context as _, Result, bail, ensure};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// Functions in which a thread begins: a stack that ends in one is whole.
const OUTERMOST: [&str; 12] = [
    "_start",
    "_dl_start_user",
    "clone",
    "__clone",
    "clone3",
    "__clone3",
    "__GI___clone3",
    "ret_from_fork_asm",
    "runtime.goexit",
    "runtime.goexit.abi0",
    "runtime.rt0_go.abi0",
    "_rt0_amd64_linux",
];

/// A recording that perf makes.
#[derive(Debug)]
pub struct Recording {
    perf: Child,
    folder: PathBuf,
}

/// The event that both count: cycles where the machine shows a counter for them, as the agent does.
pub fn event() -> &'static str {
    let has_counter = ["cpu", "cpu_core", "armv8_pmuv3_0"]
        .iter()
        .any(|name| Path::new("/sys/bus/event_source/devices").join(name).exists());
    if has_counter { "cycles" } else { "cpu-clock" }
}

impl Recording {
    /// Starts to record a process. What perf keeps of the files that it meets is kept in a folder of ours.
    ///
    /// # Errors
    ///
    /// When perf cannot be started.
    pub fn start(folder: &Path, pid: u32, window: Duration, hertz: u32) -> Result<Self> {
        let mut command = perf(folder);
        command.args(["record", "-q", "-e", event(), "--call-graph", "dwarf,8192"]);
        command.args(["-F", &hertz.to_string(), "-p", &pid.to_string(), "-o"]);
        command.arg(folder.join("perf.data")).arg("--");
        command.args(["sleep", &window.as_secs_f64().to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let perf = command.spawn().context("could not run perf (package linux-perf)")?;
        Ok(Self { perf, folder: folder.to_owned() })
    }

    /// Waits until it is done.
    ///
    /// # Errors
    ///
    /// When perf fails.
    pub fn wait(self) -> Result<Done> {
        let output = self.perf.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "perf record failed: {}: {said}", output.status);
        Ok(Done { folder: self.folder })
    }
}

/// A recording that is made. It is read while the process is still there, because perf opens files of
/// another mount namespace through it.
#[derive(Debug)]
pub struct Done {
    folder: PathBuf,
}

impl Done {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// When perf fails, or prints what is not understood.
    pub fn table(&self) -> Result<Table> {
        let mut command = perf(&self.folder);
        // Without names of threads, which can look like anything.
        command.args(["script", "--no-inline", "--no-demangle", "-F", "pid,tid,ip,sym,dso", "-i"]);
        let output = command.arg(self.folder.join("perf.data")).stdin(Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "perf script failed: {}: {said}", output.status);
        parse(&String::from_utf8_lossy(&output.stdout))
    }
}

fn perf(folder: &Path) -> Command {
    let mut command = Command::new("perf");
    // Neither the user's configuration nor the user's cache.
    command.env("PERF_CONFIG", "/dev/null").env("PERF_BUILDID_DIR", folder.join("build-ids"));
    command
}

/// What was counted of a function.
#[derive(Default)]
struct Count {
    own: u64,
    total: u64,
}

/// Reads what `perf script -F pid,tid,ip,sym,dso` prints: for each sample a line without a tab in front,
/// its frames with one, the innermost first, and an empty line.
fn parse(text: &str) -> Result<Table> {
    let mut counts: BTreeMap<Name, Count> = BTreeMap::new();
    let (mut samples, mut complete, mut unnamed) = (0, 0, 0);
    for sample in text.split("\n\n").filter(|sample| !sample.trim().is_empty()) {
        let frames: Vec<Frame<'_>> = sample
            .lines()
            .filter(|line| line.starts_with('\t'))
            .map(frame)
            .collect::<Result<_>>()?;
        if sample.trim_start_matches('\n').starts_with('\t') {
            bail!("frames that belong to no sample: {:?}", sample.lines().next());
        }
        samples += 1;
        complete +=
            u64::from(frames.last().is_some_and(|frame| OUTERMOST.contains(&frame.plain())));
        let names: Vec<Name> = frames.iter().map(Frame::name).collect();
        let innermost = names.first().cloned().unwrap_or_else(|| Name::unnamed("[unknown]"));
        unnamed += u64::from(frames.first().is_none_or(|frame| frame.symbol.is_none()));
        counts.entry(innermost).or_default().own += 1;
        for name in names.into_iter().collect::<BTreeSet<_>>() {
            counts.entry(name).or_default().total += 1;
        }
    }
    ensure!(samples > 0, "perf script shows no sample");
    let pct = |part: u64| 100.0 * float(part) / float(samples);
    let functions = counts.into_iter().map(|(name, count)| {
        (name, Shares { own_pct: pct(count.own), total_pct: pct(count.total) })
    });
    Ok(Table {
        samples,
        functions: functions.collect(),
        complete_pct: pct(complete),
        unnamed_pct: pct(unnamed),
    })
}

fn float(number: u64) -> f64 {
    u32::try_from(number).map_or(f64::from(u32::MAX), f64::from)
}

/// A line of a stack.
struct Frame<'t> {
    symbol: Option<&'t str>,
    file: &'t str,
}

impl Frame<'_> {
    fn name(&self) -> Name {
        match self.symbol {
            None => Name::unnamed(self.file),
            Some(symbol) if self.file.starts_with("[kernel") || self.file.starts_with("[guest") => {
                Name::kernel(symbol)
            }
            Some(symbol) => Name::user(&shown(symbol)),
        }
    }

    /// Its symbol without a version.
    fn plain(&self) -> &str {
        self.symbol.and_then(|symbol| symbol.split('@').next()).unwrap_or_default()
    }
}

/// `7f3a1594 a name (a file)`, where the name and the file may have spaces and parentheses.
fn frame(line: &str) -> Result<Frame<'_>> {
    let read = || {
        let (_, rest) = line.trim_start().split_once(' ')?;
        let rest = rest.trim_end().strip_suffix(')')?;
        let whole = rest.strip_suffix(" (deleted)").unwrap_or(rest);
        // A file begins with a slash or a bracket, and may have parentheses of its own.
        let at = [" (/", " (["].iter().filter_map(|start| whole.rfind(start)).max();
        let (symbol, file) = match at.or_else(|| whole.rfind(" (")) {
            Some(at) => (whole.get(..at)?, whole.get(at + 2..)?),
            None => ("", whole.strip_prefix('(')?),
        };
        Some(Frame { symbol: Some(symbol).filter(|it| !it.is_empty() && *it != "[unknown]"), file })
    };
    read().with_context(|| format!("perf script shows what is no frame: {line:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "\
 4711/4711 
\t            1594 share_30 (/tmp/a/c)
\t            1364 main (/tmp/a/c)
\t           27304 __libc_start_main@@GLIBC_2.34 (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t            1420 _start (/tmp/a/c)

 4711/4712 
\tffffffff81e00000 do_syscall_64 ([kernel.kallsyms])
\t           1594 [unknown] (/tmp/a b (v2)/c (deleted))

 4711/4711 
\t    7fe55c0d8d26 void Shares.share_30(long, java.lang.Object) ([JIT] tid 4711)
\t    7fe55c0d8d27 void Shares.share_30(long, java.lang.Object) ([JIT] tid 4711)
\t    7fe55c0d8d28 [unknown] ([unknown])

 4711/4711 
\t    55d0c3a0 _ZN5Store3putEiRKSs (/tmp/a/cpp)

";

    #[test]
    fn stacks_are_read_as_perf_prints_them() {
        let table = parse(PRINTED).unwrap();
        let shares = |own_pct, total_pct| Shares { own_pct, total_pct };
        let expected = [
            (Name::user("share_30"), shares(25.0, 25.0)),
            (Name::user("main"), shares(0.0, 25.0)),
            (Name::user("__libc_start_main"), shares(0.0, 25.0)),
            (Name::user("_start"), shares(0.0, 25.0)),
            (Name::kernel("do_syscall_64"), shares(25.0, 25.0)),
            (Name::unnamed("c"), shares(0.0, 25.0)),
            (Name::user("void Shares.share_30(long, java.lang.Object)"), shares(25.0, 25.0)),
            (Name::unnamed("[unknown]"), shares(0.0, 25.0)),
            (Name::user("Store::put(int, std::string const&)"), shares(25.0, 25.0)),
        ];
        for (name, shares) in expected {
            assert_eq!(table.functions.get(&name), Some(&shares), "{name}: {table:?}");
        }
        assert_eq!((table.samples, table.functions.len()), (4, 9));
        assert_eq!((table.complete_pct, table.unnamed_pct), (25.0, 0.0));
    }

    #[test]
    fn what_is_no_stack_is_refused() {
        for text in ["", "\n", " 1/1 \n\tno frame\n\n", "\t  12 alone (/a)\n\n"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}

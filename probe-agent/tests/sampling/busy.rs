//! A program whose time is known, compiled here, and its functions by address.

use probe_agent::{
    perf::sampler::Scope,
    stack::{
        elf::ElfFile,
        images::Kind,
        record::Window,
        recording::{Place, Recording},
    },
};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

/// A program that runs, and is ended with this.
pub struct Busy {
    child: Child,
}

/// The program, compiled once for all tests of a run.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/binaries/busy.c");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("busy");
        let status = Command::new("cc")
            .args(["-O2", "-fomit-frame-pointer", "-pthread", "-o"])
            .arg(&program)
            .arg(source)
            .status()
            .unwrap();
        assert!(status.success(), "cc");
        program
    })
}

impl Busy {
    pub fn start(words: &[&str]) -> Self {
        Self::start_as(program(), words)
    }

    pub fn start_as(program: &Path, words: &[&str]) -> Self {
        let mut child = Command::new(program).args(words).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { child }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn scope(&self) -> Scope {
        Scope::Process(self.pid())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A window of some seconds.
pub struct Seconds {
    end: Instant,
}

impl Seconds {
    pub fn from_now(seconds: f64) -> Self {
        Self { end: Instant::now() + Duration::from_secs_f64(seconds) }
    }
}

impl Window for Seconds {
    type End = Infallible;

    fn pass(&mut self, time: Duration) -> Result<bool, Infallible> {
        let left = self.end.saturating_duration_since(Instant::now());
        std::thread::sleep(time.min(left));
        Ok(Instant::now() < self.end)
    }
}

/// Functions of the program by where they begin.
fn functions() -> &'static BTreeMap<u64, String> {
    static FUNCTIONS: OnceLock<BTreeMap<u64, String>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| {
        let output = Command::new("nm").arg(program()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let symbol = |line: &str| {
            let mut fields = line.split(' ');
            let address = u64::from_str_radix(fields.next()?, 16).ok()?;
            fields.next().filter(|kind| matches!(*kind, "T" | "t"))?;
            Some((address, fields.next()?.to_owned()))
        };
        text.lines().filter_map(symbol).collect()
    })
}

/// The name of a place: a function of the program, `kernel`, the last part of another image's path,
/// or why there is none.
pub fn name(recording: &Recording, place: Place) -> String {
    match place {
        Place::Kernel(_) => "kernel".to_owned(),
        Place::Unmapped(_) => "unmapped".to_owned(),
        Place::Cut(cut) => format!("{cut:?}"),
        Place::Code { image, at } => {
            let image = &recording.images[image.0 as usize];
            let path = String::from_utf8_lossy(&image.name).into_owned();
            let file = path.rsplit('/').next().unwrap_or_default().to_owned();
            if !file.starts_with("busy") || !matches!(image.kind, Kind::File { .. }) {
                return file;
            }
            let code = image.code.as_ref().unwrap();
            let svma = ElfFile::parse(code.bytes()).unwrap().svma_of_file_offset(at).unwrap();
            functions().range(..=svma).next_back().map_or(file, |(_, name)| name.clone())
        }
    }
}

/// Names from the outermost call to the innermost.
pub fn stack(recording: &Recording, node: u32) -> Vec<String> {
    let mut names = Vec::new();
    let mut next = Some(node);
    while let Some(node) = next {
        let node = recording.nodes[node as usize];
        names.push(name(recording, node.place));
        next = node.parent;
    }
    names.reverse();
    names
}

/// The share of samples in each function itself.
pub fn shares(recording: &Recording) -> BTreeMap<String, f64> {
    let mut shares = BTreeMap::new();
    let all = recording.counts.all.samples as f64;
    for (_, node, weight) in &recording.weights {
        let name = name(recording, recording.nodes[*node as usize].place);
        *shares.entry(name).or_default() += weight.samples as f64 / all;
    }
    shares
}

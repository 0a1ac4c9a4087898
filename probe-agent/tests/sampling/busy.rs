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
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

/// A program that runs, and is ended with this.
pub struct Busy {
    child: Child,
    /// What it says of a second start would end it otherwise.
    _words: BufReader<ChildStdout>,
}

/// Names the program where it is compiled already.
pub const PROGRAM_OF_PARENT: &str = "SAMPLING_PROGRAM";

/// The program, compiled once for all tests of a run.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        // A test that starts itself again gives it on.
        if let Some(program) = std::env::var_os(PROGRAM_OF_PARENT) {
            return program.into();
        }
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
        Self::start_by(Command::new(program).args(words))
    }

    /// By a command that becomes the program, or starts it and waits for it.
    pub fn start_by(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let mut words = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        words.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { child, _words: words }
    }

    /// What the program waits for a byte from.
    pub fn word(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
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
    is_at_once: bool,
    /// Gets a byte when samples are taken.
    word: Option<ChildStdin>,
}

impl Seconds {
    pub fn from_now(seconds: f64) -> Self {
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        Self { end, is_at_once: false, word: None }
    }

    /// Lets a program go on as soon as samples are taken.
    pub fn with_word(seconds: f64, word: ChildStdin) -> Self {
        Self { word: Some(word), ..Self::from_now(seconds) }
    }

    /// Passes without a look at what was sampled meanwhile.
    pub fn all_at_once(seconds: f64) -> Self {
        Self { is_at_once: true, ..Self::from_now(seconds) }
    }
}

impl Window for Seconds {
    type End = Infallible;

    fn pass(&mut self, time: Duration) -> Result<bool, Infallible> {
        if let Some(mut word) = self.word.take() {
            word.write_all(b"\n").unwrap();
        }
        let left = self.end.saturating_duration_since(Instant::now());
        std::thread::sleep(if self.is_at_once { left } else { time.min(left) });
        Ok(Instant::now() < self.end)
    }
}

/// Functions of the program by where they begin.
pub fn functions() -> &'static BTreeMap<u64, String> {
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
        Place::RunQueue => "run queue".to_owned(),
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

/// All stacks, as names with `;` between them, with their thread.
pub fn stacks(recording: &Recording) -> Vec<(String, u32)> {
    let weights = recording.weights.iter();
    weights.map(|(thread, node, _)| (stack(recording, *node).join(";"), *thread)).collect()
}

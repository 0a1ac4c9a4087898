//! What counters say of programs, beside what the kernel and perf say of the same.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test fails by panicking")]

use probe_agent::{
    perf::{
        counters::{Count, Counters, NotCounted, Value, of_one_time},
        sampler::Scope,
    },
    proc::Root,
};
use protocol::instruments::perf_record::Counter;
use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

/// A shell that starts programs when it is told to, and then waits.
struct Shell {
    child: Child,
    words: BufReader<ChildStdout>,
}

impl Shell {
    fn start() -> Self {
        let script = "read x; i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done; \
                      echo done; read y";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let words = BufReader::new(child.stdout.take().unwrap());
        Self { child, words }
    }

    /// Lets it start 300 programs, and waits until all have ended.
    fn work(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let mut line = String::new();
        self.words.read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
    }

    /// Page faults of itself and of children that it waited for.
    fn minor_faults(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = text.rsplit_once(") ").unwrap().1.split(' ').collect();
        fields[7].parse::<u64>().unwrap() + fields[8].parse::<u64>().unwrap()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn value(counts: &[Count], counter: Counter) -> Result<Value, NotCounted> {
    counts.iter().find(|count| count.counter == counter).unwrap().value
}

fn is_about(ours: u64, theirs: f64, part: f64) -> bool {
    (ours as f64 - theirs).abs() <= part * theirs + 3.0
}

const OF_THE_KERNEL: [(Counter, &str); 4] = [
    (Counter::TaskClock, "task-clock"),
    (Counter::ContextSwitches, "context-switches"),
    (Counter::MinorFaults, "minor-faults"),
    (Counter::MajorFaults, "major-faults"),
];

#[test]
fn counts_are_those_of_perf_stat_and_of_the_kernels_own_account() {
    let is_here =
        Command::new("perf").arg("--version").output().is_ok_and(|it| it.status.success());
    let root = Root::live().unwrap();
    let mut shell = Shell::start();
    let pid = shell.child.id();
    let perf = is_here.then(|| {
        let events: Vec<&str> = OF_THE_KERNEL.iter().map(|(_, name)| *name).collect();
        let child = Command::new("perf")
            .args(["stat", "-x,", "-e", &events.join(","), "-p", &pid.to_string()])
            .args(["--", "sleep", "6"])
            .stderr(Stdio::piped())
            .spawn();
        // It says nothing when it has begun.
        std::thread::sleep(Duration::from_millis(1500));
        child.unwrap()
    });
    let counters = Counters::open(&root, &Scope::Process(pid)).unwrap();
    let before = shell.minor_faults();
    counters.start().unwrap();
    shell.work();
    let counts = counters.finish();
    let faults = shell.minor_faults() - before;
    let ours = value(&counts, Counter::MinorFaults).unwrap();
    assert!(is_about(ours.count, faults as f64, 0.02), "{ours:?} {faults}");
    assert!(faults > 3_000, "{faults}");
    assert!(!ours.is_reckoned() && ours.with_kernel);
    let Some(perf) = perf else {
        eprintln!("not run: perf is not installed (apt-get install linux-perf)");
        return;
    };
    let said = String::from_utf8(perf.wait_with_output().unwrap().stderr).unwrap();
    let line = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        Some((fields.get(2)?.to_string(), fields.first()?.parse::<f64>().ok()?))
    };
    let theirs: BTreeMap<String, f64> = said.lines().filter_map(line).collect();
    for (counter, name) in OF_THE_KERNEL {
        let ours = value(&counts, counter).unwrap().count;
        // perf prints milliseconds of the clock.
        let factor = if counter == Counter::TaskClock { 1e6 } else { 1.0 };
        let theirs = theirs[name] * factor;
        assert!(is_about(ours, theirs, 0.05), "{name}: {ours} {theirs}: {said}");
        eprintln!("{name}: {ours}, perf {theirs}");
    }
}

#[test]
fn counters_of_the_processor_are_counted_or_said_not_to_be_there() {
    let root = Root::live().unwrap();
    let mut shell = Shell::start();
    let counters = Counters::open(&root, &Scope::Process(shell.child.id())).unwrap();
    counters.start().unwrap();
    shell.work();
    let counts = counters.finish();
    let cycles = value(&counts, Counter::Cycles);
    for counter in Counter::ALL.into_iter().filter(|counter| counter.is_of_the_processor()) {
        let value = value(&counts, counter);
        assert!(
            matches!(value, Ok(_) | Err(NotCounted::NoCounter(_) | NotCounted::CountersInUse)),
            "{counter:?}: {value:?}"
        );
    }
    match cycles {
        Ok(cycles) => {
            assert!(cycles.count > 1_000_000, "{cycles:?}");
            let pair = (Counter::Instructions, Counter::Cycles);
            let (instructions, cycles) = of_one_time(&counts, None, pair).unwrap();
            let found = instructions as f64 / cycles as f64;
            assert!((0.05..10.0).contains(&found), "{found}");
        }
        Err(_) => {
            let pair = (Counter::Instructions, Counter::Cycles);
            assert!(matches!(of_one_time(&counts, None, pair), Err(Some(_))));
            eprintln!("not run: cycles and instructions: this machine shows no counters");
        }
    }
}

#[test]
fn the_whole_machine_has_switches_and_faults_and_no_processor_time() {
    let root = Root::live().unwrap();
    let mut shell = Shell::start();
    let counters = match Counters::open(&root, &Scope::Host) {
        Ok(counters) => counters,
        Err(error) => {
            eprintln!("not run: counting the whole machine: {error}");
            return;
        }
    };
    counters.start().unwrap();
    shell.work();
    let counts = counters.finish();
    assert!(value(&counts, Counter::ContextSwitches).unwrap().count > 300, "{counts:?}");
    assert!(value(&counts, Counter::MinorFaults).unwrap().count > 3_000, "{counts:?}");
    assert_eq!(value(&counts, Counter::TaskClock), Err(NotCounted::NotOfTheHost));
}

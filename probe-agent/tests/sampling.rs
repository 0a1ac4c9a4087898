//! What the sampler sees of programs whose time is known.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it could not check"
)]

#[path = "sampling/busy.rs"]
mod busy;
#[path = "sampling/perf.rs"]
mod perf;

use busy::{Busy, Seconds, shares, stack, stacks};
use probe_agent::{
    os::sandbox,
    perf::sampler::{KernelPart, Measure, SamplerError, Scope, Settings, UserStack},
    proc::Root,
    stack::{
        images::Kind,
        record::{NoRecording, record},
        recording::{Cut, Limits, Recording},
    },
};
use protocol::instruments::capabilities::Filtering;
use std::{
    collections::BTreeSet,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// The functions that `busy shares` has, with their shares.
const SHARES: [(&str, f64); 3] = [("six_of_ten", 0.6), ("three_of_ten", 0.3), ("one_of_ten", 0.1)];

fn recorded(settings: &Settings, seconds: f64) -> Recording {
    let root = Root::live().unwrap();
    record(&root, settings, Limits::default(), &mut Seconds::from_now(seconds)).unwrap()
}

/// Records for longer and longer until there are so many samples: the machine may be busy.
fn with_samples(settings: &Settings, least: u64) -> Recording {
    let mut seconds = 1.0;
    loop {
        let recording = recorded(settings, seconds);
        if recording.counts.all.samples >= least || seconds > 30.0 {
            assert!(recording.counts.all.samples >= least, "{:?}", recording.counts);
            return recording;
        }
        seconds *= 2.0;
    }
}

fn at(hertz: u64, scope: Scope) -> Settings {
    Settings { hertz, ..Settings::cpu(scope) }
}

/// Whether a share is another's within four times what chance makes of so many samples.
fn is_about(found: f64, wanted: f64, samples: u64) -> bool {
    (found - wanted).abs() <= 4.0 * (wanted * (1.0 - wanted) / samples as f64).sqrt() + 0.02
}

#[test]
fn shares_and_callers_are_those_that_the_program_has() {
    let busy = Busy::start(&["shares"]);
    let recording = with_samples(&at(999, busy.scope()), 600);
    let (all, found) = (recording.counts.all.samples, shares(&recording));
    for (function, share) in SHARES {
        assert!(is_about(found[function], share, all), "{function} {found:?}");
    }
    assert_eq!(recording.counts.complete, recording.counts.all, "{:?}", recording.counts);
    assert_eq!(recording.losses.lost, 0);
    let found: BTreeSet<_> = stacks(&recording).into_iter().map(|(stack, _)| stack).collect();
    let ends_so =
        |end: &str| found.iter().any(|stack| stack.ends_with(end) && stack.starts_with("_start;"));
    for end in ["main;outer;six_of_ten", "outer;middle;three_of_ten", "middle;inner;one_of_ten"] {
        assert!(ends_so(end), "{end}: {found:?}");
    }
    // An event of the clock stands for the time since the last, so all are the time that passed.
    let time = Duration::from_nanos(recording.counts.all.events);
    let by_rate = Duration::from_secs_f64(all as f64 / 999.0);
    assert!(time > by_rate / 2 && time < by_rate * 2, "{time:?} {by_rate:?}");
}

#[test]
fn the_ranking_is_that_of_perf() {
    if !perf::is_here() {
        eprintln!("not run: perf is not installed (apt-get install linux-perf)");
        return;
    }
    let busy = Busy::start(&["shares"]);
    let theirs = perf::start(busy.pid(), 999, 4);
    let recording = recorded(&at(999, busy.scope()), 4.0);
    let theirs = perf::shares(theirs);
    let (ours, samples) = (shares(&recording), recording.counts.all.samples);
    for (function, _) in SHARES {
        let is_same = is_about(ours[function], theirs[function], samples / 2);
        assert!(is_same, "{function}: {ours:?} {theirs:?}");
    }
}

#[test]
fn threads_and_children_born_later_count_under_their_real_names_and_numbers() {
    let mut busy = Busy::start(&["later"]);
    let root = Root::live().unwrap();
    let mut window = Seconds::with_word(4.0, busy.word());
    let settings = at(499, busy.scope());
    let recording = record(&root, &settings, Limits::default(), &mut window).unwrap();
    let stacks = stacks(&recording);
    let of = |function: &str| {
        let ends = |stack: &&(String, u32)| stack.0.ends_with(function);
        stacks.iter().filter(ends).map(|(_, thread)| *thread).collect::<BTreeSet<_>>()
    };
    let (thread, child) = (of("in_late_thread"), of("in_late_child"));
    assert_eq!((thread.len(), child.len()), (1, 1), "{stacks:?}");
    let thread = &recording.threads[*thread.first().unwrap() as usize];
    let child = &recording.threads[*child.first().unwrap() as usize];
    assert_eq!(thread.name, b"a;b");
    assert_eq!(child.name, b"a 11/22 b");
    let process = |thread: u32| recording.processes[thread as usize].pid;
    assert_eq!(process(thread.process), busy.pid());
    assert_ne!(thread.tid, busy.pid());
    assert_eq!(process(child.process), child.tid);
    assert!(process(child.process) > busy.pid());
    // Nothing of it is without an image.
    assert!(stacks.iter().all(|(stack, _)| !stack.contains("unmapped")), "{stacks:?}");
}

#[test]
fn another_program_in_the_same_process_is_walked_by_its_own_mappings() {
    let mut busy = Busy::start(&["exec"]);
    let root = Root::live().unwrap();
    let mut window = Seconds::with_word(3.0, busy.word());
    let settings = at(499, busy.scope());
    let recording = record(&root, &settings, Limits::default(), &mut window).unwrap();
    let (counts, stacks) = (&recording.counts, stacks(&recording));
    assert!(counts.complete.samples + 3 >= counts.all.samples, "{counts:?} {stacks:?}");
    assert!(shares(&recording)["six_of_ten"] > 0.3, "{stacks:?}");
}

/// Only in a mount namespace of its own there is a file at the path that is mapped; on the machine
/// there is another one.
#[test]
fn a_program_in_a_container_is_found_in_its_own_namespace_and_no_other_file_is_taken_for_it() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not run: a mount namespace takes root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("busy-inside");
    std::fs::copy("/bin/true", &inside).unwrap();
    let script = format!(
        "mount -t tmpfs none {0} && cp {1} {0}/busy-inside && exec {0}/busy-inside shares",
        folder.path().display(),
        busy::program().display(),
    );
    let busy = Busy::start_by(Command::new("unshare").args(["--mount", "sh", "-c", &script]));
    let recording = with_samples(&at(499, busy.scope()), 50);
    assert_eq!(recording.counts.complete, recording.counts.all, "{:?}", recording.counts);
    assert!(shares(&recording)["six_of_ten"] > 0.3, "{:?}", shares(&recording));
}

#[test]
fn a_login_without_rights_sees_its_own_processes_without_the_kernel_s_part() {
    const ALONE: &str = "SAMPLING_AS_NOBODY";
    if let Some(pid) = std::env::var(ALONE).ok().and_then(|pid| pid.parse().ok()) {
        let recording = with_samples(&at(499, Scope::Process(pid)), 50);
        let KernelPart::NotPermitted { paranoid, .. } = recording.basis.kernel else {
            panic!("{:?}", recording.basis)
        };
        assert!(paranoid.unwrap() >= 2);
        assert_eq!(recording.counts.complete, recording.counts.all, "{:?}", recording.counts);
        assert!(shares(&recording)["six_of_ten"] > 0.4, "{:?}", shares(&recording));
        let root = Root::live().unwrap();
        let mut window = Seconds::from_now(0.1);
        let host = record(&root, &at(99, Scope::Host), Limits::default(), &mut window);
        let why = host.map(|_| ()).unwrap_err();
        assert!(matches!(why, NoRecording::Sampler(SamplerError::NotPermitted { .. })), "{why:?}");
        return;
    }
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    if !rustix::process::geteuid().is_root() || paranoid.trim() != "2" {
        eprintln!("not run: root and kernel.perf_event_paranoid 2, not {}", paranoid.trim());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), all).unwrap();
    let (test, program) = (folder.path().join("test"), folder.path().join("busy"));
    std::fs::copy(std::env::current_exe().unwrap(), &test).unwrap();
    std::fs::copy(busy::program(), &program).unwrap();
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let busy = Busy::start_by(Command::new("setpriv").args(nobody).arg(&program).arg("shares"));
    let name = "a_login_without_rights_sees_its_own_processes_without_the_kernel_s_part";
    let output = Command::new("setpriv")
        .args(nobody)
        .arg(&test)
        .args([name, "--exact", "--nocapture"])
        .env(ALONE, busy.pid().to_string())
        .env(busy::PROGRAM_OF_PARENT, &program)
        .current_dir("/")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
}

#[test]
fn what_does_not_fit_into_the_ring_is_counted() {
    let busy = Busy::start(&["shares"]);
    let settings = Settings { ring_kib: Some(8), ..at(4_999, busy.scope()) };
    let root = Root::live().unwrap();
    let mut window = Seconds::all_at_once(0.5);
    let recording = record(&root, &settings, Limits::default(), &mut window).unwrap();
    let Recording { losses, counts, reach, .. } = &recording;
    assert_eq!((reach.ring_kib, losses.malformed), (8, 0));
    assert!(losses.lost > counts.all.samples, "{losses:?} {counts:?}");
    assert!(losses.lost_of_worst_ring <= losses.lost && losses.lost_of_worst_ring > 0);
}

#[test]
fn a_stack_that_is_larger_than_the_copy_says_so() {
    let busy = Busy::start(&["deep", "300"]);
    let recording = with_samples(&at(499, busy.scope()), 50);
    let cut = recording.counts.cut_by(Cut::ByDump).samples;
    // What it does in the kernel or when it begins anew is not as deep.
    assert!(cut > recording.counts.all.samples / 2, "{:?}", recording.counts);
    let is_marked = |(stack, _): &(String, u32)| stack.starts_with("ByDump;down;down;");
    assert!(stacks(&recording).iter().any(is_marked));
    let stack = UserStack::UnwindTables { dump_bytes: 32 << 10 };
    let recording = with_samples(&Settings { stack, ..at(499, busy.scope()) }, 50);
    assert_eq!(recording.counts.cut_by(Cut::ByDump).samples, 0, "{:?}", recording.counts);
    assert_eq!(recording.counts.complete, recording.counts.all, "{:?}", recording.counts);
}

#[test]
fn frame_pointers_lead_less_far_without_being_there_and_nobody_claims_more() {
    let busy = Busy::start(&["shares"]);
    let settings = Settings { stack: UserStack::FramePointers, ..at(999, busy.scope()) };
    let recording = with_samples(&settings, 300);
    assert_eq!(recording.counts.complete.samples, 0);
    let found = shares(&recording);
    for (function, share) in SHARES {
        assert!(is_about(found[function], share, recording.counts.all.samples), "{found:?}");
    }
}

#[test]
fn faults_are_found_where_memory_is_touched() {
    let busy = Busy::start(&["faults"]);
    let settings =
        Settings { measure: Measure::PageFaults, hertz: 100, ..Settings::cpu(busy.scope()) };
    let recording = with_samples(&settings, 50);
    let found = shares_in_user_space(&recording);
    assert!(found.get("touch").is_some_and(|share| *share > 0.9), "{found:?}");
    // One sample stands for a hundred faults.
    assert_eq!(recording.counts.all.events, recording.counts.all.samples * 100);
}

/// The share of samples by the innermost call that is not of the kernel.
fn shares_in_user_space(recording: &Recording) -> std::collections::BTreeMap<String, f64> {
    let mut shares = std::collections::BTreeMap::new();
    for (_, node, weight) in &recording.weights {
        let stack = stack(recording, *node);
        let leaf = stack.iter().rev().find(|name| *name != "kernel").cloned().unwrap_or_default();
        let share = weight.samples as f64 / recording.counts.all.samples as f64;
        *shares.entry(leaf).or_default() += share;
    }
    shares
}

#[test]
fn the_kernel_s_part_is_below_its_callers() {
    let busy = Busy::start(&["kernel"]);
    let recording = with_samples(&at(999, busy.scope()), 300);
    if recording.basis.kernel != KernelPart::Included {
        eprintln!("not run: the kernel's part may not be looked at: {:?}", recording.basis.kernel);
        return;
    }
    let shares = shares(&recording);
    assert!(shares["kernel"] > 0.5, "{shares:?}");
    let in_user_space = shares_in_user_space(&recording);
    assert!(in_user_space.contains_key("libc.so.6"), "{in_user_space:?}");
    let is_called = |(stack, _): &(String, u32)| {
        stack.contains(";main;read_zeros;") && stack.ends_with(";kernel")
    };
    assert!(stacks(&recording).iter().any(is_called));
}

#[test]
fn a_program_that_was_deleted_is_still_walked_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("busy (v2)");
    std::fs::copy(busy::program(), &program).unwrap();
    let busy = Busy::start_as(&program, &["shares"]);
    std::fs::remove_file(&program).unwrap();
    let recording = with_samples(&at(499, busy.scope()), 50);
    let image = recording.images.iter().find(|it| it.name.ends_with(b"/busy (v2)")).unwrap();
    assert!(matches!(image.kind, Kind::File { is_deleted: true, .. }), "{:?}", image.kind);
    if image.code.is_err() && !rustix::process::geteuid().is_root() {
        eprintln!("not run: map_files needs CAP_CHECKPOINT_RESTORE");
        return;
    }
    assert_eq!(recording.counts.complete, recording.counts.all, "{:?}", recording.counts);
    assert!(shares(&recording)["six_of_ten"] > 0.3);
}

#[test]
fn everything_that_runs_is_sampled_but_the_agent() {
    let busy = Busy::start(&["shares"]);
    let root = Root::live().unwrap();
    let settings = at(199, Scope::Host);
    let mut window = Seconds::from_now(2.0);
    let recording = match record(&root, &settings, Limits::default(), &mut window) {
        Ok(recording) => recording,
        Err(NoRecording::Sampler(SamplerError::NotPermitted { paranoid, .. })) => {
            eprintln!("not run: kernel.perf_event_paranoid is {paranoid:?}");
            return;
        }
        Err(error) => panic!("{error:?}"),
    };
    let of_busy = recording.processes.iter().position(|process| process.pid == busy.pid());
    assert!(of_busy.is_some(), "{:?}", recording.processes);
    let own = std::process::id();
    assert!(recording.processes.iter().all(|process| process.pid != own && process.pid != 0));
}

#[test]
fn a_process_with_too_many_threads_is_found_among_everything() {
    let busy = Busy::start(&["many", "1500"]);
    let root = Root::live().unwrap();
    let settings = at(999, busy.scope());
    let mut window = Seconds::from_now(2.0);
    let recording = match record(&root, &settings, Limits::default(), &mut window) {
        Ok(recording) => recording,
        Err(NoRecording::Sampler(SamplerError::OpenFiles { needed, .. })) => {
            assert!(needed >= 1501);
            return;
        }
        Err(error) => panic!("{error:?}"),
    };
    assert!(recording.reach.threads >= 1501);
    if recording.reach.processors > 1 {
        assert!(recording.reach.is_by_host, "{:?}", recording.reach);
    }
    assert!(recording.counts.all.samples > 0);
    assert!(recording.processes.iter().all(|process| process.pid == busy.pid()));
}

#[test]
fn what_cannot_be_sampled_is_said() {
    let root = Root::live().unwrap();
    let mut window = Seconds::from_now(0.1);
    let mut why = |settings: &Settings| {
        record(&root, settings, Limits::default(), &mut window).map(|_| ()).unwrap_err()
    };
    let nobody = Settings::cpu(Scope::Process(4_194_304));
    let error = NoRecording::Sampler(SamplerError::NoSuchProcess { pid: 4_194_304 });
    assert_eq!(why(&nobody), error);
    // Only where there is no counter: elsewhere it is a recording like others.
    let own = Scope::Process(std::process::id());
    let misses = Settings { measure: Measure::CacheMisses, ..Settings::cpu(own) };
    match record(&root, &misses, Limits::default(), &mut Seconds::from_now(0.1)) {
        Ok(_) | Err(NoRecording::Sampler(SamplerError::NoCounter { .. })) => {}
        Err(other) => panic!("{other:?}"),
    }
}

/// Descriptors that are open, mappings, and resident KiB.
fn held() -> (usize, usize, u64) {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let resident = line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
    (descriptors, maps, resident)
}

/// The same once no more than so many are open: a thread that opened files ends a moment after what
/// it worked for.
fn settled(most: usize) -> (usize, usize, u64) {
    let started = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let held = held();
        if held.0 <= most || started.elapsed() > Duration::from_secs(10) {
            return held;
        }
    }
}

/// Runs a test once more in a process of its own, where it finds `ALONE`. True in that process.
fn is_alone(name: &str, value: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(ALONE, value)
        .env(busy::PROGRAM_OF_PARENT, busy::program())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    eprintln!("{text}");
    false
}

const ALONE: &str = "SAMPLING_ALONE";

#[test]
fn everything_works_in_the_sandbox() {
    let Ok(pid) = std::env::var(ALONE) else {
        let busy = Busy::start(&["shares"]);
        is_alone("everything_works_in_the_sandbox", &busy.pid().to_string());
        return;
    };
    let pid = pid.parse().unwrap();
    // What starts programs comes before: in the sandbox nothing can.
    busy::functions();
    sandbox::enter(sandbox::Reads::ThisMachine);
    let recording = with_samples(&at(499, Scope::Process(pid)), 50);
    assert_eq!(recording.counts.complete, recording.counts.all, "{:?}", recording.counts);
    assert!(shares(&recording)["six_of_ten"] > 0.3, "{:?}", shares(&recording));
    assert_eq!(sandbox::enforced().filtering, Filtering::Enforced);
}

#[test]
fn twenty_four_recordings_in_a_row_leave_nothing_open() {
    if !is_alone("twenty_four_recordings_in_a_row_leave_nothing_open", "1") {
        return;
    }
    let busy = Busy::start(&["shares"]);
    let settings = at(999, busy.scope());
    drop(recorded(&settings, 0.2));
    let before = settled(usize::MAX);
    for _ in 0..24 {
        drop(recorded(&settings, 0.2));
    }
    let after = settled(before.0);
    eprintln!("descriptors, mappings, KiB: {before:?} then {after:?}");
    assert!(after.0 <= before.0, "{before:?} {after:?}");
    assert!(after.1 <= before.1 + 4, "{before:?} {after:?}");
    assert!(after.2 < before.2 + 2048, "{before:?} {after:?}");
}

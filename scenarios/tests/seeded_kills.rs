//! Kills at moments that nobody chose, over every transport: what is killed, with which signal and
//! when is drawn from a seed. A second way, which is not sysmcp's, sees what the session has on the
//! target right before, and has to see nothing of it afterwards: no process, no file.
//!
//! Each run has a seed of its own, which it prints. `SYSMCP_TEST_SEED` is the one to use instead,
//! and `SYSMCP_TEST_ONLY` the number of one kill, to do that alone.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "seeded_kills/draw.rs"]
mod draw;
#[path = "seeded_kills/run.rs"]
mod run;
#[path = "seeded_kills/site.rs"]
mod site;

use draw::{Case, Transport};
use run::{Outcome, Phase};
use rustix::process::geteuid;
use scenarios::{
    containers::Engine,
    not_run::{is_full, not_run},
    servers::Kind,
};
use site::Site;
use std::{
    collections::{BTreeMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Kills of a whole run, and of one that is a sample.
const ALL: u64 = 200;
const SAMPLE: u64 = 66;

/// Kills at the same time, each at a target of its own.
const AT_ONCE: usize = 3;

/// After which nothing may be left.
const PATIENCE: Duration = Duration::from_secs(12);

const WHAT: &str = "kills at random moments";

/// The kills of one target, which come one after the other.
struct Lane<'e> {
    transport: Transport,
    cases: VecDeque<Case>,
    site: Option<Site<'e>>,
}

/// The engines that are there.
struct Engines {
    docker: Option<Engine>,
    podman: Option<Engine>,
}

impl Engines {
    /// Starts those that some kills need. Where that cannot be done, it is noted.
    fn start(cases: &[Case]) -> Self {
        let wants = |transports: &[Transport]| {
            cases.iter().any(|case| transports.contains(&case.transport))
        };
        let docker = wants(&[Transport::Docker, Transport::DockerWithoutShell])
            .then(|| Engine::docker("kills at random moments, in Docker's containers").unwrap());
        let podman = wants(&[Transport::Podman])
            .then(|| Engine::podman("kills at random moments, in Podman's containers").unwrap());
        Self { docker: docker.flatten(), podman: podman.flatten() }
    }

    fn have(&self, transport: Transport) -> bool {
        match transport {
            Transport::Docker | Transport::DockerWithoutShell => self.docker.is_some(),
            Transport::Podman => self.podman.is_some(),
            Transport::Sudo => {
                let is_there = Kind::OpenSshHere.is_there(WHAT);
                let has_sudo = Path::new("/usr/bin/sudo").exists();
                if !has_sudo {
                    not_run("kills at random moments, with sudo", "sudo (package sudo)");
                }
                is_there && has_sudo
            }
            Transport::Local
            | Transport::OwnSsh
            | Transport::UsersSsh
            | Transport::SharedConnection
            | Transport::OwnSshByJump
            | Transport::UsersSshByJump
            | Transport::Wsl => true,
        }
    }
}

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is `{text}`, which is no number")))
}

fn from_the_clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs() % 1_000_000
}

#[test]
fn kills_at_random_moments_over_all_transports_leave_nothing() {
    if !geteuid().is_root() {
        return not_run(WHAT, "root, to see whose a process is");
    }
    let seed = number("SYSMCP_TEST_SEED").unwrap_or_else(from_the_clock);
    let only = number("SYSMCP_TEST_ONLY");
    let count = if is_full() { ALL } else { SAMPLE };
    println!("seed {seed}");
    let indexes = only.map_or(0..count, |only| only..only + 1);
    let cases: Vec<Case> = indexes.map(|index| Case::draw(seed, index)).collect();
    let engines = Engines::start(&cases);
    let started = Instant::now();
    let outcomes = run_all(lanes(cases, &engines), &engines);
    println!("{} kills in {} s", outcomes.len(), started.elapsed().as_secs());
    show(&outcomes);
    let wrong: Vec<String> = outcomes
        .iter()
        .filter(|(_, outcome)| !outcome.wrong.is_empty())
        .map(|(case, outcome)| {
            format!(
                "SYSMCP_TEST_SEED={seed} SYSMCP_TEST_ONLY={}: {}\n  {:#?}",
                case.index,
                line(case, outcome),
                outcome.wrong
            )
        })
        .collect();
    assert!(wrong.is_empty(), "{} kills left something:\n{}", wrong.len(), wrong.join("\n"));
    let alive = outcomes.iter().filter(|(_, outcome)| outcome.alive > 0).count();
    // Three of four; of a sample, more than half.
    let least = if is_full() { outcomes.len() * 3 / 4 } else { outcomes.len() / 2 };
    let is_enough = only.is_some() || alive >= least;
    assert!(is_enough, "before {alive} of {} kills only, something was there", outcomes.len());
}

/// The kills, by target.
fn lanes<'e>(cases: Vec<Case>, engines: &Engines) -> Vec<Lane<'e>> {
    let mut lanes: BTreeMap<Transport, VecDeque<Case>> = BTreeMap::new();
    for case in cases {
        lanes.entry(case.transport).or_default().push_back(case);
    }
    let lanes = lanes.into_iter().filter(|(transport, _)| engines.have(*transport));
    lanes.map(|(transport, cases)| Lane { transport, cases, site: None }).collect()
}

/// Runs some at once, the target with the most to do first. Whoever finds no free target is done.
fn run_all<'e>(lanes: Vec<Lane<'e>>, engines: &'e Engines) -> Vec<(Case, Outcome)> {
    let free = Mutex::new(lanes);
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(mut lane) = take(&free) {
                    let Some(case) = lane.cases.pop_front() else { continue };
                    let outcome = run_one(&mut lane, &case, engines);
                    println!("{}", line(&case, &outcome));
                    lock(&outcomes).push((case, outcome));
                    lock(&free).push(lane);
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcomes.sort_by_key(|(case, _)| case.index);
    outcomes
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take<'e>(free: &Mutex<Vec<Lane<'e>>>) -> Option<Lane<'e>> {
    let mut free = lock(free);
    let longest = (0..free.len()).max_by_key(|at| free[*at].cases.len())?;
    Some(free.swap_remove(longest))
}

/// One kill. What goes wrong with the test itself is told as any other fault, with its number.
fn run_one<'e>(lane: &mut Lane<'e>, case: &Case, engines: &'e Engines) -> Outcome {
    let attempt = catch_unwind(AssertUnwindSafe(|| {
        let make = || Site::make(lane.transport, engines.docker.as_ref(), engines.podman.as_ref());
        let site = lane.site.get_or_insert_with(make);
        run::run(case, site, PATIENCE)
    }));
    let outcome = attempt.unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        let words = words.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Outcome {
            phase: Phase::Connecting,
            victim: case.victim,
            moment: Duration::ZERO,
            alive: 0,
            went_on: false,
            is_beyond_reach: false,
            gone_after: Duration::ZERO,
            wrong: vec![format!("panicked: {}", words.unwrap_or_default())],
        }
    });
    if !outcome.wrong.is_empty() {
        // What is left there is none of the next one's.
        lane.site = None;
    }
    outcome
}

fn line(case: &Case, outcome: &Outcome) -> String {
    format!(
        "kill {:3}  {:23} {:?}, {:?} planted; after {} ms, {:?}: {} of {:?}; {} seen alive, {}{}nothing \
         left after {} ms{}",
        case.index,
        case.transport.name(),
        case.usage,
        case.planted,
        outcome.moment.as_millis(),
        outcome.phase,
        case.kill.name(),
        outcome.victim,
        outcome.alive,
        if outcome.went_on { "went on, " } else { "" },
        if outcome.is_beyond_reach { "a folder of the script and " } else { "" },
        outcome.gone_after.as_millis(),
        if outcome.wrong.is_empty() { "" } else { " NOT SO" },
    )
}

/// A row of the tables that are printed.
#[derive(Default)]
struct Row {
    kills: usize,
    alive: usize,
    went_on: usize,
    beyond_reach: usize,
    left: usize,
    slowest: Duration,
}

fn show(outcomes: &[(Case, Outcome)]) {
    let table = |title: &str, key: &dyn Fn(&Case, &Outcome) -> String| {
        let mut rows: BTreeMap<String, Row> = BTreeMap::new();
        for (case, outcome) in outcomes {
            for name in [key(case, outcome), "~ all".to_owned()] {
                let row = rows.entry(name).or_default();
                row.kills += 1;
                row.alive += usize::from(outcome.alive > 0);
                row.went_on += usize::from(outcome.went_on);
                row.beyond_reach += usize::from(outcome.is_beyond_reach);
                row.left += usize::from(!outcome.wrong.is_empty());
                row.slowest = row.slowest.max(outcome.gone_after);
            }
        }
        println!("{title:26} kills  seen alive  went on  beyond reach  left  slowest");
        for (name, row) in rows {
            println!(
                "{name:26} {:5}  {:10}  {:7}  {:12}  {:4}  {:5} ms",
                row.kills,
                row.alive,
                row.went_on,
                row.beyond_reach,
                row.left,
                row.slowest.as_millis()
            );
        }
    };
    table("transport", &|case, _| case.transport.name().to_owned());
    table("phase", &|_, outcome| format!("{:?}", outcome.phase));
    table("killed", &|_, outcome| format!("{:?}", outcome.victim));
    table("signal", &|case, _| case.kill.name().to_owned());
}

/// The check itself: what nobody ends, and a file, must turn it red.
#[test]
fn a_survivor_is_seen_over_each_kind_of_second_way() {
    if !geteuid().is_root() {
        return not_run("a survivor that is seen", "root, to see whose a process is");
    }
    let kinds = [Transport::Local, Transport::OwnSsh, Transport::Docker];
    let cases: Vec<Case> = (0..11).map(|index| Case::draw(1, index)).collect();
    let cases: Vec<Case> =
        cases.into_iter().filter(|case| kinds.contains(&case.transport)).collect();
    let engines = Engines::start(&cases);
    for case in cases.iter().filter(|case| engines.have(case.transport)) {
        let name = case.transport.name();
        let mut site = Site::make(case.transport, engines.docker.as_ref(), engines.podman.as_ref());
        let left = run::left(&mut site, &[], 0);
        assert!(left.is_empty(), "{name}: {left:?}");
        site.plant_survivor();
        let outcome = run::run(case, &mut site, Duration::from_secs(4));
        let is_seen = |words: &str| outcome.wrong.iter().any(|line| line.contains(words));
        assert!(is_seen("sleep 600") && is_seen(".sysmcp-planted"), "{name}: {outcome:?}");
        site.clear();
        std::thread::sleep(Duration::from_secs(2));
        let left = run::left(&mut site, &[], 0);
        assert!(left.is_empty(), "{name}: {left:?}");
    }
}

//! A pass over all processes by a program in the kernel, where that costs less than a file of each.

use super::scan::{Sample, Scan};
use crate::{
    bpf::{
        Constants, Loaded, Loan, NoBpf, Object,
        tasks::{self, Before, Process},
    },
    call::Context,
    instruments::{capabilities::refusals, thread_accounts::tick_of},
    order,
    proc::{
        Root,
        pid_stat::{PF_KTHREAD, Reaped},
    },
};
use protocol::{
    instruments::{
        capabilities::{CheckId, Refusal},
        process_list::Column,
    },
    message::Engine,
    observed::Observed,
};
use std::time::Duration;

/// Loading the program costs about as much processor time as reading the files of so many processes
/// twice: with fewer it is not worth it.
const LEAST_PROCESSES: u64 = 3_000;

/// The same where open files rank: then a folder of each is asked too, and the iterator tells both.
const LEAST_PROCESSES_WITH_FILES: u64 = 800;

/// It goes through threads, a file of a process tells of all: beyond so many for each process files
/// cost less.
const MOST_THREADS_EACH: u64 = 10;

/// How many threads may have come or gone since they were counted, beside a hundredth of all.
const COME_AND_GONE: u64 = 32;

/// The program that is asked, once it was decided that it is.
#[derive(Debug)]
pub(super) struct ByIterator {
    sort: Column,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// Nobody asked yet.
    #[default]
    Undecided,
    /// Files cost less.
    NotWorthIt,
    /// It is asked.
    Asked(Box<Asked>),
    /// It cannot be.
    Refused(NoBpf),
}

#[derive(Debug)]
struct Asked {
    loan: Loan,
    /// What a later pass is compared with.
    before: Option<Before>,
    /// Processes that were read from their files in the first pass.
    others: Vec<u32>,
}

impl ByIterator {
    /// One that tells what ranking by `sort` needs.
    pub(super) fn new(sort: Column) -> Self {
        Self { sort, state: State::default() }
    }

    /// Fills in a pass, and gives the processes that are to be read from their files: those that
    /// the iterator does not show or cannot tell enough of. `None` where all are to be read so.
    /// A later pass has samples of processes only that are not as they were in the first.
    pub(super) fn pass(
        &mut self,
        scan: &mut Scan,
        is_later: bool,
        context: &Context<'_>,
    ) -> Option<Vec<u32>> {
        if matches!(self.state, State::Undecided) {
            self.state = decide(self.sort, scan, context.root);
        }
        let State::Asked(asked) = &mut self.state else { return None };
        let passed = match &asked.before {
            Some(_) if is_later => asked.later(scan, context),
            Some(_) | None => asked.whole(scan, context),
        };
        match passed {
            Ok(others) => Some(others),
            Err(refused) => {
                self.state = State::Refused(refused);
                None
            }
        }
    }

    pub(super) fn refused(&self, root: &Root) -> Vec<Refusal> {
        match &self.state {
            State::Refused(why) => vec![refusals::of_bpf(root, CheckId::BpfIter, why)],
            State::Undecided | State::NotWorthIt | State::Asked(_) => Vec::new(),
        }
    }
}

const fn least_processes(sort: Column) -> u64 {
    if matches!(sort, Column::OpenFiles) { LEAST_PROCESSES_WITH_FILES } else { LEAST_PROCESSES }
}

fn decide(sort: Column, scan: &Scan, root: &Root) -> State {
    let processes = root.most_processes().unwrap_or(0);
    let threads = scan.host_threads.known().copied().unwrap_or(u64::MAX);
    // Of a machine that somebody took, and of one that is being taken, there are only files.
    let is_worth_it = root.live_top().is_some()
        && processes >= least_processes(sort)
        && threads / MOST_THREADS_EACH <= processes;
    if !is_worth_it {
        return State::NotWorthIt;
    }
    match lend(sort, root) {
        Ok(loan) => State::Asked(Box::new(Asked { loan, before: None, others: Vec::new() })),
        Err(refused) => State::Refused(refused),
    }
}

impl Asked {
    fn whole(&mut self, scan: &mut Scan, context: &Context<'_>) -> Result<Vec<u32>, NoBpf> {
        let (seen, before) = tasks::read(&self.loan, || context.root.monotonic())?;
        self.before = before;
        self.others = take(&seen.processes, scan);
        let is_shown = |pid: u32| seen.processes.binary_search_by_key(&pid, |one| one.pid).is_ok();
        self.others.extend(not_shown(seen.threads, is_shown, scan, context));
        Ok(self.others.clone())
    }

    fn later(&self, scan: &mut Scan, context: &Context<'_>) -> Result<Vec<u32>, NoBpf> {
        let Some(before) = &self.before else { return Ok(Vec::new()) };
        let since = tasks::read_since(&self.loan, before, || context.root.monotonic())?;
        let mut others = take(&since.processes, scan);
        // Few are: their files tell of all threads together.
        others.extend_from_slice(&since.busy);
        let is_shown = |pid: u32| {
            since.same.binary_search(&pid).is_ok()
                || since.busy.binary_search(&pid).is_ok()
                || since.processes.binary_search_by_key(&pid, |one| one.pid).is_ok()
        };
        others.extend(not_shown(since.threads, is_shown, scan, context));
        // What the iterator did not tell at first it does not tell now.
        others.extend_from_slice(&self.others);
        order::ascending(&mut others);
        others.dedup();
        scan.same = since.same;
        scan.same.retain(|pid| others.binary_search(pid).is_err());
        Ok(others)
    }
}

/// The program, with what ranking by `sort` needs of it.
fn lend(sort: Column, root: &Root) -> Result<Loan, NoBpf> {
    let counted = 1_u32.to_ne_bytes();
    let constants = [("are_files_counted", counted.as_slice())];
    let wanted: Constants<'_> = if sort == Column::OpenFiles { &constants } else { &[] };
    Loaded::lend(root, Object::Tasks, wanted, &[])
}

/// Takes over what was seen. Gives the processes that are to be read from their files.
fn take(processes: &[Process], scan: &mut Scan) -> Vec<u32> {
    scan.engine = Engine::Ebpf;
    let mut others = Vec::new();
    scan.samples.reserve_exact(processes.len() + 1);
    scan.names.reserve_exact(processes.len() * 12);
    for process in processes {
        // The state and the memory of one whose first thread ended are those of another thread.
        if process.state == b'Z' && process.threads > 1 {
            others.push(process.pid);
            continue;
        }
        let start = scan.names.len();
        let length = process.name.iter().position(|byte| *byte == 0);
        let name = process.name.get(..length.unwrap_or(process.name.len())).unwrap_or_default();
        scan.names.extend_from_slice(name);
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        scan.samples.push(sample(process, place(start)..place(scan.names.len())));
    }
    others
}

/// Processes that the iterator does not show, as some kernels do not show pid 1.
fn not_shown(
    threads: u64,
    is_shown: impl Fn(u32) -> bool,
    scan: &Scan,
    context: &Context<'_>,
) -> Vec<u32> {
    let mut missing: Vec<u32> = Some(1).into_iter().filter(|pid| !is_shown(*pid)).collect();
    let all = scan.host_threads.known().copied().unwrap_or(0);
    if all > threads + COME_AND_GONE + all / 100 {
        let mut listed = Vec::new();
        if context.root.list_ids(".", &mut listed).is_ok() {
            missing = listed.into_iter().filter(|pid| !is_shown(*pid)).collect();
        }
    }
    missing
}

fn sample(process: &Process, name: std::ops::Range<u32>) -> Sample {
    let ticks = |ns: u64| tick_of(Duration::from_nanos(ns));
    let children_ticks = ticks(process.children_ns);
    Sample {
        pid: process.pid,
        via: process.pid,
        start_ticks: ticks(process.start_ns),
        parent_pid: process.parent,
        state: process.state,
        is_kernel_thread: process.flags & PF_KTHREAD != 0,
        user_ticks: ticks(process.user_ns),
        system_ticks: ticks(process.system_ns),
        children_ticks,
        minor_faults: process.minor_faults,
        major_faults: process.major_faults,
        threads: process.threads,
        resident_pages: process.resident_pages,
        open_files: process.open_files.map(|open| Observed::Known(open.into())),
        name,
        ranked: None,
        reaped: Reaped::of(
            process.children_minor_faults,
            process.children_major_faults,
            children_ticks,
        ),
        at: process.at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        bpf::tests::{ONE_AT_A_TIME, if_permitted},
        instruments::{
            fake::FakeMachine,
            process_list::{open_files::tests::started, scan::Scanner},
        },
    };

    #[test]
    fn a_machine_of_files_is_read_from_its_files() {
        let machine = FakeMachine::new();
        let scan = Scan::of(Vec::new(), Duration::ZERO, Duration::ZERO);
        assert!(matches!(decide(Column::Cpu, &scan, machine.context().root), State::NotWorthIt));
    }

    /// The same processes, by both ways at once.
    #[test]
    fn the_iterator_says_what_the_files_say() {
        let _guard = ONE_AT_A_TIME.lock();
        let root = Root::live().unwrap();
        let Some(loan) = if_permitted(lend(Column::OpenFiles, &root)) else { return };
        let machine = FakeMachine::new();
        let fake = machine.context();
        let context = fake.over(&root);
        let mut child = started();
        let before = Scanner::new(Column::Cpu).pass(&context).unwrap();
        let mut by_iterator = ByIterator {
            sort: Column::OpenFiles,
            state: State::Asked(Box::new(Asked { loan, before: None, others: Vec::new() })),
        };
        let mut scan = Scan::of(Vec::new(), Duration::ZERO, Duration::ZERO);
        scan.host_threads = before.host_threads.clone();
        let others = by_iterator.pass(&mut scan, false, &context).unwrap();
        let after = Scanner::new(Column::Cpu).pass(&context).unwrap();
        let (mut compared, mut is_child_counted) = (0, false);
        for sample in &scan.samples {
            let find = |scan: &Scan| {
                let found = scan.samples.iter().find(|other| other.pid == sample.pid);
                found.filter(|other| other.start_ticks == sample.start_ticks).cloned()
            };
            let (Some(before), Some(after)) = (find(&before), find(&after)) else { continue };
            compared += 1;
            assert_eq!(sample.is_kernel_thread, after.is_kernel_thread, "{sample:?} {after:?}");
            assert!(
                sample.parent_pid == before.parent_pid || sample.parent_pid == after.parent_pid,
                "{sample:?} {after:?}"
            );
            let cpu = |sample: &Sample| sample.user_ticks + sample.system_ticks;
            // A thread that runs is brought up to date at the next tick; two parts are rounded each.
            assert!(cpu(sample) + 3 >= cpu(&before), "{sample:?} {before:?}");
            assert!(cpu(sample) <= cpu(&after) + 2, "{sample:?} {after:?}");
            assert!(sample.minor_faults >= before.minor_faults, "{sample:?} {before:?}");
            assert!(sample.minor_faults <= after.minor_faults, "{sample:?} {after:?}");
            // Those of other processes may be opened and closed meanwhile.
            if sample.pid == child.id() {
                let listed = std::fs::read_dir(format!("/proc/{}/fd", sample.pid)).unwrap();
                let listed = Observed::Known(listed.count() as u64);
                assert_eq!(sample.open_files.as_ref(), Some(&listed));
                is_child_counted = true;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_child_counted);
        assert!(compared > 10, "only {compared}");
        let seen = scan.samples.iter().map(|sample| sample.pid).chain(others);
        let seen: std::collections::BTreeSet<u32> = seen.collect();
        assert!(seen.contains(&1) && seen.contains(&std::process::id()));
    }

    /// Who works, who rests, who ends and who is born between two passes.
    #[test]
    fn a_later_pass_tells_of_those_that_did_something() {
        let _guard = ONE_AT_A_TIME.lock();
        let root = Root::live().unwrap();
        let Some(loan) = if_permitted(lend(Column::Cpu, &root)) else { return };
        let machine = FakeMachine::new();
        let fake = machine.context();
        let context = fake.over(&root);
        let start = |words: [&str; 3]| {
            let [program, arguments @ ..] = words;
            std::process::Command::new(program).args(arguments).spawn().unwrap()
        };
        let mut resting = start(["sleep", "600", "0"]);
        let mut ending = start(["sleep", "600", "0"]);
        let mut working = start(["sh", "-c", "while :; do :; done"]);
        std::thread::sleep(Duration::from_millis(300));
        let mut asked = Asked { loan, before: None, others: Vec::new() };
        let scan = || Scan::of(Vec::new(), Duration::ZERO, Duration::ZERO);
        let mut first = scan();
        asked.whole(&mut first, &context).unwrap();
        ending.kill().unwrap();
        ending.wait().unwrap();
        let mut born = start(["sleep", "600", "0"]);
        std::thread::sleep(Duration::from_millis(300));
        let mut last = scan();
        let others = asked.later(&mut last, &context).unwrap();
        let ended = ending.id();
        for child in [&mut resting, &mut working, &mut born] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let has = |pid: u32| (last.find(pid).is_some(), last.same.contains(&pid));
        assert_eq!(has(resting.id()), (false, true));
        assert_eq!(has(working.id()), (true, false));
        assert_eq!(has(ended), (false, false));
        assert_eq!(has(born.id()), (true, false));
        let used = |scan: &Scan| scan.find(working.id()).unwrap().user_ticks;
        assert!(used(&last) > used(&first));
        // Each process of the first pass is told of, or is as it was, or is to be read from its files,
        // or has ended.
        let is_alive = |pid: u32| std::path::Path::new(&format!("/proc/{pid}/stat")).exists();
        let pids = first.samples.iter().map(|sample| sample.pid);
        let missing: Vec<u32> = pids
            .filter(|pid| has(*pid) == (false, false) && !others.contains(pid) && is_alive(*pid))
            .collect();
        assert_eq!(missing, Vec::<u32>::new());
    }

    /// A program that counts files too is another one to the verifier.
    #[test]
    fn the_iterator_loads_for_open_files_too() {
        let _guard = ONE_AT_A_TIME.lock();
        let root = Root::live().unwrap();
        let Some(loan) = if_permitted(lend(Column::OpenFiles, &root)) else { return };
        assert!(loan.programs().all(|(_, program)| program.is_ok()));
    }
}

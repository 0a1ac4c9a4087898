//! A pass over all processes by a program in the kernel, where that costs less than a file of each.

use super::scan::{Sample, Scan};
use crate::{
    bpf::{
        NoBpf,
        tasks::{Process, Row, Walk},
    },
    call::Context,
    instruments::{capabilities::refusals, thread_accounts::tick_of},
    mark::{Marker, Marks},
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
    walk: Walk,
    marker: Marker,
    /// What a later pass is compared with: the mark of each process in the first one.
    before: Marks,
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
        let passed = if is_later { asked.later(scan, context) } else { asked.whole(scan, context) };
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
    match Walk::new(root, threads, sort == Column::OpenFiles) {
        Ok(walk) => State::Asked(Box::new(Asked::with(walk))),
        Err(refused) => State::Refused(refused),
    }
}

impl Asked {
    fn with(walk: Walk) -> Self {
        let (before, others) = (Marks::default(), Vec::new());
        Self { walk, marker: Marker::default(), before, others }
    }

    fn whole(&mut self, scan: &mut Scan, context: &Context<'_>) -> Result<Vec<u32>, NoBpf> {
        let (marker, others) = (self.marker, &mut self.others);
        let mut marks = Vec::new();
        others.clear();
        let threads = self.walk.each(context.root, |row| {
            marks.push((row.pid(), row.mark(&marker)));
            take(row, scan, others);
        })?;
        self.before = Marks::new(marks);
        others.extend(not_shown(threads, |pid| self.before.has(*pid), scan, context));
        scan.engine = Engine::Ebpf;
        Ok(others.clone())
    }

    fn later(&mut self, scan: &mut Scan, context: &Context<'_>) -> Result<Vec<u32>, NoBpf> {
        // What the iterator did not tell at first it does not tell now.
        let mut others = self.others.clone();
        let mut same = Vec::with_capacity(self.before.len());
        let (marker, before) = (self.marker, &mut self.before);
        let threads = self.walk.each(context.root, |row| {
            let pid = row.pid();
            if before.is(pid, row.mark(&marker)) {
                same.push(pid);
            } else {
                take(row, scan, &mut others);
            }
        })?;
        order::ascending(&mut same);
        order::by_key(&mut scan.samples, |sample| sample.pid);
        let is_shown = |pid: &u32| {
            same.binary_search(pid).is_ok() || scan.find(*pid).is_some() || others.contains(pid)
        };
        let hidden = not_shown(threads, is_shown, scan, context);
        others.extend(hidden);
        order::ascending(&mut others);
        others.dedup();
        same.retain(|pid| others.binary_search(pid).is_err());
        scan.same = same;
        scan.engine = Engine::Ebpf;
        Ok(others)
    }
}

/// Takes over a process, or leaves it to be read from its files.
fn take(row: &Row, scan: &mut Scan, others: &mut Vec<u32>) {
    let process = row.process();
    // The state and the memory of one whose first thread ended are those of another thread.
    if process.state == b'Z' && process.threads > 1 {
        others.push(process.pid);
        return;
    }
    let start = scan.names.len();
    let length = process.name.iter().position(|byte| *byte == 0);
    let name = process.name.get(..length.unwrap_or(process.name.len())).unwrap_or_default();
    scan.names.extend_from_slice(name);
    let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let name = place(start)..place(scan.names.len());
    scan.samples.push(sample(&process, name, row.at));
}

/// Processes that the iterator does not show, as some kernels do not show pid 1.
fn not_shown(
    threads: u64,
    is_shown: impl Fn(&u32) -> bool,
    scan: &Scan,
    context: &Context<'_>,
) -> Vec<u32> {
    let all = scan.host_threads.known().copied().unwrap_or(0);
    let mut listed = vec![1];
    if all > threads + COME_AND_GONE + all / 100 {
        // Where all cannot be listed, what is hidden stays so.
        let _ = context.root.list_ids(".", &mut listed);
    }
    listed.retain(|pid| !is_shown(pid));
    listed
}

fn sample(process: &Process, name: std::ops::Range<u32>, at: Duration) -> Sample {
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
        at,
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

    /// Threads of a machine whose tasks are gone through at once where that is possible, and of one where
    /// it takes too long.
    const OF_MACHINES: [u64; 2] = [1_000, 1_000_000];

    /// The same processes, from their files too.
    #[test]
    fn the_iterator_says_what_the_files_say() {
        let _guard = ONE_AT_A_TIME.lock();
        let root = Root::live().unwrap();
        for threads in OF_MACHINES {
            let Some(walk) = if_permitted(Walk::new(&root, threads, true)) else { return };
            says_what_the_files_say(walk, &root);
        }
    }

    fn says_what_the_files_say(walk: Walk, root: &Root) {
        let machine = FakeMachine::new();
        let fake = machine.context();
        let context = fake.over(root);
        let mut child = started();
        let before = Scanner::new(Column::Cpu).pass(&context).unwrap();
        let mut by_iterator = ByIterator {
            sort: Column::OpenFiles,
            state: State::Asked(Box::new(Asked::with(walk))),
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
        for threads in OF_MACHINES {
            let Some(walk) = if_permitted(Walk::new(&root, threads, false)) else { return };
            tells_of_those_that_did_something(walk, &root);
        }
    }

    fn tells_of_those_that_did_something(walk: Walk, root: &Root) {
        let machine = FakeMachine::new();
        let fake = machine.context();
        let context = fake.over(root);
        let start = |words: [&str; 3]| {
            let [program, arguments @ ..] = words;
            std::process::Command::new(program).args(arguments).spawn().unwrap()
        };
        let mut resting = start(["sleep", "600", "0"]);
        let mut ending = start(["sleep", "600", "0"]);
        let mut working = start(["sh", "-c", "while :; do :; done"]);
        std::thread::sleep(Duration::from_millis(300));
        let mut asked = Asked::with(walk);
        let scan = || Scan::of(Vec::new(), Duration::ZERO, Duration::ZERO);
        let mut first = scan();
        asked.whole(&mut first, &context).unwrap();
        ending.kill().unwrap();
        ending.wait().unwrap();
        let mut born = start(["sleep", "600", "0"]);
        std::thread::sleep(Duration::from_millis(300));
        let mut last = scan();
        let others = asked.later(&mut last, &context).unwrap();
        order::by_key(&mut first.samples, |sample| sample.pid);
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
}

//! Work that may never return, on threads that can be left behind.
//!
//! Some reads wait for a lock that nobody gives back, or for storage that does not answer, and
//! nothing wakes a thread from them but the end of the process. So they are done on a thread of
//! their own, and whoever asked goes on without it. Such a thread costs nothing while it hangs, and
//! ends with the agent.
//!
//! Handing work over costs two switches of threads, so what can be asked together is.

use super::{os::clock, proc::pid_stat};
use std::{
    collections::HashSet,
    fmt,
    hash::Hash,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Sender},
    },
    time::Duration,
};

/// Threads that do one kind of work.
pub struct Crew<I, T> {
    shared: Arc<Shared<I, T>>,
    /// The threads that wait for work.
    idle: Mutex<Vec<Thread<I, T>>>,
}

/// A thread, by where it takes its work from. It ends when nobody can give it any.
type Thread<I, T> = Sender<Arc<Task<I, T>>>;

struct Shared<I, T> {
    work: Box<dyn Fn(&I) -> T + Send + Sync>,
    patience: Duration,
    /// What threads hang in that were left behind. It is not asked for again until they are back.
    hanging: Mutex<HashSet<I>>,
}

/// What came of one piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// It returned.
    Returned(T),
    /// It did not return in time, now or at an earlier try that still goes on.
    Hangs,
    /// It was not tried: as many threads hang already as may.
    NotTried,
}

/// What came of all of it, in its order, and the processor time that it took.
#[derive(Debug)]
pub struct Done<T> {
    /// Of each item.
    pub outcomes: Vec<Outcome<T>>,
    /// Of the threads that did it.
    pub cpu: Duration,
}

/// Threads that are left behind at most. It also bounds the time that a call loses to them.
const MOST_HANGING: usize = 16;

/// A thread that wants a processor and gets none is waited for so many times longer.
const STARVED_PATIENCE: u32 = 50;

/// A path and a buffer fit many times over.
const STACK_BYTES: usize = 128 << 10;

impl<I, T> Crew<I, T>
where
    I: Clone + Eq + Hash + Send + Sync + 'static,
    T: Send + 'static,
{
    /// A crew that does this work, and waits so long for each piece. It has no thread yet.
    pub fn new(patience: Duration, work: impl Fn(&I) -> T + Send + Sync + 'static) -> Self {
        let shared = Shared { work: Box::new(work), patience, hanging: Mutex::default() };
        Self { shared: Arc::new(shared), idle: Mutex::default() }
    }

    /// Does the work for every item, one after another.
    pub fn each(&self, items: Vec<I>) -> Done<T> {
        let mut done = Done { outcomes: Vec::with_capacity(items.len()), cpu: Duration::ZERO };
        let mut left = items;
        while !left.is_empty() {
            let task = Arc::new(Task::new(left));
            let Some(thread) = self.hand_over(&task) else {
                done.outcomes.extend(task.items.iter().map(|_| Outcome::NotTried));
                break;
            };
            let mut state = task.wait(&self.shared);
            done.outcomes.append(&mut state.outcomes);
            done.cpu += state.cpu;
            if state.is_abandoned {
                done.outcomes.push(Outcome::Hangs);
            } else {
                lock(&self.idle).push(thread);
            }
            left = task.items.get(state.taken..).unwrap_or_default().to_vec();
        }
        done
    }

    /// Gives the work to a thread that is idle, or to a new one; `None` where there is none.
    fn hand_over(&self, task: &Arc<Task<I, T>>) -> Option<Thread<I, T>> {
        let idle = lock(&self.idle).pop();
        if let Some(thread) = idle
            && thread.send(Arc::clone(task)).is_ok()
        {
            return Some(thread);
        }
        let (thread, tasks) = mpsc::channel::<Arc<Task<I, T>>>();
        let shared = Arc::clone(&self.shared);
        let work = move || while tasks.recv().is_ok_and(|task| task.run(&shared)) {};
        let builder = std::thread::Builder::new().name("reader".to_owned());
        builder.stack_size(STACK_BYTES).spawn(work).ok()?;
        thread.send(Arc::clone(task)).ok()?;
        Some(thread)
    }
}

impl<I, T> fmt::Debug for Crew<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew").field("patience", &self.shared.patience).finish_non_exhaustive()
    }
}

/// Items for one thread, and how far it has come.
struct Task<I, T> {
    items: Vec<I>,
    state: Mutex<State<T>>,
    has_ended: Condvar,
}

struct State<T> {
    outcomes: Vec<Outcome<T>>,
    /// Items that need not be looked at any more: done, or given up.
    taken: usize,
    /// The thread, once it has begun.
    tid: Option<u32>,
    cpu: Duration,
    has_ended: bool,
    is_abandoned: bool,
}

impl<I, T> Task<I, T>
where
    I: Clone + Eq + Hash,
{
    fn new(items: Vec<I>) -> Self {
        let state = State {
            outcomes: Vec::with_capacity(items.len()),
            taken: 0,
            tid: None,
            cpu: Duration::ZERO,
            has_ended: false,
            is_abandoned: false,
        };
        Self { items, state: Mutex::new(state), has_ended: Condvar::new() }
    }

    /// Does the work. False when it was given up meanwhile, and the thread with it.
    fn run(&self, shared: &Shared<I, T>) -> bool {
        let before = clock::thread_cpu();
        lock(&self.state).tid = Some(own_tid());
        for item in &self.items {
            let known = shared.known(item);
            let outcome = known.unwrap_or_else(|| Outcome::Returned((shared.work)(item)));
            let mut state = lock(&self.state);
            if state.is_abandoned {
                lock(&shared.hanging).remove(item);
                return false;
            }
            state.outcomes.push(outcome);
            state.taken += 1;
        }
        let mut state = lock(&self.state);
        state.cpu = clock::thread_cpu().saturating_sub(before);
        state.has_ended = true;
        self.has_ended.notify_one();
        !state.is_abandoned
    }

    /// Waits until all is done, or until one item took too long; that one is given up.
    fn wait(&self, shared: &Shared<I, T>) -> MutexGuard<'_, State<T>> {
        let mut state = lock(&self.state);
        let (mut taken, mut waits) = (0, 0);
        while !state.has_ended {
            let (again, timeout) = self
                .has_ended
                .wait_timeout(state, shared.patience)
                .unwrap_or_else(PoisonError::into_inner);
            state = again;
            if state.has_ended || !timeout.timed_out() {
                continue;
            }
            if state.taken > taken {
                (taken, waits) = (state.taken, 0);
                continue;
            }
            waits += 1;
            // On a crowded machine it may not have begun, or not have been let on.
            let hangs = state.tid.is_some_and(is_waiting);
            if let Some(item) = self.items.get(state.taken)
                && (hangs || waits >= STARVED_PATIENCE)
            {
                lock(&shared.hanging).insert(item.clone());
                state.is_abandoned = true;
                state.taken += 1;
                break;
            }
        }
        state
    }
}

impl<I: Eq + Hash, T> Shared<I, T> {
    /// What is known of an item without trying.
    fn known(&self, item: &I) -> Option<Outcome<T>> {
        let hanging = lock(&self.hanging);
        if hanging.contains(item) {
            Some(Outcome::Hangs)
        } else if hanging.len() >= MOST_HANGING {
            Some(Outcome::NotTried)
        } else {
            None
        }
    }
}

/// The number of the calling thread.
fn own_tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Whether a thread of this process waits for something other than a processor.
///
/// One whose state cannot be read counts as waiting.
fn is_waiting(tid: u32) -> bool {
    let line = std::fs::read(format!("/proc/self/task/{tid}/stat")).unwrap_or_default();
    let runs = pid_stat::parse(&line).is_ok_and(|stat| stat.state == b'R');
    !runs
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicU32, Ordering},
        time::Instant,
    };

    const PATIENCE: Duration = Duration::from_millis(50);

    type Gate = Arc<(Mutex<bool>, Condvar)>;

    /// Work that hangs for every odd number until the gate is opened, and how often it was tried.
    fn crew() -> (Crew<u32, u32>, Gate, Arc<AtomicU32>) {
        let gate = Gate::default();
        let tries = Arc::new(AtomicU32::new(0));
        let (inner, counted) = (Arc::clone(&gate), Arc::clone(&tries));
        let crew = Crew::new(PATIENCE, move |item: &u32| {
            counted.fetch_add(1, Ordering::SeqCst);
            if item % 2 == 1 {
                let (is_open, changed) = &*inner;
                drop(changed.wait_while(lock(is_open), |is_open| !*is_open).unwrap());
            }
            item * 10
        });
        (crew, gate, tries)
    }

    #[test]
    fn what_hangs_is_given_up_and_the_rest_is_done() {
        let (crew, gate, tries) = crew();
        let done = crew.each(vec![2, 3, 4]);
        let want = [Outcome::Returned(20), Outcome::Hangs, Outcome::Returned(40)];
        assert_eq!((done.outcomes.as_slice(), tries.load(Ordering::SeqCst)), (&want[..], 3));
        // It is not tried again while it hangs, and costs no time.
        let started = Instant::now();
        assert_eq!(crew.each(vec![3]).outcomes, [Outcome::Hangs]);
        assert!(started.elapsed() < PATIENCE && tries.load(Ordering::SeqCst) == 3);
        // Once it is back it is.
        *lock(&gate.0) = true;
        gate.1.notify_all();
        let back = Instant::now();
        while crew.each(vec![3]).outcomes != [Outcome::Returned(30)] {
            assert!(back.elapsed() < Duration::from_secs(20), "it is never tried again");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn no_more_threads_are_left_behind_than_may() {
        let (crew, _gate, tries) = crew();
        let odd: Vec<u32> = (0..100).map(|number| 2 * number + 1).collect();
        let outcomes = crew.each(odd).outcomes;
        let count = |wanted| outcomes.iter().filter(|outcome| **outcome == wanted).count();
        let counts = (count(Outcome::Hangs), count(Outcome::NotTried));
        assert_eq!(counts, (MOST_HANGING, 100 - MOST_HANGING));
        assert_eq!(tries.load(Ordering::SeqCst) as usize, MOST_HANGING);
        assert_eq!(crew.each(vec![2]).outcomes, [Outcome::NotTried]);
    }

    #[test]
    fn a_thread_that_waits_for_a_processor_is_not_taken_for_one_that_hangs() {
        let crew = Crew::new(Duration::from_millis(1), |_: &u32| {
            let started = Instant::now();
            while started.elapsed() < Duration::from_millis(30) {}
        });
        assert_eq!(crew.each(vec![1]).outcomes, [Outcome::Returned(())]);
    }

    #[test]
    fn the_cost_is_that_of_the_thread_which_did_it() {
        let crew = Crew::new(PATIENCE, |_: &u32| {
            let before = clock::thread_cpu();
            while clock::thread_cpu().saturating_sub(before) < Duration::from_millis(5) {}
        });
        let done = crew.each(vec![1, 2]);
        assert!(done.cpu >= Duration::from_millis(10), "{:?}", done.cpu);
    }
}

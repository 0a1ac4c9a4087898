//! Questions to the kernel that may never be answered, each on a thread that can be given up.
//!
//! A thread that waits for such an answer cannot be ended. It is left there: it keeps its place among
//! the few that there may be, and nobody puts its question a second time, so that neither threads nor
//! questions pile up from call to call. They end with the process.

use crate::{order, os::clock};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    time::{Duration, Instant},
};

/// A thread only makes a few calls to the kernel.
const STACK_BYTES: usize = 64 << 10;

/// Where questions are put.
#[derive(Debug)]
pub(super) struct Desk {
    most_threads: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    threads: usize,
    /// What is being asked, and since when: of all calls.
    asked: BTreeMap<Vec<u8>, Instant>,
}

/// A question, under the name by which it is known again.
pub(super) struct Question<T> {
    pub(super) name: Vec<u8>,
    pub(super) ask: Box<dyn FnOnce() -> T + Send>,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer<T> {
    pub(super) value: T,
    pub(super) took: Duration,
    /// Processor time that it cost.
    pub(super) cpu: Duration,
}

/// What came of a question.
#[derive(Debug)]
pub(super) enum Outcome<T> {
    Answered(Answer<T>),
    /// It was asked so long ago, in this call or in an earlier one.
    NoAnswer(Duration),
    /// Too many others were not answered.
    NotAsked,
}

type Queue<T> = Arc<Mutex<VecDeque<Question<T>>>>;

/// Questions that were put.
pub(super) struct Pending<T> {
    desk: &'static Desk,
    names: Vec<Vec<u8>>,
    /// What no thread has taken yet.
    queue: Queue<T>,
    answers: Receiver<(Vec<u8>, Answer<T>)>,
}

impl Desk {
    /// A desk with so many threads at most.
    pub(super) const fn new(most_threads: usize) -> Self {
        let state = State { threads: 0, asked: BTreeMap::new() };
        Self { most_threads, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Puts questions, and does not wait. One that is still being asked is not put again.
    pub(super) fn put<T: Send + 'static>(&'static self, questions: Vec<Question<T>>) -> Pending<T> {
        let names = questions.iter().map(|question| question.name.clone()).collect();
        let mut state = self.state();
        let new: VecDeque<_> = questions
            .into_iter()
            .filter(|question| !state.asked.contains_key(&question.name))
            .collect();
        let wanted = new.len().min(self.most_threads.saturating_sub(state.threads));
        let queue: Queue<T> = Arc::new(Mutex::new(new));
        let (sender, answers) = channel();
        for _ in 0..wanted {
            let (queue, sender) = (Arc::clone(&queue), sender.clone());
            let thread = std::thread::Builder::new()
                .name("ask".to_owned())
                .stack_size(STACK_BYTES)
                .spawn(move || self.work(&queue, &sender));
            // Without a thread the question is not asked, which is said.
            state.threads += usize::from(thread.is_ok());
        }
        drop(state);
        Pending { desk: self, names, queue, answers }
    }

    fn work<T>(&self, queue: &Queue<T>, sender: &Sender<(Vec<u8>, Answer<T>)>) {
        loop {
            let Some(question) = locked(queue).pop_front() else { break };
            let (asked_at, cpu_before) = (Instant::now(), clock::thread_cpu());
            self.state().asked.insert(question.name.clone(), asked_at);
            let value = (question.ask)();
            self.state().asked.remove(&question.name);
            let cpu = clock::thread_cpu().saturating_sub(cpu_before);
            let answer = Answer { value, took: asked_at.elapsed(), cpu };
            // Whoever asked may have gone.
            let _ = sender.send((question.name, answer));
        }
        let mut state = self.state();
        state.threads = state.threads.saturating_sub(1);
    }
}

impl<T> Pending<T> {
    /// What came of each question by now, in the order in which they were put.
    pub(super) fn finish(self) -> Vec<Outcome<T>> {
        locked(&self.queue).clear();
        let mut answers: BTreeMap<Vec<u8>, Answer<T>> = order::map(self.answers.try_iter());
        let state = self.desk.state();
        let outcome = |name: &Vec<u8>| match (answers.remove(name), state.asked.get(name)) {
            (Some(answer), _) => Outcome::Answered(answer),
            (None, Some(since)) => Outcome::NoAnswer(since.elapsed()),
            (None, None) => Outcome::NotAsked,
        };
        self.names.iter().map(outcome).collect()
    }
}

impl<T> Drop for Pending<T> {
    /// A call that is over asks nothing more.
    fn drop(&mut self) {
        locked(&self.queue).clear();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    fn question(name: &str, ask: impl FnOnce() -> u32 + Send + 'static) -> Question<u32> {
        Question { name: name.as_bytes().to_vec(), ask: Box::new(ask) }
    }

    /// Waits until a condition holds that a thread brings about.
    fn until(mut holds: impl FnMut() -> bool) {
        let started = Instant::now();
        while !holds() {
            assert!(started.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn is_hung<T>(outcome: &Outcome<T>) -> bool {
        matches!(outcome, Outcome::NoAnswer(_))
    }

    #[test]
    fn one_that_hangs_keeps_no_other_from_being_answered_and_is_not_asked_again() {
        static DESK: Desk = Desk::new(2);
        let (release, blocked) = sync_channel::<()>(0);
        let first = DESK.put(vec![
            question("hangs", move || blocked.recv().map_or(0, |()| 7)),
            question("a", || 1),
            question("b", || 2),
        ]);
        until(|| DESK.state().asked.len() == 1 && DESK.state().threads == 1);
        let found = first.finish();
        assert!(is_hung(&found[0]), "{found:?}");
        for (outcome, want) in found[1..].iter().zip([1, 2]) {
            let Outcome::Answered(answer) = outcome else { panic!("{outcome:?}") };
            assert_eq!(answer.value, want);
        }
        // Call after call, one thread hangs, and what it was asked stays listed.
        for _ in 0..50 {
            let again = DESK.put(vec![question("hangs", || 8), question("a", || 3)]);
            until(|| DESK.state().threads == 1);
            let found = again.finish();
            assert!(is_hung(&found[0]) && matches!(found[1], Outcome::Answered(_)), "{found:?}");
        }
        // Once it comes back, it is asked anew.
        release.send(()).unwrap();
        until(|| DESK.state().threads == 0);
        let last = DESK.put(vec![question("hangs", || 9)]);
        until(|| DESK.state().threads == 0);
        let Some(Outcome::Answered(answer)) = last.finish().pop() else { panic!() };
        assert_eq!(answer.value, 9);
    }

    #[test]
    fn where_all_threads_hang_the_others_are_not_asked() {
        static DESK: Desk = Desk::new(2);
        let hang = |name: &str| {
            question(name, || {
                loop {
                    std::thread::park()
                }
            })
        };
        let pending = DESK.put(vec![hang("a"), hang("b"), question("c", || 1)]);
        until(|| DESK.state().asked.len() == 2);
        let found = pending.finish();
        assert!(is_hung(&found[0]) && is_hung(&found[1]), "{found:?}");
        assert!(matches!(found[2], Outcome::NotAsked), "{found:?}");
        let again = DESK.put(vec![question("d", || 1)]).finish();
        assert!(matches!(again[0], Outcome::NotAsked), "{again:?}");
    }
}

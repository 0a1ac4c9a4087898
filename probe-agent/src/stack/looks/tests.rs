//! Looks at children of the test.

use super::*;
use crate::stack::profile::{Builder, Profile, Thread as ProfileThread};
use std::{
    convert::Infallible,
    process::{Child, Command, Stdio},
};

/// A window of so many looks.
struct Rounds(u32);

impl Window for Rounds {
    type End = Infallible;

    fn pass(&mut self, time: Duration) -> Result<bool, Infallible> {
        std::thread::sleep(time);
        self.0 = self.0.saturating_sub(1);
        Ok(self.0 > 0)
    }
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn started(words: &[&str]) -> Ended {
    let mut command = Command::new(words[0]);
    Ended(command.args(&words[1..]).stdout(Stdio::null()).spawn().unwrap())
}

fn looked(pid: u32, may_stop: bool) -> Looks {
    let root = Root::live().unwrap();
    let settings =
        Settings { scope: Scope::Process(pid), hertz: 50, may_stop, dump_bytes: 16 << 10 };
    take(&root, &settings, Limits::default(), &mut Rounds(12)).unwrap()
}

/// Folded stacks without names of their own in user space.
fn folded(looks: &Looks) -> Vec<(Vec<String>, u64)> {
    let named = Profile::default();
    let mut found = Vec::new();
    let mut stacks = |_: &ProfileThread, functions: &[u32], weight| {
        found.push((functions.to_vec(), weight));
    };
    let mut builder = Builder::with_functions_of(&named);
    for (number, weight) in &looks.bare {
        looks.count(&mut builder, *number, &[], *weight);
    }
    for (number, _, weight) in &looks.stacks.weights {
        looks.count(&mut builder, *number, &[], weight.events);
    }
    let profile = builder.finish();
    profile.each_stack(&mut stacks);
    let name = |function: &u32| profile.shown(*function);
    found
        .into_iter()
        .map(|(functions, weight)| (functions.iter().map(name).collect(), weight))
        .collect()
}

#[test]
fn a_thread_that_sleeps_shows_its_call_and_its_stack_and_is_not_stopped() {
    let child = started(&["sleep", "100"]);
    let looks = looked(child.0.id(), false);
    assert_eq!((looks.stops, looks.threads, looks.processes), (Stops::default(), 1, 1));
    let stacks = folded(&looks);
    let in_sleep = stacks.iter().filter(|(stack, _)| {
        stack[0] == "[sleeping]" && stack.contains(&"sys_clock_nanosleep ([kernel])".to_owned())
    });
    let weight: u64 = in_sleep.map(|(_, weight)| *weight).sum();
    assert!(weight >= 10, "{stacks:?}");
    assert!(stacks.iter().any(|(stack, _)| stack.last().unwrap().contains("nanosleep ([kernel])")));
    // The C library keeps its own calls by tables alone, so the stack is whole.
    #[cfg(target_arch = "x86_64")]
    assert!(looks.looks.complete.samples >= 10, "{:?}", looks.looks);
}

#[test]
fn a_thread_that_runs_shows_its_stack_only_where_it_may_be_stopped() {
    let child = started(&["sh", "-c", "while :; do :; done"]);
    let looks = looked(child.0.id(), false);
    let runs = |stacks: &[(Vec<String>, u64)]| {
        let all = stacks.iter().filter(|(stack, _)| *stack == ["[running or runnable]"]);
        all.map(|(_, weight)| *weight).sum::<u64>()
    };
    assert!(runs(&folded(&looks)) >= 10, "{:?}", folded(&looks));
    assert_eq!((looks.stops.count, looks.looks.complete.samples), (0, 0));
    let looks = looked(child.0.id(), true);
    assert!(looks.stops.count >= 10 && looks.stops.pause_us_max > 0, "{:?}", looks.stops);
    assert!(looks.looks.complete.samples >= 8, "{:?}", looks.looks);
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.0.id())).unwrap();
    assert!(stat.contains(") R "), "{stat}");
}

#[test]
fn a_process_that_is_not_there_is_said_to_be_none() {
    let root = Root::live().unwrap();
    let settings =
        Settings { scope: Scope::Process(4_194_303), hertz: 20, may_stop: false, dump_bytes: 8192 };
    let none = take(&root, &settings, Limits::default(), &mut Rounds(3));
    assert_eq!(none.unwrap_err(), NoLooks::NoSuchProcess);
}

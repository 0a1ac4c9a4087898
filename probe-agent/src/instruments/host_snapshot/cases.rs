//! Machines that were made up, with the one right answer of each.

mod busy;
mod cgroup_limits;

use super::{Between, End, cgroups, mounts, report};
use crate::instruments::fake::{FakeMachine, FakeStat};
use protocol::{
    Report as AnyReport,
    host_text::HostText,
    instruments::host_snapshot::{Blocked, BlockedGroup, Detail, Report, Request},
    message::Meta,
    observed::Observed,
    view::{json, nulls::Nulls},
};
use std::time::Duration;

const V1: (&str, &str) = (
    "proc/self/mountinfo",
    "30 22 0:26 / /cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
     31 22 0:27 / /mem rw - cgroup cgroup rw,memory\n",
);

const PLENTY: Duration = Duration::from_secs(5);

/// A machine of these files.
fn machine(files: &[(&str, &str)]) -> FakeMachine {
    let machine = FakeMachine::new();
    write(&machine, files);
    machine
}

fn write(machine: &FakeMachine, files: &[(&str, &str)]) {
    for (path, text) in files {
        machine.write_below_root(path, text);
    }
}

/// The report of a machine whose files change in the window, and which lasted a second.
fn report_of(machine: &FakeMachine, request: &Request, change: impl FnOnce()) -> (Report, Meta) {
    let context = machine.context();
    let mut first = End::read(context.root);
    let asked = mounts::ask(context.root);
    let look = cgroups::look(context.root, PLENTY);
    change();
    let mut last = End::read(context.root);
    // An even second, and a clock that nobody set, whatever the test took.
    first.at = Duration::from_secs(100);
    last.at = Duration::from_secs(101);
    last.boot_at = first.boot_at;
    let cgroups = look.finish(context.root, request.limit as usize);
    let (mounts, cost) = asked.finish();
    let blocked = super::blocked::look(&context).unwrap();
    let between = Between { blocked, cgroups, mounts };
    report::assemble(request, &first, &last, between, cost, &context)
}

fn pressure(files: &[(&str, &str)]) -> Nulls {
    let (report, _) = report_of(&machine(files), &full(), || ());
    json::fields(&AnyReport::HostSnapshot(report)).unwrap().1
}

fn full() -> Request {
    Request { detail: Detail::Full, ..Request::default() }
}

/// Case 15. That the file refuses to be read cannot be built; `proc/pressure.rs` has that case.
#[test]
fn pressure_three_ways() {
    let stat = ("proc/stat", "cpu 1 1 1 1\ncpu0 1 1 1 1\nprocesses 1\n");
    let some = "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
    let both = "some avg10=0.00 total=5\nfull avg10=0.00 total=4\n";
    let not_built_in = pressure(&[stat, ("proc/cmdline", "ro quiet\n")]);
    let said = not_built_in.not_measured.get("pressure.io_some_pct").unwrap();
    assert!(said.starts_with("not in this kernel: /proc/pressure"), "{said}");
    let off = pressure(&[stat, ("proc/cmdline", "ro psi=0\n")]);
    let said = off.not_measured.get("pressure.io_some_pct").unwrap();
    assert_eq!(said, "switched off: pressure stall information; remedy: boot with psi=1");
    let old = [
        stat,
        ("proc/pressure/cpu", some),
        ("proc/pressure/io", both),
        ("proc/pressure/memory", both),
    ];
    let (report, _) = report_of(&machine(&old), &full(), || ());
    assert_eq!(report.pressure.cpu_some_pct.known().unwrap().get(), 0.0);
    assert_eq!(report.pressure.io_full_pct.known().unwrap().get(), 0.0);
    assert!(!pressure(&old).not_measured.keys().any(|path| path.starts_with("pressure")));
    // What is measured and 0 is told from all of these.
    assert_eq!(off.not_measured.len(), not_built_in.not_measured.len());
}

/// Case 16: a processor goes off and comes back, and idle time is corrected.
#[test]
fn counters_that_step_back_are_no_time_and_are_counted() {
    let machine = machine(&[(
        "proc/stat",
        "cpu 300 0 0 3000 50 0 0 0\ncpu0 100 0 0 1000 40 0 0 0\ncpu1 200 0 0 2000 10 0 0 0\n\
         ctxt 900\nprocesses 1\nprocs_running 1\n",
    )]);
    let later = [(
        "proc/stat",
        "cpu 160 0 0 1130 20 0 0 0\ncpu0 150 0 0 1050 20 0 0 0\ncpu1 10 0 0 80 0 0 0 0\n\
         ctxt 100\nprocesses 1\nprocs_running 1\n",
    )];
    let (report, _) = report_of(&machine, &full(), || write(&machine, &later));
    // Processor 0 ran for 50 of 100 ticks; nothing that processor 1 counted grew.
    assert_eq!(report.cpu.user_pct.known().unwrap().get(), 50.0);
    assert_eq!(report.cpu.iowait_pct.known().unwrap().get(), 0.0);
    assert_eq!(report.cpu.set_back, Observed::Known(4));
    let answer = json::fields(&AnyReport::HostSnapshot(report)).unwrap().0;
    assert!(!serde_json::to_string(&answer).unwrap().contains("184467440737095"), "{answer:?}");
}

/// Case 43: the wall clock is set, in both directions; every share and rate is as if it was not.
#[test]
fn a_clock_that_is_set_moves_no_number() {
    const SECOND: i128 = 1_000_000_000;
    let stat =
        |ticks: u32| format!("cpu {ticks} 0 0 {ticks}\ncpu0 {ticks} 0 0 {ticks}\nprocesses 1\n");
    let year = 365 * 24 * 3600;
    let steps = [(0, 0), (year, year * 1000), (-year, -year * 1000), (2, 2000)];
    for (step_s, want_ms) in steps {
        let machine = machine(&[("proc/stat", &stat(100))]);
        let context = machine.context();
        let mut first = End::read(context.root);
        machine
            .write("stat", stat(150).replace("processes", &format!("btime {step_s}\nprocesses")));
        let mut last = End::read(context.root);
        (first.at, last.at) = (Duration::from_secs(7), Duration::from_secs(8));
        last.boot_at = first.boot_at + i128::from(step_s) * SECOND;
        let between = Between {
            blocked: Blocked { tasks: Observed::Known(0), not_looked_at: 0, groups: Vec::new() },
            cgroups: cgroups::look(context.root, PLENTY).finish(context.root, 1),
            mounts: mounts::ask(context.root).finish().0,
        };
        let (report, meta) =
            report::assemble(&full(), &first, &last, between, Duration::ZERO, &context);
        assert_eq!(report.clock_step_ms, Observed::Known(want_ms), "{step_s} s");
        assert_eq!(meta.window_ms, Some(1000), "{step_s} s");
        assert_eq!(report.cpu.user_pct.known().unwrap().get(), 50.0, "{step_s} s");
    }
}

/// Case 42: forty tasks on a dead mount, processors that do nothing.
#[test]
fn a_load_of_forty_on_idle_processors_is_grouped_by_what_it_waits_in() {
    let machine = FakeMachine::new();
    machine.write("loadavg", "40.02 38.00 20.00 1/300 999\n");
    for pid in 100..140 {
        machine.stat(&pid.to_string(), FakeStat { state: 'D', ..FakeStat::idle(pid, 1) });
        let channel = if pid < 137 { "rpc_wait_bit_killable" } else { "io_schedule" };
        machine.write(&format!("{pid}/task/{pid}/wchan"), channel);
    }
    let (report, meta) = report_of(&machine, &full(), || ());
    assert_eq!(report.blocked.tasks, Observed::Known(40));
    assert_eq!(meta.truncation.total, 2);
    let group: &BlockedGroup = &report.blocked.groups[0];
    assert_eq!(group.channel, Observed::Known(HostText::new(b"rpc_wait_bit_killable")));
    assert_eq!(group.tasks, 37);
}

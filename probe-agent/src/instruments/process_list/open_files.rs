//! How many files every process has open, where that is what ranks them.
//!
//! A process's table of open files says so without a look at any file. The iterator counts in tables
//! that are small; else the folder `/proc/PID/fd` tells, by its size since Linux 6.2, and by its
//! entries before. Whoever shares a table with another process has the same files open.

use super::{
    change::Change,
    scan::{Sample, Scan},
};
use crate::{
    call::Context,
    instruments::{ownership::has_its_own, process_files::ProcessFiles},
};
use protocol::{
    error::AgentError,
    instruments::process_list::{Column, OpenFiles, State},
    observed::{Observed, Reason},
};

/// Processes between two looks at the call's limits.
const TOGETHER: usize = 64;

/// Counts the open files of every process of a pass that the pass did not tell, where they rank.
///
/// # Errors
///
/// When the call reached a limit.
pub(super) fn count(
    sort: Column,
    scan: &mut Scan,
    context: &Context<'_>,
) -> Result<(), AgentError> {
    if sort != Column::OpenFiles {
        return Ok(());
    }
    for some in scan.samples.chunks_mut(TOGETHER) {
        context.check()?;
        for sample in some {
            let told = sample.open_files.take();
            let open = open(sample, told, context);
            sample.open_files = Some(open);
        }
    }
    Ok(())
}

/// The number that was told, or else that of the process's folder. Threads of the kernel, and what
/// ended, have no table.
fn open(sample: &Sample, told: Option<Observed<u64>>, context: &Context<'_>) -> Observed<u64> {
    if let Err(nature) = has_its_own(State::from_letter(sample.state), sample.is_kernel_thread) {
        return Observed::Unknown(nature);
    }
    let files = ProcessFiles { pid: sample.via, context };
    told.unwrap_or_else(|| files.open_files().into())
}

/// What a number of open files counts for in a ranking. Who cannot have any has none open.
pub(super) fn weight(open: Observed<u64>) -> Observed<f64> {
    match open {
        Observed::Unknown(reason) if reason.is_absence() => Observed::Known(0.0),
        Observed::Known(_) | Observed::Unknown(_) => open.map(|open| open as f64),
    }
}

/// What a row says of open files, where those rank. Of what they are, so many are looked at.
pub(super) fn of_row(
    change: &Change,
    sort: Column,
    most: u64,
    context: &Context<'_>,
) -> Option<OpenFiles> {
    if sort != Column::OpenFiles {
        return None;
    }
    let files = ProcessFiles { pid: change.via, context };
    let of_process = ProcessFiles { pid: change.pid, context };
    let has = of_process.unless_replaced(change.start_ticks, Observed::Known(()));
    let has = has.and_then(|()| has_its_own(change.state, change.is_kernel_thread));
    Some(OpenFiles {
        open: change.open_files.clone().unwrap_or(Observed::Unknown(Reason::NotStored)),
        limit: has.clone().and_then(|()| files.open_files_limit()),
        kinds: has.and_then(|()| files.kinds_of_open_files(most)),
    })
}

/// How many of a row's open files are looked at, where there are so many rows.
pub(super) fn most_looked_at(rows: usize) -> u64 {
    /// One costs some microseconds.
    const OF_AN_ANSWER: u64 = 16 << 10;
    OF_AN_ANSWER / u64::try_from(rows).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{
        instruments::{
            fake::{FakeMachine, FakeStat},
            process_list::scan::Scanner,
        },
        proc::Root,
    };
    use protocol::observed::{Feature, Nature};
    use std::{
        io::{Read as _, Write as _},
        process::{Child, Command, Stdio},
    };

    /// A program that has opened what it opens at its start.
    pub(in super::super) fn started() -> Child {
        let mut command = Command::new("cat");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        child
    }

    fn counted(machine: &FakeMachine, sort: Column) -> Vec<Option<Observed<u64>>> {
        let context = machine.context();
        let mut scan = Scanner::new(sort).pass(&context).unwrap();
        count(sort, &mut scan, &context).unwrap();
        scan.samples.into_iter().map(|sample| sample.open_files).collect()
    }

    #[test]
    fn open_files_are_counted_where_they_rank_and_nowhere_else() {
        let machine = FakeMachine::new();
        machine.stat("7", FakeStat::idle(7, 100));
        machine.stat("8", FakeStat { state: 'Z', ..FakeStat::idle(8, 100) });
        let zombie = Observed::Unknown(Reason::DoesNotApply(Nature::Zombie));
        // Process 7 has no folder of descriptors, as none that may not be looked at.
        let missing = Observed::Unknown(Reason::KernelLacks(Feature::Field));
        let ranked = counted(&machine, Column::OpenFiles);
        assert_eq!(ranked, [Some(missing), Some(zombie)]);
        assert_eq!(counted(&machine, Column::Rss), [None, None]);
    }

    #[test]
    fn a_process_whose_first_thread_ended_has_the_files_of_another_thread() {
        let machine = FakeMachine::new();
        let ended = FakeStat { state: 'Z', threads: 2, ..FakeStat::idle(7, 100) };
        machine.stat("7", ended);
        machine.thread(7, ended, 0);
        let alive = FakeStat { threads: 2, ..FakeStat::idle(7_000_008, 101) };
        machine.thread(7, alive, 0);
        machine.stat("7000008", alive);
        machine.write("7000008/fd/0", "");
        let first = counted(&machine, Column::OpenFiles).remove(0).unwrap();
        // The size of a folder that is none of the kernel's is any number.
        assert!(first.known().is_some(), "{first:?}");
    }

    #[test]
    fn a_process_has_as_many_open_as_its_folder_lists() {
        let root = Root::live().unwrap();
        let machine = FakeMachine::new();
        let fake = machine.context();
        let context = fake.over(&root);
        let mut child = started();
        let mut scan = Scanner::new(Column::OpenFiles).pass(&context).unwrap();
        count(Column::OpenFiles, &mut scan, &context).unwrap();
        let listed = std::fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().count();
        child.kill().unwrap();
        child.wait().unwrap();
        let found = scan.samples.into_iter().find(|sample| sample.pid == child.id()).unwrap();
        assert_eq!(found.open_files, Some(Observed::Known(listed as u64)));
    }

    #[test]
    fn what_cannot_have_files_ranks_last_and_what_could_not_be_read_is_not_ranked() {
        let none = Observed::Unknown(Reason::DoesNotApply(Nature::KernelThread));
        assert_eq!(weight(none), Observed::Known(0.0));
        assert_eq!(weight(Observed::Known(12)), Observed::Known(12.0));
        let gone = Observed::Unknown(Reason::Gone);
        assert_eq!(weight(gone), Observed::Unknown(Reason::Gone));
    }
}

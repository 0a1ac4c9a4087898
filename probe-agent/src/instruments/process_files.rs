//! The files of one process, parsed, with the reason where one cannot be had.

use crate::{
    call::{Context, millis},
    instruments::thread_accounts::{Accounts, ThreadId},
    proc::{
        PATIENCE, ReadError, Root, Text,
        descriptors::Kinds,
        limits,
        parse::ParseError,
        pid_io::{self, PidIo},
        pid_stat::{self, PidStat},
    },
};
use protocol::{
    instruments::process_list::{FileKinds, State},
    observed::{Feature, Lock, Observed, Permission, Reason},
};

/// One process's folder under `/proc`.
#[derive(Clone, Copy)]
pub(super) struct ProcessFiles<'c, 's> {
    pub(super) pid: u32,
    pub(super) context: &'c Context<'s>,
}

impl ProcessFiles<'_, '_> {
    /// Input and output, of all threads.
    pub(super) fn io(&self) -> Result<PidIo, Reason> {
        self.parsed("io", Feature::IoAccounting, pid_io::parse)
    }

    /// How many files it has open.
    pub(super) fn open_files(&self) -> Result<u64, Reason> {
        let counted = self.context.root.count_descriptors(self.pid);
        let folder = format!("{}/fd", self.pid);
        counted.map_err(|error| self.reason(&folder, error, Feature::Field))
    }

    /// What its open files are, the first so many.
    pub(super) fn kinds_of_open_files(&self, most: u64) -> Result<FileKinds, Reason> {
        let looked = self.context.root.kinds_of_descriptors(self.pid, most);
        let folder = format!("{}/fd", self.pid);
        let kinds = looked.map_err(|error| self.reason(&folder, error, Feature::Field))?;
        let Kinds { files, sockets, pipes, devices, anonymous } = kinds;
        Ok(FileKinds { looked_at: kinds.all(), files, sockets, pipes, devices, anonymous })
    }

    /// How many files it may have open.
    pub(super) fn open_files_limit(&self) -> Result<u64, Reason> {
        self.parsed("limits", Feature::Field, limits::parse_open_files)
            .and_then(|limit| limit.ok_or(Reason::NoLimitSet))
    }

    /// Reads a file of every thread and parses it: the process's own file would be the first
    /// thread's only.
    ///
    /// A thread that ends while it is looked at is left out, as if it had ended before.
    pub(super) fn of_threads<T>(
        &self,
        (file, feature): (&str, Feature),
        process: &PidStat<'_>,
        most_threads: u32,
        parse: impl Fn(&[u8]) -> Result<T, ParseError>,
    ) -> Result<Accounts<T>, Reason> {
        if process.threads <= 1 {
            let id = ThreadId { tid: self.pid, start_ticks: process.start_ticks };
            return Ok(Accounts::from([(id, self.parsed(file, feature, parse).into())]));
        }
        if process.threads > most_threads {
            let (count, limit) = (process.threads.into(), most_threads.into());
            return Err(Reason::TooCostly { count, limit });
        }
        let mut accounts = Accounts::new();
        for tid in self.thread_ids()? {
            let Ok(start_ticks) = self.start_of_thread(tid) else { continue };
            match self.parsed(&format!("task/{tid}/{file}"), feature, &parse) {
                Err(Reason::Gone) => {}
                read => {
                    accounts.insert(ThreadId { tid, start_ticks }, read.into());
                }
            }
        }
        Ok(accounts)
    }

    fn start_of_thread(&self, tid: u32) -> Result<u64, Reason> {
        self.parsed(&format!("task/{tid}/stat"), Feature::Field, |text| {
            pid_stat::parse(text).map(|stat| stat.start_ticks)
        })
    }

    /// A value that was read just now, unless it is another process's: the one that started then
    /// has ended, and its pid was reused. To be asked after the value was read.
    pub(super) fn unless_replaced<T>(&self, start_ticks: u64, value: Observed<T>) -> Observed<T> {
        let found = self.parsed("stat", Feature::Field, |text| {
            pid_stat::parse(text).map(|stat| stat.start_ticks)
        });
        match found {
            Ok(found) if found == start_ticks => value,
            Ok(_) => Observed::Unknown(Reason::Gone),
            Err(reason) => Observed::Unknown(reason),
        }
    }

    /// The files of a thread that lives, where the process's first thread has ended and others go
    /// on (`pthread_exit` in `main`): the first one's are those of a zombie, without memory,
    /// descriptors and arguments. `/proc/TID` is there for every thread, though not listed.
    pub(super) fn of_a_living_thread(&self, process: &PidStat<'_>) -> Option<Self> {
        if !is_ended(process.state) || process.threads <= 1 {
            return None;
        }
        let lives = |tid: &u32| {
            let path = format!("task/{tid}/stat");
            let state = |text: &[u8]| pid_stat::parse(text).map(|stat| stat.state);
            self.parsed(&path, Feature::Field, state).is_ok_and(|state| !is_ended(state))
        };
        let tid = self.thread_ids().ok()?.into_iter().find(lives)?;
        Some(Self { pid: tid, context: self.context })
    }

    /// The threads that there are now.
    pub(super) fn thread_ids(&self) -> Result<Vec<u32>, Reason> {
        let mut tids = Vec::new();
        let folder = format!("{}/task", self.pid);
        let listed = self.context.root.list_ids(&folder, &mut tids);
        listed.map_err(|error| self.reason(&folder, error, Feature::Field))?;
        Ok(tids)
    }

    /// Reads a whole file and parses it. One page is not enough for all: `status` lists every
    /// supplementary group, of which there may be 65,536.
    pub(super) fn parsed<T>(
        &self,
        file: &str,
        feature: Feature,
        parse: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Result<T, Reason> {
        let text = self.whole(file, feature)?;
        parse(&text).map_err(|error| Reason::NotUnderstood(error.shown()))
    }

    /// Reads a whole file of any length.
    pub(super) fn whole(&self, file: &str, feature: Feature) -> Result<Vec<u8>, Reason> {
        if lock_of(file).is_none() {
            return self.whole_at_once(file, feature);
        }
        let path = format!("{}/{file}", self.pid);
        let text = patiently(vec![path], feature, self.context).pop();
        text.unwrap_or(Err(Reason::TooManyHang))?
            .whole()
            .map_err(|error| self.reason(&format!("{}/{file}", self.pid), error, feature))
    }

    /// The same on this very thread, which hangs for good where the process does not let it go.
    pub(super) fn whole_at_once(&self, file: &str, feature: Feature) -> Result<Vec<u8>, Reason> {
        let mut text = Vec::new();
        let path = format!("{}/{file}", self.pid);
        self.context
            .root
            .read_proc(&path, &mut text)
            .map_err(|error| self.reason(&path, error, feature))?;
        Ok(text)
    }

    /// Why a file could not be read.
    pub(super) fn reason(&self, path: &str, error: ReadError, feature: Feature) -> Reason {
        reason(path, error, feature, self.context)
    }
}

/// Reads files that may not let a reader go, one after another. A read that does not return in time
/// is left behind, and the others go on.
///
/// Asked for together they cost little more than if they were read here; one by one, twice as much.
pub(super) fn patiently(
    paths: Vec<String>,
    feature: Feature,
    context: &Context<'_>,
) -> Vec<Result<Text, Reason>> {
    let read = context.root.read_each_patiently(paths.clone());
    context.add_cpu(read.cpu);
    let with_reason = |(text, path): (Result<Text, ReadError>, String)| {
        text.map_err(|error| reason(&path, error, feature, context))
    };
    read.texts.into_iter().zip(paths).map(with_reason).collect()
}

/// Input and output of several processes or threads, by the paths of their files.
pub(super) fn io_of_each(paths: Vec<String>, context: &Context<'_>) -> Vec<Result<PidIo, Reason>> {
    let parse = |text: Result<Text, Reason>| {
        pid_io::parse(&text?.bytes).map_err(|error| Reason::NotUnderstood(error.shown()))
    };
    patiently(paths, Feature::IoAccounting, context).into_iter().map(parse).collect()
}

/// A file that is missing although the folder of its process, or its thread, is there is one that
/// the kernel lacks; else the process, or the thread, has ended.
fn reason(path: &str, error: ReadError, feature: Feature, context: &Context<'_>) -> Reason {
    if error.is_hanging() {
        let lock = lock_of(path).unwrap_or(Lock::Memory);
        return Reason::DidNotReturn { after_ms: millis(PATIENCE), lock };
    }
    let folder = path.rsplit_once('/').map_or(path, |(folder, _)| folder);
    match context.root.owner_uid(folder) {
        Ok(owner_uid) => yama_or(feature, error.reason(feature, owner_uid), context.root),
        // Of a snapshot only this is known.
        Err(owner) if !owner.is_gone() => error.reason(feature, 0),
        Err(_) => Reason::Gone,
    }
}

/// What a thread waits in may be read by whoever may trace it, which Yama may forbid to all but the
/// parent, and at its strictest to everybody. Of others' processes their owner is the reason to give.
///
/// Kernel reference: `Documentation/admin-guide/LSM/Yama.rst`.
fn yama_or(feature: Feature, reason: Reason, root: &Root) -> Reason {
    let Reason::NotPermitted(Permission::InspectProcess { owner_uid, agent_uid }) = reason else {
        return reason;
    };
    let least = match agent_uid {
        _ if feature != Feature::SyscallFile => return reason,
        0 => 3,
        own if own == owner_uid => 1,
        _ => return reason,
    };
    let mut text = Vec::new();
    let read = root.read_proc("sys/kernel/yama/ptrace_scope", &mut text);
    let scope = read.ok().and_then(|()| str::from_utf8(&text).ok()?.trim().parse::<u8>().ok());
    match scope.filter(|scope| *scope >= least) {
        Some(scope) => Reason::NotPermitted(Permission::Yama { scope }),
        None => reason,
    }
}

/// The lock that the kernel takes to read a file of a process, of those that may be held for good.
fn lock_of(path: &str) -> Option<Lock> {
    match path.rsplit_once('/').map_or(path, |(_, name)| name) {
        "cmdline" | "maps" | "smaps" | "smaps_rollup" => Some(Lock::Memory),
        "io" | "syscall" => Some(Lock::Exec),
        _ => None,
    }
}

const fn is_ended(state: u8) -> bool {
    matches!(State::from_letter(state), State::Zombie | State::Dead)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{instruments::fake::FakeMachine, proc::pid_status};

    #[test]
    fn a_file_longer_than_a_page_is_read_to_its_end() {
        let machine = FakeMachine::new();
        let groups = "100000 ".repeat(20_000);
        let text = format!(
            "Groups:\t{groups}\nvoluntary_ctxt_switches:\t8\nnonvoluntary_ctxt_switches:\t9\n"
        );
        machine.write("7/status", text);
        let context = machine.context();
        let files = ProcessFiles { pid: 7, context: &context };
        let lines = files.parsed("status", Feature::Field, pid_status::parse_switches).unwrap();
        assert_eq!((lines.voluntary, lines.involuntary), (8, 9));
    }

    #[test]
    fn a_file_without_end_is_refused_and_not_cut() {
        let machine = FakeMachine::new();
        machine.write("7/status", vec![b'x'; 5 << 20]);
        let context = machine.context();
        let files = ProcessFiles { pid: 7, context: &context };
        assert_eq!(files.whole("status", Feature::Field), Err(Reason::TooLong));
        let mut room = [0; 64];
        let cut = context.root.read_proc_once("7/status", &mut room).unwrap_err();
        assert_eq!(cut.reason(Feature::Field, 0), Reason::TooLong);
    }

    #[test]
    fn a_read_that_does_not_return_says_which_lock_is_held() {
        let machine = FakeMachine::new();
        machine.write("7/stat", "");
        let context = machine.context();
        let files = ProcessFiles { pid: 7, context: &context };
        let after_ms = millis(PATIENCE);
        for (file, lock) in [
            ("cmdline", Lock::Memory),
            ("maps", Lock::Memory),
            ("smaps", Lock::Memory),
            ("smaps_rollup", Lock::Memory),
            ("io", Lock::Exec),
            ("task/8/syscall", Lock::Exec),
        ] {
            machine.hang(&format!("7/{file}"));
            let found = files.whole(file, Feature::Field);
            assert_eq!(found, Err(Reason::DidNotReturn { after_ms, lock }), "{file}");
        }
    }

    #[test]
    fn one_process_that_does_not_let_a_reader_go_costs_no_other_its_arguments() {
        let machine = FakeMachine::new();
        machine.hang("7/cmdline");
        machine.write("8/cmdline", "app\0-v\0");
        let context = machine.context();
        let command = |pid| crate::instruments::ownership::command(pid, 100, &context).0;
        let lock = Lock::Memory;
        let hangs = Reason::DidNotReturn { after_ms: millis(PATIENCE), lock };
        for _ in 0..3 {
            assert_eq!(command(7), Observed::Unknown(hangs.clone()));
            assert_eq!(command(8).known().map(ToString::to_string).as_deref(), Some("app -v"));
        }
    }

    #[test]
    fn a_refusal_of_yama_is_told_from_one_of_ownership() {
        let refused = |owner_uid, agent_uid| Permission::InspectProcess { owner_uid, agent_uid };
        let yama = |scope| Permission::Yama { scope };
        let cases = [
            ("1\n", refused(33, 33), yama(1)),
            ("2\n", refused(33, 33), yama(2)),
            ("3\n", refused(33, 0), yama(3)),
            // What Yama lets root do, something else forbids.
            ("2\n", refused(33, 0), refused(33, 0)),
            ("1\n", refused(33, 44), refused(33, 44)),
            ("0\n", refused(33, 33), refused(33, 33)),
            ("no number\n", refused(33, 33), refused(33, 33)),
        ];
        for (text, given, want) in cases {
            let machine = FakeMachine::new();
            machine.write("sys/kernel/yama/ptrace_scope", text);
            let context = machine.context();
            let or = |feature| yama_or(feature, Reason::NotPermitted(given), context.root);
            let found = or(Feature::SyscallFile);
            assert_eq!(found, Reason::NotPermitted(want), "{text}");
            let found = or(Feature::IoAccounting);
            assert_eq!(found, Reason::NotPermitted(given), "{text}");
        }
        let machine = FakeMachine::new();
        let context = machine.context();
        let given = Reason::NotPermitted(refused(33, 33));
        let found = yama_or(Feature::SyscallFile, given.clone(), context.root);
        assert_eq!(found, given, "without Yama");
    }
}

//! The files of one process, parsed, with the reason where one cannot be had.

use crate::{
    call::Context,
    instruments::thread_accounts::{Accounts, ThreadId},
    proc::{
        ReadError,
        parse::ParseError,
        pid_io,
        pid_stat::{self, PidStat},
    },
};
use protocol::{
    instruments::process_list::State,
    observed::{Feature, Observed, Reason},
};

/// One process's folder under `/proc`.
#[derive(Clone, Copy)]
pub(super) struct ProcessFiles<'c, 's> {
    pub(super) pid: u32,
    pub(super) context: &'c Context<'s>,
}

impl ProcessFiles<'_, '_> {
    /// Input and output, of all threads.
    pub(super) fn io(&self) -> Result<pid_io::PidIo, Reason> {
        self.parsed("io", Feature::IoAccounting, pid_io::parse)
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
        let mut text = Vec::new();
        let path = format!("{}/{file}", self.pid);
        self.context
            .root
            .read_proc(&path, &mut text)
            .map_err(|error| self.reason(&path, error, feature))?;
        Ok(text)
    }

    /// A file that is missing although the folder of its process, or its thread, is there is one
    /// that the kernel lacks; else the process, or the thread, has ended.
    pub(super) fn reason(&self, path: &str, error: ReadError, feature: Feature) -> Reason {
        let folder = path.rsplit_once('/').map_or(path, |(folder, _)| folder);
        match self.context.root.owner_uid(folder) {
            Ok(owner_uid) => error.reason(feature, owner_uid),
            Err(_) => Reason::Gone,
        }
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
}

//! The files of one process, parsed, with the reason where one cannot be had.

use crate::{
    call::Context,
    proc::{ReadError, parse::ParseError, pid_io, pid_status, schedstat},
};
use protocol::observed::{Feature, Reason};

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

    /// Running time and run delay, summed over the threads that there are now.
    pub(super) fn schedstat(
        &self,
        threads: u32,
        most_threads: u32,
    ) -> Result<schedstat::SchedStat, Reason> {
        let mut sum = schedstat::SchedStat::default();
        self.over_threads(
            "schedstat",
            Feature::SchedulerStatistics,
            threads,
            most_threads,
            |text| schedstat::parse(text).map(|thread| sum.add(&thread)),
        )?;
        Ok(sum)
    }

    /// Context switches, summed over the threads that there are now.
    pub(super) fn switches(
        &self,
        threads: u32,
        most_threads: u32,
    ) -> Result<pid_status::SwitchLines, Reason> {
        let mut sum = pid_status::SwitchLines::default();
        self.over_threads("status", Feature::Field, threads, most_threads, |text| {
            pid_status::parse_switches(text).map(|thread| sum.add(&thread))
        })?;
        Ok(sum)
    }

    /// Reads a file that is one thread's, for every thread: the process's own file would be the
    /// first thread's only.
    fn over_threads(
        &self,
        file: &str,
        feature: Feature,
        threads: u32,
        most_threads: u32,
        mut add: impl FnMut(&[u8]) -> Result<(), ParseError>,
    ) -> Result<(), Reason> {
        if threads <= 1 {
            return self.parsed(file, feature, add);
        }
        if threads > most_threads {
            return Err(Reason::TooCostly { count: threads.into(), limit: most_threads.into() });
        }
        for tid in self.thread_ids()? {
            match self.parsed(&format!("task/{tid}/{file}"), feature, &mut add) {
                // A thread that ended took its count with it; the others still count.
                Ok(()) | Err(Reason::Gone | Reason::KernelLacks(_)) => {}
                Err(reason) => return Err(reason),
            }
        }
        Ok(())
    }

    /// The threads that there are now.
    pub(super) fn thread_ids(&self) -> Result<Vec<u32>, Reason> {
        let mut tids = Vec::new();
        let listed = self.context.root.list_ids(&format!("{}/task", self.pid), &mut tids);
        listed.map_err(|error| self.reason(error, Feature::Field))?;
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
        self.context
            .root
            .read_proc(&format!("{}/{file}", self.pid), &mut text)
            .map_err(|error| self.reason(error, feature))?;
        Ok(text)
    }

    /// A file that is missing although the process is there is one that the kernel lacks; else the
    /// process has ended.
    pub(super) fn reason(&self, error: ReadError, feature: Feature) -> Reason {
        match self.context.root.owner_uid(self.pid) {
            Ok(owner_uid) => error.reason(feature, owner_uid),
            Err(_) => Reason::Gone,
        }
    }
}

/// A machine that was made up for a test.
#[cfg(test)]
pub(super) mod made_up {
    use crate::{
        call::{Context, Listener, Withdrawal},
        proc::Root,
    };
    use protocol::{
        budget::Budget,
        message::{Progress, RequestId, Streamed},
    };
    use std::sync::{Arc, Mutex};

    /// The one process that it has.
    pub(in crate::instruments) const PID: u32 = 7;

    /// The cgroup namespace of a machine itself.
    pub(in crate::instruments) const FIRST: &str = "cgroup:[4026531835]";

    /// Any other.
    pub(in crate::instruments) const OF_A_CONTAINER: &str = "cgroup:[4026532573]";

    struct Nobody;

    impl Listener for Nobody {
        fn progress(&self, _: Progress) {}

        fn item(&self, _: Streamed) -> bool {
            true
        }
    }

    /// Looks at a machine that consists of these files, from a cgroup namespace.
    pub(in crate::instruments) fn machine<T>(
        files: &[(&str, &str)],
        namespace: &str,
        look: impl FnOnce(&Context<'_>) -> T,
    ) -> T {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path().join("proc");
        std::fs::create_dir_all(proc.join("self/ns")).unwrap();
        std::fs::create_dir_all(proc.join(PID.to_string())).unwrap();
        std::os::unix::fs::symlink(namespace, proc.join("self/ns/cgroup")).unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let (root, artifacts) = (Root::at(folder.path()).unwrap(), Mutex::default());
        let limits = (RequestId(1), Budget::default(), Arc::new(Withdrawal::default()));
        look(&Context::new(&root, &artifacts, &Nobody, limits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::fake::FakeMachine;

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

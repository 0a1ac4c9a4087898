//! What a program is started for when it is to watch others: numbers, of which its arguments are made.

use super::Observer;
use crate::external::bpftrace;
use std::time::Duration;
use syscalls::Sysno;

/// Processes that can be watched at once.
pub const MOST_WATCHED: usize = 256;

/// Processes that can be spared.
pub const MOST_SPARED: usize = 32;

/// Calls that can be chosen.
pub const MOST_CALLS: usize = 128;

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// By which program.
    pub observer: Observer,
    /// These processes; without any, the whole machine but those that are spared.
    pub pids: Vec<u32>,
    /// Processes that are left out where the whole machine is watched.
    pub spared: Vec<u32>,
    /// Calls by their numbers, of which no other is watched; all where it is empty.
    pub calls: Vec<u32>,
    /// Whether it is asked what descriptors are of.
    pub with_subjects: bool,
}

impl Watched {
    /// The words to start it by.
    pub(super) fn words(&self) -> Vec<String> {
        match self.observer {
            Observer::Strace => self.strace(),
            Observer::Perf => self.perf(),
            Observer::Bpftrace => self.bpftrace(),
        }
    }

    /// The longest that it runs before it is asked to end. strace stops threads at each call.
    pub(in crate::os) const fn longest(&self) -> Duration {
        match self.observer {
            Observer::Strace => Duration::from_secs(2),
            // A minute at most is asked for, and they need a while before they have begun.
            Observer::Perf | Observer::Bpftrace => Duration::from_secs(80),
        }
    }

    /// For how long it may end by itself once it was asked to.
    pub(in crate::os) const fn patience_with_end(&self) -> Duration {
        match self.observer {
            Observer::Strace => Duration::from_secs(1),
            Observer::Perf | Observer::Bpftrace => Duration::from_secs(5),
        }
    }

    fn strace(&self) -> Vec<String> {
        // The times of calls in microseconds since 1970, what each took, and nothing of what is read
        // or written.
        let mut words = owned(&["strace", "-f", "-ttt", "-T", "-s", "0", "-o", "/dev/stdout"]);
        if self.with_subjects {
            words.push("-yy".to_owned());
        }
        if let Some(calls) = self.calls() {
            words.extend(["-e".to_owned(), format!("trace={calls}")]);
        }
        words.extend(self.pids.iter().flat_map(|pid| ["-p".to_owned(), pid.to_string()]));
        words
    }

    fn perf(&self) -> Vec<String> {
        let mut words = owned(&["perf", "trace", "-s", "--errno-summary"]);
        if self.pids.is_empty() {
            words.push("-a".to_owned());
            if !self.spared.is_empty() {
                words.extend(["--filter-pids".to_owned(), listed(&self.spared)]);
            }
        } else {
            words.extend(["-p".to_owned(), listed(&self.pids)]);
        }
        if let Some(calls) = self.calls() {
            words.extend(["-e".to_owned(), calls]);
        }
        words
    }

    /// Calls are not chosen by the program: what is not wanted is left out of its sums.
    fn bpftrace(&self) -> Vec<String> {
        let (text, pids) = match self.pids.is_empty() {
            true => (bpftrace::OF_ALL, &self.spared),
            false => (bpftrace::OF_PROCESSES, &self.pids),
        };
        let mut words = owned(&["bpftrace", "-f", "json", "-e", text]);
        let (numbers, _) = bpftrace::numbers(&pids.iter().copied().collect());
        words.extend(numbers.iter().map(u32::to_string));
        words
    }

    /// The calls by name; none where all are watched. A number without a name chooses nothing.
    fn calls(&self) -> Option<String> {
        let name =
            |number: &u32| Sysno::new(usize::try_from(*number).ok()?).map(|call| call.name());
        let names: Vec<&str> = self.calls.iter().filter_map(name).collect();
        (!names.is_empty()).then(|| names.join(","))
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn listed(pids: &[u32]) -> String {
    pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::argv;

    #[test]
    fn whatever_is_watched_the_words_for_it_are_admitted() {
        let all_calls: Vec<u32> = (0..500).collect();
        for observer in Observer::ALL {
            for pids in [vec![], vec![7], (1..=256).collect()] {
                for calls in [vec![], vec![0, 257], all_calls.clone()] {
                    for with_subjects in [false, true] {
                        let (pids, spared) = (pids.clone(), vec![3, 4]);
                        let watched =
                            Watched { observer, pids, spared, calls: calls.clone(), with_subjects };
                        let words = watched.words();
                        let judged = argv::judge(&words).map(|_| ());
                        assert_eq!(judged, Ok(()), "{words:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn calls_and_processes_are_named_by_numbers() {
        let open = u32::try_from(Sysno::openat.id()).unwrap();
        let watched = |observer| Watched {
            observer,
            pids: vec![7, 8],
            spared: Vec::new(),
            calls: vec![open],
            with_subjects: true,
        };
        assert_eq!(
            watched(Observer::Strace).words().join(" "),
            "strace -f -ttt -T -s 0 -o /dev/stdout -yy -e trace=openat -p 7 -p 8"
        );
        assert_eq!(
            watched(Observer::Perf).words().join(" "),
            "perf trace -s --errno-summary -p 7,8 -e openat"
        );
        let all = Watched { pids: Vec::new(), spared: vec![9], ..watched(Observer::Perf) };
        let words = all.words().join(" ");
        assert_eq!(words, "perf trace -s --errno-summary -a --filter-pids 9 -e openat");
    }
}

//! Hosts of all kinds, good ones and bad ones, and what a session comes to at each: an answer, or one
//! sentence with its cause and what helps.
//!
//! One file for each group, with a list of its hosts; `scenarios/tests/hosts.rs` attempts them, and
//! `docs/targets.md` has a row for each, which only a run writes.

pub mod accounts;
mod attempt;
pub mod containers;
pub mod networks;
pub mod page;
pub mod places;
pub mod processors;
pub mod rc_files;
pub mod shells;
mod site;
pub mod ssh_servers;

pub use attempt::Attempt;

use anyhow::Result;

/// One host, and how to look at it.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// What is special about it, as its row begins: `the login shell is fish`. It is the name of the
    /// check too.
    pub name: &'static str,
    /// Whether every run attempts it, and not only a full one.
    pub in_sample: bool,
    /// Makes the host, asks it for one answer, and makes sure that nothing is left there. Fails where
    /// the host does, or where what came of it is neither an answer nor one sentence.
    pub attempt: fn() -> Result<Outcome>,
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An answer. With a note where there is something to say of it: "the agent's folder is $HOME".
    Answers(String),
    /// No answer, and the reason.
    Refuses {
        /// The exit code.
        code: i32,
        /// What was said, with placeholders for what is another each time.
        sentence: String,
    },
    /// There can be no such host here, and no package changes that: what is lacking.
    NotHere(String),
    /// There was none, for want of root or of a package.
    NotRun(String),
}

impl Host {
    /// One that every run attempts.
    pub const fn sampled(name: &'static str, attempt: fn() -> Result<Outcome>) -> Self {
        Self { name, in_sample: true, attempt }
    }

    /// One that only a full run attempts.
    pub const fn in_full(name: &'static str, attempt: fn() -> Result<Outcome>) -> Self {
        Self { name, in_sample: false, attempt }
    }
}

/// All hosts, in groups, each below its heading. It is the order of the page.
pub const GROUPS: &[(&str, &[Host])] = &[
    ("Login shells", shells::HOSTS),
    ("What a login runs first", rc_files::HOSTS),
    ("SSH servers", ssh_servers::HOSTS),
    ("Accounts", accounts::HOSTS),
    ("Places for the agent", places::HOSTS),
    ("Containers", containers::HOSTS),
    ("Processors", processors::HOSTS),
    ("Networks", networks::HOSTS),
];

/// All hosts.
pub fn all() -> impl Iterator<Item = &'static Host> {
    GROUPS.iter().flat_map(|(_, hosts)| hosts.iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_hosts_share_a_name() {
        let mut names = BTreeSet::new();
        for host in all() {
            assert!(names.insert(host.name), "{} is there twice", host.name);
        }
    }
}

//! Which sessions there are on a machine, and which of them are alive.
//!
//! A session is alive while somebody is there who ends it: its supervisor, with a worker that can hear
//! that the channel closed; its start-up script, which gives up by itself; a sweep, which ends soon; or
//! the spawner of a question by hand.

use super::{
    belongs::Role,
    processes::{Scan, Seen},
};
use protocol::sweep::{SPAWNER, SUPERVISOR};
use std::{collections::BTreeMap, time::Duration};

/// The processes of a session.
#[derive(Debug, Default)]
pub struct Session<'s> {
    /// All that were seen.
    pub members: Vec<&'s Seen>,
    /// Whether somebody is there who ends it.
    pub is_alive: bool,
}

/// What a script gets beyond the two things that it waits for.
const GRACE: Duration = Duration::from_secs(60);

/// The sessions of which something was seen, by their tokens, but for one: that of whoever looks.
pub fn of<'s>(scan: &'s Scan, own: Option<&str>) -> BTreeMap<String, Session<'s>> {
    let mut sessions: BTreeMap<String, Session<'s>> = BTreeMap::new();
    for seen in &scan.seen {
        let Some((belongs, _)) = &seen.of else { continue };
        if own != Some(belongs.token.as_str()) {
            let session = sessions.entry(belongs.token.as_str().to_owned()).or_default();
            session.members.push(seen);
        }
    }
    for session in sessions.values_mut() {
        session.is_alive = is_alive(&session.members, scan);
    }
    sessions
}

fn is_alive(members: &[&Seen], scan: &Scan) -> bool {
    let role = |seen: &Seen| seen.of.as_ref().map(|(belongs, _)| belongs.role);
    members.iter().filter(|seen| !seen.is_halted()).any(|seen| match role(seen) {
        Some(Role::Agent) if seen.name == SUPERVISOR.to_bytes() => has_worker(seen, members),
        Some(Role::Sweep) => true,
        Some(Role::Script { patience }) => seen.age() <= patience * 2 + GRACE,
        Some(Role::Started) => is_by_hand(seen, scan),
        Some(Role::Agent) | None => false,
    })
}

/// Whether a supervisor has a worker that is not halted. One that has none is about to end: its
/// descendants are, too.
fn has_worker(supervisor: &Seen, members: &[&Seen]) -> bool {
    let is_its_own = |seen: &&&Seen| {
        let is_agent = seen.of.as_ref().is_some_and(|(of, _)| of.role == Role::Agent);
        seen.parent == supervisor.pid && is_agent && seen.name != SPAWNER.to_bytes()
    };
    let mut workers = members.iter().filter(is_its_own).peekable();
    workers.peek().is_none() || workers.any(|worker| !worker.is_halted())
}

/// Whether a program was started by the spawner of a question by hand, which has no mark of its own:
/// it was not started with one.
fn is_by_hand(seen: &Seen, scan: &Scan) -> bool {
    let find = |pid: u32| scan.seen.iter().find(|seen| seen.pid == pid);
    let mut at = find(seen.parent);
    for _ in 0..scan.seen.len() {
        match at {
            Some(above) if above.name == SPAWNER.to_bytes() && above.of.is_none() => {
                return !above.is_halted();
            }
            Some(above) => at = find(above.parent),
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{super::belongs::Belongs, *};
    use crate::os::clock;
    use protocol::handshake::Token;
    use rustix::fs::{Mode, OFlags};
    use std::sync::Arc;

    fn seen(pid: u32, parent: u32, name: &str, role: Option<Role>) -> Seen {
        let of = role.map(|role| {
            let handle = rustix::fs::open("/", OFlags::PATH, Mode::empty()).unwrap();
            (Belongs { token: Token::new([1; 16]), role }, Arc::new(handle))
        });
        let start_ticks =
            u64::try_from(clock::since_boot().as_nanos() / clock::tick().as_nanos()).unwrap();
        let name = name.as_bytes().to_vec();
        Seen { pid, parent, name, state: b'S', is_frozen: false, start_ticks, of }
    }

    fn is_alive(seen: Vec<Seen>) -> bool {
        let scan = Scan { seen, unread: 0 };
        of(&scan, None).into_values().next().unwrap().is_alive
    }

    const AGENT: Option<Role> = Some(Role::Agent);
    const STARTED: Option<Role> = Some(Role::Started);

    #[test]
    fn a_session_is_alive_while_somebody_is_there_who_ends_it() {
        let supervisor = || seen(2, 1, "sysmcp-super", AGENT);
        let worker = || seen(3, 2, "4", AGENT);
        let stopped = |seen: Seen| Seen { state: b'T', ..seen };
        let frozen = |seen: Seen| Seen { is_frozen: true, ..seen };
        let patience = Duration::from_secs(75);
        let script = || seen(2, 1, "sh", Some(Role::Script { patience }));
        let cases = [
            ("supervisor and worker", vec![supervisor(), worker()], true),
            ("a supervisor that ends the rest", vec![supervisor(), seen(5, 2, "x", STARTED)], true),
            ("a descendant alone", vec![seen(5, 1, "x", STARTED)], false),
            ("a worker alone", vec![worker()], false),
            ("a stopped supervisor", vec![stopped(supervisor()), worker()], false),
            ("a frozen supervisor", vec![frozen(supervisor()), worker()], false),
            ("a stopped worker", vec![supervisor(), stopped(worker())], false),
            ("a script", vec![script()], true),
            ("a stopped script", vec![stopped(script())], false),
            ("a script that should have given up", vec![Seen { start_ticks: 0, ..script() }], {
                clock::since_boot() <= patience * 2 + GRACE
            }),
            ("another sweep", vec![seen(2, 1, "4", Some(Role::Sweep))], true),
            (
                "a program of a question by hand",
                vec![seen(5, 4, "perf", STARTED), seen(4, 3, "sysmcp-spawn", None)],
                true,
            ),
            (
                "a program called like a supervisor",
                vec![seen(2, 1, "sysmcp-super", STARTED)],
                false,
            ),
        ];
        for (name, seen, want) in cases {
            assert_eq!(is_alive(seen), want, "{name}");
        }
    }

    #[test]
    fn the_session_of_whoever_looks_is_none() {
        let scan = Scan { seen: vec![seen(2, 1, "4", AGENT)], unread: 0 };
        assert!(of(&scan, Some(Token::new([1; 16]).as_str())).is_empty());
        assert_eq!(of(&scan, Some(Token::new([2; 16]).as_str())).len(), 1);
    }
}

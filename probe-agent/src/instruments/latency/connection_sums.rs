//! TCP where nothing may be traced: counters of a network namespace at both ends of the window, and the
//! connections that wait or send again at its end.

use super::rows::Maker;
use crate::{
    instruments::window::growth,
    proc::{
        Root,
        net_counters::counter,
        net_tcp::{self, Connection, SYN_SENT},
    },
};
use protocol::{
    host_text::HostText,
    instruments::latency::{Connect, Mechanism, Outcome, Resent, Tcp, Waits},
    observed::{Feature, Observed, Reason},
};
use std::collections::BTreeMap;

/// What is known at one instant.
#[derive(Debug)]
pub(super) struct Counters {
    failed: Observed<u64>,
    resent: Observed<u64>,
    connections: Vec<Connection>,
}

impl Counters {
    /// Reads them: of the network namespace of a process, or of the agent's own.
    pub(super) fn read(root: &Root, pid: Option<u32>) -> Self {
        let folder = pid.map_or_else(|| "net".to_owned(), |pid| format!("{pid}/net"));
        let mut text = Vec::new();
        let read = root.read_proc(&format!("{folder}/snmp"), &mut text);
        let read = read.map_err(|error| error.reason_of_file(Feature::Field));
        let value = |name| -> Observed<u64> {
            let missing = |_| Reason::KernelLacks(Feature::Field);
            read.clone().and_then(|()| counter(&text, "Tcp", name).map_err(missing)).into()
        };
        let (failed, resent) = (value("AttemptFails"), value("RetransSegs"));
        let mut connections = Vec::new();
        for file in ["tcp", "tcp6"] {
            let mut text = Vec::new();
            if root.read_proc(&format!("{folder}/{file}"), &mut text).is_ok() {
                connections.extend(net_tcp::parse(&text));
            }
        }
        Self { failed, resent, connections }
    }

    /// What came of the window.
    pub(super) fn tcp(&self, before: &Self, maker: &mut Maker<'_>) -> Result<Tcp, Reason> {
        if let Observed::Unknown(reason) = &self.failed {
            return Err(reason.clone());
        }
        let pending = self.connections.iter().filter(|one| one.state == SYN_SENT);
        let mut peers: BTreeMap<_, u64> = BTreeMap::new();
        for one in pending {
            let count = peers.entry(one.peer).or_default();
            *count = count.saturating_add(1);
        }
        let waiting: u64 = peers.values().sum();
        let connects = maker.top(peers.into_iter().collect(), |(_, count)| *count);
        let again = self.connections.iter().filter(|one| one.resent > 0);
        let again = maker.top(again.collect(), |one| one.resent);
        Ok(Tcp {
            measured_by: Mechanism::ProtocolCounters,
            connected: Waits::unknown(&Reason::NotByEngine),
            not_connected: growth(&self.failed, &before.failed)
                .map(|failed| failed.saturating_add(waiting)),
            connects: connects
                .into_iter()
                .map(|(peer, count)| Connect {
                    peer: HostText::new(peer.to_string().as_bytes()),
                    pid: None,
                    name: None,
                    outcome: Outcome::Pending,
                    waits: Waits::sums(
                        Observed::Known(count),
                        Observed::Unknown(Reason::NotByEngine),
                    ),
                })
                .collect(),
            resent_total: growth(&self.resent, &before.resent),
            resent: again
                .into_iter()
                .map(|one| Resent {
                    peer: HostText::new(one.peer.to_string().as_bytes()),
                    local_port: one.local_port,
                    is_handshake: one.state == SYN_SENT,
                    count: one.resent,
                })
                .collect(),
        })
    }
}

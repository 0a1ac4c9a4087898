//! The machine's counters at one end of the window.

use crate::{
    order,
    proc::{
        Root,
        diskstats::{self, DiskStat},
        host_stat::{self, HostStat},
        memory,
        net_counters::{counter, socket_count},
        net_dev::{self, InterfaceStat},
        parse::{ParseError, number_of},
        pressure::{self, Stalled},
    },
};
use protocol::{
    observed::{Feature, Observed, Reason},
    units::Bytes,
};
use std::{collections::BTreeMap, time::Duration};

/// One end of the window.
#[derive(Debug)]
pub(super) struct End {
    /// On the monotonic clock.
    pub(super) at: Duration,
    /// Of the wall clock, when the machine started; moves when the clock is set.
    pub(super) boot_at: i128,
    pub(super) stat: Observed<HostStat>,
    pub(super) cpu: Observed<Stalled>,
    pub(super) io: Observed<Stalled>,
    pub(super) memory: Observed<Stalled>,
    pub(super) amounts: Amounts,
    pub(super) reclaim: Reclaim,
    pub(super) disks: Observed<BTreeMap<Vec<u8>, DiskStat>>,
    pub(super) interfaces: Observed<BTreeMap<Vec<u8>, InterfaceStat>>,
    pub(super) tcp: TcpCounters,
}

/// How memory is used.
#[derive(Debug)]
pub(super) struct Amounts {
    pub(super) total: Observed<Bytes>,
    pub(super) available: Observed<Bytes>,
    pub(super) dirty: Observed<Bytes>,
    pub(super) swap_total: Observed<Bytes>,
    pub(super) swap_free: Observed<Bytes>,
}

/// What was done to get memory, in pages and times.
#[derive(Debug)]
pub(super) struct Reclaim {
    pub(super) swapped_in: Observed<u64>,
    pub(super) swapped_out: Observed<u64>,
    pub(super) major_faults: Observed<u64>,
    pub(super) direct_scans: Observed<u64>,
    pub(super) oom_kills: Observed<u64>,
}

#[derive(Debug)]
pub(super) struct TcpCounters {
    pub(super) established: Observed<u64>,
    pub(super) time_wait: Observed<u64>,
    pub(super) sent: Observed<u64>,
    pub(super) retransmitted: Observed<u64>,
    pub(super) listen_drops: Observed<u64>,
    pub(super) backlog_drops: Observed<u64>,
}

impl End {
    /// Reads one end of the window.
    pub(super) fn read(root: &Root) -> Self {
        let nanos = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
        let stalled = |resource| pressure::read(root, resource).into();
        Self {
            at: root.monotonic(),
            boot_at: nanos(root.wall()) - nanos(root.since_boot()),
            stat: host_stat::read(root).into(),
            cpu: stalled("cpu"),
            io: stalled("io"),
            memory: stalled("memory"),
            amounts: amounts(root),
            reclaim: reclaim(root),
            disks: by_name(root, "diskstats", diskstats::parse),
            interfaces: by_name(root, "net/dev", net_dev::parse),
            tcp: tcp(root),
        }
    }
}

/// A file of `/proc`, read once for all that is in it.
struct Text(Result<Vec<u8>, Reason>);

impl Text {
    fn read(root: &Root, path: &str) -> Self {
        let mut text = Vec::new();
        let read = root.read_proc(path, &mut text);
        Self(read.map(|()| text).map_err(|error| error.reason_of_file(Feature::Field)))
    }

    /// One value of it. What is not in the file is not in this kernel.
    fn value<T>(&self, parse: impl FnOnce(&[u8]) -> Result<T, ParseError>) -> Observed<T> {
        let parsed = |text: &Vec<u8>| {
            parse(text).map_err(|error| match error {
                ParseError::MissingLine { .. } | ParseError::MissingField { .. } => {
                    Reason::KernelLacks(Feature::Field)
                }
                ParseError::NotANumber { .. } => Reason::NotUnderstood(error.shown()),
            })
        };
        self.0.as_ref().map_err(Reason::clone).and_then(parsed).into()
    }
}

fn amounts(root: &Root) -> Amounts {
    let text = Text::read(root, "meminfo");
    let amount = |name| text.value(|text| memory::amount(text, name));
    Amounts {
        total: amount("MemTotal"),
        available: amount("MemAvailable"),
        dirty: amount("Dirty"),
        swap_total: amount("SwapTotal"),
        swap_free: amount("SwapFree"),
    }
}

fn reclaim(root: &Root) -> Reclaim {
    let text = Text::read(root, "vmstat");
    let count = |name| text.value(|text| number_of(text, name));
    Reclaim {
        swapped_in: count("pswpin"),
        swapped_out: count("pswpout"),
        major_faults: count("pgmajfault"),
        direct_scans: text.value(memory::direct_scans),
        oom_kills: count("oom_kill"),
    }
}

fn tcp(root: &Root) -> TcpCounters {
    let (snmp, netstat) = (Text::read(root, "net/snmp"), Text::read(root, "net/netstat"));
    let sockets = Text::read(root, "net/sockstat");
    let of_snmp = |name| snmp.value(|text| counter(text, "Tcp", name));
    let of_netstat = |name| netstat.value(|text| counter(text, "TcpExt", name));
    TcpCounters {
        established: of_snmp("CurrEstab"),
        time_wait: sockets.value(|text| socket_count(text, "TCP", "tw")),
        sent: of_snmp("OutSegs"),
        retransmitted: of_snmp("RetransSegs"),
        listen_drops: of_netstat("ListenDrops"),
        backlog_drops: of_netstat("TCPBacklogDrop"),
    }
}

/// What a line says, with the name it says it of.
type Named<T> = (Vec<u8>, T);

fn by_name<T>(
    root: &Root,
    path: &str,
    parse: impl FnOnce(&[u8]) -> Result<Vec<Named<T>>, ParseError>,
) -> Observed<BTreeMap<Vec<u8>, T>> {
    Text::read(root, path).value(parse).map(order::map)
}

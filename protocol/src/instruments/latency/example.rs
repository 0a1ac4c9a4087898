//! A service that waits for a processor, for its disk, and for a peer that does not answer.

use super::{
    Block, BlockDevice, Connect, Mechanism, OffCpu, Open, Operation, Outcome, Queued, Ran, Report,
    Resent, RunQueue, Sleeper, Submitter, SubmitterKind, Tcp, Waits,
};
use crate::{
    histogram::Log2,
    host_text::HostText,
    observed::Observed,
    recording::Scope,
    units::{Bytes, Micros, Percent},
};

/// Waits of such times, in nanoseconds.
fn waits(times: &[u64]) -> Waits {
    let mut log2 = Log2::default();
    times.iter().for_each(|ns| log2.add(*ns));
    Waits::of(&log2, times.iter().sum(), times.iter().copied().max().unwrap_or(0))
}

fn open(count: u64, ns: u64) -> Observed<Open> {
    Observed::Known(Open { count, total_us: Micros::from_ns(ns) })
}

fn text(text: &str) -> HostText {
    HostText::new(text.as_bytes())
}

pub(super) fn report() -> Report {
    let queued = waits(&[4_000, 9_000, 12_000_000, 23_000_000, 24_000_000]);
    Report {
        scope: Scope::Process,
        pid: Some(4711),
        name: Some(text("worker")),
        run_queue: Observed::Known(RunQueue {
            measured_by: Mechanism::Ebpf,
            all: queued.clone(),
            open: open(1, 8_000_000),
            processes: vec![Queued {
                pid: 4711,
                name: text("worker"),
                waits: queued,
                open: open(1, 8_000_000),
            }],
            ran: vec![Ran {
                pid: 4800,
                name: text("batch"),
                cpu_pct: Percent::of(187.0, 100.0).unwrap_or_default(),
            }],
        }),
        block: Observed::Known(block()),
        off_cpu: Observed::Known(off_cpu()),
        tcp: Observed::Known(tcp()),
        has_ended: false,
        refused: Vec::new(),
    }
}

fn block() -> Block {
    let device = waits(&[900_000, 1_100_000, 34_000_000]);
    Block {
        measured_by: Mechanism::Ebpf,
        all: device.clone(),
        open: open(0, 0),
        devices: vec![BlockDevice {
            device: text("vda"),
            operation: Operation::Write,
            bytes: Bytes(12_288),
            errors: Observed::Known(0),
            queue: waits(&[0, 0, 0]),
            device_time: device.clone(),
        }],
        submitters: vec![Submitter {
            pid: 4711,
            name: text("worker"),
            kind: SubmitterKind::Process,
            device: text("vda"),
            operation: Operation::Write,
            bytes: Bytes(12_288),
            waits: device,
        }],
        pressure_some_pct: Observed::Known(Percent::of(7.2, 100.0).unwrap_or_default()),
    }
}

fn off_cpu() -> OffCpu {
    let stuck = waits(&[1_000_000, 1_200_000, 34_100_000]);
    let asleep = waits(&[50_000_000, 51_000_000]);
    OffCpu {
        measured_by: Mechanism::Ebpf,
        uninterruptible: stuck.clone(),
        open: open(0, 0),
        asleep: asleep.clone(),
        processes: vec![Sleeper {
            pid: 4711,
            name: text("worker"),
            uninterruptible: stuck,
            open: open(0, 0),
            asleep,
        }],
    }
}

fn tcp() -> Tcp {
    let connect = |peer, outcome, times: &[u64]| Connect {
        peer: text(peer),
        pid: Some(4711),
        name: Some(text("worker")),
        outcome,
        waits: waits(times),
    };
    Tcp {
        measured_by: Mechanism::Ebpf,
        connected: waits(&[210_000]),
        not_connected: Observed::Known(1),
        connects: vec![
            connect("203.0.113.9:443", Outcome::Pending, &[3_400_000_000]),
            connect("10.0.0.5:5432", Outcome::Connected, &[210_000]),
        ],
        resent_total: Observed::Known(2),
        resent: vec![Resent {
            peer: text("203.0.113.9:443"),
            local_port: 50_112,
            is_handshake: true,
            count: 2,
        }],
    }
}

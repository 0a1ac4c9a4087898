//! Requests to block devices where nothing may be traced: the kernel's counters of each device, at both
//! ends of the window. They have sums for reads and for writes, from the queue to the end.

use super::rows::Maker;
use crate::{
    instruments::window::{Window, growth},
    proc::{
        Root,
        diskstats::{self, DiskStat, SECTOR_BYTES},
        pressure,
    },
};
use protocol::{
    host_text::HostText,
    instruments::latency::{Block, BlockDevice, Mechanism, Operation, Waits},
    observed::{Feature, Observed, Reason},
    units::{Bytes, Percent},
};
use std::time::Duration;

/// For how long some task of the host has waited for storage, in microseconds.
#[derive(Debug)]
pub(super) struct Pressure(Observed<u64>);

impl Pressure {
    pub(super) fn read(root: &Root) -> Self {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Self(Observed::from(pressure::read(root, "io")).map(|stalled| micros(stalled.some)))
    }

    /// The share of a window since an earlier look.
    pub(super) fn since(&self, before: &Self, window: Window) -> Observed<Percent> {
        growth(&self.0, &before.0).and_then(|micros| window.share(Duration::from_micros(micros)))
    }
}

/// The counters at one instant.
#[derive(Debug)]
pub(super) struct Counters {
    disks: Result<Vec<(Vec<u8>, DiskStat)>, Reason>,
}

impl Counters {
    pub(super) fn read(root: &Root) -> Self {
        let mut text = Vec::new();
        let read = root.read_proc("diskstats", &mut text);
        let read = read.map_err(|error| error.reason_of_file(Feature::Field));
        let parsed = read.and_then(|()| {
            diskstats::parse(&text).map_err(|error| Reason::NotUnderstood(error.shown()))
        });
        Self { disks: parsed }
    }

    /// Requests since an earlier look, of the host: devices do not know whose they are.
    pub(super) fn block(
        &self,
        before: &Self,
        pressure_some_pct: Observed<Percent>,
        (maker, root): (&mut Maker<'_>, &Root),
    ) -> Result<Block, Reason> {
        let (now, before) = match (&self.disks, &before.disks) {
            (Ok(now), Ok(before)) => (now, before),
            (Err(reason), _) | (_, Err(reason)) => return Err(reason.clone()),
        };
        let disks = diskstats::disks(now.iter().map(|(name, _)| name.as_slice()), root);
        let mut rows = Vec::new();
        let (mut count, mut total_ms) = (0_u64, 0_u64);
        for (name, now) in now.iter().filter(|(name, _)| disks.contains(&name.as_slice())) {
            let earlier = before.iter().find(|(other, _)| other == name);
            let used = now.since(&earlier.map(|(_, stat)| *stat).unwrap_or_default());
            for (operation, requests, sectors, ms) in [
                (Operation::Read, used.reads, used.read_sectors, used.read_ms),
                (Operation::Write, used.writes, used.write_sectors, used.write_ms),
            ] {
                if requests > 0 || ms > 0 {
                    (count, total_ms) =
                        (count.saturating_add(requests), total_ms.saturating_add(ms));
                    rows.push((row(name, operation, (requests, sectors, ms)), ms));
                }
            }
        }
        let devices = maker.top(rows, |(_, ms)| *ms);
        Ok(Block {
            measured_by: Mechanism::DeviceCounters,
            all: sums(count, total_ms),
            open: Observed::Unknown(Reason::NotByEngine),
            devices: devices.into_iter().map(|(row, _)| row).collect(),
            submitters: Vec::new(),
            pressure_some_pct,
        })
    }
}

fn sums(count: u64, ms: u64) -> Waits {
    Waits::sums(Observed::Known(count), Observed::Known(ms.saturating_mul(1_000_000)))
}

fn row(name: &[u8], operation: Operation, (requests, sectors, ms): (u64, u64, u64)) -> BlockDevice {
    BlockDevice {
        device: HostText::new(name),
        operation,
        bytes: Bytes(sectors.saturating_mul(SECTOR_BYTES)),
        errors: Observed::Unknown(Reason::NotByEngine),
        queue: Waits::unknown(&Reason::NotByEngine),
        device_time: sums(requests, ms),
    }
}

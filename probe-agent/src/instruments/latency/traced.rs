//! What is counted by eBPF programs: each kind attached on its own, so that one which this kernel has
//! no place for takes no other with it.

use super::tallies::{
    ConnectKey, Connected, Connecting, DeviceKey, Layout, Moved, Occupant, Process, ProcessKey,
    Ran, ResentKey, Submitted, SubmitterKey, UnderWay,
};
use crate::{
    bpf::{Attached, Loaded, Loan, NoBpf, Object, Scope},
    instruments::sampling::Subject,
    proc::Root,
};
use protocol::instruments::latency::{Kind, Request};
use std::time::Duration;

/// Programs of a kind. Those of the first two kinds are the same: whoever asks for both has them once.
const fn programs(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::RunQueue | Kind::OffCpu => &["switched", "woken", "woken_new", "renamed"],
        Kind::Block => &["inserted", "issued", "requeued", "merged", "completed"],
        Kind::Tcp => &["changed_state", "resent_segment"],
    }
}

/// Programs that run, and what they write to.
pub(super) struct Tracing {
    loaded: Loan,
    /// The first is whoever follows what forks.
    attached: Vec<Attached>,
    kinds: Vec<Kind>,
    apart: Vec<u32>,
    began: Duration,
}

/// What is counted, and which kinds are not, with the reason.
pub(super) struct Started {
    pub(super) tracing: Option<Tracing>,
    pub(super) refused: Vec<(Kind, NoBpf)>,
}

impl Tracing {
    /// Attaches what counts, for each kind that is asked for.
    pub(super) fn start(request: &Request, subject: &Subject, root: &Root) -> Started {
        match Self::prepare(subject, root) {
            Ok(tracing) => tracing.attach(&request.kinds),
            Err(why) => Started {
                tracing: None,
                refused: request.kinds.iter().map(|kind| (*kind, why.clone())).collect(),
            },
        }
    }

    fn prepare(subject: &Subject, root: &Root) -> Result<Self, NoBpf> {
        let scope = Scope::of(&subject.sampled, root)?;
        let loaded = Loaded::lend(root, Object::Latency, &[], &[])?;
        scope.apply(&loaded)?;
        let began = root.monotonic();
        let began_ns = u64::try_from(began.as_nanos()).unwrap_or(u64::MAX);
        loaded.map(".data.latency")?.set(&0_u32.to_ne_bytes(), &began_ns.to_ne_bytes())?;
        let mut attached = Vec::new();
        if !scope.follower().is_empty() {
            attached.push(loaded.attach(scope.follower())?);
        }
        let apart = scope.apart().to_vec();
        Ok(Self { loaded, attached, kinds: Vec::new(), apart, began })
    }

    fn attach(mut self, kinds: &[Kind]) -> Started {
        let mut refused = Vec::new();
        for kind in kinds {
            let is_there = self.kinds.iter().any(|other| programs(*other) == programs(*kind));
            let attached =
                if is_there { Ok(None) } else { self.loaded.attach(programs(*kind)).map(Some) };
            match attached {
                Ok(attached) => {
                    self.attached.extend(attached);
                    self.kinds.push(*kind);
                }
                Err(why) => refused.push((*kind, why)),
            }
        }
        let tracing = (!self.kinds.is_empty()).then_some(self);
        Started { tracing, refused }
    }

    /// What is counted.
    pub(super) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Ends the window: nothing runs any more, and what was counted is read.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub(super) fn finish(mut self, root: &Root) -> Result<Seen, NoBpf> {
        self.attached.clear();
        let ended = root.monotonic();
        let rows = Rows { loaded: &self.loaded };
        let has = |kind| self.kinds.contains(&kind);
        let at_all = |is: bool| is.then_some(());
        let processor = at_all(has(Kind::RunQueue) || has(Kind::OffCpu)).map(|()| {
            Ok::<_, NoBpf>(Processor {
                processes: rows.of("processes")?,
                others: rows.of("others")?,
                occupants: rows.on_each_processor("occupants")?,
            })
        });
        let block = at_all(has(Kind::Block)).map(|()| {
            Ok::<_, NoBpf>(Block {
                devices: rows.of("devices")?,
                submitters: rows.of("submitters")?,
                under_way: rows.values("requests")?,
            })
        });
        let tcp = at_all(has(Kind::Tcp)).map(|()| {
            Ok::<_, NoBpf>(Tcp {
                connects: rows.of("connects")?,
                connecting: rows.values("connecting")?,
                resent: rows.resent()?,
            })
        });
        Ok(Seen {
            processor: processor.transpose()?,
            block: block.transpose()?,
            tcp: tcp.transpose()?,
            lost: rows.lost()?,
            unfollowed: Scope::unfollowed(&self.loaded)?,
            watched: rows.watched()?,
            kinds: self.kinds,
            apart: self.apart,
            began: self.began,
            ended,
        })
    }
}

/// What was counted in a window.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) kinds: Vec<Kind>,
    pub(super) processor: Option<Processor>,
    pub(super) block: Option<Block>,
    pub(super) tcp: Option<Tcp>,
    /// Waits and requests that there was no room for.
    pub(super) lost: u64,
    /// Children of watched processes that were not followed.
    pub(super) unfollowed: u64,
    /// Processes that were watched, where processes were.
    pub(super) watched: Vec<u32>,
    pub(super) apart: Vec<u32>,
    pub(super) began: Duration,
    pub(super) ended: Duration,
}

impl Seen {
    /// What was counted of block devices, with the window.
    pub(super) fn block(&self) -> Option<(&Self, &Block)> {
        Some((self, self.block.as_ref()?))
    }

    /// What was counted of TCP, with the window.
    pub(super) fn tcp(&self) -> Option<(&Self, &Tcp)> {
        Some((self, self.tcp.as_ref()?))
    }
}

/// Of the scheduler.
#[derive(Debug, Default)]
pub(super) struct Processor {
    pub(super) processes: Vec<(ProcessKey, Process)>,
    pub(super) others: Vec<(ProcessKey, Ran)>,
    pub(super) occupants: Vec<Occupant>,
}

/// Of block devices.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) devices: Vec<(DeviceKey, Moved)>,
    pub(super) submitters: Vec<(SubmitterKey, Submitted)>,
    pub(super) under_way: Vec<UnderWay>,
}

/// Of TCP.
#[derive(Debug)]
pub(super) struct Tcp {
    pub(super) connects: Vec<(ConnectKey, Connected)>,
    pub(super) connecting: Vec<Connecting>,
    pub(super) resent: Vec<(ResentKey, u64)>,
}

/// Reads maps.
struct Rows<'l> {
    loaded: &'l Loaded,
}

impl Rows<'_> {
    fn of<K: Layout, V: Layout>(&self, map: &str) -> Result<Vec<(K, V)>, NoBpf> {
        let entries = self.loaded.map(map)?.entries()?;
        Ok(entries.iter().filter_map(|(key, value)| Some((K::of(key)?, V::of(value)?))).collect())
    }

    fn values<V: Layout>(&self, map: &str) -> Result<Vec<V>, NoBpf> {
        let entries = self.loaded.map(map)?.entries()?;
        Ok(entries.iter().filter_map(|(_, value)| V::of(value)).collect())
    }

    /// The values of the first entry on all processors.
    fn on_each_processor<V: Layout>(&self, map: &str) -> Result<Vec<V>, NoBpf> {
        let values = self.loaded.map(map)?.per_cpu(&0_u32.to_ne_bytes())?.unwrap_or_default();
        Ok(values.iter().filter_map(|value| V::of(value)).collect())
    }

    fn resent(&self) -> Result<Vec<(ResentKey, u64)>, NoBpf> {
        let entries = self.loaded.map("resent")?.entries()?;
        let row = |(key, value): (&[u8], &[u8])| {
            Some((ResentKey::of(key)?, u64::from_ne_bytes(*value.first_chunk()?)))
        };
        Ok(entries.iter().filter_map(row).collect())
    }

    fn watched(&self) -> Result<Vec<u32>, NoBpf> {
        let entries = self.loaded.map("watched")?.entries()?;
        let pid = |key: &[u8]| key.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
        Ok(entries.iter().filter_map(|(key, _)| pid(key)).collect())
    }

    fn lost(&self) -> Result<u64, NoBpf> {
        let map = self.loaded.map("lost")?;
        let mut lost: u64 = 0;
        for what in 0..map.room() {
            for value in map.per_cpu(&what.to_ne_bytes())?.unwrap_or_default() {
                let count = value.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
                lost = lost.saturating_add(count);
            }
        }
        Ok(lost)
    }
}

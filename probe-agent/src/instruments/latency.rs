//! Agent side of `latency`.
//!
//! Each kind that may be traced is counted in the kernel over the window; of each other the kernel's own
//! sums are read at both ends of it.

mod connection_sums;
mod device_sums;
mod names;
mod rows;
mod sockets;
mod tallies;
mod thread_sums;
mod traced;

use crate::{
    bpf::NoBpf,
    call::Context,
    instruments::{
        Collect,
        capabilities::refusals,
        sampling::{Passing, Subject},
        window::Window as Measured,
    },
    proc::Root,
    stack::record::Window as _,
};
use device_sums::Pressure;
use names::{Devices, Names};
use protocol::{
    error::AgentError,
    instruments::{
        capabilities::{CheckId, Refusal},
        latency::{Block, Kind, Latency, OffCpu, Report, Request, RunQueue, Tcp},
    },
    loss::Lost,
    message::{Engine, Meta},
    observed::{Observed, Reason},
};
use rows::Maker;
use sockets::Sockets;
use std::time::Duration;
use traced::{Seen, Started, Tracing};

impl Collect for Latency {
    fn collect(request: Request, context: &Context<'_>) -> Result<(Report, Meta), AgentError> {
        if context.root.is_snapshot() {
            return Err(AgentError::OnlyOfTheMachine);
        }
        let whose = (request.pid, request.start_ticks);
        let subject = Subject::of(request.of(), whose, context)?;
        let Started { tracing, mut refused } = Tracing::start(&request, &subject, context.root);
        let summed: Vec<Kind> = refused.iter().map(|(kind, _)| *kind).collect();
        let before = Sums::read(&summed, &subject, context)?;
        let length = Duration::from_millis(request.window_ms.into());
        let mut window = Passing::new(context, length);
        while window.pass(length)? {}
        let took = window.passed();
        let seen =
            match tracing.map(|tracing| (tracing.kinds().to_vec(), tracing.finish(context.root))) {
                None => None,
                Some((_, Ok(seen))) => Some(seen),
                // What was counted cannot be read: it is as if nothing had been.
                Some((kinds, Err(why))) => {
                    refused.extend(kinds.into_iter().map(|kind| (kind, why.clone())));
                    None
                }
            };
        let now = Sums::read(&summed, &subject, context)?;
        let ends = Ends { request: &request, subject, seen, sums: [before, now], took };
        ends.answer(why_not(&refused, context.root), context)
    }
}

/// Why kinds are not traced, each reason once.
fn why_not(refused: &[(Kind, NoBpf)], root: &Root) -> Vec<Refusal> {
    let mut found: Vec<Refusal> = Vec::new();
    for (_, why) in refused {
        let refusal = refusals::of_bpf(root, CheckId::BpfTpBtf, why);
        if !found.contains(&refusal) {
            found.push(refusal);
        }
    }
    found
}

/// The kernel's own sums at one instant, of the kinds that are not traced.
struct Sums {
    threads: Option<thread_sums::Accounts>,
    devices: Option<device_sums::Counters>,
    connections: Option<connection_sums::Counters>,
    pressure: Pressure,
}

impl Sums {
    fn read(kinds: &[Kind], subject: &Subject, context: &Context<'_>) -> Result<Self, AgentError> {
        let has = |kind| kinds.contains(&kind);
        let root = context.root;
        let of_threads = has(Kind::RunQueue) || has(Kind::OffCpu);
        Ok(Self {
            threads: match of_threads {
                true => Some(thread_sums::Accounts::read(subject, context)?),
                false => None,
            },
            devices: has(Kind::Block).then(|| device_sums::Counters::read(root)),
            connections: has(Kind::Tcp).then(|| connection_sums::Counters::read(root, subject.pid)),
            pressure: Pressure::read(root),
        })
    }
}

/// All that was found.
struct Ends<'r> {
    request: &'r Request,
    subject: Subject,
    seen: Option<Seen>,
    sums: [Sums; 2],
    took: Duration,
}

impl Ends<'_> {
    fn answer(
        &self,
        refused: Vec<Refusal>,
        context: &Context<'_>,
    ) -> Result<(Report, Meta), AgentError> {
        let (names, devices) = (Names { root: context.root }, Devices::read(context.root));
        let limit = usize::try_from(self.request.limit).unwrap_or(usize::MAX);
        let mut maker = Maker { limit, names: &names, devices: &devices, shown: 0, total: 0 };
        let report = Report {
            scope: self.subject.scope,
            pid: self.subject.pid,
            name: self.subject.name.clone(),
            run_queue: self.run_queue(&mut maker),
            block: self.block(&mut maker, context.root),
            off_cpu: self.off_cpu(&mut maker),
            tcp: self.tcp(&mut maker, context),
            has_ended: self.subject.has_ended(self.request.start_ticks, context),
            refused,
        };
        context.check()?;
        let lost = self.seen.as_ref().map_or(0, |seen| seen.lost.saturating_add(seen.unfollowed));
        let meta = Meta {
            engine: if self.seen.is_some() { Engine::Ebpf } else { Engine::Procfs },
            window_ms: Some(self.measured().millis()),
            truncation: maker.truncation(),
            artifact: None,
            lost: Lost { events: lost, ..Lost::default() },
            overhead: context.overhead(),
            redacted: 0,
        };
        Ok((report, meta))
    }

    const fn measured(&self) -> Measured {
        match &self.seen {
            Some(seen) => Measured::between(seen.began, seen.ended),
            None => Measured::between(Duration::ZERO, self.took),
        }
    }

    /// What was traced of the scheduler, where a kind that takes it was.
    fn processor(&self, kind: Kind) -> Option<(&Seen, &traced::Processor)> {
        let seen = self.seen.as_ref().filter(|seen| seen.kinds.contains(&kind))?;
        Some((seen, seen.processor.as_ref()?))
    }

    /// The same sums at the end and at the start of the window.
    fn sums<T>(&self, of: impl Fn(&Sums) -> Option<&T>) -> Result<(&T, &T), Reason> {
        let [before, now] = &self.sums;
        of(now).zip(of(before)).ok_or(Reason::NotByEngine)
    }

    fn asked(&self, kind: Kind) -> Result<(), Reason> {
        if self.request.asks(kind) { Ok(()) } else { Err(Reason::NotAskedFor) }
    }

    fn run_queue(&self, maker: &mut Maker<'_>) -> Observed<RunQueue> {
        let made = self.asked(Kind::RunQueue).and_then(|()| {
            if let Some((seen, of)) = self.processor(Kind::RunQueue) {
                return Ok(maker.run_queue(seen, of));
            }
            let (now, before) = self.sums(|sums| sums.threads.as_ref())?;
            now.run_queue(before, maker)
        });
        made.into()
    }

    fn off_cpu(&self, maker: &mut Maker<'_>) -> Observed<OffCpu> {
        let made = self.asked(Kind::OffCpu).and_then(|()| {
            if let Some((seen, of)) = self.processor(Kind::OffCpu) {
                return Ok(maker.off_cpu(seen, of));
            }
            let (now, before) = self.sums(|sums| sums.threads.as_ref())?;
            now.off_cpu(before, maker)
        });
        made.into()
    }

    fn block(&self, maker: &mut Maker<'_>, root: &Root) -> Observed<Block> {
        let [before, now] = &self.sums;
        let pressure = now.pressure.since(&before.pressure, self.measured());
        let made = self.asked(Kind::Block).and_then(|()| {
            if let Some((seen, of)) = self.seen.as_ref().and_then(|seen| seen.block()) {
                return Ok(maker.block(seen, of, pressure));
            }
            let (now, before) = self.sums(|sums| sums.devices.as_ref())?;
            now.block(before, pressure, (maker, root))
        });
        made.into()
    }

    fn tcp(&self, maker: &mut Maker<'_>, context: &Context<'_>) -> Observed<Tcp> {
        let made = self.asked(Kind::Tcp).and_then(|()| {
            if let Some((seen, of)) = self.seen.as_ref().and_then(|seen| seen.tcp()) {
                let own = Sockets::of(&self.subject, &seen.watched, context);
                return Ok(maker.tcp(seen, of, |inode| own.has(inode)));
            }
            let (now, before) = self.sums(|sums| sums.connections.as_ref())?;
            now.tcp(before, maker)
        });
        made.into()
    }
}

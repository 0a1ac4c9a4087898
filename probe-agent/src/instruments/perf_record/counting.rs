//! What was counted, as the answer.

use crate::{
    call::Context,
    instruments::{
        capabilities::refusals,
        sampling::{self, Passing, Subject},
        window::Window as Measured,
    },
    perf::{
        counters::{self, Count, NotCounted, Value},
        sampler::Measure,
    },
    stack::record::Window as _,
};
use protocol::{
    error::AgentError,
    host_text::HostText,
    instruments::{
        capabilities::Refusal,
        perf_record::{Counter, CounterRow, Counters, Quotients, Report, Request},
    },
    loss::{Lost, Truncation},
    message::{Engine, Meta},
    observed::{Nature, Observed, Permission, Reason},
    recording::{Counted, Kernel, Quality, Recording, Stacks},
    units::{Percent, Ratio},
};
use rustix::io::Errno;
use std::time::Duration;

/// Counts through the window.
///
/// # Errors
///
/// Why nothing can be counted, or when the call reached a limit.
pub(super) fn answer(
    request: &Request,
    subject: Subject,
    context: &Context<'_>,
) -> Result<(Report, Meta), AgentError> {
    let wrong = |error, subject: &Subject| sampling::error(error, (subject, Measure::Cpu), context);
    let opened = counters::Counters::open(context.root, &subject.sampled);
    let opened = opened.map_err(|error| wrong(error, &subject))?;
    let counted_at = u32::try_from(opened.targets()).unwrap_or(u32::MAX);
    let mut window = Passing::new(context, Duration::from_millis(request.window_ms.into()));
    opened.start().map_err(|error| wrong(error, &subject))?;
    while window.pass(Duration::from_millis(request.window_ms.into()))? {}
    let measured = Measured::between(Duration::ZERO, window.passed());
    let counts = opened.finish();
    let has_ended = subject.has_ended(request.start_ticks, context);
    let refused = refused(&subject, &counts, context);
    let reasons = Reasons::of(&refused);
    let report = Report {
        cpu_pct: cpu_pct(&counts, measured, &reasons),
        kernel_pct: Observed::Unknown(Reason::NoSamples),
        has_ended,
        functions: Vec::new(),
        stacks: Vec::new(),
        processes: Vec::new(),
        refused,
        recording: recording(subject, measured.millis()),
        looks: None,
        off_cpu: None,
        counters: Some(Counters {
            counted_at,
            counts: counts.iter().map(|count| row(count, measured, &reasons)).collect(),
            quotients: quotients(&counts, &reasons),
        }),
    };
    let meta = Meta {
        engine: Engine::PerfEvents,
        window_ms: Some(measured.millis()),
        truncation: Truncation::none(u64::try_from(counts.len()).unwrap_or(u64::MAX)),
        artifact: None,
        lost: Lost::default(),
        overhead: context.overhead(),
        redacted: 0,
    };
    context.check()?;
    Ok((report, meta))
}

/// Of what it is. There are no samples that could be good or bad.
fn recording(subject: Subject, window_ms: u64) -> Recording {
    let unknown = || Observed::Unknown(Reason::NoSamples);
    Recording {
        scope: subject.scope,
        pid: subject.pid,
        name: subject.name,
        counted: Counted::Nothing,
        hertz: 0,
        stacks: Stacks::Given,
        window_ms,
        samples: 0,
        events: 0,
        processes: 0,
        threads: 0,
        quality: Quality {
            complete_pct: unknown(),
            by_frame_pointers_pct: unknown(),
            incomplete: Vec::new(),
            unnamed_pct: unknown(),
            unnamed: Vec::new(),
            kernel: Kernel::NotAsked,
            is_without_counter: false,
            lost_samples: 0,
            throttled: 0,
            own_samples: 0,
        },
    }
}

/// What was refused, each once.
fn refused(subject: &Subject, counts: &[Count], context: &Context<'_>) -> Vec<Refusal> {
    let errors = || counts.iter().filter_map(|count| count.value.as_ref().err());
    let mut found = Vec::new();
    let is_less = counts.iter().any(|count| count.value.is_ok_and(|value| !value.with_kernel));
    let not_permitted = errors().find_map(|why| match why {
        NotCounted::NotPermitted(errno) => Some(*errno),
        NotCounted::NoCounter(_)
        | NotCounted::NotOfTheHost
        | NotCounted::CountersInUse
        | NotCounted::Failed(_) => None,
    });
    if let Some(errno) = not_permitted {
        found.push(sampling::of_counting(subject, errno, context.root));
    } else if is_less {
        found.push(sampling::of_counting(subject, Errno::ACCESS, context.root));
    }
    let no_counter = errors().find_map(|why| match why {
        NotCounted::NoCounter(errno) => Some(*errno),
        NotCounted::NotPermitted(_)
        | NotCounted::NotOfTheHost
        | NotCounted::CountersInUse
        | NotCounted::Failed(_) => None,
    });
    found.extend(no_counter.map(|errno| refusals::of_counters(context.root, errno)));
    found
}

/// What stands behind the values that are not known.
struct Reasons {
    is_guest: bool,
    paranoid: Option<i64>,
}

impl Reasons {
    fn of(refused: &[Refusal]) -> Self {
        use protocol::instruments::capabilities::Barrier;
        let barriers = || refused.iter().flat_map(|refusal| &refusal.barriers);
        let is_guest =
            barriers().any(|barrier| matches!(barrier, Barrier::NoCounters { is_guest: true }));
        let paranoid = barriers().find_map(|barrier| {
            if let Barrier::PerfEventParanoid { found, .. } = barrier { Some(*found) } else { None }
        });
        Self { is_guest, paranoid }
    }

    fn reason(&self, why: NotCounted) -> Reason {
        match why {
            NotCounted::NoCounter(_) => Reason::NoCounter { is_guest: self.is_guest },
            NotCounted::NotPermitted(_) => {
                Reason::NotPermitted(Permission::CountEvents { paranoid: self.paranoid })
            }
            NotCounted::NotOfTheHost => Reason::DoesNotApply(Nature::WholeMachine),
            NotCounted::CountersInUse => Reason::CountersInUse,
            NotCounted::Failed(errno) => Reason::Failed { errno: errno.raw_os_error() },
        }
    }
}

fn row(count: &Count, measured: Measured, reasons: &Reasons) -> CounterRow {
    let value: Observed<Value> = count.value.map_err(|why| reasons.reason(why)).into();
    let counted = value.clone().map(|value| value.count);
    CounterRow {
        counter: count.counter,
        core: core(count.on.as_deref()),
        per_s: measured.rate(counted.clone()),
        count: counted,
        counted_pct: value.map(|value| {
            // What never had to count was counted all the time.
            let (running, enabled) = (value.running_ns as f64, value.enabled_ns as f64);
            Percent::of(running, enabled).or(Percent::of(1.0, 1.0)).unwrap_or_default()
        }),
        with_kernel: count.value.is_ok_and(|value| value.with_kernel),
    }
}

fn core(on: Option<&str>) -> Option<HostText> {
    on.map(|on| HostText::new(on.as_bytes()))
}

/// Processor time, in percent of one processor.
fn cpu_pct(counts: &[Count], measured: Measured, reasons: &Reasons) -> Observed<Percent> {
    let clock = counts.iter().find(|count| count.counter == Counter::TaskClock);
    let Some(clock) = clock else { return Observed::Unknown(Reason::NoSamples) };
    match clock.value {
        Ok(value) => measured.share(Duration::from_nanos(value.count)).into(),
        Err(why) => Observed::Unknown(reasons.reason(why)),
    }
}

/// What counters say of each other, of each kind of core.
fn quotients(counts: &[Count], reasons: &Reasons) -> Vec<Quotients> {
    let of_kind = |on: Option<String>| {
        let both = |part: Counter, whole: Counter| {
            let found = counters::of_one_time(counts, on.as_deref(), (part, whole));
            let (part, whole) =
                found.map_err(|why| why.map_or(Reason::NoSamples, |why| reasons.reason(why)))?;
            Ok::<_, Reason>((part as f64, whole as f64))
        };
        let percent = |part, whole| {
            let share = both(part, whole)
                .and_then(|(part, whole)| Percent::of(part, whole).ok_or(Reason::NoSamples));
            Observed::from(share)
        };
        Quotients {
            core: core(on.as_deref()),
            instructions_per_cycle: both(Counter::Instructions, Counter::Cycles)
                .and_then(|(what, each)| Ratio::of(what, each).ok_or(Reason::NoSamples))
                .into(),
            cache_misses_pct: percent(Counter::CacheMisses, Counter::CacheReferences),
            branch_misses_pct: percent(Counter::BranchMisses, Counter::Branches),
        }
    };
    counters::kinds_of_cores(counts).into_iter().map(of_kind).collect()
}

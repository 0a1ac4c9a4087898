//! The code that touches new memory first, by stacks of page faults.
//!
//! The kernel gives a page when it is first touched, not when it is asked for. So what is seen is who
//! touches memory that was not there: what `malloc` gives from pages that the process has already is
//! not seen, and what is given back and touched again is seen again.

use super::watch::Watch;
use crate::{
    call::Context,
    instruments::{
        process_files::ProcessFiles,
        sampling::{self, Subject},
    },
    perf::sampler::{Measure, Settings},
    proc::pid_stat,
    stack::{
        naming::{self, Names},
        profile::{Direction, Function, Kind, Profile},
        record::{NoRecording, record},
        recording::{Limits, Recording},
        stored::Stored,
    },
};
use protocol::{
    artifact::ArtifactId,
    error::AgentError,
    instruments::{
        capabilities::Refusal,
        memory_profile::{Site, Sites},
    },
    observed::{Feature, Reason},
    recording as told,
    units::{Bytes, Percent},
};
use std::time::Duration;

/// Functions that are told.
const MOST_FUNCTIONS: usize = 10;

/// Callers that are told.
const MOST_CALLERS: usize = 8;

/// For so long faults are counted before they are sampled: it says how many there are.
const COUNTED_FOR: Duration = Duration::from_millis(200);

/// Samples in a second, about. Each costs the process some microseconds, and the agent twenty.
const SAMPLES_PER_S: u64 = 2_000;

/// What was recorded.
pub(super) struct Recorded {
    subject: Subject,
    made: Recording,
    sampled: Duration,
}

/// Why nothing was.
pub(super) enum NotRecorded {
    /// It was not asked for, or is not there.
    Because(Reason),
    /// The kernel did not let it.
    Refused(Refusal),
}

/// Samples page faults until the window is over.
///
/// # Errors
///
/// That the process ended, or as for [`Context::check`].
pub(super) fn sample(
    watch: &mut Watch<'_, '_, '_>,
    files: &ProcessFiles<'_, '_>,
    (pid, start_ticks): (u32, u64),
    window: Duration,
) -> Result<Result<Recorded, NotRecorded>, AgentError> {
    let context = files.context;
    if context.root.live_proc().is_none() {
        return Ok(Err(NotRecorded::Because(Reason::NotInSnapshot)));
    }
    let subject = Subject::process(pid, start_ticks, context)?;
    let before = faults(files);
    watch.pass_until(COUNTED_FOR)?;
    let settings = Settings {
        measure: Measure::PageFaults,
        hertz: each_of(before.zip(faults(files)), COUNTED_FOR).into(),
        ..Settings::cpu(subject.sampled.clone())
    };
    let half = Duration::from_millis(u64::from(context.budget.cpu_ms) / 2);
    watch.record_until(window, half);
    let began = watch.elapsed();
    let made = record(context.root, &settings, Limits::default(), watch);
    let sampled = watch.elapsed().saturating_sub(began);
    match made {
        Ok(made) => Ok(Ok(Recorded { subject, made, sampled })),
        Err(NoRecording::Window(error)) => Err(error),
        Err(NoRecording::Sampler(error)) => {
            let error = sampling::error(error, (&subject, Measure::PageFaults), context);
            if let AgentError::NotSampled(refusal) = error {
                return Ok(Err(NotRecorded::Refused(refusal)));
            }
            Err(error)
        }
    }
}

fn faults(files: &ProcessFiles<'_, '_>) -> Option<u64> {
    let count = |text: &[u8]| {
        let stat = pid_stat::parse(text)?;
        Ok(stat.minor_faults.saturating_add(stat.major_faults))
    };
    files.parsed("stat", Feature::Field, count).ok()
}

/// Of how many faults one is sampled, so that there are not too many samples.
fn each_of(counts: Option<(u64, u64)>, passed: Duration) -> u32 {
    let Some((before, now)) = counts else { return 1 };
    let millis = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX).max(1);
    let per_s = now.saturating_sub(before).saturating_mul(1000) / millis;
    u32::try_from(per_s.div_ceil(SAMPLES_PER_S).max(1)).unwrap_or(u32::MAX)
}

/// Names what was sampled, and keeps it for follow-up questions.
pub(super) fn report(
    recorded: Recorded,
    context: &Context<'_>,
) -> (Sites, Vec<Refusal>, Option<ArtifactId>) {
    let Recorded { subject, made, sampled } = recorded;
    let budget = Duration::from_millis(u64::from(context.budget.cpu_ms) * 3 / 4);
    let mut go_on = || context.check().is_ok() && context.cpu_spent() < budget;
    let names = naming::name(&made, context.root, &mut go_on);
    context.add_cpu(names.cpu_elsewhere);
    let refused = sampling::refusals(&made.basis, names.kernel, context.root);
    let recording = subject.described(&made, &names, sampled);
    let Names { profile, lines, .. } = names;
    // What was mapped and opened is not needed any more.
    drop(made);
    let sites = sites(&profile, &recording, context.root.page_bytes());
    let artifact = Stored { recording, profile, lines }.keep(context);
    (sites, refused, artifact)
}

fn sites(profile: &Profile, about: &told::Recording, page_bytes: u64) -> Sites {
    let all = profile.weight();
    let rows = profile.sites(|function, module| !is_of_a_runtime(function, module));
    let site = |row: &crate::stack::profile::Row| {
        Some(Site {
            function: profile.described(row.index?)?,
            share_pct: Percent::of(row.share.own as f64, all as f64)?,
            at_least_bytes: Bytes(row.share.own.saturating_mul(page_bytes)),
        })
    };
    let first = rows.first().and_then(|row| row.index);
    let called_by = first.and_then(|first| {
        let chains = profile.chains(&[first], Direction::Callers, MOST_CALLERS);
        let chain = chains.chains.into_iter().next()?;
        Some(chain.functions.into_iter().filter_map(|caller| profile.described(caller)).collect())
    });
    Sites {
        faults: about.events,
        each: about.hertz,
        sampled_ms: about.window_ms,
        lost_samples: about.quality.lost_samples,
        complete_pct: about.quality.complete_pct.clone(),
        functions: rows.iter().take(MOST_FUNCTIONS).filter_map(site).collect(),
        functions_total: u32::try_from(rows.len()).unwrap_or(u32::MAX),
        called_by: called_by.unwrap_or_default(),
    }
}

/// Whether code is that of a library which allocates and copies for others: of the C library, an
/// allocator, the kernel, or what Rust, C++ and Go have for it in every program.
fn is_of_a_runtime(function: &Function, module: Option<&str>) -> bool {
    /// Starts of files' names.
    const MODULES: [&str; 11] = [
        "libc.so",
        "libc-",
        "ld-linux",
        "ld-musl",
        "libpthread",
        "libjemalloc",
        "libtcmalloc",
        "libmimalloc",
        "libstdc++",
        "libgcc_s",
        "[vdso]",
    ];
    /// Names, where the library is a part of the program.
    const NAMES: [&str; 19] = [
        "malloc",
        "calloc",
        "realloc",
        "free",
        "aligned_alloc",
        "posix_memalign",
        "memset",
        "memcpy",
        "memmove",
        "mmap",
        "brk",
        "sbrk",
        "sysmalloc",
        "__expand_heap",
        "alloc_meta",
        "operator new",
        "operator delete",
        "operator new[]",
        "operator delete[]",
    ];
    /// Starts of names.
    const STARTS: [&str; 18] = [
        "__libc_",
        "_int_",
        "__mem",
        "malloc_",
        "operator new(",
        "operator new[](",
        "alloc::",
        "core::",
        "std::",
        "<alloc::",
        "<core::",
        "<std::",
        "__rust_",
        "__rdl_",
        "__rg_",
        "runtime.",
        "je_",
        "mi_",
    ];
    match function.kind {
        Kind::Kernel | Kind::Cut => return true,
        Kind::User | Kind::Inlined | Kind::Jit | Kind::Unnamed => {}
    }
    let file = module.map(|module| module.rsplit('/').next().unwrap_or(module));
    let name = function.name.as_str();
    file.is_some_and(|file| MODULES.iter().any(|start| file.starts_with(start)))
        || NAMES.contains(&name)
        || STARTS.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_allocates_for_others_is_told_from_who_asks() {
        let cases = [
            ("remember", Some("/opt/app"), Kind::User, false),
            ("alloc_page", Some("/opt/app"), Kind::User, false),
            ("anything", Some("/usr/lib/libc.so.6"), Kind::User, true),
            ("libc.so.6+0x1000", Some("libc.so.6"), Kind::Unnamed, true),
            ("malloc", Some("static"), Kind::User, true),
            ("operator new(unsigned long)", Some("app"), Kind::User, true),
            ("alloc::raw_vec::RawVec<T>::grow", Some("app"), Kind::Inlined, true),
            ("<alloc::string::String as core::clone::Clone>::clone", None, Kind::User, true),
            ("runtime.mallocgc", Some("server"), Kind::User, true),
            ("main.handle", Some("server"), Kind::User, false),
            ("clear_page_erms", None, Kind::Kernel, true),
            ("py::load", None, Kind::Jit, false),
            ("libcurl_easy_perform", Some("libcurl.so.4"), Kind::User, false),
        ];
        for (name, module, kind, want) in cases {
            let function = Function { name: name.to_owned(), module: None, kind };
            assert_eq!(is_of_a_runtime(&function, module), want, "{name}");
        }
    }

    #[test]
    fn many_faults_are_sampled_more_rarely() {
        let each = |count: u64| each_of(Some((100, 100 + count)), Duration::from_millis(200));
        assert_eq!((each(0), each(400), each(401), each(40_000)), (1, 1, 2, 100));
        assert_eq!(each_of(None, COUNTED_FOR), 1);
        assert_eq!(each_of(Some((5, 4)), COUNTED_FOR), 1);
    }
}

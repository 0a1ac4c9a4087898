//! What follows from sampled stacks, and what they cannot tell.

mod counted;
mod looked;
mod waited;

use super::{Conclusion, NextStep};
use protocol::{
    instruments::{
        capabilities::{CheckId, Refusal},
        perf_record::Report,
    },
    message::Meta,
    observed::Observed,
    recording::{Counted, Cut, Kernel, NoNames, Quality, Recording, Scope, Stacks},
    units::Percent,
};
use serde_json::json;

/// Bytes that the conclusion of an answer about samples may take.
pub const CONCLUSION_BYTES: usize = 1_100;

/// A part of all samples below this is not worth a sentence.
const WORTH_SAYING_PCT: f64 = 5.0;

/// What follows from a recording that was just made.
pub fn conclude(report: &Report, meta: &Meta) -> Conclusion {
    if let Some(counters) = &report.counters {
        return counted::conclude(report, counters);
    }
    if let Some(off_cpu) = &report.off_cpu {
        return waited::conclude(report, off_cpu, meta);
    }
    if let Some(looks) = &report.looks {
        return looked::conclude(report, looks, meta);
    }
    let recording = &report.recording;
    let mut conclusion = if recording.samples == 0 {
        without_samples(recording)
    } else {
        Conclusion { because: shares(report), next: questions(meta), ..Conclusion::default() }
    };
    if report.has_ended {
        conclusion.because.push("the process ended while it was recorded".to_owned());
    }
    // Compared, and never repeated: it is the target's.
    let is_top = recording.name.as_ref().is_some_and(|name| name.as_str() == "/");
    if recording.scope == Scope::Cgroup && is_top {
        conclusion.cannot_tell.push(
            "what is of its service only: the process is in the topmost control group, which is all \
             that can be seen from here"
                .to_owned(),
        );
    }
    conclusion.cannot_tell.extend(report.refused.iter().map(refused));
    conclusion.cannot_tell.extend(cannot_tell(recording));
    conclusion.within(CONCLUSION_BYTES, "see recording.quality and refused")
}

/// Nothing was sampled: that is an answer where nothing ran, and there is another tool for what
/// waits.
fn without_samples(recording: &Recording) -> Conclusion {
    let Recording { counted, hertz, window_ms, pid, scope, .. } = *recording;
    let mut conclusion = Conclusion::default();
    if recording.quality.lost_samples > 0 {
        return conclusion;
    }
    let who = match scope {
        Scope::Process => "the process",
        Scope::Cgroup => "the control group",
        Scope::Host | Scope::Given => "the machine",
    };
    match counted {
        Counted::Cycles | Counted::CpuClock => {
            conclusion.class = Some("idle".to_owned());
            let seen = match recording.quality.kernel {
                Kernel::NotAsked | Kernel::NotPermitted => " in user space",
                Kernel::Named | Kernel::NamesHidden => "",
            };
            conclusion.because.push(format!(
                "{who} used no processor time{seen} in the window of {window_ms} ms, at {hertz} \
                 samples in a second of it"
            ));
        }
        Counted::PageFaults | Counted::ContextSwitches | Counted::CacheMisses => {
            let what = match counted {
                Counted::PageFaults => "page faults",
                Counted::ContextSwitches => "context switches",
                Counted::CacheMisses
                | Counted::Cycles
                | Counted::CpuClock
                | Counted::Looks
                | Counted::Given
                | Counted::OffCpu
                | Counted::Nothing => "cache misses",
            };
            conclusion.because.push(if counted.has_rate() || hertz == 1 {
                format!("{who} had no {what} in the window of {window_ms} ms")
            } else {
                format!(
                    "{who} had fewer than {hertz} {what} on each processor in the window of \
                     {window_ms} ms: ask with `hertz` 1 for each of them"
                )
            });
        }
        Counted::Looks | Counted::Given | Counted::OffCpu | Counted::Nothing => {}
    }
    conclusion.next.push(match pid {
        Some(pid) if scope == Scope::Process => step(
            "process_inspect",
            json!({"pid": pid}),
            "what it waits for: samples do not show it",
        ),
        Some(_) | None => step("process_list", json!({}), "which processes do anything at all"),
    });
    conclusion
}

/// How much the samples stand for, where it went, and how exact shares are.
fn shares(report: &Report) -> Vec<String> {
    let recording = &report.recording;
    let mut because = Vec::new();
    if let Observed::Known(cpu) = &report.cpu_pct {
        let window_ms = recording.window_ms;
        because.push(format!(
            "the samples stand for {:.1} % of one processor over {window_ms} ms",
            cpu.get()
        ));
    }
    if let (Observed::Known(kernel), Kernel::Named | Kernel::NamesHidden) =
        (&report.kernel_pct, recording.quality.kernel)
    {
        because.push(format!("{:.1} % of samples are in the kernel", kernel.get()));
    }
    // Two standard errors of a proportion of a half.
    let margin = 100.0 / (recording.samples.max(1) as f64).sqrt();
    because.push(format!(
        "of {} samples, a share near 50 % is right within {margin:.1} points, others within less",
        recording.samples
    ));
    because
}

/// Further questions to a recording.
fn questions(meta: &Meta) -> Vec<NextStep> {
    let Some(artifact) = meta.artifact else { return Vec::new() };
    vec![
        step(
            "perf_report",
            json!({"artifact": artifact, "mode": "callers"}),
            "through which calls the heaviest function is reached; samples nothing again",
        ),
        step(
            "flamegraph",
            json!({"artifact": artifact}),
            "the tree of its calls; a person gets it as a picture by `sysmcp export`, with this artifact",
        ),
    ]
}

fn step(tool: &str, parameters: serde_json::Value, why: &str) -> NextStep {
    NextStep { tool: tool.to_owned(), parameters, why: why.to_owned() }
}

/// What could not be had, in our words.
fn refused(refusal: &Refusal) -> String {
    let why = refusal.in_our_words();
    if refusal.id == CheckId::HardwareCounters {
        return format!(
            "what the kernel does with interrupts off shows where it switches them on again: a \
             timer was used in place of a counter of cycles; {why}"
        );
    }
    let what = if refusal.id == CheckId::KernelSymbols {
        "names of the kernel's functions"
    } else if refusal.id == CheckId::PerfOwnKernel {
        "what the kernel does"
    } else {
        refusal.id.what()
    };
    format!("{what}: {why}")
}

/// What a recording cannot tell, and what to do about it.
pub fn cannot_tell(recording: &Recording) -> Vec<String> {
    let quality = &recording.quality;
    let mut sentences = Vec::new();
    let all = recording.samples.saturating_add(quality.lost_samples);
    if let Some(lost) = Percent::of(quality.lost_samples as f64, all as f64)
        && lost.get() >= 1.0
    {
        sentences.push(format!(
            "{:.1} % of samples were lost: ask with a lower `hertz`, or a smaller `dump_kib`",
            lost.get()
        ));
    }
    if quality.throttled > 0 {
        sentences.push(format!(
            "the kernel stopped sampling {} times for a while: ask with a lower `hertz`",
            quality.throttled
        ));
    }
    sentences.extend(quality.incomplete.iter().filter_map(|incomplete| {
        let pct = incomplete.pct.get();
        let why = cut(incomplete.why);
        (pct >= WORTH_SAYING_PCT).then(|| format!("what called {pct:.1} % of samples: {why}"))
    }));
    if recording.stacks == Stacks::FramePointers {
        sentences.push(
            "whether stacks are whole: they are as far as frame pointers led; ask with `stacks` \
             unwind_tables"
                .to_owned(),
        );
    }
    sentences.extend(names(quality, recording.pid));
    sentences
}

const fn cut(why: Cut) -> &'static str {
    match why {
        Cut::ByDump => {
            "more of their stack is in use than was copied; ask with `dump_kib` 32, or shorten the \
             recursion"
        }
        Cut::NoUnwindInfo => {
            "their code has no unwind tables; ask with `stacks` frame_pointers where it was compiled \
             with them"
        }
        Cut::StackNotReadable => "their stack could not be read",
        Cut::NoMaps => "their process ended before what it had mapped was read",
        Cut::TooDeep => "there are more calls than are kept",
        Cut::Is32Bit => "32-bit programs are not unwound",
        Cut::ByMemory => "the recording is full; ask for a shorter window, or one process",
    }
}

/// What has no name, and where names come from.
fn names(quality: &Quality, pid: Option<u32>) -> Vec<String> {
    let mut reasons: Vec<(NoNames, f64)> = Vec::new();
    for unnamed in &quality.unnamed {
        match reasons.iter_mut().find(|(why, _)| *why == unnamed.why) {
            Some((_, pct)) => *pct += unnamed.pct.get(),
            None => reasons.push((unnamed.why, unnamed.pct.get())),
        }
    }
    let worth_saying = reasons.into_iter().filter(|(_, pct)| *pct >= WORTH_SAYING_PCT);
    worth_saying
        .filter_map(|(why, pct)| {
            Some(format!("names of {pct:.1} % of samples: {}", named(why, pid)?))
        })
        .collect()
}

/// How code gets its names; `None` where another sentence says it.
fn named(why: NoNames, pid: Option<u32>) -> Option<String> {
    let pid = pid.map_or_else(|| "PID".to_owned(), |pid| pid.to_string());
    Some(match why {
        NoNames::Stripped => {
            "the files in recording.quality.unnamed have no symbols; install their \
                              -dbgsym packages (Debian, Ubuntu) or debuginfo (Fedora, SUSE)"
                .to_owned()
        }
        NoNames::OtherDebugFile => "the installed debug files are of another build; update the \
                                    -dbgsym packages with the packages, and restart the program"
            .to_owned(),
        NoNames::NoPerfMap => format!(
            "code made at run time has no map; Java 17: `jcmd {pid} Compiler.perfmap`, started with \
             -XX:+PreserveFramePointer for whole stacks; Node: start with --perf-basic-prof"
        ),
        NoNames::NotOpened => "the files could not be opened, or were exchanged; record as root, \
                               while the program runs"
            .to_owned(),
        NoNames::NotMapped => "nothing was mapped there when it was read".to_owned(),
        NoNames::NoStack => "there is no stack".to_owned(),
        NoNames::KernelHidden => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{
        artifact::ArtifactId,
        host_text::HostText,
        instruments::{Instrument as _, perf_record::PerfRecord},
        loss::{Lost, Overhead, Truncation},
        message::Engine,
        recording::{Incomplete, Unnamed},
    };

    fn meta() -> Meta {
        Meta {
            engine: Engine::PerfEvents,
            window_ms: Some(5_000),
            truncation: Truncation::none(1),
            artifact: Some(ArtifactId(1)),
            lost: Lost::default(),
            overhead: Overhead::default(),
            redacted: 0,
        }
    }

    fn report() -> Report {
        PerfRecord::example().report
    }

    fn percent(value: f64) -> Percent {
        Percent::of(value, 100.0).unwrap()
    }

    #[test]
    fn a_recording_says_how_much_it_stands_for_and_what_to_ask_next() {
        let conclusion = conclude(&report(), &meta());
        let because = conclusion.because.join("; ");
        assert!(because.contains("100.2 % of one processor over 5000 ms"), "{because}");
        assert!(because.contains("right within 4.5 points"), "{because}");
        assert_eq!(
            conclusion.next[0].parameters,
            json!({"artifact": "art-00000001", "mode": "callers"})
        );
        assert_eq!(conclusion.class, None);
    }

    #[test]
    fn nothing_sampled_is_an_answer_only_where_nothing_was_lost() {
        let mut report = report();
        report.recording.samples = 0;
        let conclusion = conclude(&report, &meta());
        assert_eq!(conclusion.class.as_deref(), Some("idle"));
        assert_eq!(conclusion.next[0].tool, "process_inspect");
        report.recording.counted = Counted::PageFaults;
        let faults = conclude(&report, &meta());
        assert!(faults.because[0].contains("fewer than 99 page faults"), "{faults:?}");
        assert_eq!(faults.class, None);
        (report.recording.counted, report.recording.quality.lost_samples) = (Counted::CpuClock, 9);
        assert_eq!(conclude(&report, &meta()).class, None);
    }

    #[test]
    fn what_is_cut_or_unnamed_is_said_with_its_remedy_and_without_a_word_of_the_target() {
        let unnamed = |why| Unnamed { module: HostText::new(b"evil.so"), pct: percent(9.0), why };
        let cases = [
            (NoNames::Stripped, "-dbgsym"),
            (NoNames::NoPerfMap, "`jcmd 4711 Compiler.perfmap`"),
            (NoNames::OtherDebugFile, "of another build"),
        ];
        for (why, want) in cases {
            let mut recording = report().recording;
            recording.quality.unnamed = vec![unnamed(why)];
            let told = cannot_tell(&recording).join("; ");
            assert!(told.contains(want) && told.contains("9.0 %"), "{told}");
            assert!(!told.contains("evil"), "{told}");
        }
        let mut recording = report().recording;
        recording.quality.unnamed.clear();
        assert_eq!(cannot_tell(&recording), Vec::<String>::new(), "0.8 % is not worth a word");
        recording.quality.incomplete = vec![Incomplete { why: Cut::ByDump, pct: percent(12.0) }];
        let told = cannot_tell(&recording).join("; ");
        assert!(told.contains("12.0 %") && told.contains("`dump_kib` 32"), "{told}");
    }
}

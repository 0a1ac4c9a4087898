//! Agent side of `perf_report`: answers from what `perf_record` kept.

mod answer;
pub(super) mod rows;

use crate::{
    call::Context,
    instruments::Collect,
    stack::{
        profile::{Chains, Direction, Profile, Subject},
        stored::Stored,
    },
};
use answer::Answer;
use protocol::{
    error::AgentError,
    host_text::HostText,
    instruments::perf_report::{self, Mode, PerfReport, Report, Request, Sort},
    message::Meta,
    units::Percent,
};

impl Collect for PerfReport {
    fn collect(request: Request, context: &Context<'_>) -> Result<(Report, Meta), AgentError> {
        let stored = Stored::load(request.artifact, context)?;
        let answer = Answer::new(&request, &stored, context);
        match request.mode {
            Mode::Functions => functions(&request, &stored, answer),
            Mode::Threads => threads(&stored, answer),
            Mode::Modules => modules(&request, &stored, answer),
            Mode::Callers => chains(&request, &stored, Direction::Callers, answer),
            Mode::Callees => chains(&request, &stored, Direction::Callees, answer),
            Mode::Lines => lines(&request, &stored, answer),
            Mode::Diff => difference(&request, &stored, answer, context),
        }
    }
}

/// A profile with the weight of all that is in it.
fn weighed(stored: &Stored) -> (&Profile, u64) {
    (&stored.profile, stored.profile.weight())
}

type Answered = Result<(Report, Meta), AgentError>;

fn functions(request: &Request, stored: &Stored, answer: Answer<'_, '_>) -> Answered {
    let by_total = request.sort == Sort::Total;
    let all = weighed(stored);
    let ranking = stored.profile.ranking(Subject::Functions, by_total);
    let weight = |row: &crate::stack::profile::Row| {
        (if by_total { row.share.total } else { row.share.own }) as f64
    };
    let answer = if by_total { answer.without_sum() } else { answer };
    answer.fill(
        ranking,
        weight,
        |row| rows::function(&row, all, &stored.lines),
        |report, rows| report.functions = rows,
    )
}

fn threads(stored: &Stored, answer: Answer<'_, '_>) -> Answered {
    let all = weighed(stored);
    answer.fill(
        stored.profile.ranking(Subject::Threads, false),
        |row| row.share.own as f64,
        |row| rows::thread(&row, all),
        |report, rows| report.threads = rows,
    )
}

fn modules(request: &Request, stored: &Stored, answer: Answer<'_, '_>) -> Answered {
    let by_total = request.sort == Sort::Total;
    let answer = if by_total { answer.without_sum() } else { answer };
    let all = weighed(stored);
    answer.fill(
        stored.profile.ranking(Subject::Modules, by_total),
        move |row| (if by_total { row.share.total } else { row.share.own }) as f64,
        |row| Some(rows::module(&row, all)),
        |report, rows| report.modules = rows,
    )
}

fn chains(
    request: &Request,
    stored: &Stored,
    direction: Direction,
    mut answer: Answer<'_, '_>,
) -> Answered {
    /// Functions of one name, in several files, that are named in an answer.
    const MOST_FUNCTIONS: usize = 5;
    let profile = &stored.profile;
    let functions = named(request, profile)?;
    let depth = usize::try_from(request.depth).unwrap_or(usize::MAX);
    let Chains { weight, chains } = profile.chains(&functions, direction, depth);
    let all = weighed(stored);
    answer.report.chains = Some(perf_report::Chains {
        functions: functions
            .iter()
            .take(MOST_FUNCTIONS)
            .map(|function| rows::shown(profile, *function))
            .collect(),
        total_pct: Percent::of(weight as f64, all.1 as f64).unwrap_or_default(),
        rows: Vec::new(),
    });
    answer.fill(
        chains,
        |chain| chain.weight as f64,
        |chain| Some(rows::chain(chain, weight, all)),
        |report, rows| {
            if let Some(chains) = &mut report.chains {
                chains.rows = rows;
            }
        },
    )
}

fn lines(request: &Request, stored: &Stored, answer: Answer<'_, '_>) -> Answered {
    let mut lines = stored.lines.clone();
    if request.function.is_some() {
        let functions = named(request, &stored.profile)?;
        lines.retain(|line| functions.contains(&line.function));
    }
    let all = weighed(stored);
    answer.fill(
        lines,
        |line| line.weight as f64,
        |line| rows::line(line, all),
        |report, rows| report.lines = rows,
    )
}

fn difference(
    request: &Request,
    stored: &Stored,
    mut answer: Answer<'_, '_>,
    context: &Context<'_>,
) -> Answered {
    let baseline = request.baseline.ok_or(AgentError::ParametersRefused)?;
    let before = Stored::load(baseline, context)?;
    let counted = [stored.recording.counted, before.recording.counted];
    if counted[0] != counted[1] {
        return Err(AgentError::NotComparable { counted: counted[0], baseline: counted[1] });
    }
    let (samples, samples_after) = (before.recording.samples, stored.recording.samples);
    let found = before.profile.difference(samples, &stored.profile, samples_after);
    let significant = found.changes.iter().filter(|change| change.is_significant).count();
    answer.report.difference = Some(perf_report::Difference {
        baseline_samples: samples,
        baseline_window_ms: before.recording.window_ms,
        least_significant_pct: Percent::of(found.least_significant, 1.0).unwrap_or_default(),
        significant_total: u32::try_from(significant).unwrap_or(u32::MAX),
        rows: Vec::new(),
    });
    // Ranked already: what is significant comes before what only changed much.
    let count = found.changes.len();
    let ranked: Vec<_> = found.changes.into_iter().enumerate().collect();
    answer.without_sum().fill(
        ranked,
        |(place, _)| (count - place) as f64,
        |(_, change)| Some(rows::change(&change)),
        |report, rows| {
            if let Some(difference) = &mut report.difference {
                difference.rows = rows;
            }
        },
    )
}

/// The functions of the name that was asked for: all that have it, or the one that has it in its
/// name. Without one, the heaviest function.
fn named(request: &Request, profile: &Profile) -> Result<Vec<u32>, AgentError> {
    /// Names in an error.
    const MOST_CANDIDATES: usize = 10;
    let Some(asked) = request.function.clone() else {
        let heaviest = profile.ranking(Subject::Functions, false).into_iter().next();
        return Ok(heaviest.and_then(|row| row.index).into_iter().collect());
    };
    let found = profile.functions_named(asked.as_str());
    let mut names: Vec<HostText> = Vec::new();
    for function in &found {
        let name = profile.described(*function).map(|function| function.name);
        names.extend(name.filter(|name| !names.contains(name)));
        // What is asked for need not be told of thousands.
        if names.len() > 1_000 {
            break;
        }
    }
    match names.len() {
        0 => Err(AgentError::NoSuchFunction { function: asked }),
        1 => Ok(found),
        total => {
            names.truncate(MOST_CANDIDATES);
            let total = u32::try_from(total).unwrap_or(u32::MAX);
            Err(AgentError::SeveralFunctions { function: asked, candidates: names, total })
        }
    }
}

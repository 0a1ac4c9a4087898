//! Agent side of `inspect_source`.
//!
//! Which lines are meant comes from a recording, from a process's files for debuggers, or from whoever
//! asks. Then the source is read as the process sees it, and the lines that matter are taken out of it.

mod in_process;
mod in_recording;
mod jail;
mod rows;
mod runtime_name;
mod source;
mod text;

use crate::{
    call::Context,
    instruments::{Collect, identity, process_files::ProcessFiles},
    rank::{self, Page},
};
use protocol::{
    error::AgentError,
    host_text::HostText,
    instruments::{
        Report as AnyReport,
        inspect_source::{InspectSource, Line, Other, Report, Request, Text},
    },
    loss::Lost,
    message::{Engine, Meta},
    observed::Observed,
    recording::{Function, Recording},
    units::Percent,
    view::json,
};
use rows::Row;
use source::{Source, Wanted};
use std::collections::{BTreeMap, BTreeSet};

/// Other places that are named.
const MOST_OTHERS: usize = 5;

/// What is meant, before the source is read.
#[derive(Debug, Default)]
struct Place {
    recording: Option<Recording>,
    function: Option<Function>,
    /// The path of the source, as the compiler was given it; or why there is none.
    file: Option<Vec<u8>>,
    no_lines: Option<Text>,
    /// The weight of what was sampled, by line.
    weights: BTreeMap<u32, u64>,
    /// The weight of all samples; none without a recording.
    all: Option<u64>,
    /// The weight of the function itself.
    own: u64,
    /// Lines that code was made of.
    code: BTreeSet<u32>,
    /// Lines that matter, from the first to the last; without a gap where all between belong to it.
    target: Target,
    /// Processes as which the source is read, the likeliest first.
    pids: Vec<u32>,
    /// Whether the agent's own root will do where those have ended.
    or_agent: bool,
    /// The path of the program's file in the process, or the end of it.
    program: Option<Vec<u8>>,
    others: Vec<Other>,
}

/// Lines that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Target {
    /// Those that have a weight.
    #[default]
    Weights,
    /// All from one to another.
    Span(u32, u32),
    /// Where a function of this name is defined, which the text says.
    DefinitionOf(String),
}

impl Collect for InspectSource {
    fn collect(request: Request, context: &Context<'_>) -> Result<(Report, Meta), AgentError> {
        if context.root.live_proc().is_none() {
            return Err(AgentError::OnlyOfTheMachine);
        }
        let (place, engine) = match (request.artifact, request.pid) {
            (Some(id), _) => (in_recording::find(id, &request, context)?, Engine::Stored),
            (None, Some(pid)) => (of_process(pid, &request, context)?, Engine::Procfs),
            (None, None) => return Err(AgentError::ParametersRefused),
        };
        context.check()?;
        let read = match &place.file {
            None => Err(place.no_lines.unwrap_or(Text::NoLines)),
            Some(file) => source::read(
                Wanted {
                    pids: place.pids.clone(),
                    or_agent: place.or_agent,
                    path: file.clone(),
                    program: place.program.clone(),
                },
                context,
            ),
        };
        context.check()?;
        answer(&request, place, read, engine, context)
    }
}

fn of_process(pid: u32, request: &Request, context: &Context<'_>) -> Result<Place, AgentError> {
    if let Some(name) = &request.function {
        return in_process::find(pid, name, context);
    }
    let (Some(file), Some(line)) = (&request.file, request.line) else {
        return Err(AgentError::ParametersRefused);
    };
    identity::check(0, &ProcessFiles { pid, context })?;
    Ok(Place {
        file: Some(file.raw()),
        target: Target::Span(line, line),
        pids: vec![pid],
        ..Place::default()
    })
}

fn answer(
    request: &Request,
    place: Place,
    read: Result<Source, Text>,
    engine: Engine,
    context: &Context<'_>,
) -> Result<(Report, Meta), AgentError> {
    let (source, state) = match read {
        Ok(source) => (Some(source), Text::Shown),
        Err(why) => (None, why),
    };
    let text = source.as_ref().map(|source| text::Lines::of(&source.bytes));
    let span = span_of(&place, text.as_ref());
    let rows = rows::around(&place, span, text.as_ref(), request.context);
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    let mut page = rank::page(rows, weight, 0, limit);
    let (lines, redacted) = lines(&page.rows, &place, text.as_ref());
    let is_whole = source.as_ref().is_some_and(|source| source.is_whole);
    let mut report = Report {
        weight_pct: place.share(place.own),
        recording: place.recording,
        function: place.function,
        file: place.file.as_deref().map(HostText::new),
        text: state,
        path: source.as_ref().map(|source| HostText::new(&source.path)),
        pid: source.as_ref().map_or(request.pid, |source| source.pid),
        is_of_agent: source.as_ref().is_some_and(|source| source.pid.is_none()),
        file_lines: text
            .as_ref()
            .filter(|_| is_whole)
            .and_then(|text| u32::try_from(text.count()).ok()),
        is_newer: source.as_ref().and_then(|source| source.is_newer),
        first_line: span.map(|(first, _)| first),
        last_line: span.map(|(_, last)| last),
        lines: Vec::new(),
        others: place.others,
    };
    let meta = |page: &Page<Row>| Meta {
        engine,
        window_ms: None,
        truncation: page.truncation,
        artifact: request.artifact,
        lost: Lost::default(),
        overhead: context.overhead(),
        redacted,
    };
    // By their weight they are cut, by their number they are shown.
    let with = |report: &Report, rows: &[Row]| {
        let numbers: BTreeSet<u32> = rows.iter().map(|row| row.line).collect();
        let lines = numbers.iter().filter_map(|number| lines.get(number).cloned()).collect();
        Report { lines, ..report.clone() }
    };
    let budget = usize::try_from(context.budget.answer_bytes).unwrap_or(usize::MAX);
    rank::fit(&mut page, weight, budget, |page, rows| {
        let some = with(&report, page.rows.get(..rows).unwrap_or_default());
        json::bytes(&AnyReport::InspectSource(some), &meta(page))
    });
    report = with(&report, &page.rows);
    Ok((report, meta(&page)))
}

/// The first and the last line that matter.
fn span_of(place: &Place, text: Option<&text::Lines<'_>>) -> Option<(u32, u32)> {
    match &place.target {
        Target::Weights => {
            let mut lines = place.weights.keys().copied();
            let first = lines.next()?;
            Some((first, lines.next_back().unwrap_or(first)))
        }
        Target::Span(first, last) => Some((*first, *last)),
        Target::DefinitionOf(name) => {
            let line = text?.definition_of(name)?;
            Some((line, line))
        }
    }
}

/// Lines as they are shown, by number, and how many secrets were taken out of them.
fn lines(
    rows: &[Row],
    place: &Place,
    text: Option<&text::Lines<'_>>,
) -> (BTreeMap<u32, Line>, u32) {
    let mut redacted = 0;
    let mut shown = |row: &Row| {
        let line = text.and_then(|text| text.shown(row.line));
        redacted += line.as_ref().map_or(0, |line| line.redacted);
        Line {
            line: row.line,
            text: line.map(|line| line.text),
            weight_pct: place.share(row.weight),
            has_code: row.weight > 0 || place.code.contains(&row.line),
        }
    };
    let lines = rows.iter().map(|row| (row.line, shown(row))).collect();
    (lines, redacted)
}

impl Place {
    /// The share of all samples; none without a recording.
    fn share(&self, weight: u64) -> Option<Percent> {
        Percent::of(weight as f64, self.all? as f64)
    }
}

fn weight(row: &Row) -> Observed<f64> {
    Observed::Known(row.weight as f64)
}

//! Lines of a function in a recording: those that samples end on.

use super::{Place, Target, in_process, runtime_name};
use crate::{
    call::Context,
    order,
    stack::{
        profile::{Profile, Subject},
        stored::{Line, Stored},
    },
};
use protocol::{
    artifact::ArtifactId,
    error::AgentError,
    host_text::HostText,
    instruments::inspect_source::{Other, Request, Text},
    recording::Function,
    units::Percent,
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

/// Processes as which a source is looked for.
const MOST_PROCESSES: usize = 8;

/// Finds the function that is asked for, or the one whose lines weigh most.
///
/// # Errors
///
/// That there is no such recording, or no such function in it.
pub fn find(id: ArtifactId, request: &Request, context: &Context<'_>) -> Result<Place, AgentError> {
    let stored = Stored::load(id, context)?;
    let profile = &stored.profile;
    let functions = match &request.function {
        Some(name) => profile.functions_named(name.as_str()),
        None => heaviest(&stored).into_iter().collect(),
    };
    let Some(number) = functions.first().copied() else {
        return match request.function.clone() {
            Some(function) => Err(AgentError::NoSuchFunction { function }),
            // Nothing ran while it was recorded.
            None => Ok(Place {
                recording: Some(stored.recording),
                all: Some(0),
                no_lines: Some(Text::NoLinesRecorded),
                ..Place::default()
            }),
        };
    };
    let mut place = place_of(&stored, number, functions.get(1..).unwrap_or_default());
    // A recording knows what a file is called, and not where it is.
    let module = place.program.take();
    place.program = module.and_then(|module| {
        place.pids.iter().find_map(|pid| in_process::path_of(*pid, &module, context))
    });
    Ok(place)
}

/// The function with most weight on lines; where none has any, the one with most weight.
fn heaviest(stored: &Stored) -> Option<u32> {
    let mut weights: HashMap<u32, u64> = HashMap::new();
    for line in &stored.lines {
        *weights.entry(line.function).or_default() += line.weight;
    }
    let by_lines = weights.into_iter().max_by_key(|(number, weight)| (*weight, Reverse(*number)));
    let by_samples = || stored.profile.ranking(Subject::Functions, false).first()?.index;
    by_lines.map(|(number, _)| number).or_else(by_samples)
}

fn place_of(stored: &Stored, number: u32, others: &[u32]) -> Place {
    let profile = &stored.profile;
    let function = profile.described(number);
    let shares = profile.function_shares();
    let own = |number: u32| {
        let share = usize::try_from(number).ok().and_then(|number| shares.get(number));
        share.map(|share| share.own).unwrap_or_default()
    };
    let all = profile.weight();
    let share = |weight: u64| Percent::of(weight as f64, all as f64);
    let mut files: Vec<(&str, u64)> = Vec::new();
    for Line { file, weight, .. } in stored.lines.iter().filter(|line| line.function == number) {
        match files.iter_mut().find(|(known, _)| known == file) {
            Some((_, sum)) => *sum += weight,
            None => files.push((file, *weight)),
        }
    }
    order::by_key(&mut files, |(_, weight)| Reverse(*weight));
    let path = |escaped: &str| HostText::escaped(escaped.to_owned());
    let mut place = Place {
        recording: Some(stored.recording.clone()),
        all: Some(all),
        own: own(number),
        pids: processes(profile, number, stored.recording.pid),
        or_agent: true,
        program: function
            .as_ref()
            .and_then(|function| function.module.as_ref().map(|module| module.raw())),
        ..Place::default()
    };
    if let Some((file, _)) = files.first() {
        place.file = Some(path(file).raw());
        let lines = stored.lines.iter().filter(|line| line.function == number);
        for line in lines.filter(|line| line.file == *file) {
            *place.weights.entry(line.line).or_default() += line.weight;
        }
    } else if let Some(found) =
        function.as_ref().and_then(|function| runtime_name::parse(function.name.as_str()))
    {
        place.file = Some(path(&found.file).raw());
        place.program = None;
        place.target = match found.line {
            Some(line) => Target::Span(line, line),
            None => Target::DefinitionOf(found.name),
        };
    } else {
        place.no_lines =
            Some(if stored.lines.is_empty() { Text::NoLines } else { Text::NoLinesRecorded });
    }
    let same = function.clone();
    let other_files = files.iter().skip(1).filter_map(|(file, weight)| {
        let Function { name, module, .. } = same.clone()?;
        Some(Other { function: name, module, file: Some(path(file)), weight_pct: share(*weight) })
    });
    let other_functions = others.iter().filter_map(|number| {
        let Function { name, module, .. } = profile.described(*number)?;
        Some(Other { function: name, module, file: None, weight_pct: share(own(*number)) })
    });
    place.others = other_files.chain(other_functions).take(super::MOST_OTHERS).collect();
    place.function = function;
    place
}

/// Processes in which a function was sampled, those with most samples first, and the one that was asked
/// for.
fn processes(profile: &Profile, number: u32, asked: Option<u32>) -> Vec<u32> {
    let is_in: Vec<bool> = profile.calls().map(|(_, function)| function == number).collect();
    let mut weights: BTreeMap<u32, u64> = BTreeMap::new();
    for (thread, node, weight) in profile.samples() {
        let node = node.and_then(|node| is_in.get(usize::try_from(node).ok()?));
        let thread = usize::try_from(thread).ok().and_then(|at| profile.threads().get(at));
        if let (Some(true), Some(thread)) = (node, thread)
            && thread.pid > 0
        {
            *weights.entry(thread.pid).or_default() += weight;
        }
    }
    let mut pids: Vec<(u32, u64)> = weights.into_iter().collect();
    order::by_key(&mut pids, |(_, weight)| Reverse(*weight));
    let sampled = pids.into_iter().map(|(pid, _)| pid).take(MOST_PROCESSES);
    sampled.chain(asked).collect()
}

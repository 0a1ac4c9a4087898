//! What works and what does not, for a person.
//!
//! Facts instead of columns: a remedy that is cut off at the edge of the terminal is none.

use super::{Check, Found, Remedy, Report, State};
use crate::view::{quantity::age, table::Table};

pub(super) fn tables(report: &Report) -> Vec<Table> {
    let found = &report.found;
    let (works, not): (Vec<&Check>, Vec<&Check>) =
        found.checks.iter().partition(|check| check.state == State::Works);
    let mut tables = vec![summary(found, works.len())];
    if !not.is_empty() {
        tables.push(Table::facts(
            "does not work, or not all of it; # is for root, and holds until the next boot",
            outcomes(&not, found),
        ));
    }
    if !works.is_empty() {
        tables.push(Table::facts("works", working(&works, found)));
    }
    tables
}

fn summary(found: &Found, working: usize) -> Table {
    let mut who = format!("uid {}", found.here.uid);
    if let Some(container) = found.here.container {
        who.push_str(&format!(" in a container ({})", container.name()));
    }
    let around = &found.surroundings;
    if !around.missing.is_empty() {
        let names: Vec<String> = around.missing.iter().map(ToString::to_string).collect();
        who.push_str(&format!(", without {}", names.join(", ")));
    }
    let mut limits = Vec::new();
    if found.here.in_user_namespace {
        limits.push("a user namespace".to_owned());
    }
    if around.in_pid_namespace {
        limits.push("a pid namespace".to_owned());
    }
    if around.has_seccomp_filter {
        limits.push("a seccomp filter".to_owned());
    }
    if !around.security_label.as_str().is_empty() {
        limits.push(format!("security context {}", around.security_label));
    }
    let tried = match found.age_ms {
        0 => format!("just now, in {} ms", found.took_ms),
        before => format!("{} ago, in {} ms", age(before / 1000), found.took_ms),
    };
    let works = format!("{working} of {} checks", found.checks.len());
    let mut facts = vec![("works", works), ("login", who), ("tried", tried)];
    if !limits.is_empty() {
        facts.push(("around it", limits.join(", ")));
    }
    facts.push(("sandbox", around.sandbox.to_string()));
    Table::facts("", facts)
}

/// One entry for all checks that have the same outcome and the same remedy.
fn outcomes(checks: &[&Check], found: &Found) -> Vec<(&'static str, String)> {
    let mut entries: Vec<(Vec<&'static str>, String)> = Vec::new();
    for check in checks {
        let outcome = outcome(check, found);
        let serves = || format!("{}\n  for {}", outcome, check.id.serves());
        let text = if found.shows_all { serves() } else { outcome.clone() };
        match entries.iter_mut().find(|(_, other)| *other == text) {
            Some((names, _)) => names.push(check.id.what()),
            None => entries.push((vec![check.id.what()], text)),
        }
    }
    // The first name stands before the outcome, the others below it.
    let mut rows = Vec::new();
    for (names, text) in entries {
        let mut names = names.into_iter();
        let Some(first) = names.next() else { continue };
        rows.push((first, text));
        rows.extend(names.map(|name| (name, "as above".to_owned())));
    }
    rows
}

fn outcome(check: &Check, found: &Found) -> String {
    let mut text = check.state.name().replace('_', " ");
    if let Some(why) = check.why() {
        text.push_str(&format!(": {why}"));
    }
    if let Some(said) = &check.said {
        text.push_str(&format!("\n  it said: {said}"));
    }
    if let Some(Remedy { sentence, commands }) = Remedy::of(check.id, &check.barriers, found.here) {
        text.push_str(&format!("\n→ {sentence}"));
        for command in commands {
            text.push_str(&format!("\n  # {command}"));
        }
    }
    text
}

/// What works, with its number where it has one, then the rest in one entry.
fn working(checks: &[&Check], found: &Found) -> Vec<(&'static str, String)> {
    let (mut rows, mut plain) = (Vec::new(), Vec::new());
    for check in checks {
        let what = check.id.what();
        match (check.why(), found.shows_all) {
            (None, false) => plain.push(what),
            (Some(why), false) => rows.push((what, why)),
            (why, true) => {
                let why = why.map(|why| format!("{why}\n")).unwrap_or_default();
                rows.push((what, format!("{why}for {}", check.id.serves())));
            }
        }
    }
    if !plain.is_empty() {
        rows.push(("also", plain.join("; ")));
    }
    rows
}

//! Attempts the hosts of `scenarios/src/hosts.rs`, several at a time, and compares what came of each
//! with its row in `docs/targets.md`.
//!
//! Each is a check with a name, so words on the command line choose among them, as for any test. With
//! `SYSMCP_BLESS` the page is written instead of compared.

use anyhow::{Result, bail};
use scenarios::{
    hosts::{self, GROUPS, Host, Outcome, page},
    named_checks,
    not_run::{is_full, not_here, not_run},
};
use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Hosts at a time: most of what an attempt takes is waiting.
const AT_A_TIME: usize = 4;

/// An attempt, and what came of it.
type Tried = (&'static Host, Result<Outcome>);

fn main() -> ExitCode {
    named_checks::main(hosts::all().map(|host| host.name), run)
}

/// Attempts the hosts that were asked for. Gives whether all is as the page says.
fn run(words: &[String]) -> Result<bool> {
    let is_wanted = |host: &&Host| {
        if words.is_empty() {
            return host.in_sample || is_full();
        }
        words.iter().any(|word| host.name.contains(word.as_str()))
    };
    let wanted: Vec<&'static Host> = hosts::all().filter(is_wanted).collect();
    let rows = page::rows()?;
    let is_blessed = std::env::var_os("SYSMCP_BLESS").is_some();
    let mut failures = Vec::new();
    let mut found = BTreeMap::new();
    for (host, outcome) in attempt_all(&wanted) {
        let compared = outcome.and_then(|outcome| {
            found.insert(host.name, outcome.clone());
            if is_blessed { Ok(()) } else { compare(host, &outcome, &rows) }
        });
        if let Err(error) = compared {
            failures.push(format!("{}: {error:#}", host.name));
        }
    }
    if is_blessed {
        page::write(GROUPS, &found)?;
    } else {
        failures.extend(strays(&rows));
    }
    println!("\n{} hosts, {} failures", wanted.len(), failures.len());
    failures.iter().for_each(|failure| println!("\n{failure}"));
    Ok(failures.is_empty())
}

/// Attempts hosts, some at a time, and tells of each as soon as it is known.
fn attempt_all(wanted: &[&'static Host]) -> Vec<Tried> {
    let next = AtomicUsize::new(0);
    let tried: Mutex<Vec<Tried>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(host) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let started = Instant::now();
                    let outcome = (host.attempt)();
                    tell(host, &outcome, started.elapsed());
                    let mut tried = tried.lock().unwrap_or_else(PoisonError::into_inner);
                    tried.push((*host, outcome));
                }
            });
        }
    });
    tried.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn tell(host: &Host, outcome: &Result<Outcome>, took: Duration) {
    let shown = match outcome {
        Ok(outcome) => page::cells(outcome),
        Err(_) => "FAILED".to_owned(),
    };
    println!("host {} ({:.1} s) ... {shown}", host.name, took.as_secs_f64());
    let check = format!("the host `{}`", host.name);
    match outcome {
        Ok(Outcome::NotHere(lacks)) => not_here(&check, lacks),
        Ok(Outcome::NotRun(needs)) => not_run(&check, needs),
        Ok(Outcome::Answers(_) | Outcome::Refuses { .. }) | Err(_) => {}
    }
}

fn compare(host: &Host, outcome: &Outcome, rows: &page::Rows) -> Result<()> {
    if matches!(outcome, Outcome::NotHere(_) | Outcome::NotRun(_)) && rows.contains_key(host.name) {
        return Ok(());
    }
    let now = page::cells(outcome);
    match rows.get(host.name) {
        Some(row) if *row == now => Ok(()),
        Some(row) => bail!(
            "docs/targets.md says\n  {row}\nand now it is\n  {now}\n\
             `cargo xtask hosts` writes it anew"
        ),
        None => bail!("it is not in docs/targets.md: `cargo xtask hosts` writes it there: {now}"),
    }
}

/// What is on the page and nowhere else, or nowhere on the page.
fn strays(rows: &page::Rows) -> Vec<String> {
    let names: Vec<&str> = hosts::all().map(|host| host.name).collect();
    let gone = rows.keys().filter(|name| !names.contains(&name.as_str()));
    let gone =
        gone.map(|name| format!("{name}: docs/targets.md has it, and there is no such host"));
    let new = names.iter().filter(|name| !rows.contains_key(**name));
    let new = new.map(|name| format!("{name}: docs/targets.md has no row for it"));
    gone.chain(new)
        .map(|stray| format!("{stray}; `cargo xtask hosts` writes the page anew"))
        .collect()
}

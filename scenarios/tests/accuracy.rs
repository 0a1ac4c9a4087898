//! `perf_record` finds what `perf record` finds in the same program at the same time: a sample of the
//! programs, with `--full` all of them. With `SYSMCP_BLESS` what both found is written to
//! `docs/accuracy.md`.

use anyhow::{Result, bail};
use scenarios::{
    accuracy::{
        Both, look,
        page::{self, Looked},
        programs::{PROGRAMS, Program, perf_version},
    },
    client::Client,
    named_checks,
    not_run::{is_full, not_run},
    sysmcp::Sysmcp,
};
use std::process::ExitCode;

/// So often each program may be looked at. A difference that is one comes again; one that the machine
/// makes, because it is busy while one of both begins, does not.
const ATTEMPTS: u32 = 3;

fn main() -> ExitCode {
    named_checks::main(PROGRAMS.iter().map(|program| program.name), run)
}

/// Looks at the programs that were asked for. Gives whether both found the same in each.
fn run(words: &[String]) -> Result<bool> {
    let is_wanted = |program: &&Program| {
        if words.is_empty() {
            return program.in_sample || is_full();
        }
        let name = program.name.to_lowercase();
        words.iter().any(|word| name.contains(&word.to_lowercase()))
    };
    let wanted: Vec<&'static Program> = PROGRAMS.iter().filter(is_wanted).collect();
    let mut sysmcp = Client::start(Sysmcp::local()?.command())?;
    let mut looked: Vec<Looked> = Vec::new();
    let mut failures = Vec::new();
    for program in wanted {
        let outcome = look_at(program, &mut sysmcp, &mut failures);
        println!("{}", page::section(program, &outcome));
        looked.push((program, outcome));
    }
    println!("{} programs, {} failures", looked.len(), failures.len());
    failures.iter().for_each(|failure| println!("\n{failure}"));
    if std::env::var_os("SYSMCP_BLESS").is_some() {
        if looked.len() < PROGRAMS.len() {
            bail!("the page is of one run over all programs, and this one was not");
        }
        std::fs::write(page::path(), page::page(&looked, &perf_version()?)?)?;
    }
    Ok(failures.is_empty())
}

fn look_at(
    program: &'static Program,
    sysmcp: &mut Client,
    failures: &mut Vec<String>,
) -> Result<Both, String> {
    let check = format!("the profile of: {}", program.name);
    let mut missing = program.missing();
    if !rustix::process::geteuid().is_root() {
        missing.push("root, for the kernel's part and for namespaces".to_owned());
    }
    if !missing.is_empty() {
        let missing = missing.join(", ");
        not_run(&check, &missing);
        return Err(format!("it needs {missing}"));
    }
    let mut attempt = 1;
    loop {
        let both = match look(program, sysmcp) {
            Ok(both) => both,
            Err(error) => {
                failures.push(format!("{}: {error:#}", program.name));
                return Err("it failed".to_owned());
            }
        };
        let faults = both.comparison.faults.join("; ");
        if faults.is_empty() {
            return Ok(both);
        }
        println!("{}, attempt {attempt}: {faults}", program.name);
        if attempt == ATTEMPTS {
            failures.push(format!("{}: {faults}", program.name));
            return Ok(both);
        }
        attempt += 1;
    }
}

//! The demonstration: a service that is slow, and how one finds out why without having been told.

use crate::{
    faults::Fault,
    service::Scenario,
    sshd::{Settings, Sshd},
    sysmcp::Sysmcp,
};
use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};
use std::{io::IsTerminal as _, thread::sleep, time::Duration};

/// Runs it. The text goes to stdout; what sysmcp tells on stderr stays there.
///
/// # Errors
///
/// When something cannot be started, or the fault is not found.
pub fn run() -> Result<()> {
    let is_terminal = std::io::stdout().is_terminal();
    let say = |text: &str| {
        if is_terminal {
            println!("\n\x1b[1m{text}\x1b[0m");
        } else {
            println!("\n{text}");
        }
    };
    say(
        "A service on this machine is slow. It is reached through a private sshd, as a stranger would.",
    );
    let sshd = Sshd::start(&Settings::default())?;
    let scenario = Scenario::start(Fault::FsyncPerRequest)?;
    sleep(Duration::from_secs(1));
    let sysmcp = Sysmcp::over(&sshd)?;
    let target = sshd.target();

    say(&format!("$ sysmcp --target {target} call process_list"));
    show(&sysmcp, "process_list", &json!({"limit": 5}))?;

    say("The service does not use a processor up. So what does it wait for?");
    let parameters = json!({"pid": scenario.pid(), "threads": 3, "window_ms": 2000});
    say(&format!("$ sysmcp --target {target} call process_inspect --params '{parameters}'"));
    show(&sysmcp, "process_inspect", &parameters)?;

    let (class, because) = find(&sysmcp, &parameters, &say)?;
    say(&format!("Found: {class}: {because}."));
    println!("The truth: each request waits for the disk, a hundred times (fsync).");

    say("What was done is written down:");
    let mut audit = sysmcp.command();
    audit.args(["audit", "verify"]).status()?;
    Ok(())
}

/// Asks until the fault is found. On a machine that is busy with something else the service mostly
/// waits for a processor, and sysmcp says that.
fn find(sysmcp: &Sysmcp, parameters: &Value, say: &impl Fn(&str)) -> Result<(String, String)> {
    const TRIES: u32 = 5;
    for _ in 0..TRIES {
        let answer = sysmcp.answer("process_inspect", parameters)?;
        let text = |path| answer.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let (class, because) = (text("/class"), text("/because/0"));
        if class == Fault::FsyncPerRequest.truth().class {
            return Ok((class.to_owned(), because.to_owned()));
        }
        say(&format!("Not yet: {class}: {because}. Asking again."));
        sleep(Duration::from_secs(2));
    }
    bail!("the fault was not found; is this machine busy with something else?")
}

/// Calls a tool as a person would, its output going where ours goes.
fn show(sysmcp: &Sysmcp, tool: &str, parameters: &Value) -> Result<()> {
    let mut command = sysmcp.command();
    let status = command.args(["call", tool, "--params", &parameters.to_string()]).status()?;
    ensure!(status.success(), "sysmcp ended with {status}");
    Ok(())
}

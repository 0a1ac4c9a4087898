//! What a connection costs in memory, where one process has a hundred.

use crate::table;
use anyhow::{Context as _, Result, ensure};
use scenarios::{many_connections::Account, programs};
use std::process::{Command, Stdio};

const CONNECTIONS: &str = "100";

/// One figure of an account.
type Figure = fn(&Account) -> f64;

pub fn measure() -> Result<String> {
    let accounts = ["russh", "openssh"].map(account);
    let accounts = accounts.into_iter().collect::<Result<Vec<Account>>>()?;
    let figures: [(&str, Figure); 7] = [
        ("controller, with the first connection, kB", |account| account.first_kib),
        ("controller, with each further connection, kB", |account| account.each_kib),
        ("the user's ssh beside it, each, kB (proportional)", |account| account.carrier_kib),
        ("the most the controller had, kB", |account| account.peak_kib),
        ("agent on the target, each, all its processes, kB (proportional)", |account| {
            account.agent_kib
        }),
        ("seconds until all stood", |account| account.connecting_s),
        ("seconds of all calls together", |account| account.calling_s),
    ];
    let rows: Vec<Vec<String>> = figures
        .iter()
        .map(|(name, figure)| {
            let values = accounts.iter().map(figure);
            let shown = values.map(|value| {
                if name.starts_with("seconds") {
                    format!("{value:.1}")
                } else {
                    format!("{value:.0}")
                }
            });
            std::iter::once((*name).to_owned()).chain(shown).collect()
        })
        .collect();
    let answers: u32 = accounts.iter().map(|account| account.answers).sum();
    Ok(table::section(
        "A hundred connections at once",
        &format!(
            "From one process to {CONNECTIONS} sshd on this machine, 20 logins at a time, then 20 \
             calls over each connection; {answers} answers came, and none was lost. Clients, servers \
             and agents share the processors."
        ),
        &["", "its own SSH (`russh:`)", "over the user's ssh (`openssh:`)"],
        &rows,
    ))
}

/// In a process of its own: what was there before would count otherwise.
fn account(way: &str) -> Result<Account> {
    let mut command = Command::new(programs::scenarios());
    command.args(["many-connections", "--connections", CONNECTIONS, "--way", way]);
    let output = command.stdin(Stdio::null()).output().context("could not run scenarios")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "connecting a hundred times failed: {said}");
    let account: Account = serde_json::from_slice(&output.stdout)?;
    ensure!(account.problems.is_empty(), "{:?}", account.problems);
    Ok(account)
}

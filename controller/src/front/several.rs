//! One question to several targets at the same time. Each answer is printed as it comes, so that
//! none waits for a host that is slow or dead.

use super::{Patience, clear, complain, print, shown, signals::Signals, stop};
use controller::{
    cli::Common,
    config::Config,
    exit,
    gate::{Call, Gate, GateError, Rendered},
    reporter::Stderr,
    target::Target,
    targets::PARAMETER,
    transport::Prompts,
};
use futures::{StreamExt as _, stream::FuturesUnordered};

/// Asks every target, and shows what comes of it. Gives the worst of the exit codes, which is the
/// highest.
pub async fn ask_each(config: &Config, common: &Common, call: &Call, as_json: bool) -> u8 {
    // Two that ask at one terminal at the same time cannot be told apart.
    let gate = match Gate::new(config, Prompts::Forbidden, true) {
        Ok(gate) => gate,
        Err(error) => return complain(&error.text(), error.exit_code()),
    };
    let stderr = (!common.quiet).then(Stderr::default);
    let mut signals = Signals::new();
    let code = tokio::select! {
        code = answers(&gate, call, stderr.as_ref(), as_json) => code,
        () = signals.any() => {
            clear(stderr.as_ref());
            complain("interrupted", exit::INTERRUPTED)
        }
    };
    let patience = Patience { signals, is_interrupted: code == exit::INTERRUPTED };
    code.max(stop(&gate, &stderr, stderr.as_ref(), common, patience).await)
}

/// Shows the answers in the order in which they come.
async fn answers(gate: &Gate, call: &Call, stderr: Option<&Stderr>, as_json: bool) -> u8 {
    let asked = gate.targets().iter().map(|target| ask(gate, target, call, stderr.is_some()));
    let mut asked: FuturesUnordered<_> = asked.collect();
    let mut worst = exit::OK;
    let mut is_first = true;
    while let Some((target, answered)) = asked.next().await {
        clear(stderr);
        let code = match answered {
            // Each object says which target it is about.
            Ok(rendered) if as_json => print(&shown(&rendered, true)),
            Ok(rendered) => {
                let heading = heading(target, &mut is_first);
                print(&format!("{heading}{}", shown(&rendered, false)))
            }
            Err(error) => complain(&format!("{target}: {}", error.text()), error.exit_code()),
        };
        worst = worst.max(code);
    }
    worst
}

/// What stands above the answer of one of several targets.
pub fn heading(target: &Target, is_first: &mut bool) -> String {
    let gap = if std::mem::take(is_first) { "" } else { "\n" };
    format!("{gap}== {target} ==\n\n")
}

async fn ask<'t>(
    gate: &Gate,
    target: &'t Target,
    call: &Call,
    is_told: bool,
) -> (&'t Target, Result<Rendered, GateError>) {
    let mut call = call.clone();
    call.arguments.insert(PARAMETER.to_owned(), target.to_string().into());
    let stderr = is_told.then(|| Stderr::about(target));
    (target, gate.call(call, &stderr).await)
}

//! What sessions left on each target, found and removed. The targets are swept at the same time, and
//! each report is printed as it comes.

use super::{clear, complain, print, several::heading, signals::Signals};
use controller::{
    cli::Common,
    config::Config,
    exit,
    gate::{Gate, GateError},
    reporter::Stderr,
    target::Target,
    transport::Prompts,
};
use futures::{StreamExt as _, stream::FuturesUnordered};
use protocol::sweep::{Order, Swept};
use serde_json::json;

/// Sweeps every target. Gives the worst of the exit codes, which is the highest.
pub async fn sweep(config: &Config, common: &Common, order: Order, as_json: bool) -> u8 {
    let is_alone = config.targets.only().is_some();
    // Two that ask at one terminal at the same time cannot be told apart.
    let prompts = if is_alone { Prompts::here() } else { Prompts::Forbidden };
    let gate = match Gate::new(config, prompts, true) {
        Ok(gate) => gate,
        Err(error) => return complain(&error.text(), error.exit_code()),
    };
    let mut signals = Signals::new();
    tokio::select! {
        code = each(&gate, common, order, as_json) => code,
        () = signals.any() => complain(
            "interrupted; a sweep that was begun comes to its end on the target",
            exit::INTERRUPTED,
        ),
    }
}

async fn each(gate: &Gate, common: &Common, order: Order, as_json: bool) -> u8 {
    let is_alone = gate.targets().only().is_some();
    let asked = gate.targets().iter().map(|target| one(gate, target, common, order));
    let mut asked: FuturesUnordered<_> = asked.collect();
    let mut worst = exit::OK;
    let mut is_first = true;
    while let Some((target, result)) = asked.next().await {
        let whose = if is_alone { String::new() } else { format!("{target}: ") };
        let code = match result {
            Ok(swept) => {
                let printed = print(&if as_json {
                    format!("{}\n", json!({ "target": target.to_string(), "swept": swept }))
                } else {
                    let heading =
                        if is_alone { String::new() } else { heading(target, &mut is_first) };
                    format!("{heading}{}\n", swept.lines().join("\n"))
                });
                printed.max(if swept.left == 0 { exit::OK } else { exit::NOT_CLEAN })
            }
            Err(error) => complain(&format!("{whose}{}", error.text()), error.exit_code()),
        };
        worst = worst.max(code);
    }
    worst
}

async fn one<'t>(
    gate: &Gate,
    target: &'t Target,
    common: &Common,
    order: Order,
) -> (&'t Target, Result<Swept, GateError>) {
    let is_alone = gate.targets().only().is_some();
    let stderr =
        (!common.quiet).then(|| if is_alone { Stderr::default() } else { Stderr::about(target) });
    let result = gate.sweep(target, order, &stderr).await;
    clear(stderr.as_ref());
    (target, result)
}

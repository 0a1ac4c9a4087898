//! `sysmcp`: picks a front door. The only place that prints or exits.

mod front;

use clap::Parser as _;
use controller::{cli::Cli, exit, transport::process};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { exit::USAGE } else { exit::OK });
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let code = match runtime {
        Ok(runtime) => {
            let code = runtime.block_on(async {
                let code = front::run(cli).await;
                // Connections that were given up end before we do.
                process::settle().await;
                code
            });
            // A blocked read of stdin must not keep the process.
            runtime.shutdown_background();
            code
        }
        Err(error) => front::complain(&format!("could not start: {error}"), exit::DEFECT),
    };
    ExitCode::from(code)
}

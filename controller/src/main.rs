//! `sysmcp`: picks a front door. The only place that prints or exits.

mod front;

use controller::{cli::Cli, exit, transport::process};
use std::{io::Write as _, process::ExitCode};

fn main() -> ExitCode {
    let cli = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => {
            let printed = error.print().and_then(|()| std::io::stdout().flush());
            let code = if error.use_stderr() { exit::USAGE } else { front::printed(printed) };
            return ExitCode::from(code);
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

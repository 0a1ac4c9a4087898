//! A container: the same script in a shell there, which the engine's command line starts.
//!
//! The engine's own program is run, so its contexts, its variables and its rights count. An engine
//! does not end what `exec` started when its client is gone; but the client's end closes the command's
//! stdin, and the agent ends with that.

mod archive;
mod explanation;
mod without_shell;

pub use archive::archive;
pub use explanation::{Problem, explain};
pub use without_shell::{Start, machine, remove, seen, start};

use super::{Channel, NotOpened, process};
use crate::target::{Container, Engine};
use tokio::process::Command;

/// The engine's program, which Ctrl-C at a terminal does not reach: it is for sysmcp, which then stops
/// the agent in order.
fn program(engine: Engine) -> Command {
    apart(Command::new(engine.name()))
}

/// In a process group of its own, where an `ssh` that the engine's program starts
/// (`DOCKER_HOST=ssh://…`) would stop by asking at the terminal: it asks nobody.
fn apart(mut command: Command) -> Command {
    process::set_apart(&mut command);
    command.envs(process::ASKS_NOBODY);
    command
}

/// The arguments that start a command in a container. The container's name was checked to be no
/// option.
fn exec<'a>(container: &'a Container, command: &[&'a str], as_root: bool) -> Vec<&'a str> {
    let mut arguments = vec!["exec", "-i"];
    if as_root {
        arguments.extend(["--user", "0"]);
    }
    arguments.push(&container.name);
    arguments.extend(command);
    arguments
}

/// Starts the script in a container: as the user that the image names, or as the container's root.
///
/// # Errors
///
/// When the engine's program is missing, or no process can be started. Why the engine starts nothing
/// only the end of the channel tells.
pub fn open(container: &Container, script: &str, as_root: bool) -> Result<Channel, NotOpened> {
    let mut command = program(container.engine);
    command.args(exec(container, &["/bin/sh", "-c", script], as_root));
    started(container.engine, process::start(command))
}

/// A missing program by its name.
fn started<T>(engine: Engine, result: std::io::Result<T>) -> Result<T, NotOpened> {
    result.map_err(|error| {
        if error.kind() == std::io::ErrorKind::NotFound {
            Problem::NoProgram { engine }.into()
        } else {
            error.into()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_one_argument_behind_the_name() {
        let container = Container { engine: Engine::Docker, name: "web".to_owned() };
        let shell = ["/bin/sh", "-c", "echo \"$HOME\"; true"];
        let plain = ["exec", "-i", "web", "/bin/sh", "-c", "echo \"$HOME\"; true"];
        assert_eq!(exec(&container, &shell, false), plain);
        let root = ["exec", "-i", "--user", "0", "web", "/bin/sh", "-c", "echo \"$HOME\"; true"];
        assert_eq!(exec(&container, &shell, true), root);
    }
}

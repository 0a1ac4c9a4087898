//! Why an engine starts nothing in a container, read off what its program wrote.
//!
//! The sentences are those of Docker (moby's daemon/exec.go and daemon/errors.go, the client's
//! request.go) and Podman (libpod's define/errors.go); those of the runtimes runc and crun come
//! through them. They are looked for in parts that all known versions have.

use crate::{
    exit,
    target::{Container, Engine},
    words,
};
use protocol::host_text::HostText;

/// Reads the cause off the end of the engine's program, from what came on stdout in place of a mark
/// and what came on stderr: Docker tells what the runtime said on stdout. `None` where it was not the
/// engine that failed.
pub fn explain(container: &Container, code: Option<i32>, said: &[u8]) -> Option<Problem> {
    let said = String::from_utf8_lossy(said);
    let text = said.to_lowercase();
    let has = |words: &str| text.contains(words);
    let Container { engine, name } = container.clone();
    if has("no such container") || has("no container with name or id") {
        return Some(Problem::Missing { engine, name });
    }
    if has("permission denied") && (has("socket") || has("connect to the docker")) {
        return Some(Problem::Forbidden { engine });
    }
    if has("cannot connect to") || has("failed to connect to the docker") {
        return Some(Problem::NoEngine { engine, said: last_line(&said) });
    }
    if has("is paused") {
        return Some(Problem::Paused { engine, name });
    }
    if has("is restarting") {
        return Some(Problem::Restarting { engine, name });
    }
    if has("is not running") || has("container state improper") {
        return Some(Problem::NotRunning { engine, name });
    }
    if has("marked read-only") || has("read-only file system") {
        return Some(Problem::ReadOnly { engine, name });
    }
    if matches!(code, Some(126 | 127)) && has("/bin/sh") && is_missing(&text) {
        return Some(Problem::NoShell { name });
    }
    // An engine's program says that it failed itself with this code, and a runtime with its name.
    let is_engines = code == Some(125) || has("error response from daemon") || has("oci runtime");
    if is_engines {
        return Some(Problem::Other { engine, name, said: last_line(&said) });
    }
    // What the kernel, or the engine, ends with SIGKILL ends with this.
    (code == Some(137)).then_some(Problem::Killed { engine, name })
}

/// Whether a runtime found no program to run.
fn is_missing(text: &str) -> bool {
    ["no such file or directory", "not found", "exec format error"]
        .iter()
        .any(|words| text.contains(words))
}

fn last_line(text: &str) -> HostText {
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    words::of_others(line.trim().trim_end_matches('.'), 300)
}

/// Why there is no way into a container.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The engine's program is missing here.
    #[error(
        "there is no {} on this machine. Install it; or reach the container's host by ssh: and look \
         at the container's processes from there", .engine.name()
    )]
    NoProgram {
        /// Whose.
        engine: Engine,
    },
    /// The engine does not answer.
    #[error("{} does not answer (it said `{said}`); try by hand: {} ps", .engine.name(), .engine.name())]
    NoEngine {
        /// Which.
        engine: Engine,
        /// What its program said.
        said: HostText,
    },
    /// The engine's socket is not for this user.
    #[error(
        "this user may not talk to {}. Use a user who may, such as one of the group that its socket \
         has; that is as much as being root on the engine's machine", .engine.name()
    )]
    Forbidden {
        /// Which engine.
        engine: Engine,
    },
    /// No such container.
    #[error("{} has no container `{name}`; `{} ps -a` lists those that there are",
            .engine.name(), .engine.name())]
    Missing {
        /// Whose.
        engine: Engine,
        /// Its name.
        name: String,
    },
    /// It has ended, or was never started.
    #[error(
        "the container `{name}` is not running: it has ended, is paused, or was never started. Its \
         state: {} inspect -f '{{{{json .State}}}}' {name}", .engine.name()
    )]
    NotRunning {
        /// Whose.
        engine: Engine,
        /// Its name.
        name: String,
    },
    /// It is paused.
    #[error(
        "the container `{name}` is paused, and nothing can be started in it. Look at it from its \
         host; or, if it may run: {} unpause {name}", .engine.name()
    )]
    Paused {
        /// Whose.
        engine: Engine,
        /// Its name.
        name: String,
    },
    /// It ends again and again.
    #[error(
        "the container `{name}` is restarting: it ends soon after each start. What it said: {} logs \
         --tail 50 {name}", .engine.name()
    )]
    Restarting {
        /// Whose.
        engine: Engine,
        /// Its name.
        name: String,
    },
    /// It has no shell that could run the script.
    #[error("the container `{name}` has no /bin/sh")]
    NoShell {
        /// Its name.
        name: String,
    },
    /// Nothing can be put into it.
    #[error(
        "the root of the container `{name}` is read-only and it has no shell, so the agent can \
         neither be copied into it nor be started in memory. Look at its processes from its host: \
         --target local, or ssh:, where {} runs", .engine.name()
    )]
    ReadOnly {
        /// Whose.
        engine: Engine,
        /// Its name.
        name: String,
    },
    /// It, or the agent in it, was killed.
    #[error(
        "what was started in the container `{name}` was killed: the container was stopped, or is at \
         its memory limit. See: {} inspect -f '{{{{json .State}}}}' {name}", .engine.name()
    )]
    Killed {
        /// Whose.
        engine: Engine,
        /// Its name.
        name: String,
    },
    /// Anything else that the engine says.
    #[error("{} starts nothing in the container `{name}`: {said}", .engine.name())]
    Other {
        /// Whose.
        engine: Engine,
        /// Its name.
        name: String,
        /// What it said.
        said: HostText,
    },
}

impl Problem {
    /// The exit code for a command that ends with this.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::NoProgram { .. }
            | Self::NoEngine { .. }
            | Self::Missing { .. }
            | Self::NotRunning { .. }
            | Self::Paused { .. }
            | Self::Restarting { .. }
            | Self::Killed { .. }
            | Self::Other { .. } => exit::UNREACHABLE,
            Self::Forbidden { .. } => exit::REFUSED_LOGIN,
            Self::NoShell { .. } => exit::NO_SHELL,
            Self::ReadOnly { .. } => exit::CANNOT_RUN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What engines of several versions wrote, with the exit code, and a part of what we make of it.
    const SAID: &[(Engine, i32, &str, &str)] = &[
        (Engine::Docker, 1, "Error: No such container: web\n", "docker has no container `web`"),
        (
            Engine::Docker,
            1,
            "Error response from daemon: No such container: web\n",
            "`docker ps -a` lists",
        ),
        (
            Engine::Podman,
            125,
            "Error: no container with name or ID \"web\" found: no such container\n",
            "podman has no container `web`",
        ),
        (
            Engine::Docker,
            1,
            "Error response from daemon: Container 24113e69 is not running\n",
            "is not running: it has ended",
        ),
        (
            Engine::Podman,
            255,
            "Error: can only create exec sessions on running containers: container state improper\n",
            "is not running: it has ended",
        ),
        (
            Engine::Docker,
            1,
            "Error response from daemon: Container web is paused, unpause the container before exec\n",
            "docker unpause web",
        ),
        (
            Engine::Docker,
            1,
            "Error response from daemon: Container 2411 is restarting, wait until the container is \
             running\n",
            "docker logs --tail 50 web",
        ),
        (
            Engine::Docker,
            1,
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker \
             daemon running?\n",
            "docker does not answer (it said `Cannot connect",
        ),
        (
            Engine::Docker,
            1,
            "failed to connect to the docker API at unix:///x; check if the path is correct\n",
            "docker does not answer (it said `failed",
        ),
        (
            Engine::Podman,
            125,
            "Cannot connect to Podman. Please verify your connection to the Linux system using \
             `podman system connection list`\n",
            "try by hand: podman ps",
        ),
        (
            Engine::Docker,
            1,
            "permission denied while trying to connect to the Docker daemon socket at unix:///s: \
             Get \"http://s/v1.24/x\": dial unix /s: connect: permission denied\n",
            "may not talk to docker",
        ),
        (
            Engine::Docker,
            126,
            "OCI runtime exec failed: exec failed: unable to start container process: exec: \
             \"/bin/sh\": stat /bin/sh: no such file or directory: unknown\n",
            "has no /bin/sh",
        ),
        (
            Engine::Podman,
            127,
            "Error: crun: executable file `/bin/sh` not found: No such file or directory: OCI \
             runtime attempted to invoke a command that was not found\n",
            "has no /bin/sh",
        ),
        (
            Engine::Docker,
            1,
            "Error response from daemon: container rootfs is marked read-only\n",
            "is read-only and it has no shell",
        ),
        (
            Engine::Docker,
            126,
            "OCI runtime exec failed: exec failed: cannot set user: no such user\n",
            "starts nothing in the container `web`: OCI runtime",
        ),
        (Engine::Docker, 137, "", "at its memory limit"),
    ];

    fn container(engine: Engine) -> Container {
        Container { engine, name: "web".to_owned() }
    }

    #[test]
    fn each_cause_is_told_with_its_remedy() {
        for (engine, code, said, want) in SAID {
            let problem = explain(&container(*engine), Some(*code), said.as_bytes());
            let problem = problem.unwrap_or_else(|| panic!("not explained: {said}")).to_string();
            assert!(problem.contains(want), "{said}: {problem}");
        }
    }

    #[test]
    fn what_the_engine_did_not_say_is_left_to_others() {
        for (code, said) in [(0, ""), (1, "sh: head: not found\n"), (127, "sh: dd: not found\n")] {
            let problem = explain(&container(Engine::Docker), Some(code), said.as_bytes());
            assert_eq!(problem, None, "{said}");
        }
    }

    #[test]
    fn what_is_shown_cannot_steer_a_terminal() {
        let said = b"Error response from daemon: \x1b[2Jgone\n";
        let problem = explain(&container(Engine::Docker), Some(1), said).unwrap().to_string();
        assert!(!problem.contains('\x1b'), "{problem}");
    }
}

//! A container without a shell, such as one of a distroless image: the agent is copied into it and
//! started by its path.
//!
//! There the file has a name, until the agent removes it as its first act. The name is an unpredictable
//! one in the root, the only folder that every container has and that is no mount of its own: what `cp`
//! puts into a tmpfs lands below it, out of sight. Copying, starting and removing are the work of one
//! shell on our side, with the archive in an open file: it goes on when the controller is killed, so
//! that the copy is never left half done. Where the engine's program was ended in the middle of it,
//! the copy is made once more, because nothing else in the container could remove it. What then is left after a kill of that shell, or of the
//! engine, `docs/safety.md` says.

use super::{Problem, program, started};
use crate::{
    private,
    push::{processor::is_name, script::Words},
    target::{Container, Engine},
    transport::{Channel, NotOpened, process},
};
use protocol::{
    handshake::Token,
    host_text::HostText,
    sweep::{MARK, folder_of},
};
use std::{fs::File, io::Write as _, process::Stdio, time::Duration};
use tokio::process::Command;

/// Runs on this machine. Its words: the engine's program, the container, the archive, the token, the
/// folder, the option of `cp`, if any, what the agent is started for, how, and the options of `exec`.
/// Only where the agent is not root's, or was not copied whole, is anything left for `forget` to
/// remove: the folder is in the root, which is root's. 73 is the agent's exit code for a channel that
/// was closed.
const SCRIPT: &str = r#"
engine=$1; name=$2; archive=$3; token=$4; folder=$5; as_it_is=$6; role=$7; asked=$8; shift 8
is_copied=
copy() { "$engine" cp $as_it_is - "$name:/" <"$archive" >/dev/null; }
remove() {
    "$engine" exec -i --user 0 "$name" "$folder/a" serve "$token" "$folder" </dev/null >/dev/null 2>&1
}
forget() {
    remove
    test $? = 73 || test -n "$is_copied" || { copy 2>/dev/null && remove; }
}
trap forget EXIT
trap "exit 143" HUP INT TERM
copy || exit
is_copied=1
"$engine" exec -i "$@" "$name" "$folder/a" "$role" "$token" $asked "$folder"
"#;

/// How long an engine may take with a question.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is to be started.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// Where.
    pub container: &'a Container,
    /// The session.
    pub token: &'a Token,
    /// What stands in the agent's command line.
    pub words: &'a Words,
    /// Whether as the container's root.
    pub as_root: bool,
}

impl Start<'_> {
    /// The name of the agent's folder, in the root.
    pub fn folder(&self) -> String {
        folder_of(self.token)
    }

    fn path(&self) -> String {
        format!("/{}", self.folder())
    }
}

/// The processor of the machine that the container runs on, as the engine names it.
///
/// # Errors
///
/// When the engine cannot be asked.
pub async fn machine(container: &Container) -> Result<String, NotOpened> {
    let format = match container.engine {
        Engine::Docker => "{{.Architecture}}",
        Engine::Podman => "{{.Host.Arch}}",
    };
    let mut command = program(container.engine);
    command.args(["info", "--format", format]).stdin(Stdio::null()).kill_on_drop(true);
    let asked = tokio::time::timeout(PATIENCE, command.output()).await;
    let late = || std::io::Error::from(std::io::ErrorKind::TimedOut);
    let output = started(container.engine, asked.map_err(|_| late())?)?;
    if let Some(problem) = super::explain(container, output.status.code(), &output.stderr) {
        return Err(problem.into());
    }
    let machine = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !is_name(&machine) {
        let Container { engine, name } = container.clone();
        let said = HostText::capped(machine.as_bytes(), 100);
        return Err(Problem::Other { engine, name, said }.into());
    }
    Ok(machine)
}

/// Copies an archive with the agent into the container and starts the agent.
///
/// # Errors
///
/// When no process can be started. Why the engine starts nothing only the end of the channel tells.
pub fn start(start: Start<'_>, archive: &[u8]) -> Result<Channel, NotOpened> {
    let Start { container, token, words, as_root } = start;
    let file = nameless(archive, token)?;
    let archive = inherited(&file)?;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", SCRIPT, "sysmcp", container.engine.name(), &container.name]);
    command.args([&archive, token.as_str(), &start.path()]);
    command.arg(match container.engine {
        Engine::Docker => "",
        // Podman gives what it copies to the container's user, who could then remove the file and
        // not the folder.
        Engine::Podman => "--archive=false",
    });
    command.args([words.role, &words.asked, "-e", &format!("{MARK}={}", token.as_str())]);
    if as_root {
        command.args(["--user", "0"]);
    }
    started(container.engine, process::start_tidy(super::apart(command)))
}

/// The path by which a child reads an open file: the one child that is meant to have it gets it.
#[cfg(unix)]
fn inherited(file: &File) -> std::io::Result<String> {
    use std::os::fd::AsRawFd as _;
    rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty())?;
    Ok(format!("/dev/fd/{}", file.as_raw_fd()))
}

/// Windows has no such path, and no shell that would go on when this process is killed.
#[cfg(windows)]
fn inherited(_file: &File) -> std::io::Result<String> {
    let why = "a container without a shell is not entered from Windows; run sysmcp in a \
               distribution of the Windows Subsystem for Linux";
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, why))
}

/// A file of this machine that has no name, with the archive in it.
fn nameless(archive: &[u8], token: &Token) -> std::io::Result<File> {
    let path = std::env::temp_dir().join(format!("sysmcp-{}.tar", token.as_str()));
    let mut file = private::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    file.write_all(archive)?;
    std::io::Seek::rewind(&mut file)?;
    Ok(file)
}

/// Removes the agent's folder, as the container's root: an agent of another user may not remove what
/// is in the root. It is started once more for that, with nothing on its stdin. Gives whether it ran.
pub async fn remove(start: Start<'_>) -> bool {
    /// The agent's exit code for a channel that was closed.
    const CHANNEL_CLOSED: i32 = 73;
    let path = start.path();
    let file = format!("{path}/a");
    let mut command = program(start.container.engine);
    command.args(super::exec(
        start.container,
        &[&file, "serve", start.token.as_str(), &path],
        true,
    ));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let removed = tokio::time::timeout(PATIENCE, command.status()).await;
    removed.is_ok_and(|status| status.is_ok_and(|status| status.code() == Some(CHANNEL_CLOSED)))
}

/// What the engine shows of a session from the host: processes with its token in their arguments, and
/// files that were added under its name.
///
/// # Errors
///
/// What was said where it shows nothing.
pub async fn seen(container: &Container, token: &Token) -> Result<Vec<HostText>, HostText> {
    let name = container.name.as_str();
    // Docker has `ps` of its host print them; Podman prints them itself.
    let processes: &[&str] = match container.engine {
        Engine::Docker => &["top", name, "-eo", "pid,args"],
        Engine::Podman => &["top", name, "hpid", "args"],
    };
    let mut found = Vec::new();
    for words in [processes, &["diff", name]] {
        let text = shown(container.engine, words).await?;
        for line in text.lines().filter(|line| line.contains(token.as_str())) {
            found.push(HostText::capped(line.trim().as_bytes(), 150));
        }
    }
    Ok(found)
}

async fn shown(engine: Engine, words: &[&str]) -> Result<String, HostText> {
    let mut command = program(engine);
    command.args(words).stdin(Stdio::null()).kill_on_drop(true);
    let failed = |said: &[u8]| HostText::capped(said.trim_ascii(), 150);
    match command.output().await {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => Err(failed(&output.stderr)),
        Err(error) => Err(failed(error.to_string().as_bytes())),
    }
}

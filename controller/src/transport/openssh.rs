//! A host that the user's own `ssh` reaches, with everything that their configuration says.

mod explanation;
mod keys;

pub use explanation::{explain, says_why, wants_answers};
pub use keys::encrypted_key;

use super::{Channel, Login, Prompts, meaning::Meaning, process};
use crate::target::SshTarget;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::process::Command;

/// The exit code of `ssh` itself, which says nothing about what it ran (ssh(1)).
pub const EXIT: i32 = 255;

/// What of the user's configuration must not apply to this channel: a terminal, a command of their
/// own, an escape character in binary data; whatever gives the target power over this machine; and
/// being the master of connections that the user makes later, which would end with ours.
const OPTIONS: [&str; 11] = [
    "-T",
    "-oRemoteCommand=none",
    "-oRequestTTY=no",
    "-oClearAllForwardings=yes",
    "-oForwardAgent=no",
    "-oForwardX11=no",
    "-oGSSAPIDelegateCredentials=no",
    "-oPermitLocalCommand=no",
    "-oControlMaster=no",
    "-oEscapeChar=none",
    // With `INFO` a host's banner would come between what is said on the way.
    "-oLogLevel=ERROR",
];

/// The arguments of `ssh`. The host comes last and behind `--`, so that no name is an option.
pub fn arguments(target: &SshTarget, script: &str, login: &Login) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = OPTIONS.iter().map(OsString::from).collect();
    if login.prompts == Prompts::Forbidden {
        arguments.push("-oBatchMode=yes".into());
    }
    if login.accepts_new_hosts {
        arguments.push("-oStrictHostKeyChecking=accept-new".into());
    }
    arguments.extend(place(target, login.ssh_config.as_deref()));
    arguments.push(crate::push::script::for_login_shell(script).into());
    arguments
}

/// The arguments that say where: which configuration, which user, which port, which host.
pub(super) fn place(target: &SshTarget, config: Option<&Path>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    if let Some(config) = config {
        arguments.extend(["-F".into(), config.into()]);
    }
    if let Some(user) = &target.user {
        arguments.extend(["-l".into(), user.into()]);
    }
    if let Some(port) = target.port {
        arguments.extend(["-p".into(), port.to_string().into()]);
    }
    arguments.extend(["--".into(), (&target.host).into()]);
    arguments
}

/// Starts the script on the host.
///
/// # Errors
///
/// When no process can be started.
pub fn open(target: &SshTarget, script: &str, login: &Login) -> std::io::Result<Channel> {
    let mut command = process::shielded("ssh".as_ref(), login.prompts);
    command.args(arguments(target, script, login));
    process::start(command)
}

/// Starts a script over a connection that the user keeps open; none where there is none. It logs in
/// nowhere: should that connection end now, there is no way that it may log in by.
///
/// # Errors
///
/// When no process can be started.
pub(super) async fn open_shared(
    target: &SshTarget,
    script: &str,
    login: &Login,
) -> std::io::Result<Option<Channel>> {
    if !is_shared(target, login).await {
        return Ok(None);
    }
    let mut command = process::shielded("ssh".as_ref(), Prompts::Forbidden);
    // What the user's configuration says of the way counts, because the name of the socket may depend
    // on it.
    command.arg("-oPreferredAuthentications=none");
    command.args(arguments(target, script, login));
    process::start(command).map(Some)
}

/// Where a connection listens that the user keeps open and that can be shared; none where there is
/// none.
pub(super) async fn master(
    target: &SshTarget,
    meaning: &Meaning,
    login: &Login,
) -> Option<PathBuf> {
    let path = meaning.control_path.clone()?;
    is_shared(target, login).await.then_some(path)
}

/// Whether the user keeps a connection open that can be shared.
async fn is_shared(target: &SshTarget, login: &Login) -> bool {
    const PATIENCE: Duration = Duration::from_secs(5);
    let mut check = Command::new("ssh");
    check.args(["-O", "check"]).args(place(target, login.ssh_config.as_deref()));
    check.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let checked = tokio::time::timeout(PATIENCE, check.status()).await;
    checked.is_ok_and(|checked| checked.is_ok_and(|status| status.success()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;

    pub(super) fn target(text: &str) -> SshTarget {
        match text.parse() {
            Ok(Target::Ssh(target)) => target,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_host_stands_behind_all_options() {
        let login =
            Login { accepts_new_hosts: true, ..Login::without_questions(Some("/c".into())) };
        let arguments = arguments(&target("ssh:deploy@[::1]:2222"), "true", &login);
        assert_eq!(
            arguments[OPTIONS.len()..],
            [
                "-oBatchMode=yes",
                "-oStrictHostKeyChecking=accept-new",
                "-F",
                "/c",
                "-l",
                "deploy",
                "-p",
                "2222",
                "--",
                "::1",
                "exec /bin/sh -c 'true'"
            ]
        );
    }

    #[test]
    fn what_is_not_said_is_left_to_the_configuration() {
        let login = Login { prompts: Prompts::Allowed, ..Login::without_questions(None) };
        let arguments = arguments(&target("ssh:web"), "true", &login);
        assert_eq!(arguments[OPTIONS.len()..], ["--", "web", "exec /bin/sh -c 'true'"]);
    }
}

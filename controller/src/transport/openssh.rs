//! A host that the user's own `ssh` reaches, with everything that their configuration says.

mod failure;
mod keys;

pub use failure::{Failure, explain};
pub use keys::encrypted_key;

use super::{Channel, Login, Prompts, process};
use crate::target::SshTarget;
use std::{ffi::OsString, path::Path};
use tokio::process::Command;

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
    "-oLogLevel=ERROR",
];

/// Makes `ssh` ignore Ctrl-C and nothing else: at a terminal it would reach `ssh` too, and end the
/// channel before the agent could be stopped in order. `ssh` leaves an ignored signal ignored
/// (`client_loop` in OpenSSH's clientloop.c), except while it asks for a passphrase.
const SHIELD: &str = "trap '' INT; exec \"$@\"";

/// Makes every question go to a program that answers none, also those of the `ssh` that a jump host
/// needs, which `BatchMode` does not reach (ssh(1), OpenSSH 8.4).
const ASKS_NOBODY: [(&str, &str); 2] = [("SSH_ASKPASS", "false"), ("SSH_ASKPASS_REQUIRE", "force")];

/// The arguments of `ssh`. The host comes last and behind `--`, so that no name is an option.
pub fn arguments(target: &SshTarget, script: &str, login: &Login) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = OPTIONS.iter().map(OsString::from).collect();
    if login.prompts == Prompts::Forbidden {
        arguments.push("-oBatchMode=yes".into());
    }
    arguments.extend(place(target, login.ssh_config.as_deref()));
    // The login shell may be any: it is only asked to become /bin/sh.
    arguments.push(format!("exec /bin/sh -c '{script}'").into());
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
    let mut command = Command::new("/bin/sh");
    command.args(["-c", SHIELD, "sysmcp", "ssh"]).args(arguments(target, script, login));
    if login.prompts == Prompts::Forbidden {
        command.envs(ASKS_NOBODY);
    }
    process::start(command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;

    fn target(text: &str) -> SshTarget {
        match text.parse() {
            Ok(Target::Ssh(target)) => target,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_host_stands_behind_all_options() {
        let login = Login { prompts: Prompts::Forbidden, ssh_config: Some("/c".into()) };
        let arguments = arguments(&target("ssh:deploy@[::1]:2222"), "true", &login);
        assert_eq!(
            arguments[OPTIONS.len()..],
            [
                "-oBatchMode=yes",
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
        let login = Login { prompts: Prompts::Allowed, ssh_config: None };
        let arguments = arguments(&target("ssh:web"), "true", &login);
        assert_eq!(arguments[OPTIONS.len()..], ["--", "web", "exec /bin/sh -c 'true'"]);
    }
}

//! A command that another one runs: `nsenter`, `setsid`, `strace`.

use std::{ffi::OsStr, process::Command};

/// The same command, behind the words of what runs it: in the same folder, and with the same
/// variables set and removed. What its stdin, stdout and stderr are is to be said afterwards; that an
/// environment was cleared is not known.
pub fn behind(words: &[impl AsRef<OsStr>], command: &Command) -> Command {
    let words = words.iter().map(AsRef::as_ref);
    let mut all = words.chain([command.get_program()]).chain(command.get_args());
    let mut whole = Command::new(all.next().unwrap_or_default());
    whole.args(all);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => whole.env(name, value),
            None => whole.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        whole.current_dir(folder);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_command_there() {
        let mut command = Command::new("run");
        command.args(["-c", "two words"]).env("SET", "1").env_remove("REMOVED").current_dir("/tmp");
        let whole = behind(&["nsenter", "--"], &command);
        assert_eq!(whole.get_program(), "nsenter");
        assert!(whole.get_args().eq(["--", "run", "-c", "two words"]));
        assert!(whole.get_envs().eq(command.get_envs()));
        assert_eq!(whole.get_current_dir(), command.get_current_dir());
        let none: [&str; 0] = [];
        assert_eq!(format!("{:?}", behind(&none, &command)), format!("{command:?}"));
    }
}

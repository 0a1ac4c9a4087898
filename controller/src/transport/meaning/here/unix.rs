//! As OpenSSH has it on Unix.

use super::super::{Account, Outside};
use crate::transport::process::printed;
use std::{path::PathBuf, time::Duration};
use tokio::process::Command;

/// The system's own list of users. Others are in directories that only a program asks.
const LIST: &str = "/etc/passwd";

/// Whether a file shows who may write to it. Where it does not, no configuration is read without an
/// `ssh`, nor are known hosts: anybody might have put them there.
pub const SHOWS_WHO_MAY_WRITE: bool = true;

/// The ssh-agent where no variable and no setting names one: none.
pub const USUAL_AGENT: Option<&str> = None;

/// The user of this process.
///
/// # Errors
///
/// When the system does not know the user.
pub async fn account() -> Result<Account, Outside> {
    let uid = rustix::process::getuid().as_raw();
    let list = std::fs::read_to_string(LIST).unwrap_or_default();
    if let Some(account) = Account::from_list(&list, uid) {
        return Ok(account);
    }
    let entry = entry(uid).await.unwrap_or_default();
    Account::from_list(&format!("{list}\n{entry}"), uid).ok_or(Outside::NoAccount { uid })
}

/// The machine's name.
pub fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Why there is no account for a user.
pub fn no_account(uid: u32) -> String {
    let words = asking(uid).join(" ");
    format!("user {uid} has no home folder: {words} does not name one")
}

/// The path itself, if it says by itself where it leads.
pub fn whole(path: String) -> Option<String> {
    path.starts_with('/').then_some(path)
}

/// Where OpenSSH's own configuration is.
pub fn configuration_folder() -> PathBuf {
    "/etc/ssh".into()
}

/// Whether there is a shell that starts a `ProxyCommand` as `ssh` would.
pub const STARTS_PROXY_COMMANDS: bool = true;

/// What a directory says about a user, as a line of passwd(5).
async fn entry(uid: u32) -> Option<String> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let words = asking(uid);
    let (program, arguments) = words.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments);
    let said = String::from_utf8(printed(command, PATIENCE).await?).ok()?;
    Some(if cfg!(target_os = "macos") { without_class(&said)? } else { said })
}

/// The command that asks a directory. macOS has no getent, and its list of users has no people.
fn asking(uid: u32) -> Vec<String> {
    if cfg!(target_os = "macos") {
        return ["id", "-P"].map(str::to_owned).to_vec();
    }
    ["getent", "passwd", &uid.to_string()].map(str::to_owned).to_vec()
}

/// A line of the form of passwd(5) on BSD, which has a class and two times more, without them.
fn without_class(line: &str) -> Option<String> {
    let fields: Vec<&str> = line.trim_end().split(':').collect();
    let [name, password, uid, gid, _, _, _, about, home, shell] = fields.as_slice() else {
        return None;
    };
    Some([*name, password, uid, gid, about, home, shell].join(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_understood_as_macos_prints_one() {
        let line = "me:********:501:20::0:0:Me Myself:/Users/me:/bin/zsh\n";
        let me = Account::from_list(&without_class(line).unwrap(), 501).unwrap();
        assert_eq!((me.name.as_str(), me.home.as_str()), ("me", "/Users/me"));
        assert_eq!(without_class("me:x:501:20:Me:/Users/me:/bin/zsh"), None);
    }
}

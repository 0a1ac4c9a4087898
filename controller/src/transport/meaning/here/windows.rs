//! As Microsoft's OpenSSH has it on Windows (PowerShell/openssh-portable).

use super::super::{Account, Outside};
use std::path::{Path, PathBuf};

/// Whether a file shows who may write to it. The folder of all users' data lets every user make a
/// folder `ssh` as long as no OpenSSH has, and so be believed about hosts.
pub const SHOWS_WHO_MAY_WRITE: bool = false;

/// The ssh-agent where no variable and no setting names one (`ssh_get_authentication_socket` in
/// authfd.c).
pub const USUAL_AGENT: Option<&str> = Some(r"\\.\pipe\openssh-ssh-agent");

/// What stands for the folder of all users' data in paths of OpenSSH's (pathnames.h).
const ALL_USERS: &str = "__PROGRAMDATA__";

/// The user of this process, who has no number: OpenSSH says 0 there.
///
/// # Errors
///
/// When no variable names a home folder.
pub async fn account() -> Result<Account, Outside> {
    let home = variable("USERPROFILE").ok_or(Outside::NoAccount { uid: 0 })?;
    Ok(Account::new(variable("USERNAME").unwrap_or_default(), 0, home))
}

/// The machine's name.
pub fn machine() -> String {
    variable("COMPUTERNAME").unwrap_or_default()
}

/// Why there is no account.
pub fn no_account(_uid: u32) -> String {
    "the variable USERPROFILE does not name a home folder".to_owned()
}

/// The path itself, or what it stands for, if it says by itself where it leads.
pub fn whole(path: String) -> Option<String> {
    let path = match path.strip_prefix(ALL_USERS) {
        Some(below) => format!("{}{below}", variable("ProgramData")?),
        None => path,
    };
    Path::new(&path).is_absolute().then_some(path)
}

/// Where OpenSSH's own configuration is.
pub fn configuration_folder() -> PathBuf {
    Path::new(variable("ProgramData").as_deref().unwrap_or(r"C:\ProgramData")).join("ssh")
}

/// Whether there is a shell that starts a `ProxyCommand` as `ssh` would.
pub const STARTS_PROXY_COMMANDS: bool = false;

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

//! Who runs this program, and on which machine: what the tokens of an SSH configuration stand for.
//!
//! `ssh` takes the home folder from the system's list of users, not from `$HOME` (`main` in
//! OpenSSH's ssh.c), so that is where it is taken from here.

use super::Outside;
use crate::transport::process::printed;
use std::{collections::HashMap, time::Duration};
use tokio::process::Command;

/// The system's own list of users. Others are in directories that only `getent` asks.
const LIST: &str = "/etc/passwd";

/// The user that runs this program, on this machine. It cannot be printed, because variables may
/// hold secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Account {
    /// The login name.
    pub name: String,
    /// The user's number.
    pub uid: u32,
    /// The home folder.
    pub home: String,
    /// The machine's name.
    pub machine: String,
    /// Environment variables, as far as they are UTF-8.
    pub environment: HashMap<String, String>,
    /// Home folders of users, by name.
    pub homes: HashMap<String, String>,
}

impl Account {
    /// The user of this process.
    ///
    /// # Errors
    ///
    /// When the system does not know the user.
    pub async fn of_this_process() -> Result<Self, Outside> {
        let uid = rustix::process::getuid().as_raw();
        let mut list = std::fs::read_to_string(LIST).unwrap_or_default();
        if find(&list, uid).is_none() {
            list.push('\n');
            list.push_str(&entry(uid).await.unwrap_or_default());
        }
        Self::from_list(&list, uid).ok_or(Outside::NoAccount { uid })
    }

    /// The user with this number in a list of the form of passwd(5).
    pub fn from_list(list: &str, uid: u32) -> Option<Self> {
        let (name, home) = find(list, uid)?;
        let homes = users(list).map(|(name, _, home)| (name.to_owned(), home.to_owned()));
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let variable = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Some(Self {
            name: name.to_owned(),
            uid,
            home: home.to_owned(),
            machine,
            environment: std::env::vars_os().filter_map(variable).collect(),
            homes: homes.collect(),
        })
    }
}

/// Name, number and home of each user. The home is an absolute path.
fn users(list: &str) -> impl Iterator<Item = (&str, u32, &str)> {
    list.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        match fields.as_slice() {
            [name, _, uid, _, _, home, _] if home.starts_with('/') => {
                Some((*name, uid.parse().ok()?, *home))
            }
            _ => None,
        }
    })
}

fn find(list: &str, uid: u32) -> Option<(&str, &str)> {
    users(list).find(|user| user.1 == uid).map(|(name, _, home)| (name, home))
}

/// What `getent` says about a user.
async fn entry(uid: u32) -> Option<String> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let mut command = Command::new("getent");
    command.args(["passwd", &uid.to_string()]);
    String::from_utf8(printed(command, PATIENCE).await?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_number_and_has_an_absolute_home() {
        let list = "root:x:0:0:root:/root:/bin/sh\nodd:x:7\nnone:x:8:8:::/bin/sh\n\
                    me:x:1000:1000:Me,,,:/home/me:/bin/bash\n";
        let me = Account::from_list(list, 1000).unwrap();
        assert_eq!((me.name.as_str(), me.home.as_str(), me.uid), ("me", "/home/me", 1000));
        assert_eq!(me.homes.get("root").unwrap(), "/root");
        for stranger in [7, 8, 1001] {
            assert!(Account::from_list(list, stranger).is_none());
        }
    }
}

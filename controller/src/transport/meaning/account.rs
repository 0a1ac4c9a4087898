//! Who runs this program, and on which machine: what the tokens of an SSH configuration stand for.
//!
//! `ssh` takes the home folder from the system's list of users, not from `$HOME` (`main` in
//! OpenSSH's ssh.c), so that is where it is taken from here.

use super::{Outside, here};
use std::collections::HashMap;

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
        here::account().await
    }

    /// A user whose name, number and home folder are known.
    pub fn new(name: String, uid: u32, home: String) -> Self {
        let variable = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self {
            name,
            uid,
            home,
            machine: here::machine(),
            environment: std::env::vars_os().filter_map(variable).collect(),
            homes: HashMap::new(),
        }
    }

    /// The user with this number in a list of the form of passwd(5).
    pub fn from_list(list: &str, uid: u32) -> Option<Self> {
        let (name, home) = find(list, uid)?;
        let homes = users(list).map(|(name, _, home)| (name.to_owned(), home.to_owned()));
        let account = Self::new(name.to_owned(), uid, home.to_owned());
        Some(Self { homes: homes.collect(), ..account })
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

//! Which host a configuration is asked about, and the jump hosts before it, as `ProxyJump` names
//! them: `[user@]host[:port]` or `ssh://[user@]host[:port]`, the last one next to the target.
//!
//! `ssh` connects to a jump host by another `ssh`, which reads the configuration again: `ssh -l
//! user -p port -J earlier,hosts -W '[target]:port' host` (`main` in OpenSSH's ssh.c). So each is
//! asked about with just these arguments.

use super::Outside;
use crate::{
    target::{SshTarget, Way},
    transport::openssh,
};
use std::{ffi::OsString, path::Path};

/// A host that the configuration is asked about, with what is said on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where.
    pub target: SshTarget,
    /// For a jump host, what it leads to.
    pub leads: Option<Leads>,
}

/// What a jump host leads to, and what leads to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leads {
    /// The hosts to jump over before this one, as `-J` takes them. None leaves it to the
    /// configuration.
    pub over: Option<String>,
    /// The host that is connected to from here.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl Place {
    /// The target itself.
    pub fn of(target: &SshTarget) -> Self {
        Self { target: target.clone(), leads: None }
    }

    /// The jump host next to a host, from the value of its `ProxyJump`.
    ///
    /// # Errors
    ///
    /// When it is not what OpenSSH's `parse_jump` takes, or has characters that a shell could take
    /// for more than a name.
    pub fn before(jumps: &str, host: &str, port: u16) -> Result<Self, Outside> {
        let (over, last) = match jumps.rsplit_once(',') {
            Some((over, last)) => (Some(over), last),
            None => (None, jumps),
        };
        let parsed = over
            .into_iter()
            .flat_map(|over| over.split(','))
            .try_for_each(|earlier| parse(earlier).map(drop));
        match (parsed, parse(last)) {
            (Some(()), Some(target)) => {
                let over = over.map(str::to_owned);
                Ok(Self { target, leads: Some(Leads { over, host: host.to_owned(), port }) })
            }
            _ => Err(Outside::setting("proxyjump", jumps.as_bytes())),
        }
    }

    /// The arguments by which `ssh` is told this place. On a target a command is run, and on a jump
    /// host none is: `Match` may ask for that.
    pub fn arguments(&self, config: Option<&Path>) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        let Some(leads) = &self.leads else {
            arguments.push("-oRemoteCommand=none".into());
            arguments.extend(openssh::place(&self.target, config));
            arguments.push("exec /bin/sh".into());
            return arguments;
        };
        if let Some(over) = &leads.over {
            arguments.extend(["-J".into(), over.into()]);
        }
        arguments.extend(["-W".into(), format!("[{}]:{}", leads.host, leads.port).into()]);
        arguments.extend(openssh::place(&self.target, config));
        arguments
    }
}

/// One jump host: `parse_user_host_port` and `parse_uri` in OpenSSH's misc.c, as far as nothing in
/// it is encoded or left empty.
fn parse(text: &str) -> Option<SshTarget> {
    let text = text.strip_prefix("ssh://").unwrap_or(text);
    let (user, place) = match text.rsplit_once('@') {
        Some((user, place)) => (Some(user.to_owned()), place),
        None => (None, text),
    };
    let (host, port) = match place.strip_prefix('[').map(|place| place.split_once(']')) {
        Some(Some((host, ""))) => (host, None),
        Some(Some((host, after))) => (host, Some(after.strip_prefix(':')?)),
        Some(None) => return None,
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let port = match port {
        Some(port) => Some(port.parse().ok().filter(|port| *port != 0)?),
        None => None,
    };
    let is_user = user.as_deref().is_none_or(|user| is_valid_user(user) && !user.contains('%'));
    let is_host = is_valid_host(host) && !host.contains(['[', ']', '/']);
    (is_user && is_host).then(|| SshTarget { way: Way::Users, user, host: host.to_owned(), port })
}

/// Whether a host's name is safe where a shell could see it: `ssh_valid_hostname` in OpenSSH's
/// readconf.c, which refuses others since 9.6.
pub fn is_valid_host(host: &str) -> bool {
    let is_harmless = |character: char| {
        !"'`\"$\\;&<>|(){},".contains(character)
            && !character.is_whitespace()
            && !character.is_control()
    };
    !host.is_empty() && !host.starts_with('-') && host.chars().all(is_harmless)
}

/// Whether a user's name is safe where a shell could see it: `ssh_valid_ruser` in OpenSSH's
/// readconf.c, and no white space at all.
pub fn is_valid_user(user: &str) -> bool {
    let is_harmless = |character: char| {
        !"'`\";&<>|(){}".contains(character)
            && !character.is_whitespace()
            && !character.is_control()
    };
    let is_word = user.chars().all(is_harmless);
    !user.is_empty() && !user.starts_with('-') && !user.ends_with('\\') && is_word
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(jumps: &str) -> Vec<String> {
        let place = Place::before(jumps, "target", 2222).unwrap();
        let arguments = place.arguments(Some(Path::new("/c")));
        arguments.into_iter().map(|argument| argument.into_string().unwrap()).collect()
    }

    #[test]
    fn a_jump_host_is_asked_about_as_ssh_itself_connects_to_it() {
        let cases: [(&str, &[&str]); 7] = [
            ("b", &["-W", "[target]:2222", "-F", "/c", "--", "b"]),
            ("me@b", &["-W", "[target]:2222", "-F", "/c", "-l", "me", "--", "b"]),
            ("b:22", &["-W", "[target]:2222", "-F", "/c", "-p", "22", "--", "b"]),
            ("[::1]:23", &["-W", "[target]:2222", "-F", "/c", "-p", "23", "--", "::1"]),
            ("[::1]", &["-W", "[target]:2222", "-F", "/c", "--", "::1"]),
            (
                "ssh://m@b:24",
                &["-W", "[target]:2222", "-F", "/c", "-l", "m", "-p", "24", "--", "b"],
            ),
            ("x@y:1,z,b", &["-J", "x@y:1,z", "-W", "[target]:2222", "-F", "/c", "--", "b"]),
        ];
        for (jumps, want) in cases {
            assert_eq!(arguments(jumps), want, "{jumps}");
        }
    }

    #[test]
    fn a_target_is_asked_about_as_one_that_a_command_is_run_on() {
        let target = SshTarget { way: Way::Fitting, user: None, host: "a".to_owned(), port: None };
        let arguments = Place::of(&target).arguments(None);
        assert_eq!(arguments, ["-oRemoteCommand=none", "--", "a", "exec /bin/sh"]);
    }

    #[test]
    fn what_is_no_jump_host_is_refused() {
        let cases = [
            "",
            ",",
            "a,",
            ",b",
            "@b",
            "b:",
            "b:0",
            "b:65536",
            "b:22x",
            "[b",
            "[::1]22",
            "-oProxy",
            "me@-b",
            "-l@b",
            "a b",
            "a$(id)",
            "a;b",
            "a'b",
            "m'e@b",
            "ssh://b/path",
            "ssh://m%40@b",
            "b\n",
            "a,$(id),b",
            "::1",
        ];
        for jumps in cases {
            assert!(Place::before(jumps, "target", 22).is_err(), "{jumps:?}");
        }
    }
}

//! Which machine is meant, as a person writes it: `local`, `ssh:user@host:port`, `docker:name`,
//! `podman:name`, `wsl:name`, or `snapshot:folder`. `russh:` and `openssh:` stand for `ssh:` with one
//! way of getting there.

use std::{fmt, path::PathBuf, str::FromStr};

/// A machine to look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The machine the controller runs on.
    Local,
    /// A machine that SSH reaches.
    Ssh(SshTarget),
    /// A container that an engine's command line reaches.
    Container(Container),
    /// A Linux of the Windows Subsystem for Linux, by the name of its distribution.
    Wsl(String),
    /// A machine whose files were taken, in a folder of the machine the controller runs on.
    Snapshot(PathBuf),
}

/// Where SSH goes. What is left out comes from the user's own SSH configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SshTarget {
    /// By which SSH.
    pub way: Way,
    /// The user to log in as.
    pub user: Option<String>,
    /// A host name, an address, or an alias of the SSH configuration.
    pub host: String,
    /// The port.
    pub port: Option<u16>,
}

/// By which SSH a machine is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// `ssh:`, the one that fits the user's configuration.
    Fitting,
    /// `russh:`, sysmcp's own.
    Native,
    /// `openssh:`, the user's own `ssh`.
    Users,
}

impl Way {
    const ALL: [(&str, Self); 3] =
        [("ssh", Self::Fitting), ("russh", Self::Native), ("openssh", Self::Users)];

    /// What stands before the host.
    fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, way)| *way == self).map_or("ssh", |(name, _)| name)
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, way)| way)
    }
}

/// A running container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Container {
    /// Whose it is.
    pub engine: Engine,
    /// Its name or id, as the engine lists it.
    pub name: String,
}

/// What runs containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
}

impl Engine {
    /// Its program, which is also what stands before the container's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.engine.name(), self.name)
    }
}

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Self, BadTarget> {
        if text == "local" {
            return Ok(Self::Local);
        }
        let (kind, rest) = text.split_once(':').ok_or(BadTarget::Kind)?;
        match (kind, rest) {
            ("snapshot", "") => Err(BadTarget::Folder),
            ("snapshot", folder) => Ok(Self::Snapshot(folder.into())),
            ("docker", name) => container(Engine::Docker, name),
            ("podman", name) => container(Engine::Podman, name),
            ("wsl", name) if is_plain(name) => Ok(Self::Wsl(name.to_owned())),
            ("wsl", _) => Err(BadTarget::Distribution),
            (kind, rest) => match Way::named(kind) {
                Some(way) => parse_ssh(way, rest).map(Self::Ssh),
                None => Err(BadTarget::Kind),
            },
        }
    }
}

fn container(engine: Engine, name: &str) -> Result<Target, BadTarget> {
    // An engine's own names begin so too (`RestrictedNameChars` in moby's names.go), and no option
    // does.
    let begins = name.starts_with(|character: char| character.is_ascii_alphanumeric());
    if begins && is_plain(name) {
        Ok(Target::Container(Container { engine, name: name.to_owned() }))
    } else {
        Err(BadTarget::Container)
    }
}

/// Whether a name is what engines and WSL allow (`^[a-zA-Z0-9._-]+$`, microsoft/WSL#3751), and no
/// option.
fn is_plain(name: &str) -> bool {
    const LONGEST: usize = 255;
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !name.is_empty() && name.len() <= LONGEST && !name.starts_with('-') && name.bytes().all(is_fit)
}

fn parse_ssh(way: Way, text: &str) -> Result<SshTarget, BadTarget> {
    let (user, place) = match text.rsplit_once('@') {
        Some((user, place)) => (Some(parse_user(user)?), place),
        None => (None, text),
    };
    let (host, port) = split_port(place)?;
    if !is_host(host) {
        return Err(BadTarget::Host);
    }
    let port = port.map(|port| match port.parse() {
        Ok(0) | Err(_) => Err(BadTarget::Port),
        Ok(port) => Ok(port),
    });
    Ok(SshTarget { way, user, host: host.to_owned(), port: port.transpose()? })
}

fn parse_user(user: &str) -> Result<String, BadTarget> {
    if user.contains(':') {
        return Err(BadTarget::Password);
    }
    // What ssh itself refuses: nothing that a shell, or ssh's own options, could take for more
    // than a name.
    let is_name = |character: char| character.is_alphanumeric() || "._-+@\\$".contains(character);
    if user.is_empty() || user.starts_with('-') || !user.chars().all(is_name) {
        return Err(BadTarget::User);
    }
    Ok(user.to_owned())
}

/// Splits `host:port`; an address of version 6 stands in brackets.
fn split_port(place: &str) -> Result<(&str, Option<&str>), BadTarget> {
    if let Some(rest) = place.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or(BadTarget::Host)?;
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if after.is_empty() => Ok((host, None)),
            None => Err(BadTarget::Host),
        };
    }
    match place.split_once(':') {
        Some((_, rest)) if rest.contains(':') => Err(BadTarget::Brackets),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((place, None)),
    }
}

fn is_host(host: &str) -> bool {
    !host.is_empty()
        && !host.starts_with('-')
        && host.len() <= 253
        && host.chars().all(|character| character.is_alphanumeric() || "._-:%".contains(character))
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Ssh(target) => write!(f, "{}:{target}", target.way.name()),
            Self::Container(container) => write!(f, "{container}"),
            Self::Wsl(name) => write!(f, "wsl:{name}"),
            Self::Snapshot(folder) => {
                let folder = folder.to_string_lossy();
                write!(f, "snapshot:{}", protocol::host_text::printable(&folder))
            }
        }
    }
}

impl fmt::Display for SshTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        if self.host.contains(':') {
            write!(f, "[{}]", self.host)?;
        } else {
            f.write_str(&self.host)?;
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// Why text names no target. The text itself is not repeated: it may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTarget {
    /// Nothing that any target begins with.
    #[error(
        "a target is `local`, `ssh:user@host:port`, `docker:name`, `podman:name`, `wsl:name` or \
         `snapshot:folder`"
    )]
    Kind,
    /// Not the name of a container.
    #[error(
        "a container is named as `docker ps` or `podman ps` shows it: letters, digits and `._-`"
    )]
    Container,
    /// Not the name of a distribution.
    #[error("a distribution is named as `wsl.exe -l` shows it: letters, digits and `._-`")]
    Distribution,
    /// Not a name or address.
    #[error("the host of a target is a name, an address, or an alias of your SSH configuration")]
    Host,
    /// No folder.
    #[error("a snapshot is named by its folder: snapshot:folder")]
    Folder,
    /// Several colons outside of brackets.
    #[error("an IPv6 address stands in brackets: ssh:user@[2001:db8::1]:22")]
    Brackets,
    /// Not a port.
    #[error("the port of a target is a number from 1 to 65535")]
    Port,
    /// Not a user name.
    #[error("the user of a target is a plain name")]
    User,
    /// `user:password@host`.
    #[error(
        "a target holds no password; use a key or an ssh-agent, or let ssh ask at the terminal"
    )]
    Password,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_read_back_as_written() {
        for text in [
            "local",
            "ssh:web-1",
            "ssh:deploy@web-1",
            "ssh:deploy@10.0.3.7:2222",
            "ssh:root@[2001:db8::1]:22",
            "ssh:[fe80::1%eth0]",
            "ssh:DOMAIN\\me@host",
            "ssh:me@corp@host",
            "russh:deploy@web-1",
            "openssh:web-1:2222",
            "snapshot:./captured/web 1:a",
            "docker:web_1.a-b",
            "podman:0123456789ab",
            "wsl:Ubuntu-24.04",
        ] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_target_is_refused_and_not_repeated() {
        let cases = [
            ("", BadTarget::Kind),
            ("web-1", BadTarget::Kind),
            ("lxc:web", BadTarget::Kind),
            ("docker:", BadTarget::Container),
            ("docker:-it", BadTarget::Container),
            ("docker:--privileged", BadTarget::Container),
            ("docker:_web", BadTarget::Container),
            ("docker:web;id", BadTarget::Container),
            ("docker:web:/etc", BadTarget::Container),
            ("docker:me@web", BadTarget::Container),
            ("podman:we b", BadTarget::Container),
            ("podman:w\u{e9}b", BadTarget::Container),
            ("wsl:", BadTarget::Distribution),
            ("wsl:-e", BadTarget::Distribution),
            ("wsl:U$(id)", BadTarget::Distribution),
            ("ssh:", BadTarget::Host),
            ("snapshot:", BadTarget::Folder),
            ("ssh:-oProxyCommand=touch /tmp/x", BadTarget::Host),
            ("ssh:deploy@-oProxyCommand=x", BadTarget::Host),
            ("ssh:-l@host", BadTarget::User),
            ("ssh:a b@host", BadTarget::User),
            ("ssh:@host", BadTarget::User),
            ("ssh:deploy:hunter2@host", BadTarget::Password),
            ("ssh:host:0", BadTarget::Port),
            ("ssh:host:65536", BadTarget::Port),
            ("ssh:host:22x", BadTarget::Port),
            ("ssh:2001:db8::1", BadTarget::Brackets),
            ("ssh:ho$(id)st", BadTarget::Host),
            ("ssh:host;id", BadTarget::Host),
            ("ssh:host\n", BadTarget::Host),
        ];
        for (text, want) in cases {
            let error = text.parse::<Target>().unwrap_err();
            assert_eq!(error, want, "{text:?}");
            assert!(!error.to_string().contains("hunter2"));
        }
    }
}

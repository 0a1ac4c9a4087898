//! A reader of SSH configurations, for machines without an `ssh` that could be asked.
//!
//! It gives what `ssh -G` would give, or nothing: whatever it is not sure of, be it in a block that
//! does not apply, ends it. See ssh_config(5), and `main` in OpenSSH's ssh.c for what is done with
//! what the files say.

pub mod algorithms;
mod files;
mod keywords;
mod words;

use super::{
    Account, Outside, Place, Settings, here,
    tokens::{self, Tokens},
};
use algorithms::Defaults;
use keywords::Set;
use protocol::host_text::HostText;
use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

/// Where a configuration is read from, and what holds where it says nothing.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The machine's folder, of which `ssh_config` is read after the user's own file.
    pub system: PathBuf,
    /// The usual lists of algorithms.
    pub defaults: Defaults,
}

impl Default for Sources {
    fn default() -> Self {
        Self { system: here::configuration_folder(), defaults: Defaults::default() }
    }
}

/// Default key files, in the order in which they are tried (`fill_default_options` in OpenSSH's
/// readconf.c).
const KEYS: [&str; 7] = [
    "~/.ssh/id_rsa",
    "~/.ssh/id_ecdsa",
    "~/.ssh/id_ecdsa_sk",
    "~/.ssh/id_ed25519",
    "~/.ssh/id_ed25519_sk",
    "~/.ssh/id_xmss",
    "~/.ssh/id_dsa",
];

/// The most files of keys that `ssh` takes (`SSH_MAX_IDENTITY_FILES` in OpenSSH's readconf.h).
const MOST_KEYS: usize = 100;

/// What the configuration says about a place, in the form of `ssh -G`.
///
/// # Errors
///
/// The first line that is not understood.
pub fn settings(
    place: &Place,
    config: Option<&Path>,
    sources: &Sources,
    account: &Account,
) -> Result<Settings, Outside> {
    let mut reading = Reading {
        host: &place.target.host,
        found: Settings::new(),
        way: None,
        rekey: (None, None),
        keys: Vec::new(),
        sources,
        home: Path::new(&account.home),
    };
    // What stands on the command line comes before all files.
    reading.first("user", place.target.user.clone());
    reading.first("port", place.target.port.map(|port| port.to_string()));
    let over = place.leads.as_ref().and_then(|leads| leads.over.clone());
    reading.way = over.map(|over| ("proxyjump", over));
    match config {
        Some(config) if config.as_os_str().eq_ignore_ascii_case("none") => {}
        Some(config) => files::read(&mut reading, files::Start::Named(config))?,
        None => {
            files::read(&mut reading, files::Start::Users)?;
            files::read(&mut reading, files::Start::Machines)?;
        }
    }
    complete(reading, place, account)
}

/// What was read so far.
struct Reading<'r> {
    /// The host as it was given, which `Host` compares.
    host: &'r str,
    found: Settings,
    /// `ProxyCommand` or `ProxyJump`, whichever came first.
    way: Option<(&'static str, String)>,
    /// Bytes and seconds of `RekeyLimit`, each of which may come first by itself.
    rekey: (Option<String>, Option<String>),
    /// Key files and certificates, with whether the user's file named them: the same one may come
    /// from both, but only once from each.
    keys: Vec<(&'static str, String, bool)>,
    sources: &'r Sources,
    home: &'r Path,
}

impl Reading<'_> {
    fn value(&self, setting: &str) -> Option<&str> {
        self.found.iter().find(|(name, _)| name == setting).map(|(_, value)| value.as_str())
    }

    fn first(&mut self, setting: &str, value: Option<String>) {
        if let Some(value) = value.filter(|_| self.value(setting).is_none()) {
            self.found.push((setting.to_owned(), value));
        }
    }

    /// Takes what a line in force sets.
    fn take(&mut self, set: Set, is_users: bool) -> Result<(), String> {
        match set {
            Set::Nothing => {}
            Set::First(setting, value) => self.first(setting, Some(value)),
            Set::Another(setting, value) => {
                let key = (setting, value, is_users);
                if !self.keys.contains(&key) {
                    self.keys.push(key);
                }
                if self.keys.len() > MOST_KEYS {
                    return Err(format!("more than {MOST_KEYS} keys and variables"));
                }
            }
            Set::Rekey(bytes, seconds) => {
                self.rekey.0.get_or_insert(bytes);
                if let Some(seconds) = seconds {
                    self.rekey.1.get_or_insert(seconds);
                }
            }
            Set::Way(setting, value) => {
                let is_none = |value: &str| value.eq_ignore_ascii_case("none");
                let first = self.way.get_or_insert_with(|| (setting, value.clone()));
                // Whether this `none` stands before a command too is not the same in all versions.
                if first.0 == "proxyjump"
                    && is_none(&first.1)
                    && setting != first.0
                    && !is_none(&value)
                {
                    return Err("ProxyCommand after `ProxyJump none`".to_owned());
                }
            }
        }
        Ok(())
    }
}

/// A line that cannot be understood.
fn outside(file: &Path, line: usize, problem: &str) -> Outside {
    const LONGEST: usize = 200;
    let show = |text: &str| HostText::capped(text.as_bytes(), LONGEST).as_str().to_owned();
    Outside::Line { file: show(&file.to_string_lossy()), line, problem: show(problem) }
}

/// The first value of a setting.
fn value(found: &Settings, setting: &str) -> Option<String> {
    found.iter().find(|(name, _)| name == setting).map(|(_, value)| value.clone())
}

/// Gives a setting one value, whatever it had.
fn set(found: &mut Settings, setting: &str, value: String) {
    found.retain(|(name, _)| name != setting);
    found.push((setting.to_owned(), value));
}

/// Fills in what nothing was said about, and replaces what `ssh` has replaced when it answers `-G`.
fn complete(reading: Reading<'_>, place: &Place, account: &Account) -> Result<Settings, Outside> {
    let Reading { mut found, way, rekey, keys, sources, .. } = reading;
    let family = value(&found, "addressfamily");
    let host = host_name(value(&found, "hostname").as_deref(), place, family.as_deref())?;
    let user = value(&found, "user").unwrap_or_else(|| account.name.clone());
    // Since OpenSSH 10 tokens are replaced in it, and before they were not.
    if place.target.user.is_none() && user.contains(['%', '$']) {
        return Err(Outside::setting("user", user.as_bytes()));
    }
    let port = value(&found, "port").and_then(|port| port.parse().ok()).unwrap_or(22_u16);
    let alias = value(&found, "hostkeyalias").map(|alias| alias.to_ascii_lowercase());
    let given = place.target.host.as_str();
    let tokens = Tokens {
        account,
        given,
        host: &host,
        alias: alias.as_deref().unwrap_or(given),
        port,
        user: &user,
    };
    for setting in ["controlpath", "identityagent"] {
        if let Some(path) = value(&found, setting) {
            found.retain(|(name, _)| name != setting);
            found.extend(socket(&tokens, setting, &path)?);
        }
    }
    let files = known_hosts(&tokens, value(&found, "userknownhostsfile"))?;
    set(&mut found, "userknownhostsfile", files);
    if let Some((setting, way)) = way.filter(|(_, way)| !way.eq_ignore_ascii_case("none")) {
        if setting == "proxyjump" {
            refuse_loop(&way, &host, port, &user)?;
        }
        set(&mut found, setting, way);
    }
    let (bytes, seconds) = rekey;
    let zero = || "0".to_owned();
    let rekey = format!("{} {}", bytes.unwrap_or_else(zero), seconds.unwrap_or_else(zero));
    // Of OpenSSH's own folder, wherever the configuration is read from.
    let folder = here::configuration_folder().to_string_lossy().into_owned();
    let global = format!("{folder}/ssh_known_hosts {folder}/ssh_known_hosts2");
    let others = [("checkhostip", "no"), ("globalknownhostsfile", global.as_str())];
    for (setting, usual) in others.into_iter().chain(sources.defaults.all()) {
        if value(&found, setting).is_none() {
            set(&mut found, setting, usual.to_owned());
        }
    }
    let port = port.to_string();
    let known = [("hostname", host), ("user", user), ("port", port), ("rekeylimit", rekey)];
    for (setting, known) in known.into_iter().chain(alias.map(|alias| ("hostkeyalias", alias))) {
        set(&mut found, setting, known);
    }
    if !keys.iter().any(|(setting, _, _)| *setting == "identityfile") {
        found.extend(KEYS.map(|key| ("identityfile".to_owned(), key.to_owned())));
    }
    found.extend(keys.into_iter().map(|(setting, value, _)| (setting.to_owned(), value)));
    Ok(found)
}

/// The user's known_hosts files on one line, with everything replaced.
fn known_hosts(tokens: &Tokens<'_>, files: Option<String>) -> Result<String, Outside> {
    const SETTING: &str = "userknownhostsfile";
    let files = files.as_deref().unwrap_or("~/.ssh/known_hosts ~/.ssh/known_hosts2");
    let files = files.split(' ').map(|file| tokens.replaced(SETTING, file));
    let files = files.collect::<Result<Vec<String>, Outside>>()?;
    match files.iter().find(|file| file.contains(char::is_whitespace)) {
        Some(odd) => Err(Outside::setting(SETTING, odd.as_bytes())),
        None => Ok(files.join(" ")),
    }
}

/// A path of a socket, with everything replaced.
fn socket(
    tokens: &Tokens<'_>,
    setting: &str,
    value: &str,
) -> Result<Option<(String, String)>, Outside> {
    if setting == "controlpath" && (value.eq_ignore_ascii_case("none") || value.contains("%C")) {
        // A master would be an `ssh`, and there is none. But `ssh` refuses tokens that it does not
        // know.
        return tokens.replaced(setting, &value.replace("%C", "")).map(|_| None);
    }
    let replaced = tokens.replaced(setting, value)?;
    Ok(Some((setting.to_owned(), replaced)))
}

/// The name or address to connect to: `HostName`, or the host as it was given. Names become lower
/// case, and addresses have one form (`resolve_canonicalize` in OpenSSH's ssh.c).
fn host_name(
    configured: Option<&str>,
    place: &Place,
    family: Option<&str>,
) -> Result<String, Outside> {
    let given = place.target.host.as_str();
    let outside = |host: &str| Outside::setting("hostname", host.as_bytes());
    let host = match configured {
        // It knows `%h` alone.
        Some(configured) => {
            tokens::host_name(configured, given).ok_or_else(|| outside(configured))?
        }
        None => given.to_owned(),
    };
    let is_number = |part: &str| {
        let digits = part.strip_prefix("0x").or(part.strip_prefix("0X"));
        match digits {
            Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
            None => part.bytes().all(|byte| byte.is_ascii_digit()),
        }
    };
    let is_address = host.contains([':', '%']) || host.split('.').all(is_number);
    if !is_address {
        return Ok(host.to_ascii_lowercase());
    }
    let is_plain = |address: &IpAddr| match address {
        IpAddr::V4(_) => true,
        // Those with an address of version 4 inside have several forms.
        IpAddr::V6(address) => {
            address.segments().iter().take(5).any(|segment| *segment != 0)
                || *address == std::net::Ipv6Addr::LOCALHOST
        }
    };
    let address: Option<IpAddr> = host.parse().ok().filter(is_plain);
    match address.filter(|_| family.is_none_or(|family| family == "any")) {
        Some(address) => Ok(address.to_string()),
        None => Err(outside(&host)),
    }
}

/// A host that would be its own jump host is refused, as `ssh` refuses it.
fn refuse_loop(jumps: &str, host: &str, port: u16, user: &str) -> Result<(), Outside> {
    let jump = Place::before(jumps, host, port)?.target;
    let is_same = jump.host == host
        && jump.port.unwrap_or(22) == port
        && jump.user.as_deref().is_none_or(|name| name == user);
    if is_same { Err(Outside::setting("proxyjump", jumps.as_bytes())) } else { Ok(()) }
}

#[cfg(test)]
mod tests;

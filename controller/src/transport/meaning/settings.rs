//! Which settings we can be true to: each is honoured, harmless to leave out, or outside.

use super::{
    Account, Addresses, Algorithms, Meaning, Method, Next, Outside, Place, Rekey, Route, Settings,
    UnknownHostKey, harmless, here,
    jumps::{is_valid_host, is_valid_user},
    tokens::{self, Tokens},
    values::{Values, seconds_from},
};
use protocol::host_text::HostText;
use std::path::PathBuf;

/// Settings that become part of a [`Meaning`].
const HONOURED: [&str; 39] = [
    "addressfamily",
    "batchmode",
    "casignaturealgorithms",
    "certificatefile",
    "challengeresponseauthentication",
    "checkhostip",
    "ciphers",
    "connecttimeout",
    "controlpath",
    "globalknownhostsfile",
    "gssapiauthentication",
    "hashknownhosts",
    "hostbasedauthentication",
    "hostkeyalgorithms",
    "hostkeyalias",
    "hostname",
    "identitiesonly",
    "identityagent",
    "identityfile",
    "kbdinteractiveauthentication",
    "kexalgorithms",
    "macs",
    "numberofpasswordprompts",
    "passwordauthentication",
    "port",
    "preferredauthentications",
    "proxycommand",
    "proxyjump",
    "proxyusefdpass",
    "pubkeyacceptedalgorithms",
    "pubkeyacceptedkeytypes",
    "pubkeyauthentication",
    "rekeylimit",
    "requiredrsasize",
    "serveralivecountmax",
    "serveraliveinterval",
    "stricthostkeychecking",
    "user",
    "userknownhostsfile",
];

/// The order in which `ssh` tries methods (`authmethods` in OpenSSH's sshconnect2.c).
const USUAL_METHODS: &str = "gssapi-with-mic,hostbased,publickey,keyboard-interactive,password";

impl Outside {
    /// A setting that we do not know, or a value that we cannot honour.
    pub(super) fn setting(setting: &str, value: &[u8]) -> Self {
        const LONGEST: usize = 200;
        let show = |bytes: &[u8]| HostText::capped(bytes, LONGEST).as_str().to_owned();
        Self::Setting { setting: show(setting.as_bytes()), value: show(value) }
    }
}

/// What the settings of one place mean, and what has to be connected to before it.
///
/// # Errors
///
/// The first setting that we cannot be true to.
pub fn judge(
    settings: &Settings,
    place: &Place,
    account: &Account,
) -> Result<(Meaning, Next), Outside> {
    for (setting, value) in settings {
        let is_known = HONOURED.contains(&setting.as_str())
            || harmless::is_harmless(setting, value, place.leads.is_some());
        if !is_known {
            return Err(Outside::setting(setting, value.as_bytes()));
        }
    }
    let values = Values(settings);
    let (host, user) = (values.needed("hostname")?, values.needed("user")?);
    if !is_valid_host(host) {
        return Err(Outside::setting("hostname", host.as_bytes()));
    }
    let port = values.needed("port")?.parse().ok().filter(|port| *port != 0);
    let port = port.ok_or_else(|| Outside::setting("port", b""))?;
    let alias = values.one("hostkeyalias")?;
    let given = place.target.host.as_str();
    let tokens = Tokens { account, given, host, alias: alias.unwrap_or(given), port, user };
    let (route, next) = way(&values, &tokens)?;
    let is_batch = values.is("batchmode", false)?;
    let (methods, methods_of_ssh_alone) = methods(&values, is_batch)?;
    let paths = |setting: &'static str, no_file: &str| {
        let names = values.all(setting).filter(|name| !name.eq_ignore_ascii_case(no_file));
        names.map(|name| tokens.path(setting, name)).collect::<Result<Vec<PathBuf>, Outside>>()
    };
    let meaning = Meaning {
        host: host.to_owned(),
        port,
        user: user.to_owned(),
        host_key_alias: alias.map(str::to_owned),
        identity_files: paths("identityfile", "none")?,
        // Here `none` is a file like any other (`load_public_identity_files` in OpenSSH's ssh.c).
        certificate_files: paths("certificatefile", "")?,
        identities_only: values.is("identitiesonly", false)?,
        agent_socket: agent_socket(&values, account)?,
        methods,
        methods_of_ssh_alone,
        user_known_hosts: known_hosts(&values, "userknownhostsfile", account)?,
        global_known_hosts: known_hosts(&values, "globalknownhostsfile", account)?,
        unknown_host_key: unknown_host_key(&values)?,
        // Behind a proxy there is no address to check.
        checks_address: values.is("checkhostip", true)?
            && next == Next::Nothing
            && route == Route::Direct,
        hashes_known_hosts: values.is("hashknownhosts", false)?,
        route,
        addresses: addresses(&values)?,
        connect_timeout: values.time("connecttimeout")?,
        alive_interval: values.time("serveraliveinterval")?,
        alive_count: values.number("serveralivecountmax", 3)?,
        algorithms: algorithms(&values)?,
        rsa_bits: values.number("requiredrsasize", 1024)?,
        rekey: rekey(&values)?,
        password_prompts: values.number("numberofpasswordprompts", 3)?,
        is_batch,
        control_path: values.one("controlpath")?.filter(|path| *path != "none").map(PathBuf::from),
    };
    Ok((meaning, next))
}

/// How the host is reached. A jump host is another place to ask about, and the route is filled in
/// when it is known.
fn way(values: &Values<'_>, tokens: &Tokens<'_>) -> Result<(Route, Next), Outside> {
    let is_none = |value: &&str| !value.eq_ignore_ascii_case("none");
    let jumps = values.one("proxyjump")?.filter(is_none);
    let command = values.one("proxycommand")?.filter(is_none);
    match (jumps, command) {
        (None, None) => Ok((Route::Direct, Next::Nothing)),
        (Some(jumps), None) => {
            let place = Place::before(jumps, tokens.host, tokens.port)?;
            Ok((Route::Direct, Next::Jump(place)))
        }
        (None, Some(command)) => {
            let outside =
                |setting: &str, value: &str| Err(Outside::setting(setting, value.as_bytes()));
            if values.is("proxyusefdpass", false)? {
                return outside("proxyusefdpass", "yes");
            }
            // As `-` it would be our own stdin and stdout.
            if command == "-" || !here::STARTS_PROXY_COMMANDS {
                return outside("proxycommand", command);
            }
            // All of these can reach a shell; the host was looked at.
            if !is_valid_user(tokens.user) {
                return outside("user", tokens.user);
            }
            if !is_valid_host(tokens.alias) {
                return outside("hostkeyalias", tokens.alias);
            }
            Ok((Route::Command(tokens.command("proxycommand", command)?), Next::Nothing))
        }
        (Some(jumps), Some(_)) => Err(Outside::setting("proxyjump", jumps.as_bytes())),
    }
}

/// The methods that are switched on, in order: ours, and those of `ssh` alone.
fn methods(values: &Values<'_>, is_batch: bool) -> Result<(Vec<Method>, Vec<String>), Outside> {
    let is_key = |value: &str| match value {
        "yes" | "true" | "unbound" | "host-bound" => Some(true),
        "no" | "false" => Some(false),
        _ => None,
    };
    let has_keys = values.read("pubkeyauthentication", is_key)?.unwrap_or(true);
    // Before OpenSSH 8.7 either switches it on (`ssh_userauth2` in sshconnect2.c).
    let has_questions = values.is("kbdinteractiveauthentication", true)?
        || values.is("challengeresponseauthentication", false)?;
    let has_password = values.is("passwordauthentication", true)?;
    let has_gssapi = values.is("gssapiauthentication", false)?;
    let has_hostbased = values.is("hostbasedauthentication", false)?;
    let (mut ours, mut of_ssh_alone) = (Vec::new(), Vec::new());
    let preferred = values.one("preferredauthentications")?.unwrap_or(USUAL_METHODS);
    for name in preferred.split(',') {
        let method = match name {
            "publickey" if has_keys => Method::PublicKey,
            "keyboard-interactive" if has_questions && !is_batch => Method::KeyboardInteractive,
            "password" if has_password && !is_batch => Method::Password,
            "gssapi-with-mic" | "hostbased" => {
                let is_on = if name == "hostbased" { has_hostbased } else { has_gssapi };
                if is_on && !of_ssh_alone.iter().any(|known| known == name) {
                    of_ssh_alone.push(name.to_owned());
                }
                continue;
            }
            // One that is off, or that `ssh` does not know either and passes over.
            _ => continue,
        };
        if !ours.contains(&method) {
            ours.push(method);
        }
    }
    Ok((ours, of_ssh_alone))
}

/// The socket of the ssh-agent: the end of `main` in OpenSSH's ssh.c.
fn agent_socket(values: &Values<'_>, account: &Account) -> Result<Option<PathBuf>, Outside> {
    let variable = |name: &str| {
        let value = account.environment.get(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    };
    let Some(agent) = values.one("identityagent")? else {
        return Ok(variable("SSH_AUTH_SOCK").or(here::USUAL_AGENT.map(PathBuf::from)));
    };
    let is_letter = |character: char| character.is_ascii_alphanumeric() || character == '_';
    match agent {
        "none" => Ok(None),
        "SSH_AUTH_SOCK" => Ok(variable(agent)),
        _ => match (agent.strip_prefix('$'), here::whole(agent.to_owned())) {
            (None, Some(path)) => Ok(Some(path.into())),
            (Some(name), _) if !name.is_empty() && name.chars().all(is_letter) => {
                Ok(variable(name))
            }
            (Some(_), _) | (None, None) => Err(Outside::setting("identityagent", agent.as_bytes())),
        },
    }
}

/// Files of known hosts. `ssh -G` puts them on one line without quotes, so a name with white space
/// falls apart; its second half is then not an absolute path, and we do not guess.
fn known_hosts(
    values: &Values<'_>,
    setting: &str,
    account: &Account,
) -> Result<Vec<PathBuf>, Outside> {
    let Some(value) = values.one(setting)? else {
        return Ok(Vec::new());
    };
    if value.eq_ignore_ascii_case("none") {
        return Ok(Vec::new());
    }
    let path = |word: &str| tokens::tilde(account, word).and_then(here::whole);
    let paths: Option<Vec<PathBuf>> =
        value.split(' ').map(|word| path(word).map(PathBuf::from)).collect();
    paths.ok_or_else(|| Outside::setting(setting, value.as_bytes()))
}

fn unknown_host_key(values: &Values<'_>) -> Result<UnknownHostKey, Outside> {
    let read = |value: &str| match value {
        // Nobody is asked here; what has to be asked about is refused.
        "ask" | "yes" | "true" => Some(UnknownHostKey::Refuse),
        "accept-new" => Some(UnknownHostKey::Accept),
        _ => None,
    };
    let read = values.read("stricthostkeychecking", read)?;
    Ok(read.unwrap_or(UnknownHostKey::Refuse))
}

fn addresses(values: &Values<'_>) -> Result<Addresses, Outside> {
    let read = |value: &str| match value {
        "any" => Some(Addresses::Any),
        "inet" => Some(Addresses::V4),
        "inet6" => Some(Addresses::V6),
        _ => None,
    };
    Ok(values.read("addressfamily", read)?.unwrap_or(Addresses::Any))
}

/// `bytes seconds`, where 0 stands for what the cipher itself demands, and for never.
fn rekey(values: &Values<'_>) -> Result<Rekey, Outside> {
    let read = |value: &str| {
        let (bytes, seconds) = value.split_once(' ')?;
        let bytes = bytes.parse().ok()?;
        let time = seconds_from(seconds.parse().ok()?);
        Some(Rekey { bytes: (bytes > 0).then_some(bytes), time })
    };
    Ok(values.read("rekeylimit", read)?.unwrap_or_default())
}

fn algorithms(values: &Values<'_>) -> Result<Algorithms, Outside> {
    let mut user_keys = values.names("pubkeyacceptedalgorithms")?;
    if user_keys.is_empty() {
        // Its name before OpenSSH 8.5.
        user_keys = values.names("pubkeyacceptedkeytypes")?;
    }
    Ok(Algorithms {
        key_exchange: values.names("kexalgorithms")?,
        ciphers: values.names("ciphers")?,
        macs: values.names("macs")?,
        host_keys: values.names("hostkeyalgorithms")?,
        user_keys,
        authority_signatures: values.names("casignaturealgorithms")?,
    })
}

#[cfg(test)]
mod tests;

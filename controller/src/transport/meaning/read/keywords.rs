//! The keywords of an SSH configuration that are understood without `ssh`, and the form of their
//! values.
//!
//! A value is checked even where its block does not apply, because `ssh` refuses the whole file for
//! it. Names and forms: `keywords` and `process_config_line_depth` in OpenSSH's readconf.c.

use super::{super::Place, algorithms, words::Line};

/// What a line sets. Values have the form they have in `ssh -G`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Set {
    /// Nothing.
    Nothing,
    /// One setting, if it has no value yet.
    First(&'static str, String),
    /// One more value of a setting that has several, and a value only once.
    Another(&'static str, String),
    /// When to agree on new keys: bytes, and seconds if they are given.
    Rekey(String, Option<String>),
    /// How the host is reached: `ProxyCommand` or `ProxyJump`, whichever comes first.
    Way(&'static str, String),
}

/// The form of a keyword's value.
#[derive(Clone, Copy, Debug)]
enum Form {
    Flag,
    Choice(&'static [&'static str]),
    Text,
    Several,
    Number,
    Port,
    Time,
    Rekey,
    Files,
    Names(algorithms::Kind),
    Command,
    ProxyCommand,
    ProxyJump,
    Environment,
    Forward,
    Persist,
    Escape,
    Agent,
}

const YES_NO_ASK: &[&str] = &["yes", "no", "true", "false", "ask"];
const LEVELS: &[&str] =
    &["quiet", "fatal", "error", "info", "verbose", "debug", "debug1", "debug2", "debug3"];

/// Keywords, the settings that they are, and their forms. Where several keywords are one setting,
/// `ssh -G` has the last name.
const KEYWORDS: [(&str, &str, Form); 82] = [
    (
        "addkeystoagent",
        "addkeystoagent",
        Form::Choice(&["yes", "no", "true", "false", "ask", "confirm"]),
    ),
    ("addressfamily", "addressfamily", Form::Choice(&["any", "inet", "inet6"])),
    ("batchmode", "batchmode", Form::Flag),
    ("bindaddress", "bindaddress", Form::Text),
    ("bindinterface", "bindinterface", Form::Text),
    (
        "canonicalizehostname",
        "canonicalizehostname",
        Form::Choice(&["yes", "no", "true", "false", "always"]),
    ),
    (
        "casignaturealgorithms",
        "casignaturealgorithms",
        Form::Names(algorithms::Kind::AuthoritySignatures),
    ),
    ("certificatefile", "certificatefile", Form::Several),
    ("challengeresponseauthentication", "kbdinteractiveauthentication", Form::Flag),
    ("checkhostip", "checkhostip", Form::Flag),
    ("ciphers", "ciphers", Form::Names(algorithms::Kind::Ciphers)),
    ("clearallforwardings", "clearallforwardings", Form::Flag),
    ("compression", "compression", Form::Choice(&["yes", "no"])),
    ("connectionattempts", "connectionattempts", Form::Number),
    ("connecttimeout", "connecttimeout", Form::Time),
    (
        "controlmaster",
        "controlmaster",
        Form::Choice(&["yes", "no", "true", "false", "auto", "ask", "autoask"]),
    ),
    ("controlpath", "controlpath", Form::Text),
    ("controlpersist", "controlpersist", Form::Persist),
    ("dsaauthentication", "pubkeyauthentication", Form::Choice(&["yes", "no", "true", "false"])),
    ("dynamicforward", "dynamicforward", Form::Forward),
    ("enablesshkeysign", "enablesshkeysign", Form::Flag),
    ("escapechar", "escapechar", Form::Escape),
    ("exitonforwardfailure", "exitonforwardfailure", Form::Flag),
    ("fingerprinthash", "fingerprinthash", Form::Choice(&["md5", "sha256"])),
    ("forkafterauthentication", "forkafterauthentication", Form::Flag),
    ("forwardagent", "forwardagent", Form::Flag),
    ("forwardx11", "forwardx11", Form::Flag),
    ("forwardx11timeout", "forwardx11timeout", Form::Time),
    ("forwardx11trusted", "forwardx11trusted", Form::Flag),
    ("gatewayports", "gatewayports", Form::Flag),
    ("globalknownhostsfile", "globalknownhostsfile", Form::Files),
    ("gssapiauthentication", "gssapiauthentication", Form::Flag),
    ("gssapidelegatecredentials", "gssapidelegatecredentials", Form::Flag),
    ("hashknownhosts", "hashknownhosts", Form::Flag),
    (
        "hostbasedacceptedalgorithms",
        "hostbasedacceptedalgorithms",
        Form::Names(algorithms::Kind::Keys),
    ),
    ("hostbasedauthentication", "hostbasedauthentication", Form::Flag),
    ("hostkeyalgorithms", "hostkeyalgorithms", Form::Names(algorithms::Kind::Keys)),
    ("hostkeyalias", "hostkeyalias", Form::Text),
    ("hostname", "hostname", Form::Text),
    ("identitiesonly", "identitiesonly", Form::Flag),
    ("identityagent", "identityagent", Form::Agent),
    ("identityfile", "identityfile", Form::Several),
    ("kbdinteractiveauthentication", "kbdinteractiveauthentication", Form::Flag),
    ("kbdinteractivedevices", "kbdinteractivedevices", Form::Text),
    ("keepalive", "tcpkeepalive", Form::Flag),
    ("kexalgorithms", "kexalgorithms", Form::Names(algorithms::Kind::KeyExchange)),
    ("knownhostscommand", "knownhostscommand", Form::Command),
    ("localcommand", "localcommand", Form::Command),
    ("localforward", "localforward", Form::Forward),
    ("loglevel", "loglevel", Form::Choice(LEVELS)),
    ("macs", "macs", Form::Names(algorithms::Kind::Macs)),
    ("nohostauthenticationforlocalhost", "nohostauthenticationforlocalhost", Form::Flag),
    ("numberofpasswordprompts", "numberofpasswordprompts", Form::Number),
    ("passwordauthentication", "passwordauthentication", Form::Flag),
    ("permitlocalcommand", "permitlocalcommand", Form::Flag),
    ("pkcs11provider", "pkcs11provider", Form::Text),
    ("port", "port", Form::Port),
    ("preferredauthentications", "preferredauthentications", Form::Text),
    ("proxycommand", "proxycommand", Form::ProxyCommand),
    ("proxyjump", "proxyjump", Form::ProxyJump),
    ("proxyusefdpass", "proxyusefdpass", Form::Flag),
    ("pubkeyacceptedalgorithms", "pubkeyacceptedalgorithms", Form::Names(algorithms::Kind::Keys)),
    ("pubkeyacceptedkeytypes", "pubkeyacceptedalgorithms", Form::Names(algorithms::Kind::Keys)),
    (
        "pubkeyauthentication",
        "pubkeyauthentication",
        Form::Choice(&["yes", "no", "true", "false", "unbound", "host-bound"]),
    ),
    ("rekeylimit", "rekeylimit", Form::Rekey),
    ("remoteforward", "remoteforward", Form::Forward),
    ("requesttty", "requesttty", Form::Choice(&["yes", "no", "true", "false", "force", "auto"])),
    ("requiredrsasize", "requiredrsasize", Form::Number),
    ("revokedhostkeys", "revokedhostkeys", Form::Text),
    ("securitykeyprovider", "securitykeyprovider", Form::Text),
    ("sendenv", "sendenv", Form::Environment),
    ("serveralivecountmax", "serveralivecountmax", Form::Number),
    ("serveraliveinterval", "serveraliveinterval", Form::Time),
    ("sessiontype", "sessiontype", Form::Choice(&["none", "subsystem", "default"])),
    ("stdinnull", "stdinnull", Form::Flag),
    (
        "stricthostkeychecking",
        "stricthostkeychecking",
        Form::Choice(&["yes", "no", "true", "false", "ask", "off", "accept-new"]),
    ),
    ("tcpkeepalive", "tcpkeepalive", Form::Flag),
    ("updatehostkeys", "updatehostkeys", Form::Choice(YES_NO_ASK)),
    ("user", "user", Form::Text),
    ("userknownhostsfile", "userknownhostsfile", Form::Files),
    ("verifyhostkeydns", "verifyhostkeydns", Form::Choice(YES_NO_ASK)),
    ("visualhostkey", "visualhostkey", Form::Flag),
];

/// What a line sets, whose keyword is neither `Host` nor `Include`.
///
/// # Errors
///
/// What there is about it that is not understood.
pub fn set(line: &Line<'_>, defaults: &algorithms::Defaults) -> Result<Set, String> {
    let known = KEYWORDS.iter().find(|(keyword, _, _)| *keyword == line.keyword);
    let Some((keyword, setting, form)) = known else {
        return Err(format!("the keyword {} is not known", line.keyword));
    };
    let value = || format!("a value of {keyword} that is not understood");
    let first = |text: Option<String>| text.map(|text| Set::First(setting, text)).ok_or_else(value);
    let one = match line.words.as_slice() {
        [one] if !one.is_empty() => Some(one.as_str()),
        _ => None,
    };
    let choice = |choices: &[&str]| {
        one.map(str::to_ascii_lowercase).filter(|word| choices.contains(&word.as_str()))
    };
    match form {
        Form::Flag => first(choice(&["yes", "no", "true", "false"])),
        Form::Choice(choices) => first(choice(choices)),
        Form::Text => first(one.map(str::to_owned)),
        Form::Agent => first(one.filter(|one| is_agent(one)).map(str::to_owned)),
        Form::Several => one.map(|one| Set::Another(setting, one.to_owned())).ok_or_else(value),
        Form::Number => first(one.and_then(|one| number(one, 1 << 20)).map(|one| one.to_string())),
        Form::Port => {
            let port = one.and_then(|one| number(one, 65_535)).filter(|port| *port > 0);
            first(port.map(|port| port.to_string()))
        }
        // To `ssh`, `none` is as if it were not set, so that a later line can set it.
        Form::Time if one == Some("none") => Ok(Set::Nothing),
        Form::Time => first(one.and_then(seconds).map(|seconds| seconds.to_string())),
        Form::Rekey => rekey(&line.words).ok_or_else(value),
        Form::Files => first(files(&line.words)),
        Form::Names(kind) => first(one.and_then(|one| defaults.apply(*kind, setting, one))),
        Form::Command => Ok(Set::First(setting, line.rest.to_owned())),
        Form::ProxyCommand => Ok(Set::Way(setting, line.rest.to_owned())),
        // Here `ssh` does not know quotes, and takes comments only in parts.
        Form::ProxyJump => match one {
            Some(one) if one == line.rest && is_way(one) => Ok(Set::Way(setting, one.to_owned())),
            _ => Err(value()),
        },
        Form::Environment => {
            let is_name =
                |word: &String| !word.is_empty() && !word.contains('=') && !word.starts_with('-');
            let is_list = !line.words.is_empty() && line.words.iter().all(is_name);
            is_list.then(|| Set::Another(setting, line.words.join(" "))).ok_or_else(value)
        }
        Form::Forward => forward(keyword, &line.words).then_some(Set::Nothing).ok_or_else(value),
        Form::Persist => {
            let is_time = one.is_some_and(|one| seconds(one).is_some());
            let is_flag = matches!(one, Some("yes" | "no" | "true" | "false"));
            (is_time || is_flag).then_some(Set::Nothing).ok_or_else(value)
        }
        Form::Escape => {
            let is_character = |one: &str| one == "none" || (one.len() == 1 && one.is_ascii());
            one.is_some_and(is_character).then_some(Set::Nothing).ok_or_else(value)
        }
    }
}

/// Whether an `IdentityAgent` is one that `ssh` does not refuse. It refuses variables without a
/// value even where nothing applies, so none is understood in braces.
fn is_agent(agent: &str) -> bool {
    let is_letter = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let is_name = |name: &str| !name.is_empty() && name.chars().all(is_letter);
    !agent.contains("${") && agent.strip_prefix('$').is_none_or(is_name)
}

/// Whether a `ProxyJump` is one that `ssh` does not refuse.
fn is_way(jumps: &str) -> bool {
    jumps.eq_ignore_ascii_case("none")
        || (!jumps.contains('#') && Place::before(jumps, "", 0).is_ok())
}

/// A number of decimal digits alone, up to a limit.
fn number(text: &str, most: u64) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?.filter(|number| *number <= most)
}

/// A time as `1h30m` (`convtime` in OpenSSH's misc.c), in seconds.
fn seconds(text: &str) -> Option<u64> {
    const MOST: u64 = 1 << 30;
    let (mut total, mut rest) = (0_u64, text);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, after) = rest.split_at_checked(end)?;
        let mut after = after.chars();
        let factor = match after.next() {
            None | Some('s' | 'S') => 1,
            Some('m' | 'M') => 60,
            Some('h' | 'H') => 3600,
            Some('d' | 'D') => 86_400,
            Some('w' | 'W') => 604_800,
            Some(_) => return None,
        };
        total = total.checked_add(number(digits, MOST)?.checked_mul(factor)?)?;
        rest = after.as_str();
    }
    Some(total).filter(|total| *total <= MOST)
}

/// `bytes [time]`, each of which may be left as it is.
fn rekey(words: &[String]) -> Option<Set> {
    let (bytes, time) = match words {
        [bytes] => (bytes, None),
        [bytes, time] => (bytes, Some(time.as_str()).filter(|time| *time != "none")),
        _ => return None,
    };
    let bytes = match bytes.as_str() {
        "default" => 0,
        bytes => {
            let digits = bytes.trim_end_matches(|character: char| character.is_ascii_alphabetic());
            let shift = match bytes.strip_prefix(digits)? {
                "" => 0,
                "K" | "k" => 10,
                "M" | "m" => 20,
                "G" | "g" => 30,
                _ => return None,
            };
            number(digits, 1 << 20)?.checked_shl(shift)?
        }
    };
    if bytes != 0 && bytes < 16 {
        return None;
    }
    let time = match time {
        Some(time) => Some(seconds(time)?.to_string()),
        None => None,
    };
    Some(Set::Rekey(bytes.to_string(), time))
}

/// Names of files on one line, as `ssh -G` has them; so none of them can have a space.
fn files(words: &[String]) -> Option<String> {
    let is_none = |word: &String| word.eq_ignore_ascii_case("none");
    let is_name = |word: &String| !word.is_empty() && !word.contains(char::is_whitespace);
    let is_list = !words.is_empty()
        && words.len() <= 8
        && words.iter().all(is_name)
        && (words.len() == 1 || !words.iter().any(is_none));
    is_list.then(|| words.join(" "))
}

/// Whether a forwarding is one, in its usual forms. Others are not understood.
fn forward(keyword: &str, words: &[String]) -> bool {
    let is_host = |host: &str| {
        let is_part =
            |character: char| character.is_ascii_alphanumeric() || "-._*".contains(character);
        !host.is_empty() && host.chars().all(is_part)
    };
    let is_port = |port: &str| number(port, 65_535).is_some_and(|port| port > 0);
    let is_place = |word: &str| {
        word.split_once(':').is_some_and(|(host, port)| is_host(host) && is_port(port))
    };
    let is_listener = |word: &str| is_port(word) || is_place(word);
    match words {
        [from] => keyword != "localforward" && is_listener(from),
        [from, to] => keyword != "dynamicforward" && is_listener(from) && is_place(to),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::words, *};

    fn of(text: &str) -> Result<Set, String> {
        set(&words::line(text).unwrap().unwrap(), &algorithms::Defaults::default())
    }

    #[test]
    fn a_value_has_the_form_of_ssh_g() {
        let first = |setting, value: &str| Set::First(setting, value.to_owned());
        for (text, want) in [
            ("BatchMode YES", first("batchmode", "yes")),
            ("ChallengeResponseAuthentication no", first("kbdinteractiveauthentication", "no")),
            ("Port 0022", first("port", "22")),
            ("ConnectTimeout 1h30m5", first("connecttimeout", "5405")),
            ("ConnectTimeout none", Set::Nothing),
            ("IdentityFile \"~/a b\"", Set::Another("identityfile", "~/a b".to_owned())),
            ("UserKnownHostsFile a b", first("userknownhostsfile", "a b")),
            ("RekeyLimit 1G 1h", Set::Rekey("1073741824".to_owned(), Some("3600".to_owned()))),
            ("RekeyLimit default none", Set::Rekey("0".to_owned(), None)),
            ("ProxyCommand nc '%h' # %p", Set::Way("proxycommand", "nc '%h' # %p".to_owned())),
            ("ProxyJump a,b", Set::Way("proxyjump", "a,b".to_owned())),
            ("SendEnv LANG LC_*", Set::Another("sendenv", "LANG LC_*".to_owned())),
            ("LocalForward 8080 localhost:80", Set::Nothing),
            ("RemoteForward 1080", Set::Nothing),
            ("DynamicForward *:1080", Set::Nothing),
            ("ControlPersist 10m", Set::Nothing),
            ("EscapeChar none", Set::Nothing),
            ("LogLevel DEBUG2", first("loglevel", "debug2")),
        ] {
            assert_eq!(of(text), Ok(want), "{text}");
        }
    }

    #[test]
    fn what_ssh_would_refuse_or_only_it_can_tell_is_not_understood() {
        for text in [
            "Match all",
            "UseKeychain yes",
            "IgnoreUnknown *",
            "CanonicalDomains a.b",
            "BatchMode perhaps",
            "BatchMode yes no",
            "BatchMode \"\"",
            "Port 0",
            "Port 65536",
            "Port ssh",
            "Port -1",
            "Port 22 23",
            "User a b",
            "User #",
            "Ciphers none",
            "Ciphers aes128-*",
            "ConnectTimeout 1x",
            "ConnectTimeout m",
            "ConnectTimeout +1",
            "ConnectTimeout 99999999999",
            "RekeyLimit 15",
            "RekeyLimit 1T",
            "RekeyLimit 1G 1x",
            "RekeyLimit 1G 1h 1h",
            "UserKnownHostsFile none /a",
            "UserKnownHostsFile \"/a b\"",
            "ProxyJump \"a\"",
            "ProxyJump a # b",
            "ProxyJump a b",
            "ProxyJump @a",
            "IdentityAgent ${HOME}/agent",
            "IdentityAgent $a-b",
            "ProxyJump a,,b",
            "SendEnv A=b",
            "SendEnv -A",
            "LocalForward 8080",
            "LocalForward 8080 localhost",
            "LocalForward 0 localhost:80",
            "DynamicForward a b",
            "ControlPersist never",
            "EscapeChar ab",
            "ForwardAgent /socket",
        ] {
            let line = words::line(text).unwrap().unwrap();
            let set = set(&line, &algorithms::Defaults::default());
            assert!(set.is_err(), "{text}: {set:?}");
        }
    }

    #[test]
    fn keywords_are_in_order_and_there_once() {
        assert!(KEYWORDS.is_sorted_by(|(before, _, _), (after, _, _)| before < after));
    }
}

//! Settings that say nothing about this login, or that must not apply to it, and why.
//!
//! The names are those of `dump_client_config` in OpenSSH's readconf.c, 7.6 to 10.5, and those that
//! Debian adds for GSSAPI. A name in neither list, nor honoured, is one that is not known.

/// Settings whose every value can be left out.
pub const ALWAYS: [(&str, &str); 59] = [
    ("host", "the name as it was given"),
    ("tag", "only Match asks for it, and ssh has done so"),
    ("ignoreunknown", "only readers of the file ask for it"),
    ("canonicaldomains", "without CanonicalizeHostname it says nothing"),
    ("canonicalizefallbacklocal", "without CanonicalizeHostname it says nothing"),
    ("canonicalizemaxdots", "without CanonicalizeHostname it says nothing"),
    ("loglevel", "what ssh itself writes"),
    ("logverbose", "what ssh itself writes"),
    ("syslogfacility", "what ssh itself writes"),
    ("fingerprinthash", "how ssh shows a key, not which it accepts"),
    ("visualhostkey", "how ssh shows a key, not which it accepts"),
    ("warnweakcrypto", "a warning of ssh"),
    ("escapechar", "there is no terminal"),
    ("enableescapecommandline", "there is no terminal"),
    ("requesttty", "there is no terminal"),
    ("obscurekeystroketiming", "there are no keystrokes"),
    ("stdinnull", "what ssh does with its own streams"),
    ("forkafterauthentication", "what ssh does with its own process"),
    ("localcommand", "no command of the configuration may run here: PermitLocalCommand=no"),
    ("permitlocalcommand", "no command of the configuration may run here: PermitLocalCommand=no"),
    ("remotecommand", "the command is ours: RemoteCommand=none"),
    ("forwardagent", "the target gets no power over this machine: ForwardAgent=no"),
    ("forwardx11", "the target gets no power over this machine: ForwardX11=no"),
    ("forwardx11timeout", "the target gets no power over this machine: ForwardX11=no"),
    ("forwardx11trusted", "the target gets no power over this machine: ForwardX11=no"),
    ("xauthlocation", "the target gets no power over this machine: ForwardX11=no"),
    ("clearallforwardings", "nothing is forwarded: ClearAllForwardings=yes"),
    ("dynamicforward", "nothing is forwarded: ClearAllForwardings=yes"),
    ("localforward", "nothing is forwarded: ClearAllForwardings=yes"),
    ("remoteforward", "nothing is forwarded: ClearAllForwardings=yes"),
    ("permitremoteopen", "nothing is forwarded: ClearAllForwardings=yes"),
    ("gatewayports", "nothing is forwarded: ClearAllForwardings=yes"),
    ("exitonforwardfailure", "nothing is forwarded: ClearAllForwardings=yes"),
    ("streamlocalbindmask", "nothing is forwarded: ClearAllForwardings=yes"),
    ("streamlocalbindunlink", "nothing is forwarded: ClearAllForwardings=yes"),
    ("tunneldevice", "without Tunnel it says nothing"),
    ("controlmaster", "ours is no master of other connections: ControlMaster=no"),
    ("controlpersist", "ours is no master of other connections: ControlMaster=no"),
    ("compression", "a wish about speed"),
    ("compressionlevel", "a wish about speed"),
    ("ipqos", "a wish about speed"),
    ("tcpkeepalive", "whether a lost connection is noticed by TCP too"),
    ("updatehostkeys", "which other keys are written to known_hosts: here none"),
    ("addkeystoagent", "what an ssh-agent is given: by us nothing"),
    ("securitykeyprovider", "keys on a token are used through an ssh-agent only"),
    ("enablesshkeysign", "hostbased is left to ssh"),
    ("hostbasedacceptedalgorithms", "hostbased is left to ssh"),
    ("hostbasedkeytypes", "hostbased is left to ssh"),
    ("gssapiclientidentity", "gssapi-with-mic is left to ssh"),
    ("gssapidelegatecredentials", "gssapi-with-mic is left to ssh"),
    ("gssapikexalgorithms", "gssapi-keyex is left to ssh"),
    ("gssapirenewalforcesrekey", "gssapi-with-mic is left to ssh"),
    ("gssapiserveridentity", "gssapi-with-mic is left to ssh"),
    ("gssapitrustdns", "gssapi-with-mic is left to ssh"),
    // Those of old versions, none of which has an effect any more.
    ("protocol", "there is only the second"),
    ("rhostsrsaauthentication", "there is only the second protocol"),
    ("rsaauthentication", "there is only the second protocol"),
    ("useprivilegedport", "no server asks for it any more"),
    ("useroaming", "it is gone from ssh"),
];

/// Settings that can be left out as long as their value is one of these.
pub const WITH: [(&str, &[&str]); 18] = [
    ("bindaddress", &[]),
    ("bindinterface", &[]),
    ("canonicalizehostname", &["false", "no"]),
    ("canonicalizepermittedcnames", &["none"]),
    ("channeltimeout", &["none"]),
    ("connectionattempts", &["1"]),
    ("gssapikeyexchange", &["no"]),
    ("kbdinteractivedevices", &[]),
    ("knownhostscommand", &["none"]),
    ("nohostauthenticationforlocalhost", &["no"]),
    ("pkcs11provider", &["none"]),
    ("refuseconnection", &[]),
    ("revokedhostkeys", &["none"]),
    ("setenv", &[]),
    ("tunnel", &["false", "no"]),
    ("verifyhostkeydns", &["false", "no"]),
    ("versionaddendum", &["none"]),
    ("smartcarddevice", &["none"]),
];

/// Environment variables that only say how text is to look, which nobody here looks at. Debian's
/// own /etc/ssh/ssh_config sends these.
const SENT: [&str; 5] = ["LANG", "LANGUAGE", "LC_*", "COLORTERM", "NO_COLOR"];

/// Whether a setting can be left out with this value. `is_jump` where no command is run on the
/// host, which `ssh` itself makes of a jump host (`-W`).
pub fn is_harmless(setting: &str, value: &str, is_jump: bool) -> bool {
    match setting {
        "sendenv" => {
            let is_sent = |name: &str| SENT.contains(&name) || name.starts_with("LC_");
            value.split_ascii_whitespace().all(|name| is_sent(name) && !name.starts_with('-'))
        }
        // A target that is only to be forwarded through is not one that runs a command.
        "sessiontype" => is_jump || value == "default",
        _ => {
            let is_with =
                |(name, values): &(&str, &[&str])| *name == setting && values.contains(&value);
            ALWAYS.iter().any(|(name, _)| *name == setting) || WITH.iter().any(is_with)
        }
    }
}

//! Configurations from a seed: the same seed makes the same ones.

use scenarios::split_mix::SplitMix;
use std::path::Path;

/// Numbers that look like chance.
pub struct Chance(SplitMix);

impl Chance {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.0.following() >> 33).unwrap() % end
    }

    fn is(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from.get(self.below(from.len())).copied().unwrap()
    }
}

/// A configuration that nobody wrote.
pub struct MadeUp {
    pub text: String,
    /// The target to ask about.
    pub host: &'static str,
    /// Whether it has something that only `ssh` can tell, or that it refuses.
    pub is_odd: bool,
}

const HOSTS: &[&str] = &[
    "web",
    "Web",
    "web1.example",
    "db.example",
    "bastion",
    "10.0.0.1",
    "me@web",
    "web:2222",
    "you@db.example:23",
    "gateway",
    "[fe80::1:2]",
];

const PATTERNS: &[&str] = &[
    "web",
    "*",
    "*.example",
    "web?.example",
    "!db.example *.example",
    "*.example !db.example",
    "web db.example",
    "\"web\" other",
    "10.0.0.*",
    "bastion gateway",
    "!web",
    "{web,db}",
    "[w]eb",
    "w*b",
    "'web'",
    "WEB",
    "web # db.example",
    "fe80::*",
    "??b",
];

const OPTIONS: &[(&str, &[&str])] = &[
    ("HostName", &["%h.example", "Real.Example", "10.1.2.3", "FE80::00aa:1", "%h", "a-%h-b"]),
    ("Port", &["22", "2200", "0443", "65535"]),
    ("User", &["deploy", "\"deploy\"", "a.b_c", "me@corp", "DOMAIN\\\\me", "a#b"]),
    (
        "IdentityFile",
        &[
            "~/.ssh/k",
            "%d/k_%r_%h",
            "/k/%n-%p",
            "\"~/with space\"",
            "none",
            "relative",
            "/%%",
            "%d/%u%i",
            "/k/%L-%l-%k",
            "~root/k",
            "\"/quoted\"",
            "${HOME}/k",
        ],
    ),
    ("CertificateFile", &["~/.ssh/k-cert.pub", "/c/%h", "none"]),
    ("IdentitiesOnly", &["yes", "no", "True"]),
    ("IdentityAgent", &["none", "SSH_AUTH_SOCK", "~/agent", "$SSH_AUTH_SOCK", "%d/a-%r"]),
    (
        "UserKnownHostsFile",
        &["/k/a /k/b", "~/.ssh/k_%h", "none", "\"/k/quoted\"", "/dev/null", "%d/.k_%k ~/x"],
    ),
    ("GlobalKnownHostsFile", &["/k/a", "none", "/k/a /k/b", "~/g"]),
    ("StrictHostKeyChecking", &["yes", "ask", "accept-new", "YES", "true"]),
    ("CheckHostIP", &["yes", "no"]),
    ("HashKnownHosts", &["yes", "no"]),
    ("HostKeyAlias", &["Alias", "alias.example"]),
    (
        "ProxyJump",
        &[
            "bastion",
            "me@bastion:2222",
            "gateway,bastion",
            "none",
            "ssh://u@gateway:1",
            "[::1]:24",
            "u@v@gateway",
        ],
    ),
    (
        "ProxyCommand",
        &["nc %h %p", "none", "ssh -W '[%h]:%p' %r@gw # x", "exec x=y \"%n\" $HOME", "cat %%"],
    ),
    ("ConnectTimeout", &["5", "1m", "none", "0", "1h1m1s"]),
    ("ServerAliveInterval", &["15", "1m", "0"]),
    ("ServerAliveCountMax", &["1", "10"]),
    (
        "PreferredAuthentications",
        &["publickey", "password,publickey", "publickey,hostbased,gssapi-with-mic"],
    ),
    ("PubkeyAuthentication", &["yes", "no", "unbound", "host-bound"]),
    ("PasswordAuthentication", &["yes", "no"]),
    ("KbdInteractiveAuthentication", &["yes", "no"]),
    ("ChallengeResponseAuthentication", &["yes", "no"]),
    ("GSSAPIAuthentication", &["yes", "no"]),
    ("HostbasedAuthentication", &["yes", "no"]),
    ("BatchMode", &["yes", "no"]),
    ("NumberOfPasswordPrompts", &["1", "5"]),
    ("AddressFamily", &["any", "inet", "inet6", "INET"]),
    ("RekeyLimit", &["1G 1h", "default none", "512M", "default 30m", "1048576"]),
    ("RequiredRSASize", &["2048", "3072"]),
    ("Ciphers", &["aes256-ctr,aes128-ctr", "+aes128-cbc", "-aes128-ctr,aes192-ctr", "^aes256-ctr"]),
    ("MACs", &["hmac-sha2-256", "+hmac-md5", "-umac-64@openssh.com"]),
    (
        "KexAlgorithms",
        &["curve25519-sha256", "+diffie-hellman-group14-sha1", "^ecdh-sha2-nistp256"],
    ),
    ("HostKeyAlgorithms", &["ssh-ed25519", "+ssh-rsa", "^rsa-sha2-512", "-ssh-ed25519"]),
    ("PubkeyAcceptedAlgorithms", &["+ssh-rsa", "ssh-ed25519,rsa-sha2-256"]),
    ("PubkeyAcceptedKeyTypes", &["+ssh-rsa", "ssh-ed25519"]),
    ("CASignatureAlgorithms", &["ssh-ed25519", "-rsa-sha2-256"]),
    ("ControlPath", &["~/cm-%r@%h:%p", "none", "/run/%L-%n", "~/.ssh/%C"]),
    ("ControlMaster", &["auto", "no"]),
    ("ControlPersist", &["10m", "yes"]),
    ("LocalForward", &["8080 localhost:80", "127.0.0.1:81 db:5432"]),
    ("DynamicForward", &["1080"]),
    ("ForwardAgent", &["yes", "no"]),
    ("SendEnv", &["LANG LC_*", "LC_ALL"]),
    ("Compression", &["yes", "no"]),
    ("TCPKeepAlive", &["yes", "no"]),
    ("LogLevel", &["ERROR", "debug"]),
    ("AddKeysToAgent", &["yes", "ask"]),
    ("RequestTTY", &["force", "no"]),
    ("EscapeChar", &["none", "~"]),
    ("VerifyHostKeyDNS", &["no"]),
];

/// Ways over hosts that have a way of their own.
const JUMPS: &[&str] = &[
    "bastion",
    "me@bastion:2222",
    "gateway,bastion",
    "ssh://u@gateway:1",
    "[::1]:24",
    "u@v@gateway",
    "bastion,gateway:5,[::1]",
];

/// What only `ssh` can tell, what it refuses, and what is refused with or without it.
const ODD: &[&str] = &[
    "Match all\n  Port 7",
    "Match host web\n  HostName evil.example",
    "Match exec \"false\"\n  User nobody",
    "Match user nobody host zzz\n  HostName evil.example",
    "Match final all\n  Port 9",
    "Nonsense yes",
    "UseKeychain yes",
    "IgnoreUnknown UseKeychain\nUseKeychain yes",
    "Port 0",
    "Port 70000",
    "Port ssh",
    "Port",
    "User",
    "User a b",
    "User \"a",
    "User ''",
    "BatchMode perhaps",
    "IdentityFile \"unclosed",
    "IdentityFile %x",
    "UserKnownHostsFile none /a",
    "UserKnownHostsFile \"/a b\" /c",
    "UserKnownHostsFile ~nobodyhere/k",
    "UserKnownHostsFile %x",
    "ControlPath %x",
    "HostName %x",
    "HostName 127.1",
    "HostName 0x7f000001",
    "HostName a%%b",
    "ProxyJump a,,b",
    "ProxyJump @a",
    "ProxyJump none # none",
    "ProxyJump bastion # c",
    "ProxyJump \"bastion\"",
    "ProxyCommand",
    "ProxyCommand echo 'unclosed",
    "ProxyCommand nc %d",
    "ProxyCommand -",
    "ProxyUseFdpass yes",
    "Ciphers rot13",
    "Ciphers +*-cbc",
    "KexAlgorithms none",
    "StrictHostKeyChecking no",
    "ConnectTimeout 5x",
    "RekeyLimit 1",
    "RekeyLimit 1.5G",
    "CanonicalizeHostname yes",
    "KnownHostsCommand /bin/true",
    "RevokedHostKeys /dev/null",
    "SetEnv A=b",
    "SendEnv SECRET",
    "Tunnel yes",
    "BindAddress 127.0.0.1",
    "IdentityAgent $1x",
    "IdentityAgent ${NOT_THERE}",
    "IdentityAgent ${HOME}/s",
    "IdentityAgent $",
    "LocalForward 8080",
    "LocalForward x y",
    "=Port 7",
    "Port==7",
    "\"Port\" 7",
    "Port\"7\"",
    "Host",
    "Host \"\"",
    "Include",
    "Include /nowhere/*",
    "Include relative-that-is-not-there",
    "RemoteCommand echo %x",
    "User a\u{b}b",
    "User caf\u{e9}",
    "ForwardAgent /nowhere",
    "User deploy\u{c}",
];

/// Makes one up. `folder` has a file `included`.
pub fn configuration(chance: &mut Chance, folder: &Path) -> MadeUp {
    let is_odd = chance.is(3);
    let mut lines: Vec<String> = Vec::new();
    if chance.is(2) {
        // What applies to all hosts would apply to jump hosts too, and lead nowhere.
        lines.push("Host bastion gateway ::1".to_owned());
        lines.push(
            chance.pick(&["ProxyJump none", "  ProxyJump = none", "ProxyCommand none"]).to_owned(),
        );
        lines.push("Host *".to_owned());
        lines.push(match chance.is(4) {
            true => "ProxyCommand nc -X 5 '%h' %p %r %n".to_owned(),
            false => format!("ProxyJump {}", chance.pick(JUMPS)),
        });
    }
    let blocks = chance.below(5);
    for block in 0..=blocks {
        if block > 0 {
            let keyword = chance.pick(&["Host", "host", "HOST"]);
            let between = chance.pick(&[" ", "\t", "=", " = ", "   "]);
            lines.push(format!("{keyword}{between}{}", chance.pick(PATTERNS)));
        }
        for _ in 0..chance.below(6) {
            option(chance, &mut lines);
        }
        if chance.is(8) {
            lines.push(format!("Include {}/included", folder.display()));
        }
        if chance.is(6) {
            lines.push(chance.pick(&["", "# a comment", "  \t", "\t# User nobody"]).to_owned());
        }
    }
    if is_odd {
        let at = chance.below(lines.len() + 1);
        lines.insert(at, chance.pick(ODD).to_owned());
    }
    let end = if chance.is(6) { "\r\n" } else { "\n" };
    let mut text = lines.join(end);
    if !chance.is(4) {
        text.push_str(end);
    }
    MadeUp { text, host: chance.pick(HOSTS), is_odd }
}

/// One option in one of the ways to write it.
fn option(chance: &mut Chance, lines: &mut Vec<String>) {
    let (keyword, values) = chance.pick(OPTIONS);
    let value = chance.pick(values);
    let indent = chance.pick(&["", "  ", "\t", " \t "]);
    let between = chance.pick(&[" ", " ", "\t", "=", " = ", " =", "= ", "  "]);
    // These take all of the line.
    let is_whole = keyword.starts_with("Proxy");
    let behind = if is_whole { "" } else { chance.pick(&["", "", "", " ", "\t", " # why", "\t#"]) };
    let keyword = match chance.below(4) {
        0 => keyword.to_lowercase(),
        1 => keyword.to_uppercase(),
        _ => keyword.to_owned(),
    };
    if keyword.eq_ignore_ascii_case("BatchMode") {
        // Debian's ssh sets one where BatchMode is on and none is given.
        lines.push(format!("{indent}ServerAliveInterval 20"));
    }
    lines.push(format!("{indent}{keyword}{between}{value}{behind}"));
    if chance.is(10) {
        lines.push(format!("{indent}{keyword} {}", chance.pick(values)));
    }
}

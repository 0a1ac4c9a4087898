//! Cases that nobody thought of: lines of pieces, chosen by a number.

use super::{
    cases::Case,
    servers::{CERTIFIED, Keys, PLAIN, Server},
};

use scenarios::split_mix::SplitMix;

/// Numbers that look random.
pub struct Numbers(SplitMix);

impl Numbers {
    /// All that follow from a seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.0.following() % u64::try_from(end).unwrap()).unwrap()
    }

    /// One of these, all with the same chance.
    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of.get(self.below(of.len())).unwrap()
    }

    fn is_one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }
}

/// Makes up a case.
pub fn case(keys: &Keys, servers: &[Server], numbers: &mut Numbers) -> Case {
    let server = match numbers.below(3) {
        0 => PLAIN,
        1 => CERTIFIED,
        _ => numbers.below(servers.len()),
    };
    let (host, is_alias) = match numbers.below(8) {
        0 => ("LocalHost", false),
        1 | 2 => ("127.0.0.1", false),
        3 => ("cluster", true),
        4 => ("Cluster", true),
        _ => ("localhost", false),
    };
    let mut files = Vec::new();
    for _ in 0..=numbers.below(3) {
        let mut file = String::new();
        for _ in 0..numbers.below(5) {
            file.push_str(&line(keys, servers.get(server).unwrap(), host, is_alias, numbers));
        }
        files.push(file.into_bytes());
    }
    Case {
        number: 0,
        what: "generated".to_owned(),
        server,
        host: host.to_owned(),
        is_alias,
        files,
        wanted: None,
        is_real: false,
    }
}

const JUNK: &[&str] = &[
    "#",
    "# [localhost]:22 ssh-ed25519 AAAA",
    "localhost",
    "* ssh-ed25519",
    "* ssh-ed25519 AAAA",
    "* 2048 65537 123456789",
    "|1|x|y ssh-ed25519 AAAA",
    "@revoked",
    "@revoked *",
    "* \0 x",
    "\u{e9} \u{e9}",
    "@cert-authority @revoked * x y",
    "*,*,*,, ssh-rsa AAAAB3NzaC1yc2E=",
    " \t ",
    "*  # x y",
];

fn line(keys: &Keys, server: &Server, host: &str, is_alias: bool, numbers: &mut Numbers) -> String {
    let end = numbers.one(&["\n", "\n", "\n", "\r\n"]);
    if numbers.is_one_in(8) {
        return format!("{}{end}", numbers.one(JUNK));
    }
    let lead = numbers.one(&["", "", "", " ", "\t", " \t "]);
    let marker = match numbers.below(16) {
        0..=8 => "",
        9..=11 => "@cert-authority",
        12 | 13 => "@revoked",
        14 => numbers.one(&["@cert-authority", "@revoked"]),
        _ => numbers.one(&["@Revoked", "@CERT-AUTHORITY", "@marked", "@", "@revoked @revoked"]),
    };
    let behind_marker = match marker {
        "" => "",
        _ => numbers.one(&[" ", " ", " ", "  ", "\t", " \t"]),
    };
    let names = names(keys, server, host, is_alias, numbers);
    let key = match marker {
        "@cert-authority" => numbers.one(&["ca", "ca", "ca", "other-ca", "ca-rsa", "host-ed25519"]),
        "@revoked" => numbers.one(&[
            "host-ed25519",
            "host-rsa",
            "other-ed25519",
            "ca",
            "other-ca",
            "host-ecdsa",
        ]),
        _ => numbers.one(&[
            "host-ed25519",
            "host-ed25519",
            "host-ed25519",
            "host-rsa",
            "host-rsa",
            "host-ecdsa",
            "other-ed25519",
            "other-rsa",
            "other-ecdsa",
            "ca",
        ]),
    };
    let key = keys.line(key);
    let (kind, blob) = key.split_once(' ').unwrap();
    let kind = if numbers.is_one_in(30) { "ssh-new" } else { kind };
    let blob = match numbers.below(30) {
        0 => &blob[..blob.len() - 4],
        1 => &blob[1..],
        _ => blob,
    };
    let blank = numbers.one(&[" ", " ", " ", "  ", "\t", " \t"]);
    let comment = numbers.one(&["", "", " me@here", " #x", "\t", " a # b"]);
    format!("{lead}{marker}{behind_marker}{names}{blank}{kind}{blank}{blob}{comment}{end}")
}

/// A list of names, mostly one that stands for the host.
fn names(
    keys: &Keys,
    server: &Server,
    host: &str,
    is_alias: bool,
    numbers: &mut Numbers,
) -> String {
    let lower = host.to_lowercase();
    let port = server.sshd.port;
    let full = if is_alias { lower.clone() } else { format!("[{lower}]:{port}") };
    if numbers.is_one_in(6) {
        let name = match numbers.below(5) {
            0 => lower,
            1 => format!("[{lower}]:{}", port ^ 1),
            2 => host.to_owned(),
            _ => full,
        };
        return keys.hashed(&name);
    }
    let mut names: Vec<String> = Vec::new();
    for _ in 0..=numbers.below(2) {
        let name = match numbers.below(14) {
            0 => "*".to_owned(),
            1 => lower.clone(),
            2 => lower.to_uppercase(),
            3 => full.to_uppercase(),
            4 => format!("[{lower}]:{}", port ^ 1),
            5 => format!("[*{}]:{port}", &lower[1..]),
            6 => format!("?{}", &lower[1..]),
            7 => format!("*{}*", &lower[2..4]),
            8 => "db.example".to_owned(),
            9 => format!("{lower}.example"),
            10 => String::new(),
            _ => full.clone(),
        };
        names.push(if numbers.is_one_in(10) { format!("!{name}") } else { name });
    }
    let names = names.join(",");
    if names.is_empty() { "*".to_owned() } else { names }
}

//! The named cases: what once broke a check of known hosts, here or in a library.

use super::servers::{CERTIFIED, Keys, ONE_KEY, PLAIN, Server};

/// What is in the files, and which host is looked up.
pub struct Case {
    /// Its place among all cases.
    pub number: usize,
    /// What it is for.
    pub what: String,
    /// The index of the server.
    pub server: usize,
    /// The name that is typed, or the alias.
    pub host: String,
    /// Whether it is an alias.
    pub is_alias: bool,
    /// The contents of the user's files, and last, if there are several, of the machine's.
    pub files: Vec<Vec<u8>>,
    /// Whether `ssh` must accept it; none where whatever it does is right.
    pub wanted: Option<bool>,
    /// Whether our own SSH really connects.
    pub is_real: bool,
}

/// Puts keys in the place of `<key>`, hashes in that of `<|name|>`, and the port in that of `<port>`.
pub fn filled(keys: &Keys, server: &Server, text: &str) -> String {
    let text = text.replace("<port>", &server.sshd.port.to_string());
    let mut filled = String::new();
    let mut rest = text.as_str();
    while let Some((before, behind)) = rest.split_once('<') {
        let (what, behind) = behind.split_once('>').unwrap();
        filled.push_str(before);
        let name = what.strip_prefix('|').and_then(|name| name.strip_suffix('|'));
        filled.push_str(&name.map_or_else(|| keys.line(what), |name| keys.hashed(name)));
        rest = behind;
    }
    filled + rest
}

/// What it is for, the server, the name, the files, and whether `ssh` accepts it.
type Row = (&'static str, usize, &'static str, &'static [&'static str], bool);

/// In front of an alias.
const ALIAS: &str = "alias:";

const ROWS: &[Row] = &[
    ("no file has anything", PLAIN, "localhost", &[""], false),
    ("plain", PLAIN, "localhost", &["[localhost]:<port> <host-ed25519>\n"], true),
    ("plain, wrong key", PLAIN, "localhost", &["[localhost]:<port> <other-ed25519>\n"], false),
    ("plain, by address", PLAIN, "127.0.0.1", &["[127.0.0.1]:<port> <host-ed25519>\n"], true),
    ("hashed", PLAIN, "localhost", &["<|[localhost]:<port>|> <host-ed25519>\n"], true),
    ("hashed, another port", PLAIN, "localhost", &["<|[localhost]:1|> <host-ed25519>\n"], false),
    ("hashed, no port", PLAIN, "localhost", &["<|localhost|> <host-ed25519>\n"], true),
    ("hashed, upper case", PLAIN, "LOCALHOST", &["<|[localhost]:<port>|> <host-ed25519>\n"], true),
    ("comma list", PLAIN, "localhost", &["a,[localhost]:<port>,b <host-ed25519>\n"], true),
    ("comments", PLAIN, "localhost", &["# one\n[localhost]:<port> <host-ed25519> a#b # c\n"], true),
    (
        "@revoked key and a normal line",
        PLAIN,
        "localhost",
        &["@revoked [localhost]:<port> <host-ed25519>\n[localhost]:<port> <host-ed25519>\n"],
        false,
    ),
    (
        "a normal line and @revoked *",
        PLAIN,
        "localhost",
        &["[localhost]:<port> <host-ed25519>\n@revoked * <host-ed25519>\n"],
        false,
    ),
    (
        "@revoked in another file",
        PLAIN,
        "localhost",
        &["[localhost]:<port> <host-ed25519>\n", "@revoked * <host-ed25519>\n"],
        false,
    ),
    (
        "@revoked by hash",
        PLAIN,
        "localhost",
        &["[localhost]:<port> <host-ed25519>\n@revoked <|[localhost]:<port>|> <host-ed25519>\n"],
        false,
    ),
    (
        "@revoked of others",
        PLAIN,
        "localhost",
        &["[localhost]:<port> <host-ed25519>\n@revoked [localhost]:1 <host-ed25519>\n"],
        true,
    ),
    (
        "@revoked with tabs",
        PLAIN,
        "localhost",
        &["[localhost]:<port> <host-ed25519>\n@revoked\t* <host-ed25519>\n"],
        true,
    ),
    (
        "@revoked in upper case",
        PLAIN,
        "localhost",
        &["[localhost]:<port> <host-ed25519>\n@REVOKED * <host-ed25519>\n"],
        true,
    ),
    (
        "a wildcard in an address",
        PLAIN,
        "127.0.0.1",
        &["[127.0.0.*]:<port> <host-ed25519>\n"],
        true,
    ),
    ("a star", PLAIN, "localhost", &["* <host-ed25519>\n"], true),
    ("question marks", PLAIN, "localhost", &["[?ocal????]:<port> <host-ed25519>\n"], true),
    ("tabs", PLAIN, "localhost", &["\t[localhost]:<port>\t<host-ed25519>\n"], true),
    ("two spaces", PLAIN, "localhost", &["  [localhost]:<port>  <host-ed25519>  x\n"], true),
    ("carriage returns", PLAIN, "localhost", &["\r\n[localhost]:<port> <host-ed25519>\r\n"], true),
    ("no newline", PLAIN, "localhost", &["[localhost]:<port> <host-ed25519>"], true),
    ("a NUL", PLAIN, "localhost", &["[localhost]:<port> \0<host-ed25519>\n"], false),
    (
        "a NUL in a line before",
        PLAIN,
        "localhost",
        &["x\0y\n[localhost]:<port> <host-ed25519>\n"],
        true,
    ),
    (
        "two keys of a type, the second is right",
        PLAIN,
        "localhost",
        &["[localhost]:<port> <other-ed25519>\n[localhost]:<port> <host-ed25519>\n"],
        true,
    ),
    (
        "two files, the second is right",
        PLAIN,
        "localhost",
        &["[localhost]:<port> <other-ed25519>\n", "[localhost]:<port> <host-ed25519>\n"],
        true,
    ),
    (
        "an unparsable line for the host",
        PLAIN,
        "localhost",
        &["[localhost]:<port> ssh-ed25519 !!!\n[localhost]:<port> <host-ed25519>\n"],
        true,
    ),
    (
        "an old line of protocol 1",
        PLAIN,
        "localhost",
        &["[localhost]:<port> 1024 37 1234567\n[localhost]:<port> <host-ed25519>\n"],
        true,
    ),
    ("no port", PLAIN, "localhost", &["localhost <host-ed25519>\n"], true),
    ("no port, wrong key", PLAIN, "localhost", &["localhost <other-ed25519>\n"], false),
    (
        "no port, and with it a wrong key",
        PLAIN,
        "localhost",
        &["[localhost]:<port> <other-ed25519>\nlocalhost <host-ed25519>\n"],
        false,
    ),
    (
        "no port, and with it a wrong type",
        PLAIN,
        "localhost",
        &["[localhost]:<port> <other-rsa>\nlocalhost <host-ed25519>\n"],
        false,
    ),
    (
        "no port, revoked with it",
        PLAIN,
        "localhost",
        &["@revoked [localhost]:<port> <host-ed25519>\nlocalhost <host-ed25519>\n"],
        false,
    ),
    (
        "no port, only a type that is not shown",
        PLAIN,
        "localhost",
        &["localhost <host-rsa>\n"],
        false,
    ),
    ("only RSA", PLAIN, "localhost", &["[localhost]:<port> <host-rsa>\n"], true),
    ("only ECDSA", PLAIN, "localhost", &["[localhost]:<port> <host-ecdsa>\n"], true),
    ("only RSA, and one unknown", ONE_KEY, "localhost", &["[localhost]:<port> <host-rsa>\n"], true),
    (
        "RSA by another name",
        PLAIN,
        "localhost",
        &["[localhost]:<port> rsa-sha2-512 <host-rsa>\n"],
        true,
    ),
    (
        "RSA by another name, revoked",
        PLAIN,
        "localhost",
        &["[localhost]:<port> <host-rsa>\n@revoked * rsa-sha2-256 <host-rsa>\n"],
        false,
    ),
    ("a wrong type", PLAIN, "localhost", &["[localhost]:<port> ssh-rsa <host-ed25519>\n"], false),
    (
        "a type that nobody knows",
        PLAIN,
        "localhost",
        &["[localhost]:<port> ssh-new AAAAB3NzaC1uZXc=\n[localhost]:<port> <host-ed25519>\n"],
        true,
    ),
    ("a key too many", PLAIN, "localhost", &["[localhost]:<port> <host-ed25519>AAAA\n"], false),
    ("not wanted", PLAIN, "localhost", &["*,!localhost,![localhost]:* <host-ed25519>\n"], false),
    (
        "not wanted, first",
        PLAIN,
        "localhost",
        &["![localhost]:*,!local*,* <host-ed25519>\n"],
        false,
    ),
    ("others are not wanted", PLAIN, "localhost", &["!db,* <host-ed25519>\n"], true),
    ("upper case in the file", PLAIN, "localhost", &["[LocalHost]:<port> <host-ed25519>\n"], true),
    ("upper case typed", PLAIN, "LocalHost", &["[localhost]:<port> <host-ed25519>\n"], true),
    ("an alias", PLAIN, "alias:cluster", &["cluster <host-ed25519>\n"], true),
    ("an alias with a port", PLAIN, "alias:cluster", &["[cluster]:<port> <host-ed25519>\n"], false),
    ("an alias in upper case", PLAIN, "alias:Cluster", &["cluster <host-ed25519>\n"], true),
    (
        "an alias in upper case, hashed",
        PLAIN,
        "alias:Cluster",
        &["<|cluster|> <host-ed25519>\n"],
        true,
    ),
    (
        "@cert-authority",
        CERTIFIED,
        "localhost",
        &["@cert-authority [localhost]:<port> <ca>\n"],
        true,
    ),
    ("@cert-authority *", CERTIFIED, "LocalHost", &["@cert-authority * <ca>\n"], true),
    ("@cert-authority with tabs", CERTIFIED, "localhost", &["@cert-authority\t*\t<ca>\n"], true),
    (
        "@cert-authority with a tab and a space",
        CERTIFIED,
        "localhost",
        &["@cert-authority\t* <ca>\n"],
        false,
    ),
    (
        "@cert-authority by hash",
        CERTIFIED,
        "localhost",
        &["@cert-authority <|[localhost]:<port>|> <ca>\n"],
        true,
    ),
    (
        "@cert-authority, no port",
        CERTIFIED,
        "localhost",
        &["@cert-authority localhost <ca>\n"],
        true,
    ),
    (
        "@cert-authority of others",
        CERTIFIED,
        "localhost",
        &["@cert-authority *.example <ca>\n"],
        false,
    ),
    ("another @cert-authority", CERTIFIED, "localhost", &["@cert-authority * <other-ca>\n"], false),
    ("@cert-authority, no certificate", PLAIN, "localhost", &["@cert-authority * <ca>\n"], false),
    (
        "@cert-authority and a wrong key",
        CERTIFIED,
        "localhost",
        &["@cert-authority * <ca>\n[localhost]:<port> <other-ed25519>\n"],
        true,
    ),
    (
        "a certificate, only its key is known",
        CERTIFIED,
        "localhost",
        &["[localhost]:<port> <host-ed25519>\n"],
        true,
    ),
    (
        "a certificate, only another key is known",
        CERTIFIED,
        "localhost",
        &["[localhost]:<port> <host-rsa>\n"],
        true,
    ),
    (
        "a certificate, a wrong key is known",
        CERTIFIED,
        "localhost",
        &["[localhost]:<port> <other-ed25519>\n"],
        false,
    ),
    (
        "the authority is revoked",
        CERTIFIED,
        "localhost",
        &["@cert-authority * <ca>\n@revoked * <ca>\n"],
        false,
    ),
    (
        "the authority is revoked, the key is known",
        CERTIFIED,
        "localhost",
        &["[localhost]:<port> <host-ed25519>\n@revoked * <ca>\n"],
        false,
    ),
    (
        "the certified key is revoked",
        CERTIFIED,
        "localhost",
        &["@cert-authority * <ca>\n@revoked * <host-ed25519>\n"],
        false,
    ),
    (
        "an authority revoked without the port",
        CERTIFIED,
        "localhost",
        &["[localhost]:<port> <host-ed25519>\n@revoked localhost <ca>\n"],
        true,
    ),
    (
        "a certificate, with the port a wrong key",
        CERTIFIED,
        "localhost",
        &["[localhost]:<port> <other-ed25519>\nlocalhost <host-ed25519>\n"],
        true,
    ),
    (
        "a certificate for an alias",
        CERTIFIED,
        "alias:cluster",
        &["@cert-authority cluster <ca>\n"],
        true,
    ),
    (
        "a certificate for an alias in upper case",
        CERTIFIED,
        "alias:Cluster",
        &["@cert-authority cluster <ca>\n"],
        true,
    ),
    ("an authority as a host's key", CERTIFIED, "localhost", &["[localhost]:<port> <ca>\n"], false),
];

/// All named cases, and one for each server with its authority.
pub fn named(keys: &Keys, servers: &[Server]) -> Vec<Case> {
    let mut cases: Vec<Case> = ROWS
        .iter()
        .map(|(what, server, host, files, wanted)| {
            let of = servers.get(*server).unwrap();
            let mut files: Vec<String> = files.iter().map(|text| filled(keys, of, text)).collect();
            for file in &mut files {
                // Some rows want a type in front of a key that has one.
                *file = file.replace("ssh-rsa ssh-ed25519 ", "ssh-rsa ");
                *file = file.replace("rsa-sha2-512 ssh-rsa ", "rsa-sha2-512 ");
                *file = file.replace("rsa-sha2-256 ssh-rsa ", "rsa-sha2-256 ");
                if what.ends_with("with tabs") && what.starts_with("@cert") {
                    *file = file.replace("\tssh-ed25519 ", "\tssh-ed25519\t");
                }
            }
            Case {
                number: 0,
                what: (*what).to_owned(),
                server: *server,
                host: host.strip_prefix(ALIAS).unwrap_or(host).to_owned(),
                is_alias: host.starts_with(ALIAS),
                files: files.into_iter().map(String::into_bytes).collect(),
                wanted: Some(*wanted),
                is_real: true,
            }
        })
        .collect();
    for (index, server) in servers.iter().enumerate() {
        for (what, text) in [
            (
                "its authorities",
                "@cert-authority * <ca>\n@cert-authority * <ca-rsa>\n@cert-authority * <ca-ecdsa>\n",
            ),
            (
                "its authorities and its keys",
                "* <host-ed25519>\n* <host-rsa>\n@cert-authority * <ca>\n@cert-authority * <ca-rsa>\n",
            ),
            ("its keys", "* <host-ed25519>\n* <host-rsa>\n"),
            ("its RSA key", "* <host-rsa>\n"),
        ] {
            for (host, is_alias) in [("localhost", false), ("Cluster", true)] {
                if is_alias && what != "its authorities" {
                    continue;
                }
                cases.push(Case {
                    number: 0,
                    what: what.to_owned(),
                    server: index,
                    host: host.to_owned(),
                    is_alias,
                    files: vec![filled(keys, server, text).into_bytes()],
                    wanted: None,
                    is_real: true,
                });
            }
        }
    }
    cases
}

//! What must hold for each kind of line, beside what `ssh` itself says in
//! `scenarios/tests/known_hosts.rs`.

use super::{Finding, KnownHosts, Name, is_allowed, remember};
use proptest::prelude::*;
use russh::keys::{
    Algorithm, Certificate, EcdsaCurve, HashAlg, PrivateKey, PublicKey, PublicKeyOrCertificate,
    ssh_key::{
        Mpint,
        certificate::{Builder, CertType},
        private::Ed25519Keypair,
        public::{KeyData, RsaPublicKey},
    },
};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::LazyLock,
};

const RSA: &str = "ssh-rsa \
    AAAAB3NzaC1yc2EAAAADAQABAAABAQDUc35nEqRo44GJTt9Mr0i6GVEex2lVWDdR/0Ts9mSJEe3H7Kvx2/OLBoUx\
    VKWC/ZaQXE9KNbjk0codICVQU8JHngZBadM3v0LytH4AdsXqOWPEmJqHtLc0R1jgELSoNmFhM0TmiqM1E0uM4m9k\
    796Q6UMKTNCWjGF+xCaXcNQPovKWrKdxChGrK9iuKvYRIY4Huyob8C8x/duRa2gs5yb173y8vkghEQzZxTNdvZsz\
    AMbFNQxaK19vr0pKLetDbCvULyiTlrhVP8At5qvoHK4eSaTxQ8HnxuIoXgs1+l7GwW6CI4t3SXYevcAQhIxAESlP\
    j76S2EMRZ1Kq6/tO+yoH";
const ECDSA: &str = "ecdsa-sha2-nistp256 \
    AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBNAmRUhbjfEcJM79WkRdtvZizlEHn/3FwaCP\
    UGdToV16PCHnqVTB+fYSxCATviNwcMXwtR/HDn/lNQSD+h3S02g=";

const NOW: u64 = 1_800_000_000;

fn private(seed: u8) -> PrivateKey {
    Ed25519Keypair::from_seed(&[seed; 32]).into()
}

fn public(seed: u8) -> PublicKey {
    private(seed).public_key().clone()
}

const HOST: u8 = 1;
const OTHER: u8 = 2;
const AUTHORITY: u8 = 3;

/// For `web.example`.
static CERTIFICATE: LazyLock<Certificate> = LazyLock::new(|| certificate(|_| {}));

/// Puts keys in the place of their names.
fn with_keys(text: &str) -> String {
    let line = |seed| public(seed).to_openssh().unwrap();
    text.replace("<host>", &line(HOST))
        .replace("<other>", &line(OTHER))
        .replace("<ca>", &line(AUTHORITY))
        .replace("<rsa>", RSA)
        .replace("<ecdsa>", ECDSA)
        .replace("<certificate>", &CERTIFICATE.to_openssh().unwrap())
}

fn known(bytes: &[u8]) -> KnownHosts {
    let mut hosts = KnownHosts { files: vec![PathBuf::from("known")], ..KnownHosts::default() };
    hosts.add(0, bytes);
    hosts
}

fn name(host: &str, port: u16) -> Name {
    Name { host: host.to_owned(), port: Some(port), address: None }
}

fn allowed_signatures() -> Vec<String> {
    vec!["ssh-ed25519".to_owned()]
}

fn word(finding: &Finding) -> &'static str {
    match finding {
        Finding::Known => "known",
        Finding::Vouched => "vouched",
        Finding::Unknown => "unknown",
        Finding::Changed { .. } => "changed",
        Finding::Revoked { .. } => "revoked",
        Finding::BadCertificate { .. } => "bad certificate",
        Finding::TooSmall { .. } => "too small",
        Finding::Undecided { .. } => "undecided",
    }
}

fn check(lines: &str, name: &Name, shown: &PublicKeyOrCertificate) -> Finding {
    known(with_keys(lines).as_bytes()).check(name, shown, NOW, &allowed_signatures())
}

fn certificate(change: impl FnOnce(&mut Builder)) -> Certificate {
    let mut builder = Builder::new(vec![7; 32], public(HOST), NOW - 1000, NOW + 1000).unwrap();
    builder.cert_type(CertType::Host).unwrap();
    change(&mut builder);
    // A builder wants at least one name, or a word that it may have none.
    let _ = builder.valid_principal("web.example");
    builder.sign(&private(AUTHORITY)).unwrap()
}

/// Lines, the port at which `web.example` shows the key `<host>`, and what must come of it.
const PLAIN: &[(&str, &str, u16, &str)] = &[
    ("no line", "", 22, "unknown"),
    ("the key", "web.example <host>\n", 22, "known"),
    ("no newline at the end", "web.example <host>", 22, "known"),
    ("another key", "web.example <other>\n", 22, "changed"),
    ("a key of another type", "web.example <rsa>\n", 22, "changed"),
    ("another host", "db.example <host>\n", 22, "unknown"),
    ("the second of two", "web.example <other>\nweb.example <host>\n", 22, "known"),
    ("names in a list", "db.example,web.example,10.0.0.1 <host>\n", 22, "known"),
    ("upper case in the file", "WEB.Example <host>\n", 22, "known"),
    ("blanks before the names", " \t web.example <host>\n", 22, "known"),
    ("two blanks", "web.example  <host>\n", 22, "known"),
    ("a tab", "web.example\t<host>\n", 22, "known"),
    ("a comment behind the key", "web.example <host> me#here # there\n", 22, "known"),
    ("a comment", "# web.example <host>\n", 22, "unknown"),
    ("a carriage return", "web.example <host>\r\n", 22, "known"),
    ("a carriage return in a comment", "web.example <host> me\r\n", 22, "known"),
    ("empty lines", "\n\r\n \t\nweb.example <host>\n\n", 22, "known"),
    (
        "junk before it",
        "junk\nweb.example ssh-rsa\nweb.example ssh-ed25519 AA\nweb.example <host>\n",
        22,
        "known",
    ),
    ("only junk", "web.example ssh-ed25519 AAAA\nweb.example 1024 37 1234\n", 22, "unknown"),
    (
        "a type that is not the key's",
        "web.example ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV\n",
        22,
        "unknown",
    ),
    (
        "a type that nobody knows",
        "web.example ssh-new@example.com AAAAE3NzaC1uZXdAZXhhbXBsZS5jb20AAAAA\n",
        22,
        "changed",
    ),
    ("a NUL before the key", "web.example \0<host>\n", 22, "unknown"),
    ("a star", "* <host>\n", 22, "known"),
    ("wildcards", "w?b.*.* <host>\n*.exa*le <host>\n", 22, "known"),
    ("a name that is not wanted", "*.example,!web.example <host>\n", 22, "unknown"),
    ("one that is not wanted, first", "!web.example,*.example <host>\n", 22, "unknown"),
    ("only one that is not wanted", "!db.example <host>\n", 22, "unknown"),
    ("a port that is not 22", "[web.example]:2222 <host>\n", 2222, "known"),
    ("port 22 in brackets", "[web.example]:22 <host>\n", 22, "unknown"),
    ("another port", "[web.example]:2223 <host>\n", 2222, "unknown"),
    ("wildcards with a port", "[*.example]:2222 <host>\n", 2222, "known"),
    ("no port", "web.example <host>\n", 2222, "known"),
    ("no port, another key", "web.example <other>\n", 2222, "unknown"),
    (
        "no port, but with it another key",
        "[web.example]:2222 <other>\nweb.example <host>\n",
        2222,
        "changed",
    ),
    (
        "no port, but with it another type",
        "[web.example]:2222 <rsa>\nweb.example <host>\n",
        2222,
        "changed",
    ),
    ("revoked without its port", "@revoked web.example <host>\n", 2222, "revoked"),
    ("revoked", "@revoked web.example <host>\n", 22, "revoked"),
    ("revoked behind the key", "web.example <host>\n@revoked web.example <host>\n", 22, "revoked"),
    ("revoked before the key", "@revoked web.example <host>\nweb.example <host>\n", 22, "revoked"),
    ("revoked everywhere", "web.example <host>\n@revoked * <host>\n", 22, "revoked"),
    ("revoked with a tab", "web.example <host>\n@revoked\t* <host>\n", 22, "revoked"),
    (
        "revoked with a carriage return",
        "web.example <host>\r\n@revoked * <host>\r\n",
        22,
        "revoked",
    ),
    ("revoked as a certificate", "web.example <host>\n@revoked * <certificate>\n", 22, "revoked"),
    ("revoked for others", "web.example <host>\n@revoked db.example <host>\n", 22, "known"),
    ("another is revoked", "web.example <host>\n@revoked * <other>\n", 22, "known"),
    ("a marker in upper case", "@Revoked * <host>\nweb.example <host>\n", 22, "known"),
    ("a marker that nobody knows", "@trusted web.example <host>\n", 22, "unknown"),
    ("two markers", "@cert-authority @revoked * <host>\nweb.example <host>\n", 22, "known"),
    ("the key as an authority's", "@cert-authority web.example <host>\n", 22, "unknown"),
    ("a certificate as the key", "web.example <certificate>\n", 22, "changed"),
];

#[test]
fn a_plain_key_is_judged_as_by_ssh() {
    for (case, lines, port, wanted) in PLAIN {
        let finding = check(lines, &name("web.example", *port), &public(HOST).into());
        assert_eq!(word(&finding), *wanted, "{case}: {finding:?}");
        // However the name was typed.
        let finding = check(lines, &name("Web.EXAMPLE", *port), &public(HOST).into());
        assert_eq!(word(&finding), *wanted, "{case}, in upper case: {finding:?}");
    }
}

/// Lines, the port at which `web.example` shows a good certificate, and what must come of it.
const CERTIFIED: &[(&str, &str, u16, &str)] = &[
    ("no line", "", 22, "unknown"),
    ("the authority", "@cert-authority *.example <ca>\n", 22, "vouched"),
    ("with tabs only", "@cert-authority\t*.example\tssh-ed25519\t", 22, "vouched"),
    ("with a tab and a blank", "@cert-authority\t*.example <ca>\n", 22, "unknown"),
    ("another authority", "@cert-authority *.example <other>\n", 22, "unknown"),
    ("the authority as a host", "*.example <ca>\n", 22, "changed"),
    ("the authority of others", "@cert-authority *.org <ca>\n", 22, "unknown"),
    ("the authority at a port", "@cert-authority [*.example]:2222 <ca>\n", 2222, "vouched"),
    ("the authority without a port", "@cert-authority web.example <ca>\n", 2222, "vouched"),
    ("the key itself", "web.example <host>\n", 22, "known"),
    ("the key itself without a port", "web.example <host>\n", 2222, "known"),
    (
        "the key, and another authority",
        "@cert-authority * <other>\nweb.example <host>\n",
        22,
        "known",
    ),
    ("another key", "web.example <other>\n", 22, "changed"),
    (
        "the authority and another key",
        "web.example <other>\n@cert-authority * <ca>\n",
        22,
        "vouched",
    ),
    ("the authority is revoked", "@cert-authority * <ca>\n@revoked * <ca>\n", 22, "revoked"),
    (
        "the authority is revoked, the key known",
        "web.example <host>\n@revoked * <ca>\n",
        22,
        "revoked",
    ),
    (
        "the authority is revoked without its port",
        "[web.example]:2222 <host>\n@revoked web.example <ca>\n",
        2222,
        "revoked",
    ),
    ("the key is revoked", "@cert-authority * <ca>\n@revoked * <host>\n", 22, "revoked"),
    (
        "the certificate is revoked",
        "@cert-authority * <ca>\n@revoked * <certificate>\n",
        22,
        "revoked",
    ),
];

#[test]
fn a_certificate_is_judged_as_by_ssh() {
    let shown = PublicKeyOrCertificate::from(CERTIFICATE.clone());
    for (case, lines, port, wanted) in CERTIFIED {
        let mut lines = (*lines).to_owned();
        if lines.ends_with('\t') {
            let authority = public(AUTHORITY).to_openssh().unwrap();
            lines.push_str(authority.split(' ').nth(1).unwrap());
        }
        let finding = check(&lines, &name("Web.example", *port), &shown);
        assert_eq!(word(&finding), *wanted, "{case}: {finding:?}");
    }
}

#[test]
fn a_certificate_for_something_else_is_refused_unless_its_key_is_known() {
    let built = |after: u64, before: u64, kind: CertType, principal: Option<&str>| {
        let mut builder = Builder::new(vec![7; 32], public(HOST), after, before).unwrap();
        builder.cert_type(kind).unwrap();
        match principal {
            Some(principal) => builder.valid_principal(principal).unwrap(),
            None => builder.all_principals_valid().unwrap(),
        };
        builder
    };
    let web = Some("web.example");
    let sign = |builder: Builder| builder.sign(&private(AUTHORITY)).unwrap();
    let mut critical = built(0, NOW + 1, CertType::Host, web);
    critical.critical_option("force-command", "x").unwrap();
    let mut forged = sign(built(0, NOW + 1, CertType::Host, web)).to_bytes().unwrap();
    let last = forged.len() - 1;
    forged[last] ^= 1;
    let cases = [
        ("of a user", sign(built(0, NOW + 1, CertType::User, web)), "for a user"),
        ("not yet valid", sign(built(NOW + 1, NOW + 2, CertType::Host, web)), "not valid before"),
        ("expired this second", sign(built(0, NOW, CertType::Host, web)), "expired at 2027-01-15"),
        (
            "of another",
            sign(built(0, NOW + 1, CertType::Host, Some("db.example"))),
            "for db.example",
        ),
        ("of a wildcard", sign(built(0, NOW + 1, CertType::Host, Some("*"))), "for *"),
        ("in upper case", sign(built(0, NOW + 1, CertType::Host, Some("WEB.example"))), "for WEB"),
        ("of nobody", sign(built(0, NOW + 1, CertType::Host, None)), "names no host"),
        ("with an option", sign(critical), "force-command"),
    ];
    for (case, certificate, words) in cases {
        let shown = PublicKeyOrCertificate::from(certificate);
        let finding = check("@cert-authority * <ca>\n", &name("web.example", 22), &shown);
        let Finding::BadCertificate { why } = &finding else { panic!("{case}: {finding:?}") };
        assert!(why.contains(words), "{case}: {why}");
        let known = "@cert-authority * <ca>\nweb.example <host>\n";
        assert_eq!(check(known, &name("web.example", 22), &shown), Finding::Known, "{case}");
    }
    // ssh cannot even read this one, and so ends the connection.
    let forged = PublicKeyOrCertificate::from(Certificate::from_bytes(&forged).unwrap());
    for lines in ["@cert-authority * <ca>\n", "web.example <host>\n"] {
        let finding = check(lines, &name("web.example", 22), &forged);
        assert_eq!(word(&finding), "bad certificate", "forged: {finding:?}");
    }
}

#[test]
fn an_authority_may_use_only_the_allowed_signatures() {
    let shown = PublicKeyOrCertificate::from(CERTIFICATE.clone());
    let hosts = known(with_keys("@cert-authority * <ca>\n").as_bytes());
    let finding = hosts.check(&name("web.example", 22), &shown, NOW, &["rsa-sha2-512".to_owned()]);
    assert_eq!(word(&finding), "bad certificate", "{finding:?}");
}

#[test]
fn an_alias_stands_for_name_and_port() {
    let alias = Name { host: "Cluster".to_owned(), port: None, address: None };
    let hash = super::names::hashed("cluster", &[9; 20]);
    for (lines, wanted) in [
        ("cluster <host>\n".to_owned(), "known"),
        (format!("{hash} <host>\n"), "known"),
        ("[cluster]:2222 <host>\n".to_owned(), "unknown"),
    ] {
        let finding = check(&lines, &alias, &public(HOST).into());
        assert_eq!(word(&finding), wanted, "{lines}");
    }
    let shown = certificate(|builder| {
        builder.valid_principal("cluster").unwrap();
    });
    let finding = check("@cert-authority cluster <ca>\n", &alias, &shown.into());
    assert_eq!(finding, Finding::Vouched);
}

#[test]
fn an_address_is_looked_up_in_its_usual_form() {
    for (typed, lines) in [("FE80:0:0::1", "fe80::1 <host>\n"), ("10.0.0.1", "10.0.0.1 <host>\n")] {
        let finding = check(lines, &name(typed, 22), &public(HOST).into());
        assert_eq!(finding, Finding::Known, "{typed}");
    }
    let finding = check("[fe80::1]:2222 <host>\n", &name("fe80::0001", 2222), &public(HOST).into());
    assert_eq!(finding, Finding::Known);
}

#[test]
fn a_hashed_name_is_found_and_a_damaged_one_is_not() {
    // Made by `ssh-keygen -H`.
    let salt = "F1E1KeoE/eEWhi10WpGv4OdiO6Y=";
    let hash = super::names::hashed(
        "web.example",
        b"\x17\x51\x35\x29\xea\x04\xfd\xe1\x16\x86\x2d\x74\x5a\x91\xaf\xe0\xe7\x62\x3b\xa6",
    );
    assert!(hash.starts_with(&format!("|1|{salt}|")), "{hash}");
    let with_port = super::names::hashed("[web.example]:2222", &[9; 20]);
    for (line, port, wanted) in [
        (format!("{hash} <host>\n"), 22, "known"),
        (format!("{hash} <host>\n"), 2222, "known"),
        (format!("{with_port} <host>\n"), 2222, "known"),
        (format!("{with_port} <host>\n"), 22, "unknown"),
        (format!("{hash}x <host>\n"), 22, "unknown"),
        (format!("{hash},web.example <host>\n"), 22, "unknown"),
        (format!("!{hash} <host>\n"), 22, "unknown"),
        (format!("|1|AAAA|{} <host>\n", &hash[32..]), 22, "unknown"),
        ("| <host>\n|1| <host>\n|1|| <host>\n".to_owned(), 22, "unknown"),
        (format!("web.example <host>\n@revoked {hash} <host>\n"), 22, "revoked"),
    ] {
        let finding = check(&line, &name("web.example", port), &public(HOST).into());
        assert_eq!(word(&finding), wanted, "{line}");
    }
}

#[test]
fn an_address_known_by_another_key_refuses_the_host() {
    let at = |port| Name {
        host: "web.example".to_owned(),
        port: Some(port),
        address: Some("10.0.0.1".parse().unwrap()),
    };
    for (lines, port, wanted) in [
        ("web.example <host>\n", 22, "known"),
        ("web.example <host>\n10.0.0.1 <host>\n", 22, "known"),
        ("web.example <host>\n10.0.0.1 <other>\n", 22, "changed"),
        ("web.example <host>\n10.0.0.1 <other>\n10.0.0.1 <host>\n", 22, "known"),
        ("web.example <host>\n@revoked 10.0.0.1 <host>\n", 22, "revoked"),
        ("10.0.0.1 <host>\n", 22, "unknown"),
        ("10.0.0.1 <other>\n", 22, "changed"),
        ("10.0.0.1 <other>\n", 2222, "unknown"),
        ("[web.example]:2222 <host>\n10.0.0.1 <other>\n", 2222, "known"),
        ("[web.example]:2222 <host>\n[10.0.0.1]:2222 <other>\n", 2222, "changed"),
        ("web.example <host>\n10.0.0.1 <other>\n", 2222, "changed"),
        ("web.example <host>\n[10.0.0.1]:2222 <other>\n", 2222, "changed"),
    ] {
        let finding = check(lines, &at(port), &public(HOST).into());
        assert_eq!(word(&finding), wanted, "{lines} at {port}: {finding:?}");
    }
    // As for ssh, loopback is every machine's own.
    let local = Name { address: Some("127.0.0.1".parse().unwrap()), ..at(22) };
    let finding = check("web.example <host>\n127.0.0.1 <other>\n", &local, &public(HOST).into());
    assert_eq!(finding, Finding::Known);
    assert!(known(b"").is_address_new(&at(22)));
    assert!(!known(with_keys("10.0.0.1 <other>\n").as_bytes()).is_address_new(&at(22)));
    assert!(!known(b"").is_address_new(&local));
}

#[test]
fn the_finding_names_the_file_and_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let (user, global) = (folder.path().join("user"), folder.path().join("global"));
    fs::write(&user, with_keys("# mine\n\nweb.example <rsa>\n")).unwrap();
    fs::write(&global, with_keys("web.example <other>\n@revoked * <ecdsa>\n")).unwrap();
    let missing = folder.path().join("missing");
    let hosts = KnownHosts::read(&[missing, user, global.clone()]);
    assert_eq!(hosts.problems(), []);
    let find = |key: PublicKey| hosts.check(&name("web.example", 22), &key.into(), NOW, &[]);
    // The line with a key of the same type says most.
    assert_eq!(find(public(HOST)), Finding::Changed { file: global.clone(), line: 1 });
    assert_eq!(find(ECDSA.parse().unwrap()), Finding::Revoked { file: global, line: 2 });
    assert_eq!(find(RSA.parse().unwrap()), Finding::Known);
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_one_that_is_too_large_decides_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("known");
    fs::write(&file, with_keys("web.example <host>\n")).unwrap();
    let files = [folder.path().to_owned(), file.clone()];
    let hosts = KnownHosts::read(&files);
    let [problem] = hosts.problems() else { panic!("{:?}", hosts.problems()) };
    assert_eq!((&problem.file, problem.is_fatal), (&files[0], false));
    let shown = PublicKeyOrCertificate::from(public(HOST));
    assert_eq!(hosts.check(&name("web.example", 22), &shown, NOW, &[]), Finding::Known);

    let hosts = KnownHosts::read_up_to(std::slice::from_ref(&file), 50);
    let finding = hosts.check(&name("web.example", 22), &shown, NOW, &[]);
    let why = "it has more than 50 bytes".to_owned();
    assert_eq!(finding, Finding::Undecided { file, why });
}

#[test]
fn an_rsa_key_that_ssh_finds_too_small_is_refused_and_its_line_passed_over() {
    // 1016 bits.
    let modulus = Mpint::from_positive_bytes(&[0xff; 127]);
    let exponent = Mpint::from_positive_bytes(&[1, 0, 1]);
    let small = KeyData::Rsa(RsaPublicKey::new(exponent, modulus).unwrap());
    let small = PublicKey::from(small);
    let line = small.to_openssh().unwrap();
    let shown = small.into();
    for lines in [String::new(), format!("web.example {line}\n"), format!("@revoked * {line}\n")] {
        let hosts = known(lines.as_bytes());
        let finding = hosts.check(&name("web.example", 22), &shown, NOW, &[]);
        assert_eq!(finding, Finding::TooSmall { bits: 1016 }, "{lines}");
    }
    // A line with it is no line about the host.
    let with_small = format!("[web.example]:2222 {line}\nweb.example <host>\n");
    let finding = check(&with_small, &name("web.example", 2222), &public(HOST).into());
    assert_eq!(finding, Finding::Known);
    let renamed = format!("web.example rsa-sha2-512 {}\n", RSA.split(' ').nth(1).unwrap());
    let finding =
        check(&renamed, &name("web.example", 22), &RSA.parse::<PublicKey>().unwrap().into());
    assert_eq!(finding, Finding::Known);
}

const RSA_512: Algorithm = Algorithm::Rsa { hash: Some(HashAlg::Sha512) };
const P256: Algorithm = Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 };

#[test]
fn what_is_known_is_asked_for_first() {
    let allowed: Vec<String> = [
        "ssh-ed25519-cert-v01@openssh.com",
        "ecdsa-sha2-nistp256-cert-v01@openssh.com",
        "rsa-sha2-512-cert-v01@openssh.com",
        "ssh-ed25519",
        "ecdsa-sha2-nistp256",
        "ssh-new@example.com",
        "rsa-sha2-512",
    ]
    .map(str::to_owned)
    .to_vec();
    let all = vec![Algorithm::Ed25519, P256, RSA_512];
    let cases = [
        ("", all.clone(), all.clone()),
        // The best is known: the list as it is.
        ("web.example <host>\nweb.example <rsa>\n", all.clone(), all.clone()),
        ("web.example <rsa>\n", vec![RSA_512, Algorithm::Ed25519, P256], vec![RSA_512]),
        (
            "web.example <rsa>\nweb.example <ecdsa>\n",
            vec![P256, RSA_512, Algorithm::Ed25519],
            vec![P256, RSA_512],
        ),
        (
            "web.example <rsa>\n@cert-authority * <ca>\n",
            vec![RSA_512, Algorithm::Ed25519, P256],
            all.clone(),
        ),
        // What is revoked is not known.
        ("web.example <rsa>\n@revoked * <rsa>\n", all.clone(), all.clone()),
    ];
    for (lines, keys, certificates) in cases {
        let hosts = known(with_keys(lines).as_bytes());
        let preferred = hosts.preferred(&name("web.example", 22), &allowed);
        assert_eq!(preferred, (keys, certificates), "{lines}");
    }
    // What is known only without the port does not count, as for ssh.
    let hosts = known(with_keys("web.example <rsa>\n").as_bytes());
    assert_eq!(hosts.preferred(&name("web.example", 2222), &allowed).0, all);
    // The library puts certificates first: those that are wanted later are left out.
    let late = ["ssh-ed25519", "ssh-ed25519-cert-v01@openssh.com"].map(str::to_owned);
    let preferred = known(b"").preferred(&name("web.example", 22), &late);
    assert_eq!(preferred, (vec![Algorithm::Ed25519], Vec::new()));
}

#[test]
fn a_plain_key_counts_only_if_the_configuration_allows_its_type() {
    let allowed = ["ssh-ed25519-cert-v01@openssh.com", "rsa-sha2-256"].map(str::to_owned);
    assert!(!is_allowed(&public(HOST), &allowed));
    assert!(is_allowed(&RSA.parse().unwrap(), &allowed));
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn what_was_remembered_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ssh/known_hosts");
    let address = Some("10.0.0.1".parse().unwrap());
    let web = Name { host: "Web.example".to_owned(), port: Some(2222), address };
    let db = Name { address: None, ..name("db.example", 22) };
    let alias = Name { host: "Alias".to_owned(), port: None, address: None };
    for (name, is_hashed) in [(&web, false), (&db, false), (&db, true), (&alias, true)] {
        remember(&file, name, &public(HOST), is_hashed).unwrap();
    }
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let key = public(HOST).to_openssh().unwrap();
    assert_eq!(lines[0], format!("[web.example]:2222,[10.0.0.1]:2222 {key}"));
    assert_eq!(lines[1], format!("db.example {key}"));
    assert!(lines[2].starts_with("|1|") && !lines[2].contains("db.example"), "{text}");
    for name in [&web, &db, &alias] {
        let hosts = KnownHosts::read(std::slice::from_ref(&file));
        let finding = hosts.check(name, &public(HOST).into(), NOW, &[]);
        assert_eq!(finding, Finding::Known, "{name:?} in {text}");
    }
    // Hashed, the address has a line of its own, and a line without an end is ended first.
    fs::write(&file, "# no newline").unwrap();
    remember(&file, &web, &public(HOST), true).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.starts_with("# no newline\n|1|"), "{text}");
    let hosts = KnownHosts::read(&[file]);
    assert_eq!(hosts.check(&web, &public(HOST).into(), NOW, &[]), Finding::Known);
    assert!(!hosts.is_address_new(&web));
}

#[test]
fn a_name_that_would_be_read_as_something_else_is_not_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("known_hosts");
    for host in
        ["", "*", "a,b", "a b", "a\nb", "!a", "@revoked", "#a", "|1|", "[a]", "a\\b", "a\tb"]
    {
        let name = name(host, 22);
        remember(&file, &name, &public(HOST), false).unwrap_err();
        remember(&file, &name, &public(HOST), true).unwrap_err();
    }
    assert!(!file.exists());
}

/// Pieces of lines, so that what is made of them comes close to what means something.
const PIECES: &[&str] = &[
    "web.example",
    "[web.example]:2222",
    "*",
    "?",
    "!",
    ",",
    " ",
    "\t",
    "\n",
    "\r\n",
    "\0",
    "#",
    "@revoked ",
    "@cert-authority ",
    "|1|",
    "F1E1KeoE/eEWhi10WpGv4OdiO6Y=",
    "|",
    "<host>",
    "<other>",
    "<rsa>",
    "<certificate>",
    "ssh-ed25519 ",
    "AAAA",
    "=",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_bytes_make_it_panic(
        pieces in prop::collection::vec(0..PIECES.len(), 0..40),
        noise in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        host in "\\PC{0,12}",
    ) {
        let text: String = pieces.iter().map(|piece| PIECES[*piece]).collect();
        let mut bytes = with_keys(&text).into_bytes();
        let at = at.index(bytes.len() + 1);
        bytes.splice(at..at, noise);
        let hosts = known(&bytes);
        for name in [name(&host, 2222), name("web.example", 22), name("web.example", 2222)] {
            hosts.known_types(&name);
            hosts.check(&name, &public(HOST).into(), NOW, &allowed_signatures());
            hosts.check(&name, &CERTIFICATE.clone().into(), NOW, &allowed_signatures());
        }
    }

    #[test]
    fn a_revoked_key_is_never_accepted(
        pieces in prop::collection::vec(0..PIECES.len(), 0..40),
        is_first in any::<bool>(),
    ) {
        let text: String = pieces.iter().map(|piece| PIECES[*piece]).collect();
        let revoked = "@revoked * <host>\n";
        let lines =
            if is_first { format!("{revoked}{text}") } else { format!("{text}\n{revoked}") };
        for port in [22, 2222] {
            for shown in [public(HOST).into(), CERTIFICATE.clone().into()] {
                let finding = check(&lines, &name("web.example", port), &shown);
                prop_assert_eq!(word(&finding), "revoked");
            }
        }
    }
}

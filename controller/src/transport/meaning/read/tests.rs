//! Configurations in folders of their own, read without `ssh`.

use super::*;
use crate::{
    target::{SshTarget, Target},
    transport::meaning::{Meaning, Route, Sources, read_without_ssh, tokens::tests::account},
};
use std::{fs, os::unix::fs::PermissionsExt as _};

/// A home folder and a machine's folder of their own.
struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new(config: &str) -> Self {
        let desk = Self { folder: tempfile::tempdir().unwrap() };
        for folder in ["home/.ssh", "etc"] {
            fs::create_dir_all(desk.folder.path().join(folder)).unwrap();
        }
        desk.with("home/.ssh/config", config)
    }

    fn with(self, file: &str, text: &str) -> Self {
        let file = self.folder.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        self
    }

    fn read(&self, target: &str) -> Result<Meaning, Outside> {
        let mut account = account();
        account.home = self.folder.path().join("home").to_str().unwrap().to_owned();
        let system = self.folder.path().join("etc");
        let sources = Sources { system, ..Sources::default() };
        read_without_ssh(&parse(target), None, &sources, &account)
    }

    /// Where it is refused: the file's name, and the line's number.
    fn refused(&self, target: &str) -> (String, usize) {
        match self.read(target) {
            Err(Outside::Line { file, line, .. }) => {
                (file.rsplit_once('/').unwrap().1.to_owned(), line)
            }
            other => panic!("{other:?}"),
        }
    }
}

fn parse(target: &str) -> SshTarget {
    match format!("ssh:{target}").parse() {
        Ok(Target::Ssh(target)) => target,
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_a_configuration_there_are_defaults() {
    let desk = Desk::new("");
    fs::remove_file(desk.folder.path().join("home/.ssh/config")).unwrap();
    let meaning = desk.read("Web").unwrap();
    let home = desk.folder.path().join("home");
    assert_eq!((meaning.host.as_str(), meaning.port, meaning.user.as_str()), ("web", 22, "me"));
    assert_eq!(meaning.identity_files.len(), KEYS.len());
    assert_eq!(meaning.identity_files[0], home.join(".ssh/id_rsa"));
    let known = ["known_hosts", "known_hosts2"].map(|name| home.join(".ssh").join(name));
    assert_eq!(meaning.user_known_hosts, known);
    assert!(!meaning.checks_address && !meaning.algorithms.ciphers.is_empty());
}

#[test]
fn the_first_value_holds_and_keys_add_up() {
    let config = "Port 2200\nIdentityFile ~/a\nHost web\n  Port 1\n  User first\n  IdentityFile ~/b\n\
                  Host *\n  User second\n  IdentityFile ~/a\n  CertificateFile c\n";
    let desk = Desk::new(config).with("etc/ssh_config", "Port 3\nIdentityFile ~/a\n");
    let meaning = desk.read("web").unwrap();
    assert_eq!((meaning.port, meaning.user.as_str()), (2200, "first"));
    let home = desk.folder.path().join("home");
    // The machine's file may name it again.
    assert_eq!(meaning.identity_files, ["a", "b", "a"].map(|name| home.join(name)));
    assert_eq!(meaning.certificate_files, [Path::new("c")]);
    let meaning = desk.read("you@other:5").unwrap();
    assert_eq!((meaning.port, meaning.user.as_str()), (5, "you"));
}

#[test]
fn a_block_applies_where_a_pattern_matches_and_none_forbids() {
    for (patterns, host, want) in [
        ("web", "web", true),
        ("web", "web2", false),
        ("a web b", "web", true),
        ("*.example !bad.example", "good.example", true),
        ("*.example !bad.example", "bad.example", false),
        ("!bad.example *.example", "bad.example", false),
        ("!bad.example", "good.example", false),
        ("web?", "web1", true),
        ("WEB", "web", false),
        ("{web,db}", "web", false),
        ("\"web\"", "web", true),
        ("web # db", "db", false),
    ] {
        let desk = Desk::new(&format!("Host {patterns}\nUser found"));
        assert_eq!(desk.read(host).unwrap().user == "found", want, "{patterns}: {host}");
    }
}

#[test]
fn what_is_not_certain_ends_it_even_where_it_does_not_apply() {
    for text in
        ["Match all", "Match host x", "Nonsense 1", "Port x", "Tag a", "Host \"\"", "User \"a"]
    {
        let desk = Desk::new(&format!("# first\nHost other\n\n{text}\n"));
        assert_eq!(desk.refused("web"), ("config".to_owned(), 4), "{text}");
    }
}

#[test]
fn a_refusal_names_file_line_and_reason() {
    let error = Desk::new("Host a\nMatch exec true\n").read("web").unwrap_err().to_string();
    assert!(error.ends_with(
        "config, line 2: the keyword match is not known, and there is no ssh on this machine to ask"
    ), "{error}");
}

#[test]
fn a_file_that_others_may_write_is_refused() {
    let desk = Desk::new("User a").with("home/.ssh/more", "User b");
    let config = desk.folder.path().join("home/.ssh/config");
    fs::set_permissions(&config, fs::Permissions::from_mode(0o664)).unwrap();
    assert_eq!(desk.refused("web"), ("config".to_owned(), 0));
    // The machine's own is whose it is, but not what it includes.
    let desk = Desk::new("").with("etc/ssh_config", "Include more").with("etc/more", "User b");
    let system = desk.folder.path().join("etc/ssh_config");
    fs::set_permissions(&system, fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(desk.read("web").unwrap().user, "b");
    let more = desk.folder.path().join("etc/more");
    fs::set_permissions(&more, fs::Permissions::from_mode(0o646)).unwrap();
    assert_eq!(desk.refused("web"), ("more".to_owned(), 0));
}

#[test]
fn files_are_included_in_order_where_they_apply() {
    let desk = Desk::new(
        "Include conf.d/*.conf none/* missing\nHost web\nUser late\nInclude inner\nPort 9",
    )
    .with("home/.ssh/conf.d/b.conf", "Host web\nIdentityFile b\n")
    .with("home/.ssh/conf.d/a.conf", "IdentityFile a\nHost other\nUser wrong\n")
    .with("home/.ssh/conf.d/.hidden.conf", "Nonsense")
    .with("home/.ssh/conf.d/c.conf~", "Nonsense")
    .with("home/.ssh/inner", "Host *\nConnectTimeout 5\nHost none");
    let meaning = desk.read("web").unwrap();
    assert_eq!(meaning.identity_files, ["a", "b"].map(PathBuf::from));
    assert_eq!((meaning.user.as_str(), meaning.port), ("late", 9));
    assert_eq!(meaning.connect_timeout, Some(std::time::Duration::from_secs(5)));
    // Included where nothing applies, nothing of it does, whatever its own blocks say.
    let meaning = desk.read("elsewhere").unwrap();
    assert_eq!((meaning.user.as_str(), meaning.port, meaning.connect_timeout), ("me", 22, None));
}

#[test]
fn what_is_included_is_certain_or_refused() {
    for include in ["conf.*/x", "[ab]", "{a,b}", "~other/x", "${HOME}/x", "\"\"", "config", "a/"] {
        let desk = Desk::new(&format!("Include {include}"));
        assert_eq!(desk.refused("web").0, "config", "{include}");
    }
    let desk = Desk::new("").with("etc/ssh_config", "Include ~/x");
    assert_eq!(desk.refused("web"), ("ssh_config".to_owned(), 1));
    let desk = Desk::new("User a\nInclude more").with("home/.ssh/more", "\nMatch all");
    assert_eq!(desk.refused("web"), ("more".to_owned(), 2));
}

#[test]
fn a_named_file_is_the_only_one_and_has_to_be_there() {
    let desk = Desk::new("User a").with("named", "Port 7").with("etc/ssh_config", "User b");
    let sources = Sources { system: desk.folder.path().join("etc"), ..Sources::default() };
    let read = |config: &Path| read_without_ssh(&parse("web"), Some(config), &sources, &account());
    let meaning = read(&desk.folder.path().join("named")).unwrap();
    assert_eq!((meaning.user.as_str(), meaning.port), ("me", 7));
    assert!(matches!(read(Path::new("/nowhere")), Err(Outside::Line { .. })));
    assert_eq!(read(Path::new("none")).unwrap().port, 22);
}

#[test]
fn host_names_are_what_ssh_makes_of_them() {
    for (name, want) in [
        ("Web.Example", Some("web.example")),
        ("%h.example", Some("given.example")),
        ("%%h", None),
        ("%n", None),
        ("10.0.0.1", Some("10.0.0.1")),
        ("FE80::00A", Some("fe80::a")),
        ("::1", Some("::1")),
        ("::ffff:10.0.0.1", None),
        ("::10.0.0.1", None),
        ("fe80::1%%eth0", None),
        ("10.1", None),
        ("010.0.0.1", None),
        ("0x7f.1", None),
        ("167772161", None),
        ("a;b", None),
    ] {
        let read = Desk::new(&format!("HostName {name}")).read("given").ok();
        assert_eq!(read.map(|meaning| meaning.host).as_deref(), want, "{name}");
    }
    assert!(Desk::new("User %u").read("web").is_err());
    assert!(Desk::new("AddressFamily inet").read("10.0.0.1").is_err());
}

#[test]
fn sockets_and_known_hosts_have_their_tokens_replaced() {
    let config = "ControlPath ~/m-%r@%h:%p\nIdentityAgent %d/agent\nUserKnownHostsFile ~/k_%n /%%";
    let desk = Desk::new(config);
    let meaning = desk.read("web").unwrap();
    let home = desk.folder.path().join("home");
    assert_eq!(meaning.control_path, Some(home.join("m-me@web:22")));
    assert_eq!(meaning.agent_socket, Some(home.join("agent")));
    assert_eq!(meaning.user_known_hosts, [home.join("k_web"), "/%".into()]);
    for (text, is_understood) in [
        ("ControlPath /m-%C", true),
        ("ControlPath /m-%C-%x", false),
        ("ControlPath none", true),
        ("IdentityAgent none", true),
        ("IdentityAgent $OTHER", true),
        ("IdentityAgent ${OTHER}", false),
        ("UserKnownHostsFile %C", false),
    ] {
        assert_eq!(Desk::new(text).read("web").is_ok(), is_understood, "{text}");
    }
}

/// Hosts on the way, the nearest to us first.
fn hops(meaning: &Meaning) -> Vec<String> {
    let mut hops = match &meaning.route {
        Route::Jump(jump) => hops(jump),
        Route::Direct => Vec::new(),
        Route::Command(command) => vec![format!("`{command}`")],
    };
    hops.push(format!("{}@{}:{}", meaning.user, meaning.host, meaning.port));
    hops
}

#[test]
fn jump_hosts_are_looked_up_in_turn() {
    let config = "Host web\nUser deploy\nProxyJump you@b,c:23\nHost b\nHostName b.example\n\
                  ProxyJump d\nHost c\nProxyJump never\nUser see\nHost d\nProxyCommand nc %h %p\n\
                  Host loop\nProxyJump loop\nHost a*\nProxyJump a1,a2,a3\nHost none\n\
                  ProxyJump none\nProxyCommand none\nProxyJump never\nHost either\nProxyJump none\n\
                  ProxyCommand x\n";
    let desk = Desk::new(config);
    // The chain that is spelled out holds for c, and what b needs comes before it.
    let way = ["`nc d 22`", "me@d:22", "you@b.example:22", "see@c:23", "deploy@web:22"];
    assert_eq!(hops(&desk.read("web").unwrap()), way);
    assert_eq!(hops(&desk.read("none").unwrap()), ["me@none:22"]);
    assert_eq!(desk.refused("either").0, "config");
    assert!(matches!(desk.read("loop"), Err(Outside::Setting { .. })));
    let endless = Desk::new("Host a\nProxyJump b\nHost b\nProxyJump a");
    assert!(matches!(endless.read("a"), Err(Outside::TooManyJumps { limit: 8 })));
}

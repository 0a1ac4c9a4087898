//! What an SSH configuration means, beside what the installed `ssh` says it means.
//!
//! The controller's own reader may say that it is not sure. What it must not do is say something
//! else than `ssh`, or understand what `ssh` refuses.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "ssh_config/made_up.rs"]
mod made_up;

use controller::{
    target::{SshTarget, Target},
    transport::meaning::{self, Account, Defaults, Meaning, Outside, Route, Sources},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The reader without `ssh`, and the way through `ssh -G`.
struct Both {
    folder: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    account: Account,
    sources: Sources,
}

/// How the two compare.
#[derive(Debug, PartialEq, Eq)]
enum Compared {
    /// Both say the same.
    Same(Box<Meaning>),
    /// The reader is not sure.
    Unsure(Outside),
    /// They differ: how.
    Different(String),
}

impl Both {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let account = runtime.block_on(Account::of_this_process()).unwrap();
        let host = target("host");
        let usual = runtime.block_on(meaning::settings(&host, Some(Path::new("/dev/null"))));
        let usual = usual.unwrap().expect("ssh is on this machine");
        // Which algorithms are usual is up to the version of the ssh that is asked.
        let sources = Sources { defaults: Defaults::said(&usual), ..Sources::default() };
        Self { folder: tempfile::tempdir().unwrap(), runtime, account, sources }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.folder.path().join(name);
        fs::write(&file, text).unwrap();
        file
    }

    fn compare(&self, config: &str, host: &str) -> Compared {
        let file = self.write("config", config);
        let (target, file) = (target(host), Some(file.as_path()));
        let ours = meaning::read_without_ssh(&target, file, &self.sources, &self.account);
        let theirs = self.runtime.block_on(meaning::of(&target, file));
        match (ours, theirs) {
            (Err(unsure), _) => Compared::Unsure(unsure),
            (Ok(mut ours), Ok(mut theirs)) => {
                if config.contains("%C") {
                    // A hash that is only needed where there is an ssh.
                    forget_control_paths(&mut ours);
                    forget_control_paths(&mut theirs);
                }
                if ours == theirs {
                    return Compared::Same(Box::new(ours));
                }
                let (ours, theirs) = (format!("{ours:#?}"), format!("{theirs:#?}"));
                let only = |one: &str, other: &str| {
                    let lines =
                        one.lines().filter(|line| other.lines().all(|other| other != *line));
                    lines.collect::<Vec<&str>>().join("\n")
                };
                let (only_ours, only_theirs) = (only(&ours, &theirs), only(&theirs, &ours));
                Compared::Different(format!("ssh:\n{only_theirs}\nthe reader:\n{only_ours}"))
            }
            (Ok(ours), Err(refused)) => {
                Compared::Different(format!("ssh: {refused}\nthe reader: {:?}", login(&ours)))
            }
        }
    }

    fn same(&self, config: &str, host: &str) -> Meaning {
        match self.compare(config, host) {
            Compared::Same(meaning) => *meaning,
            Compared::Unsure(why) => panic!("{why}: {host} with\n{config}"),
            Compared::Different(how) => panic!("{how}\n{host} with\n{config}"),
        }
    }
}

fn forget_control_paths(meaning: &mut Meaning) {
    meaning.control_path = None;
    if let Route::Jump(jump) = &mut meaning.route {
        forget_control_paths(jump);
    }
}

fn target(text: &str) -> SshTarget {
    match format!("ssh:{text}").parse() {
        Ok(Target::Ssh(target)) => target,
        other => panic!("{text}: {other:?}"),
    }
}

/// User, host and port.
fn login(meaning: &Meaning) -> (&str, &str, u16) {
    (&meaning.user, &meaning.host, meaning.port)
}

#[test]
fn equals_signs_and_tabs_separate_as_in_ssh() {
    let both = Both::new();
    let config =
        "Host=web\n\tHostName\treal.example\n\tPort = 2200\n User=\"me\"\nHOST = other\nPort 1\n";
    assert_eq!(login(&both.same(config, "web")), ("me", "real.example", 2200));
}

#[test]
fn an_option_before_the_first_host_holds_for_all() {
    let both = Both::new();
    let config = "User global\nPort 7\nHost web\nUser late\nPort 8\n";
    assert_eq!(login(&both.same(config, "web")), ("global", "web", 7));
}

#[test]
fn a_match_that_does_not_apply_redirects_nobody() {
    let both = Both::new();
    let config = "Host prod\nUser deploy\nMatch user nobody host zzz\nHostName evil.example\n";
    assert!(matches!(
        both.compare(config, "prod"),
        Compared::Unsure(Outside::Line { line: 3, .. })
    ));
    let file = both.write("config", config);
    let asked = both.runtime.block_on(meaning::of(&target("prod"), Some(&file))).unwrap();
    assert_eq!(login(&asked), ("deploy", "prod", 22));
}

#[test]
fn a_match_that_applies_is_asked_of_ssh() {
    let both = Both::new();
    for (condition, port) in
        [("all", 7), ("host web", 7), ("host other", 22), ("exec true", 7), ("exec false", 22)]
    {
        let config = format!("Match {condition}\nPort 7\n");
        assert!(matches!(both.compare(&config, "web"), Compared::Unsure(Outside::Line { .. })));
        let file = both.write("config", &config);
        let asked = both.runtime.block_on(meaning::of(&target("web"), Some(&file))).unwrap();
        assert_eq!(asked.port, port, "{condition}");
    }
}

#[test]
fn an_included_file_is_read_where_it_stands() {
    let both = Both::new();
    let first = both.write("first", "Host other\nPort 1\n");
    let second = both.write("second", "Port 2\nUser second\n");
    let folder = first.parent().unwrap().display();
    let config = format!(
        "Include {folder}/f*t {}\nUser late\nHost x\nInclude {folder}/first",
        second.display()
    );
    assert_eq!(login(&both.same(&config, "web")), ("second", "web", 2));
}

#[test]
fn quoted_hosts_and_tokens_in_host_names_are_understood() {
    let both = Both::new();
    let config = "Host \"web\"\nHostName %h.Example\nHost other\nHostName a%%b\n";
    assert_eq!(login(&both.same(config, "web")).1, "web.example");
}

#[test]
fn a_comment_behind_a_value_is_none_of_it() {
    let both = Both::new();
    assert_eq!(both.same("User u # real\nPort 7 #8\nHostName a#b", "web").user, "u");
}

#[test]
fn braces_and_brackets_are_no_patterns() {
    let both = Both::new();
    for pattern in ["{web,db}", "[w]eb", "w[e-f]b"] {
        assert_eq!(both.same(&format!("Host {pattern}\nPort 7\n"), "web").port, 22, "{pattern}");
    }
}

#[test]
fn a_proxy_command_has_its_tokens_replaced() {
    let both = Both::new();
    let config =
        "HostName r.example\nUser u\nProxyCommand nc -X 5 '%h' %p %r@%n %% # not a comment\n";
    let want = "nc -X 5 'r.example' 22 u@web % # not a comment".to_owned();
    assert_eq!(both.same(config, "web").route, Route::Command(want));
}

#[test]
fn canonical_host_names_are_left_to_ssh() {
    let both = Both::new();
    let config = "CanonicalizeHostname yes\nCanonicalDomains localhost\n";
    assert!(matches!(both.compare(config, "web"), Compared::Unsure(_)));
    let file = both.write("config", config);
    assert!(both.runtime.block_on(meaning::of(&target("web"), Some(&file))).is_err());
}

#[test]
fn no_configuration_made_up_is_understood_differently() {
    const CONFIGURATIONS: usize = 400;
    let seed = std::env::var("SYSMCP_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(20_260_801);
    println!("SYSMCP_SEED={seed}");
    let both = Both::new();
    both.write(
        "included",
        "Host web\n  IdentityFile /included\nHost *.example\n  Compression yes\n",
    );
    let mut chance = made_up::Chance::new(seed);
    let (mut plain, mut plain_answered, mut odd, mut odd_answered) = (0, 0, 0, 0);
    let (mut jumps, mut commands) = (0, 0);
    let (mut reasons, mut different): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for _ in 0..CONFIGURATIONS {
        let made_up = made_up::configuration(&mut chance, both.folder.path());
        let compared = both.compare(&made_up.text, made_up.host);
        let is_answered = matches!(compared, Compared::Same(_));
        if made_up.is_odd {
            odd += 1;
            odd_answered += usize::from(is_answered);
        } else {
            plain += 1;
            plain_answered += usize::from(is_answered);
        }
        match compared {
            Compared::Same(meaning) => {
                jumps += usize::from(matches!(meaning.route, Route::Jump(_)));
                commands += usize::from(matches!(meaning.route, Route::Command(_)));
            }
            Compared::Unsure(why) if made_up.is_odd => drop(why),
            Compared::Unsure(why) => reasons.push(why.to_string()),
            Compared::Different(how) => {
                different.push(format!("{how}\n{} with\n{}", made_up.host, made_up.text));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n----\n"));
    println!(
        "{plain_answered} of {plain} usual ones are understood, {odd_answered} of {odd} odd ones"
    );
    println!("{jumps} of them go through other hosts, {commands} through a command");
    println!("not understood: {reasons:#?}");
    assert!(CONFIGURATIONS >= 200 && plain > 100 && odd > 50);
    assert!(plain_answered * 2 > plain, "{plain_answered} of {plain}");
    assert!(jumps > 50 && commands > 10, "{jumps}, {commands}");
}

/// What `ssh` itself says about a way: the commands by which it connects to jump hosts, the last
/// one first, and the address that it connects to in the end.
fn way_of_ssh(config: &Path, host: &str) -> (Vec<String>, String) {
    let mut command = Command::new("timeout");
    command.args(["20", "ssh", "-v", "-oBatchMode=yes", "-F"]).arg(config).args([host, "true"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let said_after = |start: &str| {
        let lines = said.lines().filter_map(|line| line.strip_prefix(start));
        lines.map(|line| line.trim().to_owned()).collect::<Vec<String>>()
    };
    let connecting = said_after("debug1: Connecting to ");
    assert_eq!(connecting.len(), 1, "{said}");
    (said_after("debug1: Executing proxy command: exec "), connecting.concat())
}

#[test]
fn jump_hosts_are_those_that_ssh_goes_through() {
    // Addresses of this machine with nothing behind the ports.
    let config = "Host one\nHostName 127.9.9.1\nPort 1\nUser first\n\
                  Host two\nHostName 127.9.9.2\nPort 2\nProxyJump one\n\
                  Host three\nHostName 127.9.9.3\nProxyJump me@two:22\n\
                  Host chain\nHostName 127.9.9.4\nProxyJump you@one:3,two,ssh://it@three:4\n\
                  Host none\nHostName 127.9.9.5\nPort 5\nProxyJump none\nProxyCommand none\nProxyJump one\n\
                  Host command\nHostName 127.9.9.6\nProxyCommand none\nProxyJump one\n\
                  Host address\nHostName 127.9.9.7\nProxyJump u@[127.9.9.8]:9\n";
    let both = Both::new();
    let file = both.write("config", config);
    for (host, jumps) in [
        ("one", 0),
        ("two", 1),
        ("three", 2),
        ("chain", 3),
        ("none", 0),
        ("command", 0),
        ("address", 1),
    ] {
        let meaning = both.same(config, host);
        let (commands, connecting) = way_of_ssh(&file, host);
        assert_eq!(commands.len(), jumps, "{host}: {commands:?}");
        let mut here = &meaning;
        for command in &commands {
            let Route::Jump(jump) = &here.route else { panic!("{host}: {command}, {meaning:#?}") };
            // This is what the jump host is asked to connect to.
            let towards = format!(" -W '[{}]:{}' ", here.host, here.port);
            assert!(command.contains(&towards), "{host}: {command}, not {towards}");
            if let Some((_, user)) = command.split_once(" -l ") {
                assert_eq!(user.split_once(' ').unwrap().0, jump.user, "{command}");
            }
            if let Some((_, port)) = command.split_once(" -p ") {
                assert_eq!(port.split_once(' ').unwrap().0, jump.port.to_string(), "{command}");
            }
            here = jump;
        }
        assert_eq!(here.route, Route::Direct, "{host}");
        assert_eq!(connecting, format!("{0} [{0}] port {1}.", here.host, here.port), "{host}");
    }
}

#[test]
fn names_that_a_shell_could_misread_reach_no_command() {
    let both = Both::new();
    for name in
        ["a;id", "a$(id)", "a`id`", "a|id", "a'b", "'a b'", "-oProxyCommand=id", "a&b", "a>b"]
    {
        for setting in ["HostName", "User"] {
            let config = format!("{setting} \"{name}\"\nProxyCommand nc %h %p %r\n");
            let file = both.write("config", &config);
            // `$` and parentheses in a user's name are the shell's only in some places.
            let asked = both.runtime.block_on(meaning::of(&target("web"), Some(&file)));
            assert!(asked.is_err(), "{config}: {asked:?}");
            assert!(matches!(both.compare(&config, "web"), Compared::Unsure(_)), "{config}");
        }
        let config = format!("ProxyJump {name}\n");
        let file = both.write("config", &config);
        assert!(both.runtime.block_on(meaning::of(&target("web"), Some(&file))).is_err(), "{name}");
    }
}

//! Hosts whose key is not known, or has changed: what is refused, what is recorded, and whether the
//! command that the message gives does what it is for.

use super::{Ran, behind, call, clients, server, sysmcp, write_config};
use scenarios::sshd::{Sshd, user_name};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// Both, by what stands before the host.
const WAYS: [&str; 2] = ["russh", "openssh"];

/// Runs a command as a person would type it.
fn typed(line: &str) -> Output {
    let output = Command::new("sh").args(["-c", line]).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// The key's fingerprint, as a person compares it.
fn fingerprint(server: &Sshd) -> String {
    let output = typed(&format!("ssh-keygen -lf '{}'", server.file("host.pub").display()));
    let said = String::from_utf8(output.stdout).unwrap();
    said.split(' ').nth(1).unwrap().to_owned()
}

/// What the message says behind some words, up to the end of the command there.
fn command_behind<'r>(ran: &'r Ran, words: &str) -> &'r str {
    let (_, rest) = ran.said.split_once(words).unwrap_or_else(|| panic!("{words}: {ran:#?}"));
    let end = rest.find([';', '\n']).unwrap();
    rest.get(..end).unwrap()
}

/// A configuration with a file of known hosts of its own, which has some text, or is not there.
fn knows(server: &Sshd, text: Option<&str>, lines: &[&str]) -> (PathBuf, PathBuf) {
    let known = server.file("known_of_mine");
    match text {
        Some(text) => fs::write(&known, text).unwrap(),
        None => _ = fs::remove_file(&known),
    }
    (write_config(server, "config_of_mine", &known, lines), known)
}

/// Whether a plain ssh accepts the host, with strict checking.
fn is_known_to_ssh(server: &Sshd, config: &Path) -> bool {
    let mut ssh = server.ssh_by(config);
    ssh.args(["-oStrictHostKeyChecking=yes", "true"]).output().unwrap().status.success()
}

#[test]
fn an_unknown_host_is_refused_with_its_fingerprint_and_what_to_do() {
    let server = server(&[]);
    for way in ["russh", "ssh", "openssh"] {
        let (config, known) = knows(&server, None, &[]);
        let ran = call(&sysmcp(&server, way, &config));
        let host = format!("the host key of [127.0.0.1]:{} is not known", server.port);
        ran.assert_failed(12).assert_said(&host).assert_said("--accept-new");
        if way != "openssh" {
            ran.assert_said(&format!(" (it shows {})", fingerprint(&server)));
        }
        assert!(!known.exists());
        // A person who has compared it would type yes.
        let by_hand = command_behind(&ran, "logging in once: ");
        typed(&format!("{by_hand} -oStrictHostKeyChecking=accept-new true"));
        call(&sysmcp(&server, way, &config)).assert_answered();
    }
}

#[test]
fn a_new_host_is_recorded_so_that_ssh_knows_it_too() {
    let server = server(&[]);
    for way in WAYS {
        for (line, is_hashed) in [("HashKnownHosts no", false), ("HashKnownHosts yes", true)] {
            let (config, known) = knows(&server, None, &[line]);
            let accepting = sysmcp(&server, way, &config).with(&["--accept-new"]);
            call(&accepting).assert_answered();
            let text = fs::read_to_string(&known).unwrap();
            assert_eq!(text.starts_with("|1|"), is_hashed, "{way}: {text}");
            assert_eq!(text.contains("127.0.0.1"), !is_hashed, "{way}: {text}");
            assert_eq!(text.lines().count(), 1, "{way}: {text}");
            assert!(is_known_to_ssh(&server, &config), "{way}: {text}");
            // It is asked for once, and recorded once.
            for way in WAYS {
                call(&sysmcp(&server, way, &config).with(&["--accept-new"])).assert_answered();
                call(&sysmcp(&server, way, &config)).assert_answered();
            }
            assert_eq!(fs::read_to_string(&known).unwrap(), text);
        }
    }
}

#[test]
fn the_configuration_can_accept_new_hosts_as_well() {
    let server = server(&[]);
    for way in WAYS {
        let (config, known) = knows(&server, None, &["StrictHostKeyChecking accept-new"]);
        call(&sysmcp(&server, way, &config)).assert_answered();
        assert!(known.exists() && is_known_to_ssh(&server, &config));
    }
}

/// A line for the server with the key of somebody else.
fn with_another_key(server: &Sshd) -> String {
    let key = fs::read_to_string(server.file("id.pub")).unwrap();
    format!("# mine\nother {key}[127.0.0.1]:{} {key}", server.port)
}

#[test]
fn a_changed_key_is_refused_and_the_printed_command_forgets_the_old_one() {
    let server = server(&[]);
    let wrong = with_another_key(&server);
    for way in WAYS {
        let (config, known) = knows(&server, Some(&wrong), &[]);
        for arguments in [&[][..], &["--accept-new"]] {
            let ran = call(&sysmcp(&server, way, &config).with(arguments));
            let host = format!("the host key of [127.0.0.1]:{} has changed", server.port);
            ran.assert_failed(12).assert_said(&host);
            assert_eq!(fs::read_to_string(&known).unwrap(), wrong, "{way} {arguments:?}");
        }
        let ran = call(&sysmcp(&server, way, &config));
        typed(command_behind(&ran, "forget the old one: "));
        let left = fs::read_to_string(&known).unwrap();
        assert!(left.contains("other ") && !left.contains("[127.0.0.1]"), "{way}: {left}");
        call(&sysmcp(&server, way, &config)).assert_failed(12).assert_said("is not known");
        call(&sysmcp(&server, way, &config).with(&["--accept-new"])).assert_answered();
        call(&sysmcp(&server, way, &config)).assert_answered();
    }
}

#[test]
fn the_command_against_a_changed_key_is_for_the_name_and_the_file_that_have_it() {
    let server = server(&[]);
    let key = fs::read_to_string(server.file("id.pub")).unwrap();
    let global = server.file("known_to_all");
    for way in WAYS {
        for (lines, name) in [
            (String::new(), format!("[127.0.0.1]:{}", server.port)),
            ("  HostKeyAlias cluster\n".to_owned(), "cluster".to_owned()),
        ] {
            fs::write(&global, format!("{name} {key}")).unwrap();
            let (config, _) = knows(&server, None, &[]);
            let plain = fs::read_to_string(&config).unwrap();
            let text = format!(
                "Host web\n  HostName 127.0.0.1\n  Port {}\n  User {}\n{lines}  \
                 GlobalKnownHostsFile {}\n{plain}",
                server.port,
                user_name(),
                global.display()
            );
            fs::write(&config, text).unwrap();
            let ran = call(&sysmcp(&server, way, &config).at(&format!("{way}:web")));
            ran.assert_failed(12).assert_said(&format!("the host key of {name} has changed"));
            typed(command_behind(&ran, "forget the old one: "));
            assert_eq!(fs::read_to_string(&global).unwrap(), "", "{way} {name}");
        }
    }
}

#[test]
fn a_jump_host_that_is_not_known_is_the_one_that_is_named() {
    let (jump, last) = (server(&[]), server(&[]));
    let nothing = last.file("nothing_known");
    let (jump_known, last_known) = (jump.file("known_hosts"), last.file("known_hosts"));
    for way in WAYS {
        let at_last = |config: &Path| sysmcp(&last, way, config).at(&format!("{way}:last"));
        let config = behind(&jump, &jump_known, &last, &last_known);
        call(&at_last(&config)).assert_answered();
        let config = behind(&jump, &nothing, &last, &last_known);
        let before = clients(&last).len();
        let ran = call(&at_last(&config));
        ran.assert_failed(12).assert_said("is not known");
        if way == "russh" {
            ran.assert_said(&format!("the host key of [127.0.0.1]:{} is", jump.port));
            ran.assert_said(&fingerprint(&jump));
        } else {
            ran.assert_said("the host key of a host on the way to last is");
        }
        assert_eq!(clients(&last).len(), before, "it was connected to over an unknown host");
        let config = behind(&jump, &jump_known, &last, &nothing);
        let ran = call(&at_last(&config));
        ran.assert_failed(12).assert_said("is not known");
        if way == "russh" {
            ran.assert_said(&format!("the host key of [127.0.0.1]:{} is", last.port));
            ran.assert_said(&fingerprint(&last));
        } else {
            ran.assert_said("the host key of last is");
        }
        assert!(!nothing.exists());
    }
}

#[test]
fn new_hosts_are_recorded_on_the_way_too() {
    let (jump, last) = (server(&[]), server(&[]));
    let (jump_known, last_known) = (jump.file("new_known"), last.file("new_known"));
    let config = behind(&jump, &jump_known, &last, &last_known);
    for way in WAYS {
        for known in [&jump_known, &last_known] {
            let _ = fs::remove_file(known);
        }
        let accepting =
            sysmcp(&last, way, &config).at(&format!("{way}:last")).with(&["--accept-new"]);
        let ran = call(&accepting);
        if way == "openssh" {
            // What is said to an ssh is not passed on to the one that it starts for a jump host.
            ran.assert_failed(12).assert_said("the host key of a host on the way to last is");
            assert!(!jump_known.exists() && !last_known.exists());
            continue;
        }
        ran.assert_answered();
        for (known, server) in [(&jump_known, &jump), (&last_known, &last)] {
            let text = fs::read_to_string(known).unwrap();
            assert!(text.starts_with(&format!("[127.0.0.1]:{} ", server.port)), "{text}");
        }
        call(&sysmcp(&last, "openssh", &config).at("openssh:last")).assert_answered();
    }
}

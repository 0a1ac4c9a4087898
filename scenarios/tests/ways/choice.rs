//! What of the configuration decides.

use super::{OWN, Ran, WITH_OWN, call, clients, config, makes, server, sysmcp, write_config};
use scenarios::{not_run::not_here, sshd::user_name};
use std::{fs, net::TcpListener};

#[test]
fn a_plain_configuration_is_left_to_our_own_ssh() {
    let server = server(&[]);
    let config = config(&server, &[]);
    let ran = call(&sysmcp(&server, "ssh", &config));
    ran.assert_answered().assert_said(WITH_OWN);
    assert_eq!(clients(&server), [OWN]);
}

#[test]
fn each_way_can_be_insisted_on() {
    let server = server(&[]);
    let config = config(&server, &[]);
    call(&sysmcp(&server, "russh", &config)).assert_answered().assert_said(WITH_OWN);
    call(&sysmcp(&server, "openssh", &config)).assert_answered().assert_said(" with your ssh\n");
    assert_eq!(makes(&clients(&server)), ["own", "openssh"]);
}

/// Settings that are beyond our own SSH, and how `ssh -G` says each.
const BEYOND: &[(&str, &str)] = &[
    ("KnownHostsCommand /bin/true", "knownhostscommand /bin/true"),
    ("VerifyHostKeyDNS yes", "verifyhostkeydns true"),
    ("VerifyHostKeyDNS ask", "verifyhostkeydns ask"),
    ("StrictHostKeyChecking no", "stricthostkeychecking false"),
    ("CanonicalizeHostname yes", "canonicalizehostname true"),
    ("PKCS11Provider /nowhere.so", "pkcs11provider /nowhere.so"),
    ("BindAddress 127.0.0.1", "bindaddress 127.0.0.1"),
    ("BindInterface lo", "bindinterface lo"),
    ("NoHostAuthenticationForLocalhost yes", "nohostauthenticationforlocalhost yes"),
    ("RevokedHostKeys /dev/null", "revokedhostkeys /dev/null"),
    ("SetEnv COLOUR=red", "setenv COLOUR=red"),
    ("SendEnv COLOUR", "sendenv COLOUR"),
    ("ConnectionAttempts 2", "connectionattempts 2"),
];

/// Asserts that nobody has connected beyond what there was.
#[track_caller]
fn assert_nobody_came(ran: &Ran, before: usize, after: usize) {
    assert_eq!(before, after, "somebody connected: {}", ran.said);
}

#[test]
fn a_setting_that_is_beyond_our_own_ssh_is_left_to_the_users() {
    let server = server(&[]);
    for (line, said) in BEYOND {
        let config = config(&server, &[line]);
        let before = clients(&server).len();
        let ran = call(&sysmcp(&server, "ssh", &config));
        let why = format!(" with your ssh: your SSH configuration says `{said}`\n");
        ran.assert_answered().assert_said(&why);
        let came = clients(&server).split_off(before);
        assert_eq!(makes(&came), ["openssh"], "{line}");
    }
}

#[test]
fn a_setting_that_is_beyond_our_own_ssh_is_refused_where_that_was_asked_for() {
    let server = server(&[]);
    let connections = || server.log().matches("Connection from ").count();
    for (line, said) in BEYOND {
        let config = config(&server, &[line]);
        let before = connections();
        let ran = call(&sysmcp(&server, "russh", &config));
        let why = format!(
            "sysmcp's own SSH cannot do that: your SSH configuration says `{said}`. Write ssh: or \
             openssh: instead of russh:"
        );
        ran.assert_failed(11).assert_said(&why);
        // The one that looked whether the server is up may be logged late.
        assert_nobody_came(&ran, before.max(1), connections().max(1));
    }
    assert!(clients(&server).is_empty(), "{}", server.log());
}

#[test]
fn settings_that_are_not_meant_for_us_do_not_matter() {
    let server = server(&[]);
    let mark = server.file("local_command");
    let local = format!("LocalCommand touch {}", mark.display());
    let lines = [
        "Compression yes",
        "ForwardAgent yes",
        "ForwardX11 yes",
        "LocalForward 1 127.0.0.1:1",
        "ExitOnForwardFailure yes",
        "RemoteCommand exit 9",
        "RequestTTY force",
        "PermitLocalCommand yes",
        &local,
        "AddKeysToAgent yes",
        "VisualHostKey yes",
        "LogLevel DEBUG3",
        "ControlMaster auto",
        "UpdateHostKeys yes",
        "EscapeChar none",
        "SendEnv LANG LC_*",
    ];
    let ran = call(&sysmcp(&server, "ssh", &config(&server, &lines)));
    ran.assert_answered().assert_said(WITH_OWN);
    assert_eq!(clients(&server), [OWN]);
    assert!(!mark.exists());
}

#[test]
fn what_only_ssh_can_tell_is_asked_of_it() {
    let server = server(&[]);
    let config = write_config(&server, "config", &server.file("known_hosts"), &[]);
    let plain = fs::read_to_string(&config).unwrap();
    let included = server.file("included");
    fs::write(&included, "ServerAliveInterval 7\n").unwrap();
    let text = format!(
        "Match originalhost web exec \"test %n = web\"\n  HostName 127.0.0.1\n  Port {}\n  User {}\n\
         Include {}\n{plain}",
        server.port,
        user_name(),
        included.display()
    );
    fs::write(&config, text).unwrap();
    let ran = call(&sysmcp(&server, "ssh", &config).at("ssh:web"));
    ran.assert_answered().assert_said(WITH_OWN);
    assert_eq!(clients(&server), [OWN]);
}

#[test]
fn a_configuration_that_ssh_refuses_is_refused_with_the_words_of_ssh() {
    let server = server(&[]);
    let config = config(&server, &["Colour red"]);
    let words = format!("{}: line 2: Bad configuration option: colour", config.display());
    for way in ["ssh", "russh", "openssh"] {
        let ran = call(&sysmcp(&server, way, &config));
        ran.assert_failed(11).assert_said(&words);
        assert!(!ran.said.contains("Write ssh:"), "that would not help: {}", ran.said);
    }
    assert!(clients(&server).is_empty(), "{}", server.log());
}

#[test]
fn a_host_is_reached_by_version_6() {
    if TcpListener::bind(("::1", 0)).is_err() {
        not_here("a host by its address of version 6", "an address ::1");
        return;
    }
    let server = server(&["ListenAddress ::1"]);
    let known = server.file("known_v6");
    let key = fs::read_to_string(server.file("host.pub")).unwrap();
    fs::write(&known, format!("[::1]:{} {key}", server.port)).unwrap();
    let config = write_config(&server, "config", &known, &[]);
    for (way, make) in [("russh", "own"), ("ssh", "own"), ("openssh", "openssh")] {
        let target = format!("{way}:{}@[::1]:{}", user_name(), server.port);
        let before = clients(&server).len();
        call(&sysmcp(&server, way, &config).at(&target)).assert_answered();
        assert_eq!(makes(&clients(&server).split_off(before)), [make]);
        // It is known by this name and by no other.
        let unknown = write_config(&server, "other", &server.file("known_hosts"), &[]);
        let ran = call(&sysmcp(&server, way, &unknown).at(&target));
        ran.assert_failed(12).assert_said(&format!("[::1]:{}", server.port));
    }
}

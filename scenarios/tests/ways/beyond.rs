//! What a server wants and our own SSH does not have: the user's `ssh` is tried then.

use super::{Ran, WITH_OWN, behind, call, clients, config, makes, server, sysmcp};

/// Asserts that our own SSH was told first, and then why it was not the one.
#[track_caller]
fn assert_left_to_users(ran: &Ran, why: &str) {
    let at = |words: &str| {
        let found = ran.said.find(words);
        found.unwrap_or_else(|| panic!("{words:?} was not said: {}", ran.said))
    };
    assert!(at(WITH_OWN) < at(&format!(" with your ssh: {why}")), "{}", ran.said);
}

/// What a server is limited to, what the client has to allow for it, and which kind of algorithm is
/// then missing here, with what the server offers of it.
struct Missing {
    server: &'static [&'static str],
    client: &'static [&'static str],
    kind: &'static str,
    offered: &'static str,
    ours: &'static str,
}

const MISSING: &[Missing] = &[
    Missing {
        server: &["KexAlgorithms sntrup761x25519-sha512@openssh.com"],
        client: &[],
        kind: "key exchange",
        offered: "sntrup761x25519-sha512@openssh.com",
        ours: "curve25519-sha256",
    },
    Missing {
        server: &["Ciphers aes128-ctr", "MACs umac-128-etm@openssh.com"],
        client: &[],
        kind: "message authentication code",
        offered: "umac-128-etm@openssh.com",
        ours: "hmac-sha2-256-etm@openssh.com",
    },
    Missing {
        server: &["KexAlgorithms curve25519-sha256"],
        client: &["KexAlgorithms sntrup761x25519-sha512@openssh.com,diffie-hellman-group14-sha256"],
        kind: "key exchange",
        offered: "curve25519-sha256",
        ours: "diffie-hellman-group14-sha256",
    },
    Missing {
        server: &[],
        client: &["HostKeyAlgorithms sk-ssh-ed25519@openssh.com"],
        kind: "host key",
        offered: "ssh-ed25519",
        ours: "sk-ssh-ed25519@openssh.com",
    },
];

#[test]
fn a_server_with_algorithms_of_ssh_alone_is_left_to_ssh() {
    for Missing { server: lines, client, kind, offered, ours } in MISSING {
        let server = server(lines);
        let config = config(&server, client);
        let why = format!("the host offers no {kind} that we have and may use: it has {offered}");
        let insisted = call(&sysmcp(&server, "russh", &config));
        insisted.assert_failed(11).assert_said(&why).assert_said(ours);
        insisted.assert_said("Write ssh: or openssh: instead of russh:");
        let before = clients(&server).len();
        let ran = call(&sysmcp(&server, "ssh", &config));
        assert_left_to_users(&ran, &why);
        assert_eq!(makes(&clients(&server).split_off(before)), ["own", "openssh"]);
        // Where not even ssh has anything in common with it, that is to be seen by hand.
        if client.is_empty() {
            ran.assert_answered();
        } else {
            let by_hand = format!("it says more by hand: ssh -F {} ", config.display());
            ran.assert_failed(11).assert_said(&by_hand);
        }
    }
}

#[test]
fn a_jump_host_with_algorithms_of_ssh_alone_is_left_to_ssh() {
    let (jump, last) = (server(&["KexAlgorithms sntrup761x25519-sha512@openssh.com"]), server(&[]));
    let config = behind(&jump, &jump.file("known_hosts"), &last, &last.file("known_hosts"));
    let ran = call(&sysmcp(&last, "ssh", &config).at("ssh:last"));
    ran.assert_answered();
    let why = "jump host 127.0.0.1: the host offers no key exchange that we have and may use: ";
    assert_left_to_users(&ran, why);
    assert_eq!(makes(&clients(&jump)), ["own", "openssh"]);
    assert_eq!(makes(&clients(&last)), ["openssh"]);
}

#[test]
fn a_configuration_that_allows_only_algorithms_of_ssh_is_left_to_ssh() {
    let server = server(&[]);
    // The usual ciphers bring a code of their own, and none of the list is needed.
    let ciphers = "Ciphers aes128-ctr";
    for (line, kind, allowed) in [
        (
            "KexAlgorithms sntrup761x25519-sha512@openssh.com",
            "key exchange",
            "sntrup761x25519-sha512@openssh.com",
        ),
        ("MACs umac-64@openssh.com", "message authentication code", "umac-64@openssh.com"),
    ] {
        let config = config(&server, &[line, ciphers]);
        let why = format!("your SSH configuration allows no {kind} that we have: {allowed}");
        let insisted = call(&sysmcp(&server, "russh", &config));
        insisted.assert_failed(11).assert_said(&why);
        let before = clients(&server).len();
        let ran = call(&sysmcp(&server, "ssh", &config));
        assert_left_to_users(&ran, &why);
        assert_eq!(makes(&clients(&server).split_off(before)), ["openssh"], "{line}");
        ran.assert_answered();
    }
}

#[test]
fn a_server_that_wants_a_method_of_ssh_alone_is_left_to_ssh() {
    let gssapi = ["GSSAPIAuthentication yes", "PubkeyAuthentication no"];
    let host_based = ["HostbasedAuthentication yes", "PubkeyAuthentication no"];
    let methods = "PreferredAuthentications gssapi-with-mic,hostbased";
    let cases: [(&[&str], &[&str], &str); 6] = [
        (&gssapi, &["GSSAPIAuthentication yes"], "gssapi-with-mic"),
        (&gssapi, &["GSSAPIAuthentication yes", "BatchMode yes"], "gssapi-with-mic"),
        (
            &gssapi,
            &["GSSAPIAuthentication yes", "BatchMode yes", "IdentityFile none"],
            "gssapi-with-mic",
        ),
        (&gssapi, &["GSSAPIAuthentication yes", methods], "gssapi-with-mic"),
        (&host_based, &["HostbasedAuthentication yes"], "hostbased"),
        (&host_based, &["HostbasedAuthentication yes", methods], "hostbased"),
    ];
    for (lines, client, method) in cases {
        let server = server(lines);
        let config = config(&server, client);
        let ran = call(&sysmcp(&server, "ssh", &config));
        // Nobody here has a ticket, and no server trusts this machine.
        ran.assert_failed(13).assert_said("does not let ").assert_said(" in: ");
        assert_left_to_users(&ran, &format!("the host lets nobody in but by {method}"));
        assert_eq!(makes(&clients(&server)), ["own", "openssh"], "{client:?}");
        let insisted = call(&sysmcp(&server, "russh", &config));
        let why = format!("the host lets nobody in but by {method}. Write ssh: or openssh:");
        insisted.assert_failed(11).assert_said(&why);
    }
}

#[test]
fn a_method_of_ssh_alone_that_is_switched_off_is_no_reason_to_try_ssh() {
    let server = server(&["GSSAPIAuthentication yes", "PubkeyAuthentication no"]);
    let config = config(&server, &["GSSAPIAuthentication no"]);
    let ran = call(&sysmcp(&server, "ssh", &config));
    ran.assert_failed(13).assert_said("does not let ").assert_said(WITH_OWN);
    assert_eq!(makes(&clients(&server)), ["own"]);
}

#[test]
fn a_key_is_enough_where_a_method_of_ssh_alone_would_do_too() {
    let server = server(&["GSSAPIAuthentication yes"]);
    let config = config(&server, &["GSSAPIAuthentication yes"]);
    call(&sysmcp(&server, "ssh", &config)).assert_answered().assert_said(WITH_OWN);
    assert_eq!(makes(&clients(&server)), ["own"]);
}

//! Logins that ask nobody: keys in files and in an ssh-agent, certificates, a certificate of the host.

use super::{Key, assert_logs_in, at_each, sysmcp, type_of, without_a_terminal};
use scenarios::servers::{
    Draft, INSIDE, Kind, Settings,
    login::{Agent, Way, certify, from_agent, identity, make_key, write_config},
};
use std::fs;

/// What `ssh-keygen` is told of each type.
const TYPES: [(&[&str], Key); 3] =
    [(&["ed25519"], Key::Ed25519), (&["rsa", "-b", "3072"], Key::Rsa), (&["ecdsa"], Key::Ecdsa)];

#[test]
fn a_key_of_any_type_lets_in() {
    at_each("keys", &Kind::ALL, |kind| {
        let draft = Draft::new(kind).unwrap();
        for (number, (words, ..)) in TYPES.iter().enumerate() {
            let name = format!("id_{number}");
            make_key(&draft.file(&name), words, "").unwrap();
            draft.authorize(&name).unwrap();
        }
        let server = draft.start(&Settings::default()).unwrap();
        for (number, (_, key)) in TYPES.iter().enumerate() {
            let name = format!("id_{number}");
            let lines = [identity(&server, &name)];
            let config = write_config(&server, &format!("{name}.config"), &lines).unwrap();
            for way in Way::ALL {
                let sysmcp = sysmcp(&way.target(&server), config.clone());
                assert_logs_in(&server, way, &sysmcp, "publickey", type_of(kind, *key));
            }
        }
    });
}

#[test]
fn an_agents_key_lets_in() {
    at_each("a key in an agent", &Kind::ALL, |kind| {
        let draft = Draft::new(kind).unwrap();
        make_key(&draft.file("id"), &["ed25519"], "hunter2 on disk").unwrap();
        // The agent has what the disk has not.
        make_key(&draft.file("held"), &["ed25519"], "").unwrap();
        draft.authorize("held").unwrap();
        let agent = Agent::start(draft.file("").as_path()).unwrap();
        agent.add(&draft.file("held"), &[]).unwrap();
        fs::remove_file(draft.file("held")).unwrap();
        let server = draft.start(&Settings::default()).unwrap();
        let lines = from_agent(agent.socket().display());
        let named = write_config(&server, "config", &lines).unwrap();
        let lines = from_agent("SSH_AUTH_SOCK");
        let in_variable = write_config(&server, "variable.config", &lines).unwrap();
        for way in Way::ALL {
            let target = way.target(&server);
            for config in [&named, &in_variable] {
                let sysmcp = sysmcp(&target, config.clone());
                let sysmcp = sysmcp.with_variable("SSH_AUTH_SOCK", agent.socket());
                assert_logs_in(&server, way, &sysmcp, "publickey", type_of(kind, Key::Ed25519));
            }
        }
    });
}

/// An agent that will not use its first key here, for a reason that `limit` tells ssh-add, and has a
/// second one.
fn the_next_key_lets_in(check: &str, kinds: &[Kind], limit: impl Fn(&Draft) -> Vec<String> + Sync) {
    at_each(check, kinds, |kind| {
        let draft = Draft::new(kind).unwrap();
        make_key(&draft.file("first"), &["ed25519"], "").unwrap();
        make_key(&draft.file("second"), &["rsa", "-b", "3072"], "").unwrap();
        draft.authorize("first").unwrap();
        draft.authorize("second").unwrap();
        let agent = Agent::start(draft.file("").as_path()).unwrap();
        let limits = limit(&draft);
        let limits: Vec<&str> = limits.iter().map(String::as_str).collect();
        agent.add(&draft.file("first"), &limits).unwrap();
        let (first, second) = (draft.file("first"), draft.file("second"));
        let server = draft.start(&Settings::default()).unwrap();
        let lines = from_agent(agent.socket().display());
        let config = write_config(&server, "config", &lines).unwrap();
        fs::remove_file(first).unwrap();
        for way in Way::ALL {
            let (code, said) = without_a_terminal(&sysmcp(&way.target(&server), config.clone()));
            assert_eq!(code, Some(13), "{}: the first key was used: {said}", way.name());
        }
        agent.add(&second, &[]).unwrap();
        for way in Way::ALL {
            let sysmcp = sysmcp(&way.target(&server), config.clone());
            assert_logs_in(&server, way, &sysmcp, "publickey", type_of(kind, Key::Rsa));
        }
    });
}

#[test]
fn a_key_that_its_owner_does_not_confirm_is_passed_over() {
    the_next_key_lets_in("a key to confirm", &Kind::ALL, |_| vec!["-c".to_owned()]);
}

#[test]
fn a_key_for_another_destination_is_passed_over() {
    the_next_key_lets_in("a key for elsewhere", &Kind::ALL, |draft| {
        make_key(&draft.file("elsewhere"), &["ed25519"], "").unwrap();
        let key = fs::read_to_string(draft.file("elsewhere.pub")).unwrap();
        let known = draft.file("known_elsewhere");
        fs::write(&known, format!("elsewhere {key}")).unwrap();
        ["-H", known.to_str().unwrap(), "-h", "elsewhere"].map(str::to_owned).into()
    });
}

#[test]
fn a_key_for_this_destination_lets_in() {
    at_each("a key for here", &Kind::ALL, |kind| {
        let draft = Draft::new(kind).unwrap();
        make_key(&draft.file("held"), &["ed25519"], "").unwrap();
        draft.authorize("held").unwrap();
        let agent = Agent::start(draft.file("").as_path()).unwrap();
        let server = draft.start(&Settings::default()).unwrap();
        // As the agent is told, the host's key counts, and the name is looked up only now.
        let known = fs::read_to_string(server.file("known_hosts")).unwrap();
        let known = known.replace(&server.known_name(), "here");
        fs::write(server.file("known_here"), known).unwrap();
        let known = server.file("known_here");
        let limits = ["-H", known.to_str().unwrap(), "-h", "here"];
        agent.add(&server.file("held"), &limits).unwrap();
        fs::remove_file(server.file("held")).unwrap();
        let lines = from_agent(agent.socket().display());
        let config = write_config(&server, "config", &lines).unwrap();
        for way in Way::ALL {
            let sysmcp = sysmcp(&way.target(&server), config.clone());
            assert_logs_in(&server, way, &sysmcp, "publickey", type_of(kind, Key::Ed25519));
        }
    });
}

#[test]
fn a_certificate_lets_in_from_a_file_and_from_an_agent() {
    at_each("a certificate", &Kind::OPENSSH, |kind| {
        let draft = Draft::new(kind).unwrap();
        make_key(&draft.file("authority"), &["ed25519"], "").unwrap();
        make_key(&draft.file("id"), &["ed25519"], "").unwrap();
        certify(&draft.file("authority"), &draft.file("id"), &["-n", "deploy"]).unwrap();
        let agent = Agent::start(draft.file("").as_path()).unwrap();
        // The certificate beside it comes along.
        agent.add(&draft.file("id"), &[]).unwrap();
        let trusts = format!("TrustedUserCAKeys {INSIDE}/authority.pub");
        let server = draft.start(&Settings::lines(&[&trusts])).unwrap();
        let certificate = server.file("id-cert.pub").display().to_string();
        let file = [identity(&server, "id"), format!("CertificateFile {certificate}")];
        let held = from_agent(agent.socket().display());
        let beside = [identity(&server, "id")];
        let cases: [(&str, &[String]); 3] =
            [("file", &file), ("beside", &beside), ("agent", &held)];
        for (name, lines) in cases {
            let config = write_config(&server, &format!("{name}.config"), lines).unwrap();
            for way in Way::ALL {
                let sysmcp = sysmcp(&way.target(&server), config.clone());
                assert_logs_in(&server, way, &sysmcp, "publickey", "ED25519-CERT ");
            }
        }
    });
}

#[test]
fn a_certificate_of_the_host_is_enough_to_know_it() {
    at_each("a certificate of the host", &Kind::OPENSSH, |kind| {
        let draft = Draft::new(kind).unwrap();
        for name in ["authority", "other", "id"] {
            make_key(&draft.file(name), &["ed25519"], "").unwrap();
        }
        draft.authorize("id").unwrap();
        let host = draft.file("host");
        certify(&draft.file("authority"), &host, &["-h", "-n", "127.0.0.1"]).unwrap();
        let shows = format!("HostCertificate {INSIDE}/host-cert.pub");
        let server = draft.start(&Settings::lines(&[&shows])).unwrap();
        let config = write_config(&server, "config", &[identity(&server, "id")]).unwrap();
        for (authority, is_known) in [("authority", true), ("other", false)] {
            let key = fs::read_to_string(server.file(&format!("{authority}.pub"))).unwrap();
            let known = format!("@cert-authority {} {key}", server.known_name());
            fs::write(server.file("known_hosts"), known).unwrap();
            for way in Way::ALL {
                let sysmcp = sysmcp(&way.target(&server), config.clone());
                if is_known {
                    assert_logs_in(&server, way, &sysmcp, "publickey", type_of(kind, Key::Ed25519));
                } else {
                    let (code, said) = without_a_terminal(&sysmcp);
                    assert_eq!(code, Some(12), "{}: {said}", way.name());
                }
            }
        }
    });
}

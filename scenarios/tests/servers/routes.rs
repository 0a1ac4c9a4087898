//! Ways there that lead through other servers, or through a program.

use super::{Key, assert_logs_in, at_each, sysmcp, type_of};
use scenarios::{
    programs,
    servers::{
        Kind, Server, Settings,
        login::{Way, host_lines, identity, write_config},
    },
};
use std::fs;

/// The kind that comes so far behind another in the list of all, around its end.
fn behind(kind: Kind, distance: usize) -> Kind {
    let all = Kind::ALL;
    let at = all.iter().position(|other| *other == kind).unwrap();
    *all.iter().cycle().nth(at + distance).unwrap()
}

#[test]
fn jump_hosts_lead_there() {
    at_each("jump hosts", &Kind::ALL, |kind| {
        let start = |kind| Server::with_key(kind, &Settings::default()).unwrap();
        let (first, second) = (behind(kind, 2), behind(kind, 3));
        if !first.is_there("jump hosts") || !second.is_there("jump hosts") {
            return;
        }
        let (last, first, second) = (start(kind), start(first), start(second));
        let lines = |host: &str, server: &Server, jump: Option<&str>| {
            let jump = jump.map(|jump| format!("ProxyJump {jump}"));
            let lines: Vec<String> = jump.into_iter().chain([identity(server, "id")]).collect();
            host_lines(host, server, &lines)
        };
        let config = last.file("config");
        let text = [
            lines("first", &first, None),
            lines("second", &second, None),
            lines("one", &last, Some("first")),
            lines("two", &last, Some("first,second")),
        ];
        fs::write(&config, text.concat()).unwrap();
        let key = type_of(kind, Key::Ed25519);
        for (host, passes) in [("one", &[&first][..]), ("two", &[&first, &second])] {
            for way in Way::ALL {
                let before: Vec<usize> = passes.iter().map(|server| server.log().len()).collect();
                let sysmcp = sysmcp(&way.alias(host), config.clone());
                assert_logs_in(&last, way, &sysmcp, "publickey", key);
                for (server, before) in passes.iter().zip(before) {
                    let log = server.log();
                    let log = log.get(before..).unwrap();
                    let is_passed = log.contains("Accepted publickey for deploy")
                        || log.contains("Pubkey auth succeeded for 'deploy'");
                    let name = server.kind().name();
                    assert!(is_passed, "{}: not through {name}: {log}", way.name());
                    println!("  through {name}");
                }
            }
        }
    });
}

#[test]
fn a_program_leads_there() {
    at_each("a program as the way", &Kind::ALL, |kind| {
        let server = Server::with_key(kind, &Settings::default()).unwrap();
        let mark = server.file("ran");
        let relay = programs::scenarios().display().to_string();
        // The program notes what became of the tokens.
        let proxy =
            format!("ProxyCommand sh -c 'echo %r@%h >> {}; exec {relay} relay %p'", mark.display());
        let lines = [identity(&server, "id"), proxy];
        let config = write_config(&server, "config", &lines).unwrap();
        let key = type_of(kind, Key::Ed25519);
        for way in Way::ALL {
            let _ = fs::remove_file(&mark);
            let sysmcp = sysmcp(&way.target(&server), config.clone());
            assert_logs_in(&server, way, &sysmcp, "publickey", key);
            let noted = fs::read_to_string(&mark).unwrap();
            assert_eq!(noted, "deploy@127.0.0.1\n", "{}", way.name());
        }
    });
}

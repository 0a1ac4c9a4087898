//! When a session is over, sysmcp looks at its target again, past the agent: what the agent's receipt
//! misses is seen, and where it could not be looked, the receipt says why.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use rustix::process::Signal;
use scenarios::{
    alone::alone,
    client::Client,
    containers::{Engine, Image},
    master::Master,
    second_way,
    sshd::{Settings, Sshd},
    sysmcp::Sysmcp,
};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

const SECOND: Duration = Duration::from_secs(1);

/// What is said where nothing was found.
const CLEAN: &str =
    "looked at again from outside: nothing of it is there, as far as the login sees";

/// What the last session's receipt says, and whether it was clean.
fn receipt(sysmcp: &Sysmcp) -> (String, bool) {
    let stopped = sysmcp.audited("stopped").unwrap().pop().unwrap();
    (stopped["receipt"].as_str().unwrap().to_owned(), stopped["clean"] == json!(true))
}

/// A session that is there.
fn session(sysmcp: &Sysmcp) -> Client {
    let mut client = Client::start(sysmcp.command()).unwrap();
    let answer = client.call("self_test", &json!({"count": 1}), 30 * SECOND).unwrap();
    assert_eq!(answer.get("isError"), Some(&json!(false)), "{answer}");
    client
}

/// Ends it in order. Gives the exit code.
fn close(mut client: Client) -> Option<i32> {
    client.close();
    client.ended(20 * SECOND).unwrap().unwrap().0.code()
}

/// The token of the only session there is.
fn token(sshd: &Sshd) -> String {
    let all = second_way::processes(sshd).unwrap();
    let agent = all.iter().find_map(|seen| seen.command.strip_prefix("/proc/self/fd/4 serve "));
    agent.unwrap()[..32].to_owned()
}

/// What no supervisor owns and no receipt of an agent knows of.
fn plant(token: &str) -> (Child, PathBuf) {
    let mut survivor = Command::new("sleep");
    survivor.arg("3600").env("SYSMCP_SESSION", token).stdin(Stdio::null());
    let folder = Path::new("/var/tmp").join(format!(".sysmcp-{token}"));
    fs::create_dir(&folder).unwrap();
    (survivor.spawn().unwrap(), folder)
}

/// A connection that the user keeps open.
fn master(sshd: &Sshd) -> Master {
    let config = sshd.file("shared_config");
    let plain = fs::read_to_string(sshd.client_config()).unwrap();
    // The name of a socket must be short.
    let socket = format!("/tmp/master-{}", sshd.port);
    fs::write(&config, format!("{plain}  ControlPath {socket}\n  ControlMaster auto\n")).unwrap();
    Master::start(sshd, &config).unwrap()
}

#[test]
fn what_the_receipt_of_an_agent_misses_is_seen() {
    if !alone("what_the_receipt_of_an_agent_misses_is_seen").unwrap() {
        return;
    }
    let sshd = Sshd::start(&Settings::default()).unwrap();
    let master = master(&sshd);
    for way in ["russh", "openssh", "local"] {
        let target = if way == "local" { way.to_owned() } else { sshd.target_by(way) };
        let sysmcp = Sysmcp::over(&sshd).unwrap().with_faulty_agents().at(&target);
        let sysmcp = sysmcp.with_ssh_config(master.config.clone());
        assert_eq!(close(session(&sysmcp)), Some(0), "{way}");
        let (said, is_clean) = receipt(&sysmcp);
        assert!(is_clean && said.ends_with(CLEAN), "{way}: {said}");

        let client = session(&sysmcp);
        let (mut survivor, folder) = plant(&token(&sshd));
        assert_eq!(close(client), Some(23), "{way}");
        let (said, is_clean) = receipt(&sysmcp);
        assert!(!is_clean && said.contains("0 processes left, 0 files left"), "{way}: {said}");
        let found = format!(
            "but looked at again from outside, there is folder {}, process {}; `sysmcp --target \
             {target} sweep` ends it",
            folder.display(),
            survivor.id()
        );
        assert!(said.ends_with(&found), "{way}: {said}");
        let swept = sysmcp.command().arg("sweep").output().unwrap();
        assert_eq!(swept.status.code(), Some(0), "{swept:?}");
        assert!(survivor.wait().unwrap().code().is_none() && !folder.exists(), "{way}");
    }
}

fn called(sysmcp: &Sysmcp) -> Output {
    let output = sysmcp.command().args(["call", "process_list"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn one_channel_at_a_time_is_enough_and_no_login_is_made_for_it() {
    if !alone("one_channel_at_a_time_is_enough_and_no_login_is_made_for_it").unwrap() {
        return;
    }
    let settings = Settings { server: vec!["MaxSessions 1".to_owned()], ..Settings::default() };
    let sshd = Sshd::start(&settings).unwrap();
    let logins = || sshd.log().matches("Accepted publickey").count();
    for (way, want) in [
        ("russh", CLEAN),
        ("openssh", "not looked at from outside: that would take another login; `sysmcp --target "),
    ] {
        let sysmcp = Sysmcp::over(&sshd).unwrap().at(&sshd.target_by(way));
        let before = logins();
        called(&sysmcp);
        let (said, is_clean) = receipt(&sysmcp);
        assert!(is_clean && said.contains(want), "{way}: {said}");
        assert_eq!(logins() - before, 1, "{way}: {}", sshd.log());
    }
    let master = master(&sshd);
    let before = logins();
    for way in ["ssh", "openssh"] {
        let sysmcp = Sysmcp::over(&sshd).unwrap().with_ssh_config(master.config.clone());
        let sysmcp = sysmcp.at(&sshd.target_by(way));
        called(&sysmcp);
        let (said, is_clean) = receipt(&sysmcp);
        assert!(is_clean && said.ends_with(CLEAN), "{way}: {said}");
    }
    assert_eq!(logins(), before, "{}", sshd.log());
}

#[test]
fn where_the_connection_is_gone_that_is_said() {
    let sshd = Sshd::start(&Settings::default()).unwrap();
    for way in ["russh", "openssh"] {
        let sysmcp = Sysmcp::over(&sshd).unwrap().with_faulty_agents().at(&sshd.target_by(way));
        let mut client = session(&sysmcp);
        // Those that carry the session, and none that is to come.
        second_way::signal_all(&second_way::serving(&sshd).unwrap(), Signal::KILL);
        let answer = client.call("self_test", &json!({"count": 1}), 30 * SECOND).unwrap();
        let is_known = |answer: &Value| answer.get("isError") == Some(&json!(false));
        let answer = if is_known(&answer) {
            answer
        } else {
            client.call("self_test", &json!({"count": 1}), 30 * SECOND).unwrap()
        };
        assert!(is_known(&answer), "{answer}");
        let (said, _) = receipt(&sysmcp);
        assert!(said.contains("not looked at from outside: the connection is gone"), "{said}");
        close(client);
    }
}

#[test]
fn a_container_is_looked_at_by_a_shell_of_its_own_or_by_its_engine() {
    let name = "a_container_is_looked_at_by_a_shell_of_its_own_or_by_its_engine";
    for engine in [Engine::docker(name).unwrap(), Engine::podman(name).unwrap()] {
        let Some(engine) = engine else { continue };
        for image in [Image::Shell, Image::Distroless] {
            let container = engine.run(image, &[]).unwrap();
            let sysmcp = Sysmcp::local().unwrap().at(&container.target()).with_faulty_agents();
            let sysmcp = sysmcp.with_variables(&engine.variables());
            called(&sysmcp);
            let (said, is_clean) = receipt(&sysmcp);
            let want = match image {
                // busybox has no grep here.
                Image::Shell => "from outside: its processes and its folder are gone",
                Image::Distroless => "from outside: the engine shows no process and no file of it",
            };
            assert!(is_clean && said.ends_with(want), "{image:?}: {said}");

            let client = session(&sysmcp);
            let agents = container.session().unwrap();
            let agent = agents.iter().find_map(|seen| seen.command.split_once(" serve "));
            let folder = format!("/.sysmcp-{}", &agent.unwrap().1[..32]);
            let make: &[&str] = match image {
                Image::Shell => &["/bin/mkdir", &folder],
                Image::Distroless => &["/busybox", "mkdir", &folder],
            };
            engine.command(&[&["exec", &container.name], make].concat()).unwrap();
            assert_eq!(close(client), Some(23), "{image:?}");
            let (said, is_clean) = receipt(&sysmcp);
            assert!(!is_clean && said.contains(&folder), "{image:?}: {said}");
        }
    }
}

//! What the agent may not do: tried by one that misbehaves, and looked for in the record of every
//! system call of sessions in which every tool is called.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "sandbox/record.rs"]
mod record;
#[path = "sandbox/sessions.rs"]
mod sessions;

use rustix::process::{Signal, geteuid};
use scenarios::{
    client::Client,
    not_run::not_run,
    programs,
    second_way::{Server as _, signal},
    servers::{
        self, Kind, Server,
        login::{Way, identity, write_config},
    },
    sshd::{Settings, Sshd},
    sysmcp::Sysmcp,
};
use serde_json::{Value, json};
use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(120);

/// What a filter answers, and for what it takes the place of a kernel without the call.
const EPERM: i64 = 1;
const ENOSYS: i64 = 38;

fn trespass() -> Value {
    json!({"count": 1, "fault": "trespass"})
}

/// As many as the agent tries; so that none is lost by mistake.
const ATTEMPTS: usize = 74;

/// An agent that misbehaves on request, as it is sent.
fn unpacked_faulty_agent(folder: &Path) -> PathBuf {
    let arch = std::env::consts::ARCH;
    let packed = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../target/faulty-agents")
        .join(format!("{arch}.gz"));
    let output = Command::new("gzip").arg("-dc").arg(packed).output().unwrap();
    let agent = folder.join("agent");
    std::fs::write(&agent, output.stdout).unwrap();
    let all = || PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&agent, all()).unwrap();
    std::fs::set_permissions(folder, all()).unwrap();
    agent
}

fn assert_all_refused(answer: &Value, way: &str) {
    let attempts = answer["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), ATTEMPTS, "{way}");
    for attempt in attempts {
        let errno = attempt["errno"].as_i64().unwrap();
        assert!(matches!(errno, EPERM | ENOSYS), "{way}: {attempt}");
    }
    assert!(!Path::new("/tmp/.sysmcp-trespass").exists(), "{way}");
}

#[test]
fn what_the_agent_may_not_do_is_refused_on_this_machine() {
    let sysmcp = Sysmcp::local().unwrap().with_faulty_agents();
    assert_all_refused(&sysmcp.answer("self_test", &trespass()).unwrap(), "local");
}

#[test]
fn what_the_agent_may_not_do_is_refused_by_hand_to_root_and_to_a_user() {
    let folder = tempfile::tempdir().unwrap();
    let agent = unpacked_faulty_agent(folder.path());
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let before: &[&[&str]] = if geteuid().is_root() { &[&["env"], &nobody] } else { &[&["env"]] };
    for before in before {
        let [program, arguments @ ..] = before else { panic!("no program") };
        let output = Command::new(program)
            .args(arguments)
            .arg(&agent)
            .args(["--local", "self_test", "--json", "--params", &trespass().to_string()])
            .output()
            .unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_all_refused(&answer, program);
    }
}

#[test]
fn what_the_agent_may_not_do_is_refused_over_ssh() {
    let sshd = Sshd::start(&Settings::default()).unwrap();
    for way in ["russh", "openssh"] {
        let sysmcp = Sysmcp::over(&sshd).unwrap().at(&sshd.target_by(way)).with_faulty_agents();
        assert_all_refused(&sysmcp.answer("self_test", &trespass()).unwrap(), way);
    }
}

#[test]
fn what_the_agent_may_not_do_is_refused_to_an_ordinary_user_over_ssh() {
    const WHAT: &str = "what is refused to an ordinary user over SSH";
    if !Kind::OpenSshHere.is_there(WHAT) {
        return;
    }
    let server = Server::with_key(Kind::OpenSshHere, &servers::Settings::default()).unwrap();
    let config = write_config(&server, "config", &[identity(&server, "id")]).unwrap();
    for way in Way::ALL {
        let sysmcp = Sysmcp::local().unwrap().at(&way.target(&server));
        let sysmcp = sysmcp.with_ssh_config(config.clone()).with_faulty_agents();
        assert_all_refused(&sysmcp.answer("self_test", &trespass()).unwrap(), way.name());
        let look = server.ssh().arg("test ! -e /tmp/.sysmcp-trespass").status().unwrap();
        assert!(look.success(), "{}", way.name());
    }
}

#[test]
fn capabilities_says_what_is_enforced_and_what_the_login_may_is_as_without() {
    let answer = Sysmcp::local().unwrap().answer("capabilities", &json!({})).unwrap();
    let around = &answer["surroundings"];
    assert_eq!(around["sandbox"]["seccomp"], "enforced", "{around}");
    assert_eq!(around["sandbox"]["no_new_privileges"], true, "{around}");
    if geteuid().is_root() {
        assert!(around["sandbox"]["capabilities_dropped"].as_u64().unwrap() > 20, "{around}");
        // What it gave up by itself is none that the login lacks, and its filter is not the login's.
        let all_given_up = around["missing_capabilities"].to_string();
        assert!(!all_given_up.contains("CAP_CHOWN"), "{around}");
    }
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let has_filter = own.lines().any(|line| line.starts_with("Seccomp:") && line.ends_with('2'));
    assert_eq!(around["seccomp_filter"], has_filter, "{around}");
}

/// Puts a filter on itself that answers `seccomp` with this error, and runs the rest of its words.
fn refusing(errno: i64) -> String {
    let [prctl, seccomp] = if cfg!(target_arch = "x86_64") { [157, 317] } else { [167, 277] };
    format!(
        "my @f = ([0x20,0,0,0], [0x15,1,0,{seccomp}], [6,0,0,0x7fff0000], [6,0,0,0x50000+{errno}]); \
         my $f = join '', map {{ pack 'SCCL', @$_ }} @f; \
         my $p = pack 'S x6 P', scalar(@f), $f; \
         syscall({prctl}, 38, 1, 0, 0, 0) == 0 or die; \
         syscall({prctl}, 22, 2, $p) == 0 or die; exec @ARGV or die"
    )
}

/// For a login without rights, where something refuses it a filter, and where the kernel only has the
/// older way to set one.
#[test]
fn it_works_everywhere_and_says_what_it_has() {
    if !geteuid().is_root() {
        return not_run("a login of another user", "root");
    }
    let folder = tempfile::tempdir().unwrap();
    let agent = programs::agent_for_all(folder.path()).unwrap();
    let (refused, unknown) = (refusing(EPERM), refusing(ENOSYS));
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let cases: [(&[&str], &str); 3] = [
        (&nobody, "enforced"),
        (&["perl", "-e", &refused, "--"], "refused"),
        (&["perl", "-e", &unknown, "--"], "enforced"),
    ];
    for (before, want) in cases {
        let [program, arguments @ ..] = before else { panic!("no program") };
        let output = Command::new(program)
            .args(arguments)
            .arg(&agent)
            .args(["--local", "capabilities", "--json"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{before:?}: {said}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let sandbox = &answer["surroundings"]["sandbox"];
        assert_eq!(sandbox["seccomp"], want, "{before:?}: {sandbox}");
    }
}

/// A line of a process's status, without its name.
fn status(pid: u32, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name}: {text}")).trim().to_owned()
}

/// The processes of the agent that descends from a process, each by its name.
fn agents_below(ancestor: u32) -> Vec<(String, u32)> {
    let parent = |pid: u32| status(pid, "PPid").parse::<u32>().unwrap();
    let children = |pid: u32| -> Vec<u32> {
        let name = format!("/proc/{pid}/task/{pid}/children");
        let list = std::fs::read_to_string(name).unwrap_or_default();
        list.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_supervisor = |pid: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name == "sysmcp-super\n" && parent(*pid) == ancestor
    };
    let supervisor = pids.into_iter().find(is_supervisor).unwrap();
    let mut found = vec![("supervisor".to_owned(), supervisor)];
    for pid in children(supervisor) {
        let name = if status(pid, "Name") == "sysmcp-spawn" { "spawner" } else { "worker" };
        found.push((name.to_owned(), pid));
    }
    found
}

/// What the kernel itself says of the agent's processes.
#[test]
fn each_process_of_the_agent_is_held_as_is_said() {
    let sysmcp = Sysmcp::local().unwrap().with(&["--toolsets", "diagnose,selftest"]);
    let mut client = Client::start(sysmcp.command()).unwrap();
    client.call("self_test", &json!({"count": 1}), PATIENCE).unwrap();
    client.call("process_list", &json!({}), PATIENCE).unwrap();
    let found = agents_below(client.pid());
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["supervisor", "worker", "spawner"]);
    for (name, pid) in &found {
        let told = |what| status(*pid, what);
        println!("{name}: {} resident, CapEff {}", told("VmRSS"), told("CapEff"));
        assert_eq!(told("NoNewPrivs"), "1", "{name}");
        let mode = if name == "supervisor" { None } else { Some("2") };
        if let Some(mode) = mode {
            assert_eq!(told("Seccomp"), mode, "{name}");
        }
        if name == "worker" && geteuid().is_root() {
            // CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_KILL, CAP_SYS_MODULE, CAP_NET_RAW, CAP_SYS_TIME.
            let effective = u64::from_str_radix(&told("CapEff"), 16).unwrap();
            for capability in [0, 1, 5, 13, 16, 25] {
                assert_eq!(effective >> capability & 1, 0, "{capability} in {effective:x}");
            }
        }
    }
}

/// The spawner is no part of an answer that starts no program.
#[test]
fn without_its_spawner_the_agent_still_measures() {
    let mut client = Client::start(Sysmcp::local().unwrap().command()).unwrap();
    client.call("process_list", &json!({}), PATIENCE).unwrap();
    let found = agents_below(client.pid());
    let (_, spawner) = found.iter().find(|(name, _)| name == "spawner").unwrap();
    signal(*spawner, Signal::KILL).unwrap();
    for tool in ["capabilities", "process_list"] {
        let answer = client.call(tool, &json!({}), PATIENCE).unwrap();
        assert_eq!(answer.get("isError"), Some(&json!(false)), "{tool}: {answer}");
    }
    client.close();
    let (status, _) = client.ended(PATIENCE).unwrap().unwrap();
    assert_eq!(status.code(), Some(0), "nothing is left");
}

/// The agent that is sent has no code that only tests need.
#[test]
fn the_agent_that_is_sent_has_nothing_that_only_tests_need() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let has = |agents: &str, words: &str| {
        let packed = folder.join(agents).join("x86_64.gz");
        let output = Command::new("gzip").arg("-dc").arg(packed).output().unwrap();
        assert!(output.status.success() && output.stdout.len() > 100_000);
        output.stdout.windows(words.len()).any(|part| part == words.as_bytes())
    };
    for words in ["sysmcp-trespass", "/bin/sh", "sleep 3600"] {
        assert!(!has("agents", words), "{words}");
    }
    // The words are looked for rightly.
    assert!(has("faulty-agents", "sysmcp-trespass") && has("faulty-agents", "/bin/sh"));
}

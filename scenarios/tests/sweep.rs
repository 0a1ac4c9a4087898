//! What outlives a session is found by a sweep and ended, and nothing else is touched.
//!
//! Each test is in process and mount namespaces of its own: a sweep looks at all processes there are.
//! Before a sweep, a second way in has to see what is left alive; after it, that it is gone, and that
//! everything which only looks like it is still there.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use rustix::process::{Pid, Signal};
use scenarios::{
    alone::alone,
    client::Client,
    containers::{Engine, Image},
    programs,
    second_way::{self, Seen, signal},
    sshd::{Settings, Sshd},
    sysmcp::Sysmcp,
};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::{fs::symlink, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

const SECOND: Duration = Duration::from_secs(1);

/// After which something has to be as it should.
const PATIENCE: Duration = Duration::from_secs(15);

/// The exit code where something is left.
const NOT_CLEAN: i32 = 23;

/// A token of no session of sysmcp's.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn sweep(sysmcp: &Sysmcp, arguments: &[&str]) -> Output {
    sysmcp.command().arg("sweep").args(arguments).output().unwrap()
}

/// Asserts an exit code, and gives what was printed.
fn printed(output: &Output, code: i32) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}{said}");
    text
}

/// What the second way sees of processes with these words in their command line.
fn with_words(sshd: &Sshd, words: &str) -> Vec<Seen> {
    let mut seen = second_way::processes(sshd).unwrap();
    seen.retain(|seen| seen.command.contains(words) && !seen.has_ended());
    seen
}

/// The same, once it is so.
fn seen_when(sshd: &Sshd, words: &str, is_so: impl Fn(&[Seen]) -> bool) -> Vec<Seen> {
    let started = Instant::now();
    loop {
        let seen = with_words(sshd, words);
        if is_so(&seen) {
            return seen;
        }
        assert!(started.elapsed() < PATIENCE, "{words}: the second way sees {seen:#?}");
        sleep(Duration::from_millis(50));
    }
}

/// The supervisors of all sessions: each is the parent of another agent.
fn supervisors(sshd: &Sshd) -> Vec<u32> {
    let agents = with_words(sshd, "/proc/self/fd/4 serve ");
    let is_parent = |seen: &&Seen| agents.iter().any(|other| other.parent == seen.pid);
    agents.iter().filter(is_parent).map(|seen| seen.pid).collect()
}

/// A session whose supervisor is killed, with a descendant that outlives it.
fn leave_a_descendant(sysmcp: &Sysmcp, sshd: &Sshd) -> (Client, Seen) {
    let before = supervisors(sshd);
    let mut client = Client::start(sysmcp.command()).unwrap();
    let arguments = json!({"count": 1, "fault": "plant_grandchild"});
    client.call("self_test", &arguments, 30 * SECOND).unwrap();
    let sleeping = seen_when(sshd, "sleep 3600", |seen| seen.len() == 1).remove(0);
    let mut own = supervisors(sshd);
    own.retain(|pid| !before.contains(pid));
    let [supervisor] = own[..] else { panic!("{own:?}") };
    assert_eq!(sleeping.parent, supervisor, "the supervisor owns every orphan");
    signal(supervisor, Signal::KILL).unwrap();
    let alone = seen_when(sshd, "sleep 3600", |seen| seen[0].parent != supervisor).remove(0);
    seen_when(sshd, "/proc/self/fd/4 serve ", |seen| seen.len() == 3 * before.len());
    (client, alone)
}

/// Things that look like a session's and are not.
struct Innocents {
    folder: tempfile::TempDir,
    processes: Vec<Child>,
    paths: Vec<PathBuf>,
}

impl Innocents {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let named = folder.path().join("sysmcp-super");
        fs::copy("/bin/sleep", &named).unwrap();
        // Read by a shell under the name of an agent: the very arguments of one.
        fs::write(folder.path().join("serve"), "while :; do sleep 1; done").unwrap();
        let mut like_an_agent = Command::new("/bin/sh");
        like_an_agent.arg0("/proc/self/fd/4").args(["serve", TOKEN]).current_dir(folder.path());
        let mut like_a_supervisor = Command::new(named);
        like_a_supervisor.arg("1234");
        let mut named_like_one = Command::new("sleep");
        named_like_one.arg("1234").env("SYSMCP_SESSIONS", TOKEN).env("SYSMCP_SESSION", "x");
        let mut with_words = Command::new("/bin/sh");
        with_words.args(["-c", &format!("sleep 1234; : serve {TOKEN} token={TOKEN}; room=1;")]);
        let commands = [like_an_agent, like_a_supervisor, named_like_one, with_words];
        let processes = commands.into_iter().map(|mut command| {
            command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0).spawn().unwrap()
        });
        let at = |name: &str| PathBuf::from("/tmp").join(name);
        let paths = vec![
            at(".sysmcp-notatoken"),
            at(&format!(".sysmcp-{}", "1".repeat(32))),
            at(&format!(".sysmcp-{}", "2".repeat(32))).join("somebody's"),
        ];
        fs::create_dir(&paths[0]).unwrap();
        symlink(folder.path(), &paths[1]).unwrap();
        fs::create_dir(paths[2].parent().unwrap()).unwrap();
        fs::write(&paths[2], "").unwrap();
        Self { processes: processes.collect(), folder, paths }
    }

    fn assert_untouched(&mut self) {
        for process in &mut self.processes {
            assert!(process.try_wait().unwrap().is_none(), "{process:?} was ended");
        }
        for path in &self.paths {
            assert!(path.symlink_metadata().is_ok(), "{path:?} was removed");
        }
        assert!(self.folder.path().join("serve").exists());
    }
}

impl Drop for Innocents {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let group = Pid::from_child(process);
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
            let _ = process.wait();
        }
    }
}

#[test]
fn what_outlives_its_supervisor_is_ended_and_nothing_else() {
    if !alone("what_outlives_its_supervisor_is_ended_and_nothing_else").unwrap() {
        return;
    }
    let sshd = Sshd::start(&Settings::default()).unwrap();
    for way in ["russh", "openssh", "local"] {
        let sysmcp = Sysmcp::over(&sshd).unwrap().with_faulty_agents();
        let target = if way == "local" { way.to_owned() } else { sshd.target_by(way) };
        let sysmcp = sysmcp.at(&target);
        let other = Sysmcp::over(&sshd).unwrap().with_faulty_agents();
        let mut alive = Client::start(other.command()).unwrap();
        let answers = |client: &mut Client| {
            let answer = client.call("self_test", &json!({"count": 1}), 30 * SECOND).unwrap();
            assert_eq!(answer.get("isError"), Some(&json!(false)), "{answer}");
        };
        answers(&mut alive);
        let (client, left) = leave_a_descendant(&sysmcp, &sshd);
        let dead = Path::new("/dev/shm").join(format!(".sysmcp-{TOKEN}"));
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("a"), "an agent").unwrap();
        let mut innocents = Innocents::start();

        let said = printed(&sweep(&sysmcp, &["--dry-run"]), NOT_CLEAN);
        assert!(said.contains(&format!("process {} (sleep): would be ended", left.pid)), "{said}");
        assert!(said.contains("would be removed"), "{said}");
        assert_eq!(with_words(&sshd, "sleep 3600"), std::slice::from_ref(&left), "{way}");
        assert!(dead.join("a").exists());
        innocents.assert_untouched();

        let said = printed(&sweep(&sysmcp, &[]), NOT_CLEAN);
        assert!(said.contains(&format!("process {} (sleep): ended", left.pid)), "{said}");
        assert!(said.contains(&format!("folder {}: removed", dead.display())), "{said}");
        assert!(said.contains("left: it holds what no session puts there"), "{said}");
        assert!(said.contains("(sysmcp-super): left alone: its session is alive"), "{said}");
        assert_eq!(with_words(&sshd, "sleep 3600"), [], "{way}");
        assert!(!dead.exists());
        innocents.assert_untouched();
        answers(&mut alive);

        // What is not a session's is no reason to complain once it is looked at.
        fs::remove_file(&innocents.paths[2]).unwrap();
        innocents.paths.truncate(2);
        let said = printed(&sweep(&sysmcp, &[]), 0);
        assert!(said.contains("nothing is left, as far as was seen"), "{said}");
        innocents.assert_untouched();
        for path in &innocents.paths {
            let _ = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
        }
        assert_audited(&sysmcp);
        drop((client, alive, innocents));
        seen_when(&sshd, "/proc/self/fd/4 ", <[Seen]>::is_empty);
    }
}

/// A sweep is written down before and after, with what it did.
fn assert_audited(sysmcp: &Sysmcp) {
    let intents = sysmcp.audited("intent").unwrap();
    let swept = sysmcp.audited("swept").unwrap();
    let of_sweeps: Vec<&Value> = intents.iter().filter(|line| line["tool"] == "sweep").collect();
    assert_eq!((of_sweeps.len(), swept.len()), (3, 3));
    assert_eq!(of_sweeps[0]["parameters"], json!({"dry_run": true, "live": false}));
    let found = swept[1]["found"].to_string();
    assert!(found.contains("(sleep): ended"), "{found}");
    let verified = sysmcp.command().args(["audit", "verify"]).output().unwrap();
    assert!(verified.status.success(), "{verified:?}");
}

#[test]
fn a_stopped_agent_is_ended_and_a_live_one_only_on_request() {
    if !alone("a_stopped_agent_is_ended_and_a_live_one_only_on_request").unwrap() {
        return;
    }
    let sshd = Sshd::start(&Settings::default()).unwrap();
    let sysmcp = Sysmcp::over(&sshd).unwrap().with_faulty_agents();
    // Stopped as a whole, and only in the part that would hear that the channel closed.
    for stops_all in [true, false] {
        let mut client = Client::start(sysmcp.command()).unwrap();
        client.call("self_test", &json!({"fault": "plant_child"}), 30 * SECOND).unwrap();
        let agents = seen_when(&sshd, "/proc/self/fd/4 serve ", |seen| seen.len() == 3);
        let [supervisor] = supervisors(&sshd)[..] else { panic!("{agents:?}") };
        for agent in agents.iter().filter(|agent| stops_all || agent.pid != supervisor) {
            signal(agent.pid, Signal::STOP).unwrap();
        }
        let said = printed(&sweep(&sysmcp, &[]), 0);
        assert!(said.contains("(sysmcp-super): ended"), "{said}");
        assert_eq!(with_words(&sshd, "/proc/self/fd/4 serve "), []);
        assert_eq!(with_words(&sshd, "sleep 3600"), []);
        drop(client);
    }
    let mut client = Client::start(sysmcp.command()).unwrap();
    client.call("self_test", &json!({"fault": "plant_child"}), 30 * SECOND).unwrap();
    let said = printed(&sweep(&sysmcp, &[]), 0);
    assert!(said.contains("sessions that were alive: 1"), "{said}");
    assert_eq!(with_words(&sshd, "/proc/self/fd/4 serve ").len(), 3);
    let said = printed(&sweep(&sysmcp, &["--live", "--dry-run"]), NOT_CLEAN);
    assert!(said.contains("(sysmcp-super): would be ended"), "{said}");
    assert_eq!(with_words(&sshd, "/proc/self/fd/4 serve ").len(), 3);
    let said = printed(&sweep(&sysmcp, &["--live"]), 0);
    assert!(said.contains("(sysmcp-super): ended") && said.contains("(sleep): ended"), "{said}");
    assert_eq!(with_words(&sshd, "/proc/self/fd/4 serve "), []);
    assert_eq!(with_words(&sshd, "sleep 3600"), []);
}

/// A process that a session of somebody could have left, as a user of its own.
fn planted(uid: u32) -> Child {
    let mut sleep = Command::new("sleep");
    sleep.arg("3600").env_clear().env("SYSMCP_SESSION", TOKEN).uid(uid).gid(uid);
    sleep.stdin(Stdio::null()).spawn().unwrap()
}

#[test]
fn an_ordinary_user_sweeps_what_is_their_own_and_is_told_what_is_out_of_sight() {
    if !alone("an_ordinary_user_sweeps_what_is_their_own_and_is_told_what_is_out_of_sight").unwrap()
    {
        return;
    }
    let (mut own, mut of_root) = (planted(4711), planted(0));
    let of_others = Path::new("/tmp").join(format!(".sysmcp-{TOKEN}"));
    fs::create_dir(&of_others).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let agent = programs::agent_for_all(folder.path()).unwrap();
    let sweep = |arguments: &[&str], uid: u32| {
        let mut command = Command::new(&agent);
        command.arg("sweep").args(arguments).env_clear().uid(uid).gid(uid).output().unwrap()
    };
    let said = printed(&sweep(&["--dry-run"], 4711), 78);
    assert!(said.contains(&format!("process {} (sleep): would be ended", own.id())), "{said}");
    assert!(said.contains("could not be looked into"), "{said}");
    assert!(own.try_wait().unwrap().is_none());
    let said = printed(&sweep(&[], 4711), 0);
    assert!(said.contains(&format!("process {} (sleep): ended", own.id())), "{said}");
    assert!(said.contains("left alone: it belongs to uid 0; sweep as that user"), "{said}");
    assert!(!said.contains(&format!("process {} ", of_root.id())), "{said}");
    own.wait().unwrap();
    assert!(of_root.try_wait().unwrap().is_none(), "the other user's was ended");
    let swept: Value = serde_json::from_str(&printed(&sweep(&["--json"], 0), 0)).unwrap();
    let ended = &swept["sessions"][0]["processes"][0];
    assert_eq!(ended["pid"], json!(of_root.id()), "{swept}");
    assert_eq!(ended["became"], json!("removed"), "{swept}");
    of_root.wait().unwrap();
    assert!(!of_others.exists());
}

#[test]
fn several_targets_are_swept_each_under_its_name() {
    if !alone("several_targets_are_swept_each_under_its_name").unwrap() {
        return;
    }
    let sshd = Sshd::start(&Settings::default()).unwrap();
    let targets = ["local".to_owned(), sshd.target(), "ssh:me@127.0.0.1:1".to_owned()];
    let sysmcp = Sysmcp::over(&sshd).unwrap().at_each(&targets[..2]);
    let mut left = planted(0);
    let said = printed(&sweep(&sysmcp, &["--dry-run"]), NOT_CLEAN);
    for target in &targets[..2] {
        assert!(said.contains(&format!("== {target} ==")), "{said}");
    }
    assert!(left.try_wait().unwrap().is_none());
    let said = printed(&sweep(&sysmcp, &["--json"]), 0);
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line["swept"]["left"] == json!(0)), "{said}");
    left.wait().unwrap();
    // One that cannot be reached is said, and keeps none from being swept.
    let output = sweep(&sysmcp.at_each(&targets[1..]), &[]);
    let said = printed(&output, 11);
    assert!(said.contains("nothing is left"), "{said}");
    let output = sweep(&Sysmcp::local().unwrap().at("snapshot:/tmp"), &[]);
    printed(&output, 10);
}

/// Over an engine, with a shell in the container and without: by processes and a folder as they would
/// be left there.
#[test]
fn what_is_left_in_a_container_is_ended_and_removed() {
    let name = "what_is_left_in_a_container_is_ended_and_removed";
    if !alone(name).unwrap() {
        return;
    }
    for engine in [Engine::docker(name).unwrap(), Engine::podman(name).unwrap()] {
        let Some(engine) = engine else { continue };
        for image in [Image::Shell, Image::Distroless] {
            let container = engine.run(image, &[]).unwrap();
            let program: &[&str] = match image {
                Image::Shell => &["/bin/sleep", "7777"],
                Image::Distroless => &["/busybox", "sleep", "7777"],
            };
            let variable = format!("SYSMCP_SESSION={TOKEN}");
            let exec = ["exec", "-d", "-e", &variable, &container.name];
            engine.command(&[&exec, program].concat()).unwrap();
            let mut make_folder = vec!["exec", &container.name];
            let folder = format!("/.sysmcp-{TOKEN}");
            match image {
                Image::Shell => make_folder.extend(["/bin/mkdir", &folder]),
                Image::Distroless => make_folder.extend(["/busybox", "mkdir", &folder]),
            }
            engine.command(&make_folder).unwrap();
            let seen = container.session().unwrap();
            assert!(seen.iter().any(|seen| seen.command.contains("sleep 7777")), "{seen:?}");
            let sysmcp = Sysmcp::local().unwrap().at(&container.target());
            let sysmcp = sysmcp.with_variables(&engine.variables());
            let said = printed(&sweep(&sysmcp, &[]), 0);
            assert!(said.contains("): ended"), "{said}");
            assert!(said.contains(&format!("folder {folder}: removed")), "{said}");
            let left = container.left_after(PATIENCE).unwrap();
            assert!(left.is_empty(), "{image:?}: {left:#?}");
            // What the container is there for goes on.
            assert_eq!(container.processes().unwrap().len(), 1);
        }
    }
}

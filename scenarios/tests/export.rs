//! A recording that a running server holds, exported by a person: every format, read by the program
//! that it is for, and who gets none.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use scenarios::{
    client::Client, not_run::not_run, programs, sysmcp::Sysmcp, without_settings::without_settings,
};
use serde_json::{Value, json};
use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

const SECOND: Duration = Duration::from_secs(1);

/// Calls by name, in a thread whose name would forge a frame. Nothing of it is inlined.
const PROGRAM: &str = r#"
#include <sys/prctl.h>
volatile unsigned long sink;
__attribute__((noinline)) void hot(void) { for (int i = 0; i < 90000; i++) sink += i; }
__attribute__((noinline)) void cold(void) { for (int i = 0; i < 10000; i++) sink += i; }
__attribute__((noinline)) void work(void) { hot(); cold(); sink++; }
int main(void) { prctl(PR_SET_NAME, "a;b 1", 0, 0, 0); for (;;) work(); }
"#;

/// A process, gone with the test.
struct Busy(Child);

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server with a client, beside a busy process, and a folder in which servers listen that no other
/// test uses.
struct Site {
    client: Client,
    sysmcp: Sysmcp,
    busy: Busy,
    folder: tempfile::TempDir,
}

impl Site {
    /// None where there is no compiler.
    fn start(more: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("busy.c");
        fs::write(&source, PROGRAM).unwrap();
        let program = folder.path().join("busy");
        let compiled =
            Command::new("gcc").args(["-O1", "-g", "-o"]).arg(&program).arg(&source).status();
        if !compiled.is_ok_and(|status| status.success()) {
            not_run("export of a recording", "gcc");
            return None;
        }
        let busy = Busy(Command::new(&program).spawn().unwrap());
        let sysmcp =
            Sysmcp::local().unwrap().with_variable("XDG_RUNTIME_DIR", folder.path()).with(more);
        let client = Client::start(sysmcp.command()).unwrap();
        Some(Self { client, sysmcp, busy, folder })
    }

    /// The handle of a recording.
    fn record(&mut self) -> String {
        let parameters = json!({"pid": self.busy.0.id(), "window_ms": 1500, "hertz": 199});
        let result = self.client.call("perf_record", &parameters, 40 * SECOND).unwrap();
        let meta = &result["structuredContent"]["meta"];
        meta["artifact"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
    }

    /// Where its socket is, and those of others.
    fn sockets(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.folder.path().join("sysmcp")) else {
            return Vec::new();
        };
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// `sysmcp export`, by another process than the server: with nothing of its settings.
    fn export(&self, arguments: &[&str]) -> Output {
        let mut command = without_settings(programs::sysmcp());
        command.env("XDG_RUNTIME_DIR", self.folder.path()).arg("export").args(arguments);
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_recording_is_exported_in_every_format_and_each_is_read_by_its_own_reader() {
    let Some(mut site) = Site::start(&[]) else { return };
    let artifact = site.record();
    let before = site.sysmcp.audited("connected").unwrap().len();
    for format in ["folded", "svg", "pprof", "firefox", "speedscope"] {
        let file = site.file(format);
        let output =
            site.export(&[&artifact, "--format", format, "--output", file.to_str().unwrap()]);
        assert!(output.status.success() && output.stdout.is_empty(), "{format}: {}", told(&output));
        let said = told(&output);
        assert!(said.contains("is at local, in a session of the server with pid"), "{said}");
        assert!(said.contains("stacks known to their end: "), "{said}");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        read(format, &file);
    }
    // Each call is written down; none connected, and none measured.
    let intents = site.sysmcp.audited("intent").unwrap();
    let exports = intents.iter().filter(|intent| intent["tool"] == "export").count();
    assert_eq!((intents.len(), exports), (6, 5), "{intents:?}");
    assert!(site.sysmcp.audited("outcome").unwrap().iter().all(|line| line["answered"] == true));
    assert_eq!(site.sysmcp.audited("connected").unwrap().len(), before);
    // To stdout, too.
    let output = site.export(&[&artifact, "--format", "folded", "--quiet"]);
    assert_eq!(fs::read(site.file("folded")).unwrap(), output.stdout);
    assert_eq!(told(&output), "");
}

#[test]
fn a_picture_is_turned_round_and_set_beside_an_earlier_one() {
    let Some(mut site) = Site::start(&[]) else { return };
    let (earlier, later) = (site.record(), site.record());
    let picture = |more: &[&str]| {
        let output = site.export(&[&[later.as_str(), "--format", "svg", "--quiet"], more].concat());
        assert!(output.status.success(), "{}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let (flame, reversed, change) =
        (picture(&[]), picture(&["--reversed"]), picture(&["--baseline", &earlier]));
    assert!(flame.contains("Top: who calls"));
    assert!(reversed.contains("Top: where stacks end"), "{reversed}");
    // What is called comes below who calls it, and the other way round.
    let at = |picture: &str, name: &str| picture.find(&format!(">{name}</text>")).unwrap();
    assert!(at(&flame, "work") < at(&flame, "hot"));
    assert!(at(&reversed, "hot") < at(&reversed, "work"), "{reversed}");
    assert!(change.contains("▲ grew") && change.contains(", against a;b 1 ("), "{change}");
    for (name, text) in [("reversed.svg", &reversed), ("change.svg", &change)] {
        let file = site.file(name);
        fs::write(&file, text).unwrap();
        picture_is_xml(&file);
    }
}

#[test]
fn what_is_no_picture_is_not_turned_round_and_other_things_are_not_compared() {
    let Some(mut site) = Site::start(&[]) else { return };
    let artifact = site.record();
    let pid = site.busy.0.id();
    let faults = json!({"pid": pid, "mode": "context_switches", "window_ms": 1000});
    let faults = site.client.call("perf_record", &faults, 40 * SECOND).unwrap();
    let faults = faults["structuredContent"]["meta"]["artifact"].as_str().unwrap();
    for (arguments, code, want) in [
        (&["--format", "folded", "--reversed"][..], 2, "--reversed is of a picture"),
        (&["--format", "pprof", "--baseline", &artifact], 2, "--baseline is of a picture"),
        (&["--format", "svg", "--baseline", faults], 2, "the recordings cannot be compared"),
        (&["--format", "svg", "--baseline", "art-00000000"], 1, "has art-00000000; asked: pid"),
    ] {
        let output = site.export(&[&[artifact.as_str()], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", told(&output));
        assert!(told(&output).contains(want) && output.stdout.is_empty(), "{}", told(&output));
    }
    let mut call = without_settings(programs::sysmcp());
    call.args(["call", "perf_record", "--export", "firefox", "--output", "x", "--reversed"]);
    let output = call.current_dir(site.folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("and --format firefox is none"), "{}", told(&output));
}

/// Has a file read by the program that it is for.
fn read(format: &str, file: &Path) {
    let text = fs::read(file).unwrap();
    let text = String::from_utf8_lossy(&text);
    match format {
        "folded" => {
            let hot = |line: &&str| line.starts_with("a\\x3bb 1;") && line.contains(";work;hot ");
            assert!(text.lines().any(|line| hot(&line)), "{text}");
            speedscope(file);
        }
        "svg" => picture(file),
        "pprof" => pprof(file),
        "firefox" => firefox(file),
        _ => speedscope(file),
    }
}

fn pprof(file: &Path) {
    let output = Command::new("go").args(["tool", "pprof", "-top"]).arg(file).output();
    let Ok(output) = output else { return not_run("pprof's own reader", "go") };
    let said = String::from_utf8_lossy(&output.stdout);
    let first = said.lines().skip_while(|line| !line.contains("flat%")).nth(1);
    assert!(first.is_some_and(|line| line.ends_with(" hot")), "{said} {}", told(&output));
    let labels = Command::new("go").args(["tool", "pprof", "-tags"]).arg(file).output().unwrap();
    let labels = String::from_utf8_lossy(&labels.stdout).into_owned();
    assert!(labels.contains("thread") && labels.contains("a;b 1"), "{labels}");
}

fn picture_is_xml(file: &Path) {
    let output = Command::new("xmllint").arg("--noout").arg(file).output();
    let Ok(output) = output else { return not_run("an SVG as XML", "xmllint") };
    assert!(output.status.success(), "{}", told(&output));
}

fn picture(file: &Path) {
    picture_is_xml(file);
    assert!(fs::read_to_string(file).unwrap().contains(">hot"), "no call is named hot");
}

/// The folder of programs that read profiles.
fn readers() -> Option<PathBuf> {
    let folder = std::env::var_os("SYSMCP_TEST_PROFILE_READERS").map(PathBuf::from);
    if folder.is_none() {
        not_run("readers of profiles", "`cargo xtask test`, which installs them");
    }
    folder
}

/// speedscope has no other form than a page: it is opened in a browser without a window, and what the
/// page shows then is read.
fn speedscope(file: &Path) {
    let Some(readers) = readers() else { return };
    let page = readers.join("../speedscope/dist/release/index.html").canonicalize().unwrap();
    let folder = tempfile::tempdir().unwrap();
    // What speedscope's own command does: the profile comes in a script.
    let script = folder.path().join("profile.js");
    let content = Command::new("base64").arg("-w0").arg(file).output().unwrap();
    let content = String::from_utf8(content.stdout).unwrap();
    let name = file.file_name().unwrap().to_string_lossy();
    fs::write(&script, format!("speedscope.loadFileFromBase64({name:?}, {content:?})")).unwrap();
    let page =
        format!("file://{}#localProfilePath={}&view=sandwich", page.display(), script.display());
    let user_data = format!("--user-data-dir={}", folder.path().join("user").display());
    let mut browser = Command::new("timeout");
    browser.args(["60", "chromium", "--headless", "--no-sandbox", "--disable-gpu"]);
    browser.args(["--allow-file-access-from-files", "--virtual-time-budget=8000"]);
    let output = browser.args([&user_data, "--dump-dom", &page]).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", told(&output));
    for name in ["hot", "work", "main"] {
        assert!(shown.contains(&format!(">{name}<")), "{name}: {shown}");
    }
}

/// The Firefox Profiler's own reader, without its window.
fn firefox(file: &Path) {
    let Some(readers) = readers() else { return };
    let home = tempfile::tempdir().unwrap();
    let path = format!("{}:{}", readers.display(), std::env::var("PATH").unwrap());
    let run = |arguments: &[&str]| {
        let mut command = Command::new("timeout");
        command.arg("60").arg(readers.join("profiler-cli")).args(arguments);
        command.env("PATH", &path).env("HOME", home.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    run(&["load", file.to_str().unwrap()]);
    let functions = run(&["thread", "functions"]);
    let threads = run(&["thread", "list"]);
    run(&["stop", "--all"]);
    let first = functions.lines().find(|line| line.contains("self:"));
    assert!(first.is_some_and(|line| line.contains(" hot (busy)")), "{functions}");
    assert!(threads.contains("a;b 1"), "{threads}");
}

#[test]
fn who_asks_for_what_is_not_there_is_told_who_was_asked_and_what_to_do() {
    let Some(mut site) = Site::start(&[]) else { return };
    let artifact = site.record();
    let pid = site.client.pid();
    let output = site.export(&["art-00000000", "--format", "folded"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let want = format!("no server that runs here has art-00000000; asked: pid {pid} (local)");
    assert!(told(&output).contains(&want), "{}", told(&output));
    assert!(told(&output).contains("repeated there"), "{}", told(&output));
    // Nothing was done for it.
    assert_eq!(site.sysmcp.audited("intent").unwrap().len(), 1);
    // A result of another tool is none.
    let list = site.client.call("process_list", &json!({"window_ms": 200}), 20 * SECOND).unwrap();
    let other = list["structuredContent"]["meta"]["artifact"].as_str().unwrap();
    let output = site.export(&[other, "--format", "folded"]);
    assert!(told(&output).contains("is not a result of this tool"), "{}", told(&output));
    for wrong in ["art-1", "../x", ""] {
        let output = site.export(&[wrong, "--format", "folded"]);
        assert_eq!(output.status.code(), Some(2), "{wrong}: {}", told(&output));
    }
    // The session is over: nothing is connected for it.
    let connected = site.sysmcp.audited("connected").unwrap();
    let supervisor = connected[0]["pids"][0].as_u64().unwrap().to_string();
    assert!(Command::new("kill").args(["-9", &supervisor]).status().unwrap().success());
    let until = Instant::now() + 20 * SECOND;
    let said = loop {
        let output = site.export(&[&artifact, "--format", "folded"]);
        assert!(!output.status.success(), "it came from a session that is over");
        if told(&output).contains("the session with local is over") || Instant::now() > until {
            break told(&output);
        }
    };
    assert!(said.contains("the session with local is over"), "{said}");
    assert!(said.contains("repeat the call that made it"), "{said}");
    assert_eq!(site.sysmcp.audited("connected").unwrap().len(), 1);
}

#[test]
fn a_server_that_was_killed_is_not_asked_and_its_socket_goes() {
    let Some(mut site) = Site::start(&[]) else { return };
    let artifact = site.record();
    assert_eq!(site.sockets().len(), 1);
    let pid = site.client.pid().to_string();
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    site.client.ended(10 * SECOND).unwrap().unwrap();
    assert_eq!(site.sockets().len(), 1);
    let output = site.export(&[&artifact, "--format", "folded"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains("no `sysmcp serve` of this user runs"), "{}", told(&output));
    assert!(site.sockets().is_empty(), "{:?}", site.sockets());
    // One that ends in order takes it along, and the next one removes what a killed one left.
    let stale = site.folder.path().join("sysmcp/1-0badcafe.sock");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    site.client = Client::start(site.sysmcp.command()).unwrap();
    site.client.call("process_list", &json!({"window_ms": 100}), 20 * SECOND).unwrap();
    let sockets = site.sockets();
    assert!(sockets.len() == 1 && !sockets.contains(&stale), "{sockets:?}");
    site.client.close();
    site.client.ended(20 * SECOND).unwrap().unwrap();
    assert!(site.sockets().is_empty(), "{:?}", site.sockets());
}

/// Asks, and prints what is answered.
const ASK: &str = r#"
$SIG{PIPE} = "IGNORE";
$door = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die "not let in: $!";
print $door "{\"build\": \"x\", \"artifact\": \"$ARGV[1]\"}\n";
$door->flush;
print <$door>;
"#;

#[test]
fn another_user_gets_nothing_even_where_the_folder_lets_them_in() {
    if !rustix::process::geteuid().is_root() {
        return not_run("another user at the side door", "root");
    }
    let Some(mut site) = Site::start(&[]) else { return };
    let artifact = site.record();
    let socket = site.sockets().pop().unwrap();
    let ask = || {
        let mut nobody = Command::new("setpriv");
        nobody.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        nobody.args(["perl", "-MIO::Socket::UNIX", "-e", ASK]).arg(&socket).arg(&artifact);
        nobody.output().unwrap()
    };
    let refused = ask();
    assert!(told(&refused).contains("not let in: Permission denied"), "{refused:?}");
    for path in [site.folder.path(), socket.parent().unwrap(), &socket] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let answered = ask();
    let said = String::from_utf8_lossy(&answered.stdout);
    assert!(
        said.contains("answers the user who started it, and nobody else"),
        "{said} {answered:?}"
    );
    assert_eq!(site.sysmcp.audited("intent").unwrap().len(), 1);
    // A folder that others may write to is none that servers are looked for in.
    let output = site.export(&[&artifact, "--format", "folded"]);
    assert!(told(&output).contains("no `sysmcp serve` of this user runs"), "{}", told(&output));
}

#[test]
fn a_visitor_who_says_nothing_or_nonsense_is_in_nobodys_way() {
    let Some(mut site) = Site::start(&[]) else { return };
    let artifact = site.record();
    let socket = site.sockets().pop().unwrap();
    let connect = || std::os::unix::net::UnixStream::connect(&socket).unwrap();
    let _silent: Vec<_> = (0..3).map(|_| connect()).collect();
    for nonsense in
        [&b"\n"[..], b"{}\n", &[0xff; 100_000], b"{\"build\":1,\"artifact\":\"art-1\"}\n"]
    {
        // It may hang up in the middle of it.
        let _ = connect().write_all(nonsense);
    }
    let other_build = json!({"build": "0123", "artifact": artifact, "more": [1]});
    let mut stream = connect();
    stream.write_all(format!("{other_build}\n").as_bytes()).unwrap();
    let reply: Value = serde_json::from_reader(stream).unwrap();
    assert_eq!(reply["is"], "other_build", "{reply}");
    let list = site.client.call("process_list", &json!({"window_ms": 100}), 20 * SECOND).unwrap();
    assert!(list["structuredContent"].is_object(), "{list}");
    let output = site.export(&[&artifact, "--format", "folded"]);
    assert!(output.status.success(), "{}", told(&output));
}

#[test]
fn a_file_that_is_there_stays_and_a_terminal_gets_no_bytes_that_it_cannot_show() {
    let Some(mut site) = Site::start(&[]) else { return };
    let artifact = site.record();
    let file = site.file("mine");
    fs::write(&file, "mine").unwrap();
    let path = file.to_str().unwrap();
    let output = site.export(&[&artifact, "--format", "folded", "-o", path]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("replace it with --force"), "{}", told(&output));
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    let output = site.export(&[&artifact, "--format", "folded", "-o", path, "--force"]);
    assert!(output.status.success(), "{}", told(&output));
    assert!(fs::read_to_string(&file).unwrap().contains(";hot "));
    let output = site.export(&[&artifact, "--format", "folded", "--target", "local"]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    // `script` gives it a terminal.
    let command = format!("{} export {artifact} --format pprof", programs::sysmcp().display());
    let mut script = without_settings("script");
    script.args(["-qec", &command, "/dev/null"]).env("XDG_RUNTIME_DIR", site.folder.path());
    let output = script.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("--output {artifact}.pb.gz")), "{said}");
}

#[test]
fn as_a_tool_it_counts_and_measures_nothing() {
    let Some(mut site) = Site::start(&["--tools", "export"]) else { return };
    let artifact = site.record();
    let result = site.client.call("export", &json!({"artifact": artifact}), 20 * SECOND).unwrap();
    let answer = &result["structuredContent"];
    assert_eq!(answer["class"], "exported", "{result}");
    assert_eq!(answer["meta"]["engine"], "stored result", "{result}");
    assert!(answer["meta"].get("window_ms").is_none_or(Value::is_null), "{result}");
    assert!(answer["parts"]["stacks"].as_u64().unwrap() > 0, "{result}");
    let wrong = json!({"artifact": "art-00000000"});
    let result = site.client.call("export", &wrong, 20 * SECOND).unwrap();
    assert_eq!(result["isError"], true, "{result}");
}

#[test]
fn what_a_single_call_records_is_in_a_file_before_its_session_ends() {
    let Some(site) = Site::start(&[]) else { return };
    let sysmcp = Sysmcp::local().unwrap();
    let call = |tool: &str, parameters: &Value, file: &Path| {
        let mut command = sysmcp.command();
        command.args(["call", tool, "--params", &parameters.to_string(), "--export", "folded"]);
        command.arg("--output").arg(file).output().unwrap()
    };
    let parameters = json!({"pid": site.busy.0.id(), "window_ms": 1000, "hertz": 199});
    let file = site.file("single");
    let output = call("perf_record", &parameters, &file);
    assert!(output.status.success(), "{}", told(&output));
    assert!(fs::read_to_string(&file).unwrap().contains(";work;hot "));
    assert!(String::from_utf8_lossy(&output.stdout).contains("hot"), "{output:?}");
    let intents = sysmcp.audited("intent").unwrap();
    let tools: Vec<&Value> = intents.iter().map(|intent| &intent["tool"]).collect();
    assert_eq!(tools, ["perf_record", "export"]);
    assert_eq!(sysmcp.audited("connected").unwrap().len(), 1);
    // Not asked at all where the file could not be written, and none where nothing was recorded.
    let output = call("perf_record", &parameters, &file);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert_eq!(sysmcp.audited("intent").unwrap().len(), 2);
    let none = site.file("none");
    let output = call("process_list", &json!({"window_ms": 100}), &none);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(!none.exists());
}

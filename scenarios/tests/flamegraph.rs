//! Stacks that other profilers wrote, as a call tree and kept for more questions; and pictures of
//! stacks, opened in a browser.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use controller::profile::svg::{self, Frame, Kind, Options};
use scenarios::{client::Client, not_run::not_run, sysmcp::Sysmcp};
use serde_json::{Value, json};
use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(60);

fn folded(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/folded");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// The answer of a call that has to have one.
fn asked(client: &mut Client, tool: &str, parameters: &Value) -> Value {
    let result = client.call(tool, parameters, PATIENCE).unwrap();
    assert_eq!(result["isError"], json!(false), "{tool}: {result}");
    result["structuredContent"].clone()
}

/// What is said instead of an answer.
fn refused(client: &mut Client, tool: &str, parameters: &Value) -> String {
    let result = client.call(tool, parameters, PATIENCE).unwrap();
    assert_eq!(result["isError"], json!(true), "{tool}: {result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

fn branches(answer: &Value) -> Vec<(&str, f64, f64)> {
    let branches = answer["tree"]["branches"].as_array().unwrap();
    let share = |branch: &Value, name| branch[name].as_f64().unwrap();
    branches
        .iter()
        .map(|branch| {
            let name = branch["function"]["name"].as_str().unwrap();
            (name, share(branch, "self_pct"), share(branch, "total_pct"))
        })
        .collect()
}

#[test]
fn what_other_profilers_write_becomes_a_tree() {
    let mut client = Client::start(Sysmcp::local().unwrap().command()).unwrap();
    for (file, hot, kind) in [
        ("py-spy.folded", "raw_decode", "user"),
        ("perf.folded", "hash", "user"),
        ("async-profiler.folded", "Demo.hash", "jit"),
        ("bcc.folded", "vfs_read", "kernel"),
    ] {
        let parameters = json!({"folded": folded(file), "is_reversed": true, "limit": 500});
        let answer = asked(&mut client, "flamegraph_from_folded", &parameters);
        let all = answer["tree"]["branches"].as_array().unwrap();
        let found = all.iter().find(|branch| {
            branch["depth"] == 0 && branch["function"]["name"].as_str().unwrap().starts_with(hot)
        });
        let found = found.unwrap_or_else(|| panic!("{file}: no {hot} in {answer:#}"));
        assert_eq!(found["function"]["kind"], kind, "{file}: {found}");
        assert!(found["total_pct"].as_f64().unwrap() > 10.0, "{file}: {found}");
        assert_eq!(answer["passed_over"]["lines"], 0, "{file}: {}", answer["passed_over"]);
        assert_eq!(answer["meta"]["engine"], "text that was given");
    }
}

#[test]
fn a_text_that_was_kept_answers_again() {
    let mut client = Client::start(Sysmcp::local().unwrap().command()).unwrap();
    let old = json!({"folded": "main;serve;hash 60\nmain;serve;copy 30\nmain;idle 10\n"});
    let old = asked(&mut client, "flamegraph_from_folded", &old);
    let want = [
        ("main", 0.0, 100.0),
        ("serve", 0.0, 90.0),
        ("hash", 60.0, 60.0),
        ("copy", 30.0, 30.0),
        ("idle", 10.0, 10.0),
    ];
    assert_eq!(branches(&old), want);
    let baseline = &old["meta"]["artifact"];
    assert_eq!(&old["next"][0]["parameters"]["artifact"], baseline, "{old:#}");
    let new = json!({"folded": "main;serve;hash 10\nmain;serve;copy 80\nmain;idle 10\n"});
    let new = asked(&mut client, "flamegraph_from_folded", &new);
    let artifact = &new["meta"]["artifact"];
    let both = json!({"artifact": artifact, "baseline": baseline, "min_pct": 20});
    let both = asked(&mut client, "flamegraph", &both);
    assert_eq!(branches(&both)[2..], [("copy", 80.0, 80.0), ("hash", 10.0, 10.0)]);
    let before = &both["tree"]["branches"][3]["before"];
    assert_eq!(before, &json!({"self_pct": 60, "total_pct": 60}));
    assert_eq!(both["tree"]["pruned"]["by_min_pct"], json!({"branches": 1, "pct": 10}));
    assert_eq!(both["meta"]["engine"], "stored result");
    let report = asked(&mut client, "perf_report", &json!({"artifact": artifact}));
    assert!(report["functions"][0].to_string().contains("copy"), "{report:#}");
}

#[test]
fn what_is_no_list_of_stacks_is_told_with_what_helps() {
    let sysmcp = Sysmcp::local().unwrap();
    let mut client = Client::start(sysmcp.command()).unwrap();
    for (text, said, helps) in [
        ("# nothing\n".to_owned(), "no line but empty ones", "while the program is busy"),
        ("hello\n".to_owned(), "no line ends with a count; the first is `hello`", "py-spy"),
        ("a;b 1 2\na;c 3 4\n".to_owned(), "two counts each", "`baseline`"),
        (
            "x".repeat(1_000_001),
            "a text of 1000001 bytes: expected 1 to 1000000",
            "heaviest stacks",
        ),
    ] {
        let error = refused(&mut client, "flamegraph_from_folded", &json!({"folded": text}));
        assert!(error.contains(said) && error.contains(helps), "{error}");
    }
    let unknown = json!({"artifact": "art-00000000"});
    let error = refused(&mut client, "flamegraph", &unknown);
    assert!(error.contains("no result is stored as art-00000000"), "{error}");
    client.close();
    client.ended(PATIENCE).unwrap();
    let log = fs::read_to_string(sysmcp.audit_log()).unwrap();
    assert!(log.len() < 100_000, "the log has {} bytes", log.len());
}

/// A text as long as may be goes through every limit on its way, and only its start is written down.
#[test]
fn the_longest_text_is_taken_in_and_not_written_down() {
    let sysmcp = Sysmcp::local().unwrap();
    let mut client = Client::start(sysmcp.command()).unwrap();
    let mut text = String::new();
    let mut number = 0_u32;
    while text.len() < 999_950 {
        number += 1;
        text.push_str(&format!("main;worker{};\"<&>\u{1b}{number} {}\n", number % 7, number % 5));
    }
    let answer = asked(&mut client, "flamegraph_from_folded", &json!({"folded": text}));
    assert_eq!(branches(&answer)[0].0, "main");
    let total = answer["meta"]["truncation"]["total"].as_u64().unwrap();
    assert!(total > 10_000, "{answer:#}");
    let intent = sysmcp.audited("intent").unwrap().remove(0);
    assert!(intent["parameters_bytes"].as_u64().unwrap() > 1_000_000, "{intent}");
    assert!(intent.to_string().len() < 4_000, "{intent}");
    let script = sysmcp.command().args(["audit", "script"]).output().unwrap();
    let script = String::from_utf8(script.stdout).unwrap();
    assert!(script.contains("not repeated: flamegraph_from_folded"), "{script}");
}

#[test]
fn a_file_is_read_by_the_command_line() {
    let sysmcp = Sysmcp::local().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.folded");
    fs::write(&path, "main;hash 3\nmain;idle 1\n").unwrap();
    for from in [path.to_str().unwrap(), "-"] {
        let mut command = sysmcp.command();
        let named = format!("folded={from}");
        command.args(["call", "flamegraph_from_folded", "--json", "--param-file", &named]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(&fs::read(&path).unwrap()).unwrap();
        let output = child.wait_with_output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(branches(&answer)[1], ("hash", 75.0, 75.0));
    }
}

/// A browser, where there is one.
fn chromium() -> Option<PathBuf> {
    let found = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
        .map(PathBuf::from)
        .into_iter()
        .find(|path| path.is_file());
    if found.is_none() {
        not_run("pictures of stacks in a browser", "chromium");
    }
    found
}

fn frame(name: &str) -> Frame<'_> {
    let kind = if name.starts_with("vfs_") { Kind::Kernel } else { Kind::User };
    Frame { name, module: None, kind }
}

type Stacks<'s> = Vec<(Vec<Frame<'s>>, u64)>;

fn stacks<'s>(folded: &'s [(&'s str, u64)]) -> Stacks<'s> {
    folded.iter().map(|(stack, weight)| (stack.split(';').map(frame).collect(), *weight)).collect()
}

const OPTIONS: Options<'static> = Options {
    title: "worker 1 (pid 4711)",
    subtitle: "495 samples in 5.0 s",
    unit: "samples",
    is_reversed: false,
};

/// What a reader does with the picture, and what is seen then.
const READER: &str = r#"
const said = [];
const calls = () => Array.from(document.querySelectorAll(".f")).filter(
  (call) => !call.classList.contains("hidden"));
const name = (call) => call.querySelector("title").textContent.split("\n")[0];
const named = (text) => calls().find((call) => name(call) === text);
const tell = (what, value) => said.push(what + "=" + value);
const type = (text) => {
  const find = document.getElementById("find");
  find.value = text;
  find.dispatchEvent(new Event("input"));
};
const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const width = (call) => parseFloat(call.getAttribute("width")).toFixed(0);
tell("all", calls().length);
tell("wide", document.getElementById("graph").getBoundingClientRect().width === window.innerWidth);
tell("page", document.documentElement.scrollWidth <= window.innerWidth);
tell("label", named("main").querySelector("text").textContent);
type("HASH");
tell("found", document.getElementById("found").textContent);
tell("hits", document.querySelectorAll(".hit").length);
named("serve").querySelector("rect").dispatchEvent(new MouseEvent("click", { bubbles: true }));
tell("zoomed", width(named("serve")) + "," + width(named("hash")) + "," + calls().length);
tell("words", document.getElementById("words").textContent);
press("Escape");
tell("reset", width(named("serve")) + "," + calls().length + "," + document.querySelectorAll(".hit").length);
press("ArrowDown"); press("ArrowDown"); press("ArrowRight"); press("Enter");
tell("keys", name(document.querySelector(".here")) + "," + calls().map(name).join("+"));
document.getElementById("reset").dispatchEvent(new MouseEvent("click", { bubbles: true }));
tell("again", calls().length);
tell("title", document.title);
const end = document.createElementNS("http://www.w3.org/2000/svg", "desc");
end.setAttribute("id", "said");
end.textContent = "[" + said.join("|") + "]";
document.documentElement.appendChild(end);
"#;

/// What the reader saw, in a window so many pixels wide.
fn read(browser: &Path, picture: &str, width: u32) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stacks.svg");
    let end = picture.rfind("</svg>").unwrap();
    let script = format!("{}<script><![CDATA[{READER}]]></script></svg>", &picture[..end]);
    fs::write(&path, script).unwrap();
    let output = Command::new("timeout")
        .arg("60")
        .arg(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("browser").display()))
        .arg(format!("--window-size={width},900"))
        .arg(format!("file://{}", path.display()))
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let said =
        dom.rsplit_once("<desc id=\"said\">[").and_then(|(_, said)| said.split_once("]</desc>"));
    said.unwrap_or_else(|| panic!("{}: {dom:.2000}", output.status)).0.to_owned()
}

#[test]
fn a_picture_is_searched_and_zoomed_in_a_browser() {
    let Some(browser) = chromium() else { return };
    let folded = [
        ("main;serve;hash", 50),
        ("main;serve;vfs_read", 25),
        ("main;idle;hash_init", 15),
        ("start", 10),
    ];
    let flame = svg::flame(stacks(&folded), &OPTIONS);
    for width in [1280, 390] {
        let said = read(&browser, &flame, width);
        let want = "all=7|wide=true|page=true|label=main|found=2 calls, 65.0 %|hits=2|\
                    zoomed=100,67,4|words=serve user: 75.0 % of samples (75 of 100), itself 0 %|\
                    reset=75,7,0|keys=idle,main+idle+hash_init|again=7|title=worker 1 (pid 4711)";
        assert_eq!(said, want, "{width} pixels wide");
    }
    let before = [("main;serve;hash", 90), ("main;idle", 5), ("start", 5)];
    let change = svg::differential(stacks(&before), stacks(&folded), &OPTIONS);
    let said = read(&browser, &change, 1280);
    assert!(said.contains("words=serve user: 90.0 % → 75.0 % (-15.0) of samples"), "{said}");
}

#[test]
fn no_name_is_obeyed_by_a_browser() {
    let Some(browser) = chromium() else { return };
    let hostile = [
        "<script>document.title='owned'</script>",
        "]]><script>document.title='owned'</script>",
        "</title><image href='x' onerror=\"document.title='owned'\"/>",
        "\" onload=\"document.title='owned'",
        "'-(document.title='owned')-'",
        "\u{202e}\u{1b}[31m\u{0}",
        "",
        "worker 1 7",
    ];
    let mut all: Stacks<'_> = stacks(&[("main;serve;hash", 40), ("main;idle", 20)]);
    all.extend(
        hostile.iter().map(|name| {
            (vec![frame("main"), Frame { name, module: Some(name), kind: Kind::Jit }], 5)
        }),
    );
    let options = Options { title: hostile[1], subtitle: hostile[0], ..OPTIONS };
    let said = read(&browser, &svg::flame(all, &options), 1280);
    assert!(said.contains("all=12|"), "{said}");
    assert!(said.contains("title=]]&gt;&lt;script&gt;document.title='owned'"), "{said}");
}

//! Recording where processor time goes, and asking a recording again: of programs whose time is known,
//! with whatever login, and of what a session keeps.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "sampling/logins.rs"]
mod logins;
#[path = "sampling/programs.rs"]
mod programs;
#[path = "sampling/session.rs"]
mod session;

use programs::{Session, hot, idle, is_about};
use scenarios::not_run::{not_here, not_run};
use serde_json::{Value, json};
use std::{fs, path::PathBuf};

/// The rows of a list, and in each the text of a field.
fn texts<'v>(rows: &'v Value, field: &str) -> Vec<&'v str> {
    rows.as_array().unwrap().iter().map(|row| row[field].as_str().unwrap()).collect()
}

fn lines(conclusion: &Value) -> String {
    conclusion
        .as_array()
        .map(|lines| lines.iter().map(Value::to_string).collect())
        .unwrap_or_default()
}

/// S4.
#[test]
fn callers_of_a_hot_function_are_the_planted_ones() {
    let program = hot(70);
    let mut session = Session::start();
    let recorded = session.record(400, &json!({"pid": program.pid()}));
    let samples = &recorded["recording"]["samples"];
    let first = &recorded["functions"][0];
    assert_eq!((&first["name"], &first["module"]), (&json!("hot"), &json!("two_ways")));
    assert!(first["self_pct"].as_f64().unwrap() > 80.0, "{recorded:#}");
    assert!(first["line"].as_str().unwrap().contains("two_ways.c:"), "{first}");
    let stack = &recorded["stacks"][0]["calls"];
    assert_eq!(stack[0], "_start (two_ways)", "the outermost call is the first: {stack}");
    assert!(recorded["recording"]["quality"]["complete_pct"].as_f64().unwrap() > 99.0);
    assert!(lines(&recorded["because"]).contains("% of one processor"), "{recorded:#}");
    // As the next step says it: the heaviest function needs no name.
    let next = recorded["next"].as_array().unwrap();
    let next = next.iter().find(|step| step["parameters"]["mode"] == "callers").unwrap();
    let asked = session.answer("perf_report", &next["parameters"]);
    let named = session.report(&recorded, json!({"mode": "callers", "function": "hot"}));
    for callers in [asked, named] {
        let chains = &callers["chains"];
        assert_eq!(chains["functions"], json!(["hot (two_ways)"]));
        for (row, (way, share)) in [("by_first", 70.0), ("by_second", 30.0)].into_iter().enumerate()
        {
            let row = &chains["rows"][row];
            let calls: Vec<&str> = row["calls"]
                .as_array()
                .unwrap()
                .iter()
                .map(|call| call.as_str().unwrap())
                .collect();
            let planted = [way, "either", "main"].map(|name| format!("{name} (two_ways)"));
            assert_eq!(calls[..3], planted, "{chains:#}");
            assert_eq!(calls.last(), Some(&"_start (two_ways)"), "{chains:#}");
            assert!(is_about(&row["of_function_pct"], share, samples), "{chains:#}");
        }
    }
    let callees = session.report(&recorded, json!({"mode": "callees", "function": "either"}));
    let first = &callees["chains"]["rows"][0];
    assert_eq!(first["calls"], json!(["by_first (two_ways)", "hot (two_ways)"]), "{callees:#}");
}

#[test]
fn every_mode_answers_from_what_was_recorded() {
    let program = hot(70);
    let mut session = Session::start();
    let recorded = session.record(200, &json!({"pid": program.pid(), "start_ticks": 0}));
    let total = session.report(&recorded, json!({"sort": "total"}));
    assert_eq!(total["functions"][0]["total_pct"].as_f64(), Some(100.0), "{total:#}");
    let names = texts(&total["functions"], "name");
    assert!(names[..4].contains(&"main"), "the outermost first: {names:?}");
    let threads = session.report(&recorded, json!({"mode": "threads"}));
    let thread = &threads["threads"][0];
    assert_eq!(thread["tid"], json!(program.pid()), "{threads:#}");
    assert_eq!(thread["pct"].as_f64(), Some(100.0), "{threads:#}");
    assert_eq!(thread["name"], "two_ways");
    let modules = session.report(&recorded, json!({"mode": "modules"}));
    assert_eq!(modules["modules"][0]["name"], "two_ways", "{modules:#}");
    let lines = session.report(&recorded, json!({"mode": "lines", "function": "hot"}));
    let line = &lines["lines"][0];
    assert!(line["file"].as_str().unwrap().ends_with("two_ways.c"), "{lines:#}");
    assert_eq!(line["function"], "hot");
    // A name that only one function has a part of; one that several have; one that none has.
    let part = session.report(&recorded, json!({"mode": "callers", "function": "by_sec"}));
    assert_eq!(part["chains"]["functions"], json!(["by_second (two_ways)"]));
    let artifact = &recorded["meta"]["artifact"];
    for (name, want) in
        [("by_", "in the names of 2 functions: `by_first`"), ("\u{1b}[2J", "no function")]
    {
        let parameters = json!({"artifact": artifact, "mode": "callers", "function": name});
        let (error, is_error) = session.call("perf_report", &parameters);
        assert!(is_error && error.to_string().contains(want), "{error}");
        assert!(!error.to_string().contains('\u{1b}'), "{error}");
    }
}

#[test]
fn a_difference_is_told_from_chance() {
    let mut session = Session::start();
    let (same, other) = (hot(70), hot(15));
    let recorded: Vec<Value> = [&same, &same, &other]
        .map(|program| session.record(300, &json!({"pid": program.pid()})))
        .into();
    let baseline = &recorded[0]["meta"]["artifact"];
    let unchanged =
        session.report(&recorded[1], json!({"mode": "diff", "baseline": baseline, "limit": 200}));
    assert_eq!(unchanged["difference"]["significant_total"], 0, "{unchanged:#}");
    assert!(lines(&unchanged["because"]).contains("no function's share changed"), "{unchanged:#}");
    let changed =
        session.report(&recorded[2], json!({"mode": "diff", "baseline": baseline, "limit": 200}));
    let rows = changed["difference"]["rows"].as_array().unwrap();
    let row = |name: &str| {
        let name = format!("{name} (two_ways)");
        rows.iter().find(|row| row["function"] == name.as_str()).unwrap_or_else(|| panic!("{name}"))
    };
    for way in ["by_first", "by_second"] {
        assert_eq!(row(way)["is_significant"], true, "{changed:#}");
    }
    let first = row("by_first");
    assert!(first["before_total_pct"].as_f64() > first["after_total_pct"].as_f64(), "{first}");
    assert_eq!(row("main")["is_significant"], false, "{changed:#}");
    // What is measured by another measure is not compared.
    let faults = json!({"pid": same.pid(), "mode": "page_faults", "window_ms": 200});
    let faults = session.answer("perf_record", &faults);
    let parameters = json!({
        "artifact": faults["meta"]["artifact"], "mode": "diff", "baseline": baseline,
    });
    let (error, is_error) = session.call("perf_report", &parameters);
    assert!(is_error && error.to_string().contains("counts page_faults"), "{error}");
}

#[test]
fn a_process_that_waits_has_no_samples_and_another_tool_is_named() {
    let program = idle();
    let mut session = Session::start();
    let parameters = json!({"pid": program.pid(), "window_ms": 500});
    let answer = session.answer("perf_record", &parameters);
    assert_eq!(answer["recording"]["samples"], 0);
    assert_eq!(answer["class"], "idle", "{answer:#}");
    let next = &answer["next"][0];
    assert_eq!(
        (&next["tool"], &next["parameters"]),
        (&json!("process_inspect"), &json!({"pid": program.pid()}))
    );
    // An empty recording can be asked, too.
    let functions = session.report(&answer, json!({}));
    assert_eq!(functions["functions"], json!([]));
    let inspected = session.answer(next["tool"].as_str().unwrap(), &next["parameters"]);
    assert_eq!(inspected["class"], "idle", "{inspected:#}");
}

#[test]
fn an_answer_about_the_whole_machine_keeps_to_its_budget_and_says_what_it_left_out() {
    const TOKENS: usize = 8_000;
    if !rustix::process::geteuid().is_root() {
        return not_run("a recording of the whole machine", "root");
    }
    let _busy = (hot(70), hot(30));
    let mut session = Session::start();
    let recorded = session.answer("perf_record", &json!({}));
    let all = session.report(&recorded, json!({}));
    for answer in [&recorded, &all] {
        let bytes = answer.to_string().len();
        println!("{bytes} bytes");
        assert!(bytes <= TOKENS * 4, "{bytes} bytes");
        let cut = &answer["meta"]["truncation"];
        if cut["total"].as_u64() > cut["shown"].as_u64() {
            assert!(cut["weight_cut_pct"].is_number(), "{cut}");
        }
    }
    let threads = session.report(&recorded, json!({"mode": "threads", "limit": 200}));
    assert!(texts(&threads["threads"], "name").contains(&"two_ways"), "{threads:#}");
    // As little as may be asked for still has a row, and the rest is there to be asked for.
    let artifact = &recorded["meta"]["artifact"];
    let parameters = json!({"artifact": artifact, "limit": 200, "max_tokens": 1_500});
    let short = session.answer("perf_report", &parameters);
    assert!(short.to_string().len() <= 1_500 * 4, "{}", short.to_string().len());
    let cut = &short["meta"]["truncation"];
    if cut["cut_by"] != "nothing" {
        let rest = short["meta"]["rest"].as_str().unwrap_or_else(|| panic!("{short:#}"));
        let shown = cut["shown"].as_u64().unwrap();
        assert!(rest.contains(&format!("\"offset\":{shown}")), "{rest}");
    }
}

/// A cgroup in the hierarchy that is sampled by: of version 1 where `perf_event` is there, else of
/// version 2.
struct Group(PathBuf);

impl Group {
    fn make() -> std::io::Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let is_it = |line: &&str| {
            let fields: Vec<&str> = line.split(' ').collect();
            fields[2] == "cgroup" && fields[3].split(',').any(|option| option == "perf_event")
        };
        let of_2 = |line: &&str| line.split(' ').nth(2) == Some("cgroup2");
        let found = mounts.lines().find(is_it).or_else(|| mounts.lines().find(of_2));
        let mount = found.and_then(|line| line.split(' ').nth(1)).unwrap_or("/sys/fs/cgroup");
        let folder = PathBuf::from(mount).join(format!("scenario-sampled-{}", std::process::id()));
        fs::create_dir(&folder)?;
        Ok(Self(folder))
    }

    fn take(&self, pid: u32) -> std::io::Result<()> {
        fs::write(self.0.join("cgroup.procs"), pid.to_string())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Processes leave it as they end.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn a_control_group_is_all_of_its_processes_and_no_other() {
    const WHAT: &str = "a recording of a control group";
    if !rustix::process::geteuid().is_root() {
        return not_run(WHAT, "root");
    }
    let group = match Group::make() {
        Ok(group) => group,
        Err(error) => return not_here(WHAT, &error.to_string()),
    };
    let (one, two, other) = (hot(70), hot(30), hot(50));
    for program in [&one, &two] {
        if let Err(error) = group.take(program.pid()) {
            return not_here(WHAT, &error.to_string());
        }
    }
    let mut session = Session::start();
    let recorded = session.record(300, &json!({"pid": one.pid(), "scope": "cgroup"}));
    let recording = &recorded["recording"];
    assert_eq!((&recording["scope"], &recording["pid"]), (&json!("cgroup"), &json!(one.pid())));
    assert!(recording["name"].as_str().unwrap().contains("scenario-sampled-"), "{recording}");
    let pids: Vec<_> =
        recorded["processes"].as_array().unwrap().iter().map(|row| row["pid"].clone()).collect();
    assert_eq!(pids.len(), 2, "{recorded:#}");
    assert!(pids.contains(&json!(one.pid())) && pids.contains(&json!(two.pid())), "{pids:?}");
    drop((one, two, other));
}

#[test]
fn what_is_there_no_more_is_an_error_that_says_what_to_do() {
    let mut session = Session::start();
    let (error, is_error) = session.call("perf_report", &json!({"artifact": "art-00000001"}));
    let error = error.to_string();
    assert!(is_error && error.contains("no result is stored as art-00000001"), "{error}");
    assert!(error.contains("repeat the call that made it"), "{error}");
    // A result of another tool is none of these.
    let list = session.answer("process_list", &json!({"window_ms": 100}));
    let parameters = json!({"artifact": list["meta"]["artifact"]});
    let (error, is_error) = session.call("perf_report", &parameters);
    assert!(is_error && error.to_string().contains("is not a result of this tool"), "{error}");
    let program = idle();
    let parameters = json!({"pid": program.pid(), "start_ticks": 1});
    let (error, is_error) = session.call("perf_record", &parameters);
    assert!(is_error && error.to_string().contains("its pid was reused"), "{error}");
    let (error, is_error) = session.call("perf_record", &json!({"pid": 4_194_303}));
    assert!(is_error && error.to_string().contains("no process has pid 4194303"), "{error}");
    // Where there is no counter for it, what there is instead is not sold as it.
    let parameters = json!({"pid": program.pid(), "mode": "cache_misses", "window_ms": 100});
    let (said, is_error) = session.call("perf_record", &parameters);
    let is_counted = said["recording"]["counted"] == "cache_misses";
    assert!(is_counted || (is_error && said.to_string().contains("counters")), "{said}");
}

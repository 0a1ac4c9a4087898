//! What a login without root's rights can record, and what it is told of the rest.

use super::programs::{Running, hot, two_ways};
use scenarios::{
    not_run::{not_here, not_run},
    programs::agent_for_all,
};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

const NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// Root without the capability that shows the kernel's addresses.
const WITHOUT_SYSLOG: [&str; 4] =
    ["setpriv", "--bounding-set=-syslog", "--inh-caps=-syslog", "--ambient-caps=-syslog"];

fn start(wrapper: &[&str], program: &Path) -> Command {
    let mut command = Command::new(wrapper[0]);
    command.args(&wrapper[1..]).arg(program);
    command
}

/// Asks an agent by hand. The answer, or what it said.
fn record(wrapper: &[&str], agent: &Path, parameters: &Value) -> Result<Value, String> {
    let mut command = start(wrapper, agent);
    command.args(["--local", "perf_record", "--json", "--params", &parameters.to_string()]);
    let output = command.output().unwrap();
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    serde_json::from_slice(&output.stdout).map_err(|_| said())
}

/// The setting that decides; these tests are about the one that the kernel comes with.
fn is_paranoid(check: &str) -> bool {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let is_it = text.trim() == "2";
    if !is_it {
        not_here(check, &format!("kernel.perf_event_paranoid 2, it is {}", text.trim()));
    }
    is_it
}

#[test]
fn an_ordinary_user_records_own_processes_in_user_space_and_is_told_what_lifts_that() {
    const WHAT: &str = "what an ordinary user can record";
    if !rustix::process::geteuid().is_root() {
        return not_run(WHAT, "root, to become another user");
    }
    if !is_paranoid(WHAT) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let agent = agent_for_all(folder.path()).unwrap();
    let program = folder.path().join("two_ways");
    fs::copy(two_ways(), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let own = Running::start(start(&NOBODY, &program).arg("70"));
    let parameters = json!({"pid": own.pid(), "window_ms": 1_500, "hertz": 999});
    let answer = record(&NOBODY, &agent, &parameters).unwrap();
    assert_eq!(answer["functions"][0]["name"], "hot", "{answer:#}");
    assert_eq!(answer["recording"]["quality"]["kernel"], "not_permitted", "{answer:#}");
    let refused = answer["refused"].as_array().unwrap();
    let kernel = refused.iter().find(|row| row["id"] == "perf_own_kernel").unwrap();
    assert!(
        kernel["why"].as_str().unwrap().contains("kernel.perf_event_paranoid is 2"),
        "{kernel}"
    );
    assert_eq!(kernel["remedy"]["run"], json!(["sysctl kernel.perf_event_paranoid=1"]));
    // Others, and all, are looked at in place of that.
    let others = hot(70);
    for (parameters, want) in [
        (json!({"pid": others.pid(), "window_ms": 200}), "needs CAP_PERFMON"),
        (json!({"window_ms": 200}), "sysctl kernel.perf_event_paranoid=0"),
    ] {
        let answer = record(&NOBODY, &agent, &parameters).unwrap();
        assert_eq!(answer["recording"]["counted"], "looks", "{answer:#}");
        assert!(answer["refused"].to_string().contains(want), "{want}: {answer:#}");
    }
}

#[test]
fn hidden_names_of_the_kernel_are_said_to_be_hidden() {
    const WHAT: &str = "hidden names of the kernel";
    if !rustix::process::geteuid().is_root() {
        return not_run(WHAT, "root, to give up a capability");
    }
    if !is_paranoid(WHAT) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let agent = agent_for_all(folder.path()).unwrap();
    // It does nothing but copy in the kernel.
    let mut command = Command::new("dd");
    command.args(["if=/dev/zero", "of=/dev/null", "bs=1M"]);
    let mut copier = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let parameters = json!({"pid": copier.id(), "window_ms": 1_500, "hertz": 499});
    let answer = record(&WITHOUT_SYSLOG, &agent, &parameters);
    let with = record(&["env"], &agent, &parameters);
    let _ = copier.kill();
    let _ = copier.wait();
    let (answer, with) = (answer.unwrap(), with.unwrap());
    assert_eq!(answer["recording"]["quality"]["kernel"], "names_hidden", "{answer:#}");
    assert_eq!(with["recording"]["quality"]["kernel"], "named", "{with:#}");
    assert!(answer["kernel_pct"].as_f64().unwrap() > 50.0, "{answer:#}");
    let refused = answer["refused"].as_array().unwrap();
    let names = refused.iter().find(|row| row["id"] == "kernel_symbols").unwrap();
    assert!(!names["why"].as_str().unwrap().is_empty() && !names["remedy"].is_null(), "{names}");
    // No address is named after what happens to be near.
    let functions = answer["functions"].as_array().unwrap();
    let of_kernel = |row: &&Value| row["module"] == "[kernel]";
    for row in functions.iter().filter(of_kernel) {
        let name = row["name"].as_str().unwrap();
        assert!(!with.to_string().contains(&format!("\"name\":\"{name}\"")), "{name}");
    }
}

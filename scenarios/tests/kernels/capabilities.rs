//! `capabilities` on kernels that have what the developer's may lack: each lever is pulled, what
//! refuses is named, and where a remedy is a command, it is run and shown to work.

use super::{NOBODY, ROOT, boot, booted};
use scenarios::vm::{Boot, Guest};
use serde_json::{Value, json};

fn ask(guest: &mut Guest, uid: u32) -> Vec<Value> {
    let answer = guest.ask(uid, "capabilities", &json!({"all": true})).unwrap();
    answer["checks"].as_array().unwrap().clone()
}

/// One check of an answer.
fn check<'a>(checks: &'a [Value], id: &str) -> &'a Value {
    let found = checks.iter().find(|check| check["ids"][0] == id);
    found.unwrap_or_else(|| panic!("there is no check {id}: {checks:#?}"))
}

/// The commands of its remedy, for root.
fn commands(check: &Value) -> Vec<String> {
    let list = check["remedy"]["run"].as_array().cloned().unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// What a user is refused on Debian as it comes, and nothing more, is lifted by what is named.
pub fn every_command_of_a_remedy_lifts_what_it_is_for(kernel: &str) {
    let mut guest = booted(kernel);
    let mut lifted = Vec::new();
    loop {
        let checks = ask(&mut guest, NOBODY);
        let next = checks.iter().find(|check| !commands(check).is_empty());
        let Some(next) = next else { break };
        let id = next["ids"][0].as_str().unwrap().to_owned();
        assert!(!lifted.contains(&id), "it was not lifted: {next:#}");
        for command in commands(next) {
            guest.sh(&command).unwrap();
        }
        println!("{id}: {} lifted by {:?}", next["why"], commands(next));
        // Another layer may come to light, or no hardware for it.
        let after = ask(&mut guest, NOBODY);
        let after = check(&after, &id);
        assert_ne!(after["why"], next["why"], "{after:#}");
        lifted.push(id);
    }
    for id in ["perf_own_user", "perf_own_kernel", "perf_system_wide", "delay_accounting"] {
        assert!(lifted.iter().any(|lifted| lifted == id), "{id} was not refused: {lifted:?}");
        assert_eq!(check(&ask(&mut guest, NOBODY), id)["state"], "works");
    }
}

/// A line that brings it about, who is refused, what, and what is said of it. The last one cannot be
/// undone.
const LEVERS: [(&str, u32, &str, &str); 8] = [
    ("sysctl kernel.yama.ptrace_scope=1", NOBODY, "ptrace_same_user", "ptrace_scope is 1"),
    ("sysctl kernel.yama.ptrace_scope=2", NOBODY, "ptrace_child", "ptrace_scope is 2"),
    ("sysctl kernel.kptr_restrict=2", ROOT, "kernel_symbols", "kptr_restrict is 2"),
    ("sysctl kernel.kptr_restrict=1", NOBODY, "kernel_symbols", "kptr_restrict is 1"),
    ("sysctl kernel.perf_event_paranoid=3", NOBODY, "perf_own_user", "paranoid is 3"),
    ("true", NOBODY, "bpf_map", "unprivileged_bpf_disabled is 2"),
    ("mount -o remount,hidepid=2 /proc", NOBODY, "processes_visible", "hidepid"),
    ("sysctl kernel.yama.ptrace_scope=3", ROOT, "ptrace_others", "ptrace_scope is 3"),
];

/// No kernel here lacks the filters, for anybody.
pub fn the_sandbox_is_in_force(kernel: &str) {
    let mut guest = booted(kernel);
    for uid in [ROOT, NOBODY] {
        let answer = guest.ask(uid, "capabilities", &json!({})).unwrap();
        let sandbox = &answer["surroundings"]["sandbox"];
        println!("uid {uid}: {sandbox}");
        assert_eq!(sandbox["seccomp"], "enforced");
        assert_eq!(sandbox["capabilities_dropped"].as_u64().unwrap() > 20, uid == ROOT);
    }
}

/// `/proc` is not counted the same way by every kernel.
pub fn all_processes_are_counted(kernel: &str) {
    let checks = ask(&mut booted(kernel), ROOT);
    let visible = check(&checks, "processes_visible");
    let why = visible["why"].as_str().unwrap();
    println!("{why}");
    let mut numbers = why.split(' ').filter_map(|word| word.parse::<u64>().ok());
    let (seen, total) = (numbers.next().unwrap(), numbers.next().unwrap());
    assert!(seen > 10 && seen.abs_diff(total) <= 3, "{visible:#}");
}

pub fn what_refuses_is_named(kernel: &str) {
    let mut guest = booted(kernel);
    for (lever, uid, id, why) in LEVERS {
        guest.sh(lever).unwrap();
        let checks = ask(&mut guest, uid);
        let refused = check(&checks, id);
        println!("{lever}: {}: {} -> {}", refused["state"], refused["why"], refused["remedy"]);
        assert_ne!(refused["state"], "works", "{lever}: {refused:#}");
        assert!(refused["why"].as_str().unwrap().contains(why), "{lever}: {refused:#}");
        assert!(refused["remedy"]["do"].is_string(), "{lever}: {refused:#}");
        let commands = commands(refused);
        for command in &commands {
            guest.sh(command).unwrap();
        }
        if !commands.is_empty() {
            let checks = ask(&mut guest, uid);
            assert_eq!(check(&checks, id)["state"], "works", "{lever}: {commands:?}");
        }
    }
}

/// Of a kernel's own features root has all; what lockdown takes is named after it.
pub fn lockdown_takes_what_it_says(kernel: &str) {
    let features = ["bpf_tp_btf", "bpf_iter", "bpf_perf_event", "bpf_kprobe", "bpf_fentry"];
    let mut guest = booted(kernel);
    for (level, is_taken) in [("none", false), ("integrity", false), ("confidentiality", true)] {
        // As on the kernel's command line; it only ever goes up.
        guest.sh(&format!("echo {level} > /sys/kernel/security/lockdown || true")).unwrap();
        let checks = ask(&mut guest, ROOT);
        for id in features {
            let feature = check(&checks, id);
            if is_taken {
                assert_eq!(feature["state"], "refused", "{level}: {feature:#}");
                let why = feature["why"].as_str().unwrap();
                assert!(why.contains("locked down: confidentiality"), "{feature:#}");
                let remedy = feature["remedy"]["do"].as_str().unwrap();
                assert!(remedy.contains("lockdown=integrity"), "{feature:#}");
            } else {
                assert_eq!(feature["state"], "works", "{level}: {feature:#}");
            }
        }
    }
}

pub fn pressure_works_after_its_remedy(kernel: &str) {
    for (command_line, state) in [("psi=0", "switched_off"), ("psi=1", "works")] {
        let mut guest = boot(kernel, &Boot { command_line, ..Boot::default() });
        let checks = ask(&mut guest, NOBODY);
        let pressure = check(&checks, "pressure");
        assert_eq!(pressure["state"], state, "{pressure:#}");
        if state != "works" {
            assert_eq!(pressure["remedy"]["do"], "boot with psi=1");
        }
    }
}

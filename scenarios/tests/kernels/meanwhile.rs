//! What happens to a machine while it is looked at: a processor goes and comes back, and the clock is
//! set. Neither may be done to the developer's machine.

use super::{ROOT, booted, burn, number};
use scenarios::vm::Guest;
use serde_json::{Value, json};

const SHARES: [&str; 5] = ["user_pct", "system_pct", "interrupts_pct", "steal_pct", "iowait_pct"];

/// The machine over four seconds, in which a line of shell is run.
fn over(guest: &mut Guest, line: &str) -> Value {
    guest.start(ROOT, &["sh", "-c", &format!("sleep 1; {line}")]).unwrap();
    let parameters = json!({"window_ms": 4000, "detail": "full"});
    guest.ask(ROOT, "host_snapshot", &parameters).unwrap()
}

pub fn a_processor_that_goes_and_comes_back_is_no_wild_number(kernel: &str) {
    const SWITCH: &str = "/sys/devices/system/cpu/cpu1/online";
    let mut guest = booted(kernel);
    burn(&mut guest, None);
    let cases = [
        ("goes and comes back", format!("echo 0 > {SWITCH}; sleep 1; echo 1 > {SWITCH}"), 2.0),
        ("goes", format!("echo 0 > {SWITCH}"), 1.0),
        ("comes back", format!("echo 1 > {SWITCH}"), 2.0),
    ];
    for (name, line, online) in cases {
        let cpu = &over(&mut guest, &line)["cpu"];
        let shares = SHARES.map(|share| number(&cpu[share]));
        println!("{name}: {} online, {shares:?}, set back {}", cpu["online"], cpu["set_back"]);
        assert_eq!(number(&cpu["online"]), online, "{name}: {cpu:#}");
        assert!(shares.iter().all(|share| (0.0..=100.0).contains(share)), "{name}: {cpu:#}");
        // Idle while a task waits for storage is idle time.
        assert!(shares[..4].iter().sum::<f64>() <= 100.5, "{name}: {cpu:#}");
        // One of two, or the only one, computes all the time.
        assert!(shares[0] >= 30.0, "{name}: {cpu:#}");
    }
}

pub fn a_clock_that_is_set_is_named_and_moves_no_other_number(kernel: &str) {
    let mut guest = booted(kernel);
    burn(&mut guest, None);
    let cases = [("2035-01-01 00:00:00", 1.0), ("2003-01-01 00:00:00", -1.0)];
    for (date, sign) in cases {
        let answer = over(&mut guest, &format!("date -s '{date}'"));
        let step_days = number(&answer["clock_step_ms"]) / 86_400_000.0;
        println!("{date}: {step_days:.0} days, window {}", answer["meta"]["window_ms"]);
        assert!(sign * step_days > 1000.0, "{date}: {answer:#}");
        assert!((3900.0..8000.0).contains(&number(&answer["meta"]["window_ms"])), "{answer:#}");
        assert!((20.0..=100.0).contains(&number(&answer["cpu"]["user_pct"])), "{answer:#}");
        let list = guest.ask(ROOT, "process_list", &json!({"limit": 200})).unwrap();
        for row in list["processes"].as_array().unwrap() {
            // The guest is not up for longer.
            assert!((0.0..600.0).contains(&number(&row["age_s"])), "{date}: {row:#}");
            assert!((0.0..=205.0).contains(&number(&row["cpu_pct"])), "{date}: {row:#}");
        }
    }
}

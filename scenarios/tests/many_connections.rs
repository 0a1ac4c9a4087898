//! A hundred connections of one process at the same time, each to a server of its own: no answer is
//! lost, none goes astray, and nothing is left. What they cost in memory is printed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use scenarios::many_connections::run;

const CONNECTIONS: u8 = 100;
const CALLS: u32 = 20;

/// What a connection may cost this process at most, in kB: far more than it does, because the
/// memory that an allocator keeps differs from run to run.
const MOST_KIB: f64 = 2048.0;

fn a_hundred(way: &str) {
    let account = run(way, CONNECTIONS, CALLS).unwrap();
    println!("{account:#?}");
    assert_eq!(account.problems, [""; 0]);
    assert_eq!(account.connections, u32::from(CONNECTIONS));
    assert_eq!(account.answers, u32::from(CONNECTIONS) * CALLS);
    assert!(account.each_kib < MOST_KIB, "{account:?}");
}

#[test]
fn a_hundred_connections_lose_no_answer_and_leave_nothing() {
    a_hundred("russh");
}

#[test]
fn a_hundred_connections_over_the_users_ssh_lose_no_answer_and_leave_nothing() {
    a_hundred("openssh");
}

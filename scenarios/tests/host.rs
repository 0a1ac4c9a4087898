//! The machine as a whole, held against what was done to it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use scenarios::{
    not_run::{not_here, not_run},
    programs,
    sysmcp::Sysmcp,
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    thread::sleep,
    time::{Duration, Instant},
};

/// Programs that end with the test, however it ends.
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn snapshot(parameters: &Value) -> Value {
    Sysmcp::local().unwrap().answer("host_snapshot", parameters).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn what_it_is_is_what_the_kernel_says() {
    let answer = snapshot(&json!({"detail": "full"}));
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let total = meminfo.lines().next().unwrap().split_whitespace().nth(1).unwrap();
    let total: f64 = total.parse().unwrap();
    assert_eq!(number(&answer["memory"]["total_bytes"]), total * 1024.0);
    let online = Command::new("getconf").arg("_NPROCESSORS_ONLN").output().unwrap();
    let online: f64 = String::from_utf8(online.stdout).unwrap().trim().parse().unwrap();
    assert_eq!(number(&answer["cpu"]["online"]), online);
    assert!(number(&answer["cpu"]["cores"]) <= online);
    assert_eq!(answer["clock_step_ms"], 0);
}

#[test]
fn an_answer_is_short_and_costs_little() {
    let answer = snapshot(&json!({}));
    let bytes = answer.to_string().len();
    assert!(bytes <= 1500, "{bytes} bytes: {answer}");
    let window = number(&answer["meta"]["window_ms"]);
    assert!((1000.0..3000.0).contains(&window), "{window}");
    let cost = number(&answer["meta"]["overhead"]["agent_cpu_ms"]);
    println!("host_snapshot: {bytes} bytes, {cost} ms of processor time");
}

#[test]
fn what_goes_through_an_interface_is_counted() {
    const BYTES: usize = 40_000_000;
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let place = listener.local_addr().unwrap();
    let ends = Instant::now() + Duration::from_secs(4);
    let sender = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(place).unwrap();
        let block = vec![0; 100_000];
        let mut sent = 0;
        // An even flow, whatever the machine could do.
        while Instant::now() < ends && sent < 4 * BYTES {
            stream.write_all(&block).unwrap();
            sent += block.len();
            sleep(Duration::from_micros(2_500));
        }
        sent
    });
    let receiver = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut room = vec![0; 1 << 20];
        while stream.read(&mut room).unwrap() > 0 {}
    });
    let started = Instant::now();
    sleep(Duration::from_millis(300));
    let answer = snapshot(&json!({"limit": 100, "detail": "full"}));
    let sent = sender.join().unwrap();
    let rate = sent as f64 / started.elapsed().as_secs_f64();
    receiver.join().unwrap();
    let interfaces = answer["interfaces"].as_array().unwrap();
    let loopback = interfaces.iter().find(|interface| interface["name"] == "lo").unwrap();
    let found = number(&loopback["received_bytes_per_s"]);
    assert!(found > rate / 2.0, "{rate:.0} bytes/s were sent, {found} found: {answer}");
    assert!(number(&answer["tcp"]["established"]) >= 2.0, "{answer}");
}

#[test]
fn what_is_written_to_a_disk_is_counted() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let kind = Command::new("stat").args(["-f", "-c", "%T"]).arg(folder.path()).output().unwrap();
    if String::from_utf8_lossy(&kind.stdout).contains("tmpfs") {
        not_here("writes to a disk", "a folder on a disk");
        return;
    }
    let mut file = fs::File::create(folder.path().join("written")).unwrap();
    let ends = Instant::now() + Duration::from_secs(4);
    let writer = std::thread::spawn(move || {
        let (block, started) = (vec![7; 1 << 20], Instant::now());
        let mut written = 0;
        while Instant::now() < ends {
            file.write_all(&block).unwrap();
            file.sync_data().unwrap();
            written += block.len();
        }
        written as f64 / started.elapsed().as_secs_f64()
    });
    sleep(Duration::from_millis(300));
    let answer = snapshot(&json!({"limit": 100, "detail": "full", "window_ms": 2000}));
    let rate = writer.join().unwrap();
    let disks = answer["disks"].as_array().unwrap();
    let found: f64 = disks.iter().map(|disk| number(&disk["write_bytes_per_s"])).sum();
    assert!(found > rate / 2.0, "{rate:.0} bytes/s were written, {found} found: {answer}");
    assert!(disks.iter().any(|disk| disk["write_ms"].as_f64().is_some_and(|ms| ms > 0.0)));
}

#[test]
fn a_task_that_is_deaf_to_signals_is_found_with_what_it_waits_in() {
    // The parent waits as after vfork, until its child runs another program or ends: deaf to
    // signals, and named after the kernel's function for it.
    let call = if cfg!(target_arch = "x86_64") { 56 } else { 220 };
    let script = format!("syscall({call}, 0x4011, 0, 0, 0, 0) or sleep 4; sleep 4");
    let parent = match Command::new("perl").args(["-e", &script]).spawn() {
        Ok(parent) => parent,
        Err(error) => {
            not_run("a task that is deaf to signals", &format!("perl: {error}"));
            return;
        }
    };
    let pid = parent.id();
    let _children = Children(vec![parent]);
    sleep(Duration::from_millis(500));
    let answer = snapshot(&json!({"limit": 100, "detail": "full"}));
    let groups = answer["blocked"]["groups"].as_array().unwrap();
    let found = groups.iter().find(|group| group["pid"] == pid);
    let found = found.unwrap_or_else(|| panic!("pid {pid} is not found: {answer}"));
    assert_eq!(found["name"], "perl");
    assert!(found["channel"].as_str().unwrap().contains("clone"), "{found}");
    assert!(number(&answer["blocked"]["tasks"]) >= 1.0);
}

#[test]
fn more_work_than_processors_is_a_shortage_of_processors() {
    let cpus = std::thread::available_parallelism().unwrap().get();
    let burn = || {
        let mut command = Command::new(programs::scenarios());
        command.args(["burn", "--seconds", "20"]).spawn().unwrap()
    };
    let children = Children((0..3 * cpus).map(|_| burn()).collect());
    sleep(Duration::from_secs(1));
    let answer = snapshot(&json!({"window_ms": 2000}));
    drop(children);
    if answer["pressure"]["cpu_some_pct"].is_null() {
        not_here("a shortage of processors", "pressure stall information");
        return;
    }
    let classes = format!("{} {}", answer["class"], answer["also"]);
    assert!(classes.contains("cpu_saturated"), "{answer:#}");
    let bytes = answer.to_string().len();
    assert!(bytes <= 1500, "{bytes} bytes on a busy machine: {answer}");
    assert!(number(&answer["cpu"]["user_pct"]) > 60.0, "{answer:#}");
    assert!(number(&answer["cpu"]["runnable"]) >= cpus as f64, "{answer:#}");
}

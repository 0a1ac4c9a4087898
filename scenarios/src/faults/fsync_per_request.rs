//! Each request appends some lines to a log and waits for each until it is on the disk.

use super::{Behaviour, Needs, Truth, Worker};
use std::{fs::OpenOptions, io::Write as _};

pub(super) struct Fault;

/// Lines for each request.
const LINES: usize = 100;

impl Behaviour for Fault {
    const TRUTH: Truth = Truth {
        class: "blocked_on_io",
        never: &["throttled", "blocked_on_lock", "memory_bound", "idle"],
        needs: Needs::Nothing,
    };

    fn request(worker: &mut Worker<'_>) {
        if worker.index > 0 {
            // One worker does all: the others would only wait for the same journal.
            std::thread::sleep(std::time::Duration::from_millis(200));
            return;
        }
        let path = worker.folder.join("orders.log");
        let log = worker
            .log
            .take()
            .or_else(|| OpenOptions::new().append(true).create(true).open(path).ok());
        if let Some(mut log) = log {
            for _ in 0..LINES {
                let _ = log.write_all(b"one more item was ordered\n");
                let _ = log.sync_all();
            }
            worker.log = Some(log);
        }
    }
}

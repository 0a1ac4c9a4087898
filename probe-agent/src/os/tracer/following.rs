//! The tracer: a thread that seizes others, sees their calls, and lets them go.

use super::{
    End, Entered, MOST_THREADS, Sight, Wish,
    answering::Outbox,
    launched::Launch,
    memory,
    requests::{self, At, Stop, Tid, Waited},
};
use crate::os::clock;
use rustix::io::Errno;
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// For how long threads are waited for that do not stop to be let go: in an uninterruptible sleep they
/// do not. They are the kernel's to let go then, at the end of the tracer.
const PATIENCE: Duration = Duration::from_millis(250);

/// The same for one that has ended without a word, as the first thread of a process whose others go on.
const PATIENCE_WITH_THE_DEAD: Duration = Duration::from_millis(20);

/// Follows until the wish's time is over or the outbox is closed. The calling thread must end with it.
pub(super) fn run(wish: &Wish, outbox: &Outbox) -> End {
    let mut tracer = Tracer {
        outbox,
        started: Instant::now(),
        limit: wish.limit,
        threads: HashMap::new(),
        launch: None,
        end: End::default(),
    };
    if wish.is_launched {
        tracer.follow_launched();
    } else {
        for pid in &wish.pids {
            tracer.seize_process(*pid);
        }
        tracer.watch();
        tracer.let_go();
    }
    tracer.end.attached_us = micros(tracer.started.elapsed());
    tracer.end
}

pub(super) struct Tracer<'o> {
    pub(super) outbox: &'o Outbox,
    started: Instant,
    limit: Duration,
    /// Who is traced, with its process.
    pub(super) threads: HashMap<Tid, u32>,
    /// The command, where it was launched.
    pub(super) launch: Option<Launch>,
    pub(super) end: End,
}

/// Whether anybody is traced still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Somebody may be.
    Some,
    /// Nobody is.
    Nobody,
}

impl Tracer<'_> {
    fn is_over(&self) -> bool {
        self.outbox.is_closed() || self.started.elapsed() >= self.limit
    }

    /// Seizes all threads of a process. One that is born meanwhile of one that is seized is too.
    fn seize_process(&mut self, pid: u32) {
        let mut refused = None;
        loop {
            let (mut found_new, mut tids) = (false, Vec::new());
            let _ = list_threads(pid, &mut tids);
            if tids.is_empty() {
                refused = refused.or(Some(Errno::SRCH));
            }
            for tid in tids {
                if self.threads.contains_key(&tid) || self.is_over() {
                    continue;
                }
                if self.threads.len() >= MOST_THREADS {
                    self.end.is_full = true;
                    break;
                }
                match requests::seize(tid) {
                    Ok(()) => {
                        found_new = true;
                        self.threads.insert(tid, pid);
                        // It stops at its next call only once it has been let go on to that.
                        let _ = requests::interrupt(tid);
                    }
                    // It has ended, or is one of those born meanwhile.
                    Err(Errno::SRCH) => {}
                    Err(_) if self.has_process(pid) => {}
                    Err(errno) => refused = refused.or(Some(errno)),
                }
            }
            if !found_new {
                break;
            }
        }
        if !self.has_process(pid) {
            let errno = refused.unwrap_or(Errno::SRCH);
            self.end.refused.push((pid, errno.raw_os_error()));
        }
    }

    fn has_process(&self, pid: u32) -> bool {
        self.threads.values().any(|of| *of == pid)
    }

    pub(super) fn watch(&mut self) -> Left {
        while !self.is_over() {
            if self.take_one() == Left::Nobody {
                return Left::Nobody;
            }
        }
        Left::Some
    }

    /// Waits for one thread, and sees what it did.
    pub(super) fn take_one(&mut self) -> Left {
        match requests::wait() {
            Waited::Stopped(tid, stop) => {
                let stopped = Instant::now();
                self.note(tid);
                self.stopped(tid, stop);
                self.count_pause(stopped.elapsed());
            }
            Waited::Ended(tid, status) => self.ended(tid, status),
            Waited::Woken => {}
            Waited::Nobody => return Left::Nobody,
        }
        Left::Some
    }

    /// Takes note of a thread that was born meanwhile.
    fn note(&mut self, tid: Tid) {
        if self.threads.contains_key(&tid) {
            return;
        }
        let pid = process_of(tid).unwrap_or_else(|| tid.unsigned_abs());
        self.threads.insert(tid, pid);
        self.end.is_full |= self.threads.len() > MOST_THREADS;
        if pid == tid.unsigned_abs() {
            self.tell_name(pid);
        }
    }

    fn count_pause(&mut self, pause: Duration) {
        let pause = micros(pause);
        self.end.stops += 1;
        self.end.pause_us_max = self.end.pause_us_max.max(pause);
        self.end.pause_us_total = self.end.pause_us_total.saturating_add(pause);
    }

    /// Sees what a thread stopped for, and lets it go on. An error is that it has ended meanwhile.
    fn stopped(&mut self, tid: Tid, stop: Stop) {
        let signal = match stop {
            Stop::Call | Stop::Filtered => {
                self.call(tid);
                0
            }
            Stop::WithItsProcess => {
                let _ = requests::leave_stopped(tid);
                return;
            }
            Stop::Ran => {
                self.ran(tid);
                0
            }
            Stop::Asked => {
                self.let_run(tid);
                0
            }
            Stop::Event => 0,
            Stop::Signal(signal) => signal,
        };
        let _ = if self.is_in_no_call_to_see(tid) {
            requests::go_on_to_filter(tid, signal)
        } else {
            requests::go_on(tid, signal)
        };
    }

    fn call(&mut self, tid: Tid) {
        let time_ns = u64::try_from(clock::monotonic().as_nanos()).unwrap_or(u64::MAX);
        match requests::at(tid) {
            Ok(At::Entry { is_foreign, number, arguments }) => {
                self.begins(tid, number);
                let memory =
                    if is_foreign { Vec::new() } else { memory::copy(tid, number, &arguments) };
                let pid = self.threads.get(&tid).copied().unwrap_or_default();
                let tid = tid.unsigned_abs();
                self.see(&Sight::Entered(Entered {
                    pid,
                    tid,
                    time_ns,
                    is_foreign,
                    number,
                    arguments,
                    memory,
                }));
            }
            Ok(At::Exit { answer }) => {
                self.is_back(tid);
                self.see(&Sight::Returned { tid: tid.unsigned_abs(), time_ns, answer });
            }
            Ok(At::Neither) => {}
            Err(Errno::SRCH) => {}
            Err(errno) => {
                // The kernel does not know the request: nothing is to come of it.
                if let Some(pid) = self.threads.get(&tid) {
                    self.end.refused.push((*pid, errno.raw_os_error()));
                }
                self.limit = Duration::ZERO;
            }
        }
    }

    fn ran(&mut self, tid: Tid) {
        let former = requests::message(tid).ok().and_then(|tid| Tid::try_from(tid).ok());
        let former = former.unwrap_or(tid);
        let pid = tid.unsigned_abs();
        if former != tid {
            self.threads.remove(&former);
        }
        self.threads.insert(tid, pid);
        self.note_run(tid, former);
        self.see(&Sight::Ran { pid, former_tid: former.unsigned_abs() });
        self.tell_name(pid);
    }

    fn ended(&mut self, tid: Tid, status: i32) {
        self.note_end(tid, status);
        if self.threads.remove(&tid).is_some() {
            self.end.tids.push(tid.unsigned_abs());
            self.see(&Sight::Ended { tid: tid.unsigned_abs() });
        }
    }

    /// Lets everybody go. A thread is let go only where it stands still, whatever it stopped for, and
    /// nobody is waited for alone: one that waits for a child to run a program, after `vfork`, stands still
    /// only after that child was let go.
    fn let_go(&mut self) {
        let began = Instant::now();
        for tid in self.threads.keys().copied().collect::<Vec<_>>() {
            self.end.tids.push(tid.unsigned_abs());
            if requests::interrupt(tid) == Err(Errno::SRCH) {
                self.threads.remove(&tid);
            }
        }
        while !self.threads.is_empty() && began.elapsed() < PATIENCE {
            match requests::wait() {
                Waited::Stopped(tid, stop) => {
                    let signal = if let Stop::Signal(signal) = stop { signal } else { 0 };
                    let _ = requests::detach(tid, signal);
                    if self.threads.remove(&tid).is_none() {
                        self.end.tids.push(tid.unsigned_abs());
                    }
                }
                Waited::Ended(tid, _) => {
                    self.threads.remove(&tid);
                }
                Waited::Woken if began.elapsed() > PATIENCE_WITH_THE_DEAD => {
                    self.threads.retain(|tid, pid| !has_ended(*tid, *pid));
                }
                Waited::Woken => {}
                Waited::Nobody => self.threads.clear(),
            }
        }
        self.end.left_to_the_kernel = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn list_threads(pid: u32, tids: &mut Vec<Tid>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        tids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<Tid>().ok()));
    }
    Ok(())
}

/// The process of a thread, `Tgid` in `/proc/TID/status`.
fn process_of(tid: Tid) -> Option<u32> {
    let status = std::fs::read(format!("/proc/{tid}/status")).ok()?;
    let mut lines = status.split(|byte| *byte == b'\n');
    let number = lines.find_map(|line| line.strip_prefix(b"Tgid:"))?;
    std::str::from_utf8(number.trim_ascii()).ok()?.parse().ok()
}

/// Whether a thread is gone, or waits for others of its process to go.
fn has_ended(tid: Tid, pid: u32) -> bool {
    let Ok(stat) = std::fs::read(format!("/proc/{pid}/task/{tid}/stat")) else { return true };
    let state = stat.iter().rposition(|byte| *byte == b')').and_then(|at| stat.get(at + 2));
    matches!(state, None | Some(b'Z' | b'X'))
}

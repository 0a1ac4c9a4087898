//! The tracer: a thread that seizes others, sees their calls, and lets them go.

use super::{
    End, Entered, LONGEST, MOST_THREADS, Sight, Wish,
    answering::Outbox,
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
        limit: wish.limit.min(LONGEST),
        threads: HashMap::new(),
        end: End::default(),
    };
    for pid in &wish.pids {
        tracer.seize_process(*pid);
    }
    tracer.watch();
    tracer.let_go();
    tracer.end.attached_us = micros(tracer.started.elapsed());
    tracer.end
}

struct Tracer<'o> {
    outbox: &'o Outbox,
    started: Instant,
    limit: Duration,
    /// Who is traced, with its process.
    threads: HashMap<Tid, u32>,
    end: End,
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

    fn watch(&mut self) {
        while !self.is_over() {
            match requests::wait() {
                Waited::Stopped(tid, stop) => {
                    let stopped = Instant::now();
                    self.note(tid);
                    self.stopped(tid, stop);
                    self.count_pause(stopped.elapsed());
                }
                Waited::Ended(tid) => self.ended(tid),
                Waited::Woken => {}
                Waited::Nobody => return,
            }
        }
    }

    /// Takes note of a thread that was born meanwhile.
    fn note(&mut self, tid: Tid) {
        let born = || process_of(tid).unwrap_or_else(|| tid.unsigned_abs());
        self.threads.entry(tid).or_insert_with(born);
        self.end.is_full |= self.threads.len() > MOST_THREADS;
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
            Stop::Call => {
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
            Stop::Asked | Stop::Event => 0,
            Stop::Signal(signal) => signal,
        };
        let _ = requests::go_on(tid, signal);
    }

    fn call(&mut self, tid: Tid) {
        let time_ns = u64::try_from(clock::monotonic().as_nanos()).unwrap_or(u64::MAX);
        match requests::at(tid) {
            Ok(At::Entry { is_foreign, number, arguments }) => {
                let memory =
                    if is_foreign { Vec::new() } else { memory::copy(tid, number, &arguments) };
                let pid = self.threads.get(&tid).copied().unwrap_or_default();
                let tid = tid.unsigned_abs();
                self.outbox.put(&Sight::Entered(Entered {
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
                self.outbox.put(&Sight::Returned { tid: tid.unsigned_abs(), time_ns, answer });
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
        self.outbox.put(&Sight::Ran { pid, former_tid: former.unsigned_abs() });
    }

    fn ended(&mut self, tid: Tid) {
        if self.threads.remove(&tid).is_some() {
            self.end.tids.push(tid.unsigned_abs());
            self.outbox.put(&Sight::Ended { tid: tid.unsigned_abs() });
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
                Waited::Ended(tid) => {
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

//! A sweep: finds what sessions of sysmcp left on this machine and removes it, touching nothing else.
//!
//! It is asked for on the command line alone: no message of a session leads here, and an agent that
//! serves one never signals what is not its own.

mod belongs;
mod folders;
mod processes;
mod sessions;

use crate::{
    command_line::SweepStart,
    exit,
    os::{harden, stdout::write_all},
    proc::Root,
    serve::{self, Outbox, Start},
};
use folders::{Candidate, Found, Life};
use processes::{Scan, Scanner, Seen};
use protocol::{
    handshake::{MarkScanner, Token},
    host_text::HostText,
    message::FromAgent,
    sweep::{Became, Left, Order, Process, Session, Spared, Swept},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::Signal,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// After which a session is looked at once more before it is taken for dead: it may have been starting
/// or ending.
const MOMENT: Duration = Duration::from_millis(500);

/// How long a session that is alive gets to end by itself, once its supervisor was asked to: that
/// kills for five seconds.
const ORDERLY: Duration = Duration::from_secs(7);

/// How long processes are killed before those left are given up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(30);

/// Processes and folders that are listed, each.
const MOST_LISTED: usize = 500;

/// Sweeps. Returns the process's exit code.
pub fn run(start: &SweepStart) -> i32 {
    match &start.token {
        Some(token) => over_the_wire(start, token),
        None => by_hand(start),
    }
}

fn by_hand(start: &SweepStart) -> i32 {
    harden::harden();
    let swept = sweep(start.order, None);
    let text = if start.json {
        serde_json::to_string(&swept).unwrap_or_default()
    } else {
        swept.lines().join("\n")
    };
    match crate::local::print(&(text + "\n")) {
        exit::STOPPED => exit_code(&swept),
        code => code,
    }
}

const fn exit_code(swept: &Swept) -> i32 {
    if swept.left == 0 { exit::STOPPED } else { exit::SOMETHING_LEFT }
}

fn over_the_wire(start: &SweepStart, token: &Token) -> i32 {
    let session = Start { token: token.clone(), folder: start.folder.clone(), snapshot: None };
    session.remove_folder();
    harden::harden();
    let greeting = Root::live().map_err(|error| error.to_string());
    let greeting = greeting.and_then(|root| serve::greeting(&root, &session, std::process::id()));
    let (mark, hello) = match greeting {
        Ok(greeting) => greeting,
        Err(error) => return exit::complain(&error, exit::CANNOT_START),
    };
    let outbox = Outbox::default();
    if write_all(&mark.to_bytes()).is_err() || !outbox.send(&hello) {
        return exit::CHANNEL_CLOSED;
    }
    if let Err(code) = wait_for_controller(token) {
        return code;
    }
    let swept = sweep(start.order, Some(token));
    let code = exit_code(&swept);
    if outbox.send(&FromAgent::Swept(swept)) { code } else { exit::CHANNEL_CLOSED }
}

/// Waits until the controller has spoken: nothing is done for one that is gone.
fn wait_for_controller(token: &Token) -> Result<(), i32> {
    let limit = Timespec::try_from(serve::SILENCE_LIMIT).ok();
    let stdin = rustix::stdio::stdin();
    let mut scanner = MarkScanner::for_controller(token);
    let mut bytes = vec![0; 16 << 10];
    loop {
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], limit.as_ref()) {
            Ok(0) => return Err(exit::SILENCE),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return Err(exit::CHANNEL_CLOSED),
        }
        match rustix::io::read(stdin, &mut bytes) {
            Ok(0) => return Err(exit::CHANNEL_CLOSED),
            Ok(read) => match scanner.push(bytes.get(..read).unwrap_or_default()) {
                Ok(None) => {}
                Ok(Some(_)) => return Ok(()),
                Err(_) => return Err(exit::BAD_FRAME),
            },
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return Err(exit::CHANNEL_CLOSED),
        }
    }
}

/// Finds what sessions left, and removes it as far as it may. The session of whoever sweeps is none.
pub fn sweep(order: Order, own: Option<&Token>) -> Swept {
    // Folders first: the session of one that is made later is not among them, and that of each of
    // these shows among the processes if it is alive.
    let found = folders::find();
    let own = own.map(Token::as_str);
    let mut swept = Swept { is_dry_run: order.dry_run, ..Swept::default() };
    let alive = match Scanner::new() {
        Ok(scanner) => {
            swept.is_proc_hidden = scanner.is_hidden();
            let mut broom = Broom { scanner, own, books: BTreeMap::new(), unread: 0 };
            let alive = broom.run(order);
            swept.unread_processes = broom.unread;
            broom.report(&mut swept, &alive);
            Some(if order.live && !order.dry_run { BTreeSet::new() } else { alive })
        }
        Err(_) => {
            swept.has_no_proc = true;
            None
        }
    };
    sweep_folders(found, own, alive.as_ref(), &mut swept);
    let folders = swept.folders.iter().map(|folder| &folder.became);
    let left = folders.filter(|became| became.is_left()).count();
    swept.left = swept.left.saturating_add(count(left));
    let surplus = swept.folders.len().saturating_sub(MOST_LISTED);
    swept.folders.truncate(MOST_LISTED);
    swept.unlisted = swept.unlisted.saturating_add(count(surplus));
    swept
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn sweep_folders(
    found: Found,
    own: Option<&str>,
    alive: Option<&BTreeSet<String>>,
    swept: &mut Swept,
) {
    let is_own = |candidate: &Candidate| own == Some(candidate.token.as_str());
    for candidate in found.candidates.into_iter().filter(|candidate| !is_own(candidate)) {
        let life = match alive {
            None => Life::Unknown,
            Some(alive) if alive.contains(candidate.token.as_str()) => Life::Alive,
            Some(_) => Life::Dead,
        };
        swept.folders.extend(candidate.sweep(life, swept.is_dry_run));
    }
    swept.folders.extend(found.silent);
}

/// A process, by what names it for good.
type Key = (u32, u64);

/// What is known of every process of a session that was seen.
type Book = BTreeMap<Key, Process>;

struct Broom<'o> {
    scanner: Scanner,
    own: Option<&'o str>,
    books: BTreeMap<String, Book>,
    unread: u32,
}

impl Broom<'_> {
    fn scan(&mut self) -> Scan {
        let scan = self.scanner.scan();
        self.unread = scan.unread;
        scan
    }

    /// Ends what is to be ended. Gives the sessions that were alive.
    fn run(&mut self, order: Order) -> BTreeSet<String> {
        let first = self.scan();
        let mut dead = dead_in(&first, self.own);
        let scan = if dead.is_empty() {
            first
        } else {
            std::thread::sleep(MOMENT);
            let second = self.scan();
            // Dead both times: neither starting nor ending.
            dead = &dead & &dead_in(&second, self.own);
            second
        };
        let mut alive = BTreeSet::new();
        for (token, session) in sessions::of(&scan, self.own) {
            let became = match (dead.contains(&token), order) {
                (true, Order { dry_run: true, .. }) => Became::WouldRemove,
                (false, Order { dry_run: true, live: true }) => Became::WouldRemove,
                (false, Order { .. }) => Became::Spared(Spared::Alive),
                (true, Order { .. }) => Became::Removed,
            };
            if !dead.contains(&token) {
                alive.insert(token.clone());
            }
            self.note(&token, &session.members, &became);
        }
        if order.dry_run {
            return alive;
        }
        if order.live && !alive.is_empty() {
            self.ask_to_end(&alive);
            dead.extend(alive.iter().cloned());
        }
        if !dead.is_empty() {
            self.kill(&dead);
        }
        alive
    }

    /// Notes processes of a session.
    fn note(&mut self, token: &str, members: &[&Seen], became: &Became) {
        let book = self.books.entry(token.to_owned()).or_default();
        for seen in members {
            let name = HostText::capped(&seen.name, 64);
            let process = Process { pid: seen.pid, name, became: became.clone() };
            book.insert((seen.pid, seen.start_ticks), process);
        }
    }

    /// Asks sessions that are alive to end by themselves, and waits until they have.
    fn ask_to_end(&mut self, alive: &BTreeSet<String>) {
        let started = Instant::now();
        let mut is_asked = false;
        while started.elapsed() < ORDERLY {
            let scan = self.scan();
            let sessions = sessions::of(&scan, self.own);
            let there: Vec<_> =
                sessions.iter().filter(|(token, _)| alive.contains(*token)).collect();
            if there.is_empty() {
                return;
            }
            for (token, session) in there {
                self.note(token, &session.members, &Became::Removed);
                for seen in session.members.iter().filter(|seen| !is_asked && ends_others(seen)) {
                    let _ = seen.signal(Signal::TERM);
                }
            }
            is_asked = true;
            std::thread::sleep(PAUSE);
        }
    }

    /// Kills all processes of some sessions, also those that are started meanwhile, until there is
    /// none.
    fn kill(&mut self, dead: &BTreeSet<String>) {
        let started = Instant::now();
        loop {
            let scan = self.scan();
            let is_last = started.elapsed() > PATIENCE;
            let mut can_end = false;
            let mut is_any = false;
            for (token, session) in sessions::of(&scan, self.own) {
                if !dead.contains(&token) {
                    continue;
                }
                for seen in &session.members {
                    is_any = true;
                    let became = match seen.signal(Signal::KILL) {
                        Err(_) => Became::Left(Left::NotPermitted),
                        Ok(()) if is_last => Became::Left(seen.why_left()),
                        Ok(()) => {
                            can_end = true;
                            Became::Removed
                        }
                    };
                    self.note(&token, &[seen], &became);
                }
            }
            if !is_any || is_last || !can_end {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn report(self, swept: &mut Swept, alive: &BTreeSet<String>) {
        let mut room = MOST_LISTED;
        for (token, book) in self.books {
            let left = book.values().filter(|process| process.became.is_left()).count();
            swept.left = swept.left.saturating_add(count(left));
            let surplus = book.len().saturating_sub(room);
            swept.unlisted = swept.unlisted.saturating_add(count(surplus));
            let processes: Vec<Process> = book.into_values().take(room).collect();
            room = room.saturating_sub(processes.len());
            let is_alive = alive.contains(&token);
            let token = HostText::new(token.as_bytes());
            swept.sessions.push(Session { token, is_alive, processes });
        }
    }
}

/// Whether a process ends the rest of its session when it is asked to end.
fn ends_others(seen: &Seen) -> bool {
    let role = seen.of.as_ref().map(|(belongs, _)| belongs.role);
    match role {
        Some(belongs::Role::Agent) => seen.name == protocol::sweep::SUPERVISOR.to_bytes(),
        Some(belongs::Role::Script { .. }) => true,
        Some(belongs::Role::Sweep | belongs::Role::Started) | None => false,
    }
}

/// The sessions that are not alive.
fn dead_in(scan: &Scan, own: Option<&str>) -> BTreeSet<String> {
    let sessions = sessions::of(scan, own).into_iter();
    sessions.filter(|(_, it)| !it.is_alive).map(|(token, _)| token).collect()
}

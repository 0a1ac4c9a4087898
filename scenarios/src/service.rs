//! The service: takes requests on loopback and works on them, with a fault or without.

use crate::faults::{Fault, Surroundings, Worker};
use anyhow::{Context as _, Result, bail};
use rustix::{
    process::{Resource, Rlimit, setrlimit},
    thread::{CpuSet, sched_setaffinity},
};
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};

/// Files that the service may have open: few, so that a leak shows within seconds.
const OPEN_FILES: u64 = 256;

/// Threads that work on requests.
const WORKERS: usize = 12;

/// Serves until the time is up. Prints the port.
///
/// # Errors
///
/// When no port can be had.
pub fn run(fault: Fault, life: Duration) -> Result<()> {
    let limit = Rlimit { current: Some(OPEN_FILES), maximum: Some(OPEN_FILES) };
    setrlimit(Resource::Nofile, limit).context("could not limit open files")?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("could not get a port")?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", listener.local_addr()?.port())?;
    stdout.flush()?;
    let folder = folder_on_a_disk()?;
    let lock = Mutex::new(0);
    let ends = Instant::now() + life;
    std::thread::scope(|scope| {
        for index in 0..WORKERS {
            let (listener, folder, lock) = (&listener, folder.path(), &lock);
            scope.spawn(move || {
                let mut worker = Worker { folder, index, lock, open: Vec::new(), log: None };
                while Instant::now() < ends {
                    serve_one(listener, fault, &mut worker);
                }
            });
        }
        // The workers wait for connections; the process ends them.
        std::thread::sleep(life);
        let _ = std::fs::remove_dir_all(folder.path());
        std::process::exit(0);
    })
}

/// A folder whose files are on a disk: where `/tmp` is memory, nothing waits for it.
fn folder_on_a_disk() -> Result<tempfile::TempDir> {
    // TMPFS_MAGIC and RAMFS_MAGIC of linux/magic.h.
    const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];
    let own = crate::programs::scenarios();
    let places = [std::env::temp_dir(), "/var/tmp".into(), own.parent().unwrap_or(&own).into()];
    for place in places {
        let is_in_memory =
            rustix::fs::statfs(&place).is_ok_and(|found| IN_MEMORY.contains(&found.f_type));
        if !is_in_memory && let Ok(folder) = tempfile::tempdir_in(place) {
            return Ok(folder);
        }
    }
    bail!("there is no folder on a disk to write to: /tmp, /var/tmp and the project are in memory")
}

/// Takes one connection and answers its requests until it closes.
fn serve_one(listener: &TcpListener, fault: Fault, worker: &mut Worker<'_>) {
    let Ok((mut stream, _)) = listener.accept() else {
        std::thread::sleep(Duration::from_millis(1));
        return;
    };
    let mut request = [0; 1];
    while stream.read_exact(&mut request).is_ok() {
        fault.request(worker);
        if stream.write_all(&request).is_err() {
            return;
        }
    }
}

/// Sleeps, then uses a processor.
pub fn burn(idle: Duration, busy: Duration, cpu: Option<usize>) {
    if let Some(cpu) = cpu {
        let mut set = CpuSet::new();
        set.set(cpu);
        let _ = sched_setaffinity(None, &set);
    }
    std::thread::sleep(idle);
    let ends = Instant::now() + busy;
    while Instant::now() < ends {
        crate::faults::compute(100);
    }
}

/// A service that runs, with its clients and its surroundings. All end when it is dropped.
#[derive(Debug)]
pub struct Scenario {
    /// The service.
    pub service: Child,
    clients: Child,
    _surroundings: Surroundings,
}

impl Scenario {
    /// Starts a service with a fault, its clients, and what belongs around it.
    ///
    /// # Errors
    ///
    /// When one of them cannot be started.
    pub fn start(fault: Fault) -> Result<Self> {
        let name = clap::ValueEnum::to_possible_value(&fault).context("a fault without a name")?;
        let mut service = Command::new(crate::programs::scenarios())
            .args(["serve", "--seconds", "100", "--fault", name.get_name()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("could not start the service")?;
        let stdout = service.stdout.take().context("the service has no stdout")?;
        let mut port = String::new();
        BufReader::new(stdout).read_line(&mut port)?;
        let clients = Command::new(crate::programs::scenarios())
            .args(["load", port.trim(), "--clients", "12", "--seconds", "100"])
            .stdin(Stdio::null())
            .spawn();
        let surroundings = fault.surround(&service);
        match (clients, surroundings) {
            (Ok(clients), Ok(surroundings)) => {
                Ok(Self { service, clients, _surroundings: surroundings })
            }
            (clients, surroundings) => {
                let _ = service.kill();
                let _ = service.wait();
                if let Ok(mut clients) = clients {
                    let _ = clients.kill();
                    let _ = clients.wait();
                }
                surroundings?;
                anyhow::bail!("could not start the clients")
            }
        }
    }

    /// The service's pid.
    pub fn pid(&self) -> u32 {
        self.service.id()
    }
}

impl Drop for Scenario {
    fn drop(&mut self) {
        for child in [&mut self.clients, &mut self.service] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

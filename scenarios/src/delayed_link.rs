//! Two networks on this machine and a link between them that takes its time, so that what a
//! connection costs in round trips can be seen.
//!
//! Each network is a namespace of its own with one TUN device; this process carries every packet
//! from one device to the other and holds it back for half a round trip. Nothing is lost, reordered
//! or limited, so the two kernels' own TCP is all that is between a program and its answer: slow
//! start, Nagle's algorithm, delayed acknowledgements. Each namespace is held by a process that
//! ends with this one, and goes with it.

use crate::victim::Victim;
use anyhow::{Context as _, Result, bail, ensure};
use rustix::{
    fs::{Mode, OFlags},
    process::{geteuid, setpriority_process},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};
use std::{
    fs,
    io::{ErrorKind, Read as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};
use tun_rs::{DeviceBuilder, SyncDevice};

/// Where the server is, as the client sees it.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// Where the client is, as the server sees it.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);

const DEVICE: &str = "/dev/net/tun";
/// The name of the device in each namespace.
const NAME: &str = "delayed0";
/// What runs a command in another network.
const ENTER: &str = "nsenter";
/// What Ethernet carries, so that slow start takes as many rounds as it does elsewhere.
const MTU_BYTES: u16 = 1500;
/// Packets that may wait to be carried. They are taken at once, so this is never full.
const QUEUE: u32 = 10_000;

/// Keeps a connection from profiting by what an earlier one learnt (ip-sysctl.rst).
const LEARNS_NOTHING: &str = "/proc/sys/net/ipv4/tcp_no_metrics_save";
/// All addresses of the link, sent as most machines send: this one may have another congestion
/// control, and a namespace may not choose any for all of its connections (ip-route(8), `congctl`).
const ROUTE: [&str; 7] = ["route", "replace", "10.99.0.0/24", "dev", NAME, "congctl", "cubic"];

/// A link between two networks, gone when dropped.
#[derive(Debug)]
pub struct DelayedLink {
    server: Network,
    client: Network,
    carried: Arc<Mutex<Vec<Carried>>>,
}

/// A packet that was carried.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// When it was sent.
    pub at: Instant,
    /// Where to.
    pub to: Side,
    /// Its bytes, with its headers.
    pub bytes: usize,
}

/// An end of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Where the server is.
    Server,
    /// Where the client is.
    Client,
}

impl DelayedLink {
    /// What is missing here for such a link: root, or the device; `None` where nothing is.
    #[must_use]
    pub fn lacks() -> Option<Lack> {
        if !geteuid().is_root() {
            return Some(Lack::Root);
        }
        (!Path::new(DEVICE).exists()).then_some(Lack::Device)
    }

    /// Makes the two networks and begins to carry. `round_trip` is what a packet and its answer take
    /// together.
    ///
    /// # Errors
    ///
    /// When the networks cannot be made, which takes root and `/dev/net/tun`.
    pub fn start(round_trip: Duration) -> Result<Self> {
        if let Some(lack) = Self::lacks() {
            bail!("a link of our own needs {}", lack.name());
        }
        let (server, at_server) = Network::make(SERVER)?;
        let (client, at_client) = Network::make(CLIENT)?;
        let carried = Arc::default();
        carry(&at_server, (Side::Client, &at_client), round_trip / 2, &carried);
        carry(&at_client, (Side::Server, &at_server), round_trip / 2, &carried);
        Ok(Self { server, client, carried })
    }

    /// What was carried since this was asked last, in the order in which it was sent.
    #[must_use]
    pub fn take_carried(&self) -> Vec<Carried> {
        std::mem::take(&mut *self.carried.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same command, run where the server is. What its stdin, stdout and stderr are is to be
    /// said afterwards.
    #[must_use]
    pub fn server_side(&self, command: &Command) -> Command {
        self.server.inside(command)
    }

    /// The same command, run where the client is; as for [`DelayedLink::server_side`].
    #[must_use]
    pub fn client_side(&self, command: &Command) -> Command {
        self.client.inside(command)
    }

    /// The words that run a command where the server is, when put before it.
    #[must_use]
    pub fn server_words(&self) -> Vec<String> {
        self.server.words()
    }

    /// The words that run a command where the client is, when put before it.
    #[must_use]
    pub fn client_words(&self) -> Vec<String> {
        self.client.words()
    }

    /// What a round trip takes: a connection is asked for where nobody listens, and refused.
    ///
    /// # Errors
    ///
    /// When there is no answer.
    pub fn measured_round_trip(&self) -> Result<Duration> {
        self.client.while_inside(|| {
            // The port of discard(9), which nobody has served for decades.
            let nobody = SocketAddr::from((SERVER, 9));
            let started = Instant::now();
            match TcpStream::connect_timeout(&nobody, Duration::from_secs(20)) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(started.elapsed()),
                Err(error) => Err(error).context("no packet came back over the link"),
                Ok(_) => bail!("somebody listens at {nobody}"),
            }
        })
    }
}

/// What is missing for a link of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Only root makes network namespaces and devices.
    Root,
    /// The kernel has no TUN devices.
    Device,
}

impl Lack {
    /// Its name, for a message.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Root => "root, for network namespaces",
            Self::Device => DEVICE,
        }
    }
}

/// A network namespace.
#[derive(Debug)]
struct Network {
    /// What it goes with.
    holder: Victim,
    namespace: OwnedFd,
}

impl Network {
    /// Makes a network with one device, which has an address.
    fn make(address: Ipv4Addr) -> Result<(Self, Arc<SyncDevice>)> {
        let mut holder = Command::new("unshare");
        // Its stdin is a pipe from this process, and closes with it.
        holder.args(["--net", "sh", "-c", "ip link set lo up && echo made && exec cat"]);
        let (holder, _) =
            Victim::start_and_wait(&mut holder).context("could not make a network namespace")?;
        let path = format!("/proc/{}/ns/net", holder.pid());
        let namespace = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .with_context(|| format!("could not open {path}"))?;
        let network = Self { holder, namespace };
        let device = network.while_inside(|| {
            fs::write(LEARNS_NOTHING, "1")
                .with_context(|| format!("could not set {LEARNS_NOTHING}"))?;
            let builder = DeviceBuilder::new().name(NAME).mtu(MTU_BYTES).tx_queue_len(QUEUE);
            let device = builder
                .ipv4(address, 24, None)
                .build_sync()
                .with_context(|| format!("could not make a device from {DEVICE}"))?;
            ip(&ROUTE)?;
            Ok(device)
        })?;
        Ok((network, Arc::new(device)))
    }

    /// Does something in this network, on a thread of its own: the calling one stays where it is.
    fn while_inside<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(self.namespace.as_fd(), kind)
                    .context("could not enter a network namespace")?;
                work()
            });
            inside.join().unwrap_or_else(|_| bail!("a thread inside of a network panicked"))
        })
    }

    /// Where it is, as `nsenter` takes it.
    fn place(&self) -> String {
        format!("--net=/proc/{}/ns/net", self.holder.pid())
    }

    fn words(&self) -> Vec<String> {
        [ENTER.to_owned(), self.place()].into()
    }

    fn inside(&self, command: &Command) -> Command {
        let mut inside = Command::new(ENTER);
        inside.arg(self.place()).arg("--").arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            inside.current_dir(folder);
        }
        inside
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // A device that is removed wakes up the thread that reads from it, and ends it.
        let _ = self.while_inside(|| ip(&["link", "delete", NAME]));
    }
}

/// Runs `ip`, in the network of the thread that calls this.
fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(arguments).stdin(Stdio::null()).output();
    let output = output.context("could not run ip; install iproute2")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip {} failed: {}", arguments.join(" "), said.trim());
    Ok(())
}

/// Carries packets one way, each held back for `delay`, until the device is gone.
fn carry(
    from: &Arc<SyncDevice>,
    (side, to): (Side, &Arc<SyncDevice>),
    delay: Duration,
    carried: &Arc<Mutex<Vec<Carried>>>,
) {
    let (from, to, carried) = (Arc::clone(from), Arc::clone(to), Arc::clone(carried));
    let (sender, packets) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        go_first();
        let mut bytes = [0; 2 * MTU_BYTES as usize];
        while let Ok(read) = from.recv(&mut bytes) {
            let (packet, at) = (bytes.get(..read).unwrap_or_default().to_vec(), Instant::now());
            if sender.send((at + delay, packet)).is_err() {
                return;
            }
            let mut carried = carried.lock().unwrap_or_else(PoisonError::into_inner);
            carried.push(Carried { at, to: side, bytes: read });
        }
    });
    thread::spawn(move || {
        go_first();
        for (due, packet) in packets {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            // What a device does not take is lost, as on any link; TCP sends it again.
            let _ = to.send(&packet);
        }
    });
}

/// Lets this thread run before others: on a busy machine packets would come late, which cubic takes
/// for a queue that builds up, and ends slow start early (HyStart in the kernel's tcp_cubic.c).
fn go_first() {
    const BEFORE_OTHERS: i32 = -19;
    // Without it the link is no less right, only less even.
    let _ = setpriority_process(None, BEFORE_OTHERS);
}

/// Keeps a link until stdin closes, and says how to use it.
///
/// # Errors
///
/// As for [`DelayedLink::start`].
pub fn run(round_trip: Duration) -> Result<()> {
    let link = DelayedLink::start(round_trip)?;
    println!("server {SERVER}: {}", link.server_words().join(" "));
    println!("client {CLIENT}: {}", link.client_words().join(" "));
    println!("round trip {:.1} ms", link.measured_round_trip()?.as_secs_f64() * 1e3);
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest)?;
    Ok(())
}

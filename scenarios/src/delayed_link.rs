//! Two networks on this machine and a link between them that takes its time, so that what a
//! connection costs in round trips can be seen; and that is slow, loses packets or goes away, as
//! networks do.
//!
//! Each network is a namespace of its own with one TUN device; this process carries every packet
//! from one device to the other and holds it back for half a round trip. Unless it is asked for,
//! nothing is lost, reordered or limited, so the two kernels' own TCP is all that is between a program
//! and its answer: slow start, Nagle's algorithm, delayed acknowledgements. Each namespace is held by
//! a process that ends with this one, and goes with it.

mod carriage;
mod chain;
mod network;

pub use carriage::Conditions;
pub use chain::Chain;

use anyhow::{Context as _, Result, bail};
use carriage::{Control, Order, carry};
use network::Network;
use rustix::process::geteuid;
use std::{
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

/// Where the server is, as the client sees it.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// Where the client is, as the server sees it.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
/// Where nobody is: packets for it are carried to the server's network, which drops them.
pub const NOBODY: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 77);

const DEVICE: &str = "/dev/net/tun";

/// A link between two networks, gone when dropped.
#[derive(Debug)]
pub struct DelayedLink {
    server: Network,
    client: Network,
    control: Arc<Control>,
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
        Self::under(Conditions::delayed(round_trip))
    }

    /// The same for a link that does more to packets than to hold them back.
    ///
    /// # Errors
    ///
    /// As for [`DelayedLink::start`].
    pub fn under(conditions: Conditions) -> Result<Self> {
        if let Some(lack) = Self::lacks() {
            bail!("a link of our own needs {}", lack.name());
        }
        let (server, client) = (Network::make()?, Network::make()?);
        let (at_server, at_client) = (server.device(SERVER)?, client.device(CLIENT)?);
        let control = Arc::new(Control::default());
        carry(&at_server, (Side::Client, &at_client), conditions, &control);
        carry(&at_client, (Side::Server, &at_server), conditions, &control);
        Ok(Self { server, client, control })
    }

    /// From now on nothing arrives any more, and nobody is told: what was sent and has not arrived is
    /// lost too.
    pub fn cut(&self) {
        self.control.give(Order::Drop);
    }

    /// From now on nothing arrives, until the link is healed: then all of it does.
    pub fn stall(&self) {
        self.control.give(Order::Hold);
    }

    /// Forgets all connections that there are, as a router does with those that were silent for long:
    /// nothing of them is carried any more, and neither end is told. New ones work.
    pub fn forget_connections(&self) {
        self.control.forget();
    }

    /// From now on packets arrive again.
    pub fn heal(&self) {
        self.control.give(Order::Carry);
    }

    /// Packets that were dropped so far: by chance, for want of room, or because the link was cut.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.control.dropped()
    }

    /// What was carried since this was asked last, in the order in which it was sent.
    #[must_use]
    pub fn take_carried(&self) -> Vec<Carried> {
        self.control.take_carried()
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

/// Keeps a link until stdin closes, and says how to use it. Lines on stdin change it: `cut`, `stall`,
/// `forget` and `heal`.
///
/// # Errors
///
/// As for [`DelayedLink::start`], and for a line that is none of these.
pub fn run(conditions: Conditions) -> Result<()> {
    let link = DelayedLink::under(conditions)?;
    println!("server {SERVER}: {}", link.server_words().join(" "));
    println!("client {CLIENT}: {}", link.client_words().join(" "));
    println!("round trip {:.1} ms", link.measured_round_trip()?.as_secs_f64() * 1e3);
    for line in std::io::stdin().lines() {
        match line?.trim() {
            "cut" => link.cut(),
            "stall" => link.stall(),
            "forget" => link.forget_connections(),
            "heal" => link.heal(),
            other => {
                bail!("`{other}` changes nothing about a link; there are cut, stall, forget, heal")
            }
        }
    }
    Ok(())
}

//! A network of its own: a namespace, held by a process that ends with this one, and goes with it.

use super::carriage::Device;
use crate::{behind::behind, victim::Victim};
use anyhow::{Context as _, Result, bail, ensure};
use rustix::{
    fs::{Mode, OFlags},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};
use std::{
    fs,
    net::Ipv4Addr,
    os::fd::{AsFd as _, OwnedFd},
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
};
use tun_rs::DeviceBuilder;

/// What runs a command in another network.
const ENTER: &str = "nsenter";
/// What Ethernet carries, so that slow start takes as many rounds as it does elsewhere.
pub(super) const MTU_BYTES: u16 = 1500;
/// Packets that may wait to be carried. They are taken at once, so this is never full.
const QUEUE: u32 = 10_000;

/// Keeps a connection from profiting by what an earlier one learnt (ip-sysctl.rst).
const LEARNS_NOTHING: &str = "/proc/sys/net/ipv4/tcp_no_metrics_save";

/// A network namespace.
#[derive(Debug)]
pub(super) struct Network {
    /// What it goes with.
    holder: Victim,
    namespace: OwnedFd,
    /// The names of its devices.
    devices: Mutex<Vec<String>>,
}

impl Network {
    /// Makes a network that leads nowhere.
    pub(super) fn make() -> Result<Self> {
        let mut holder = Command::new("unshare");
        // Its stdin is a pipe from this process, and closes with it.
        holder.args(["--net", "sh", "-c", "ip link set lo up && echo made && exec cat"]);
        let (holder, _) =
            Victim::start_and_wait(&mut holder).context("could not make a network namespace")?;
        let path = format!("/proc/{}/ns/net", holder.pid());
        let namespace = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .with_context(|| format!("could not open {path}"))?;
        let network = Self { holder, namespace, devices: Mutex::default() };
        network.while_inside(|| {
            fs::write(LEARNS_NOTHING, "1")
                .with_context(|| format!("could not set {LEARNS_NOTHING}"))
        })?;
        Ok(network)
    }

    /// Gives it one more device, which has an address; its neighbours are those with the same first
    /// three numbers.
    pub(super) fn device(&self, address: Ipv4Addr) -> Result<Device> {
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("delayed{}", devices.len());
        let device = self.while_inside(|| {
            let builder = DeviceBuilder::new().name(&name).mtu(MTU_BYTES).tx_queue_len(QUEUE);
            let device = builder
                .ipv4(address, 24, None)
                .build_sync()
                .with_context(|| format!("could not make a device from {}", super::DEVICE))?;
            // All addresses of the link, sent as most machines send: this one may have another
            // congestion control, and a namespace may not choose any for all of its connections
            // (ip-route(8), `congctl`).
            let [a, b, c, _] = address.octets();
            let neighbours = format!("{a}.{b}.{c}.0/24");
            ip(&["route", "replace", &neighbours, "dev", &name, "congctl", "cubic"])?;
            Ok(device)
        })?;
        devices.push(name);
        Ok(Arc::new(device))
    }

    /// Does something in this network, on a thread of its own: the calling one stays where it is.
    pub(super) fn while_inside<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T> + Send,
    ) -> Result<T> {
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

    /// The words that run a command in here, when put before it.
    pub(super) fn words(&self) -> Vec<String> {
        [ENTER.to_owned(), self.place()].into()
    }

    /// The same command, run in here.
    pub(super) fn inside(&self, command: &Command) -> Command {
        behind(&[ENTER, &self.place(), "--"], command)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        for name in devices.iter() {
            // A device that is removed wakes up the thread that reads from it, and ends it.
            let _ = self.while_inside(|| ip(&["link", "delete", name]));
        }
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

//! Networks in a row, of which each knows its neighbours alone: what is in the last can be reached
//! from the first only through all that lie between.

use super::{
    Conditions, Side,
    carriage::{Control, carry},
    network::Network,
};
use anyhow::{Context as _, Result, bail};
use std::{net::Ipv4Addr, process::Command, sync::Arc};

/// Networks in a row, gone when dropped.
#[derive(Debug)]
pub struct Chain {
    networks: Vec<Network>,
}

impl Chain {
    /// Makes them, with the same link between each and the next.
    ///
    /// # Errors
    ///
    /// As for [`super::DelayedLink::start`].
    pub fn start(length: u8, conditions: Conditions) -> Result<Self> {
        if let Some(lack) = super::DelayedLink::lacks() {
            bail!("a chain of networks of our own needs {}", lack.name());
        }
        let mut networks: Vec<Network> = Vec::new();
        for index in 0..length {
            let network = Network::make()?;
            if let Some(before) = networks.last() {
                let near = before.device(Ipv4Addr::new(10, 99, index, 2))?;
                let far = network.device(Self::address(index))?;
                let control = Arc::new(Control::default());
                carry(&far, (Side::Client, &near), conditions, &control);
                carry(&near, (Side::Server, &far), conditions, &control);
            }
            networks.push(network);
        }
        Ok(Self { networks })
    }

    /// Where the network with a number is, as the one before it sees it. The first has number 0 and is
    /// seen by none.
    #[must_use]
    pub const fn address(index: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 99, index, 1)
    }

    fn network(&self, index: u8) -> Result<&Network> {
        self.networks.get(usize::from(index)).context("there are not as many networks")
    }

    /// The same command, run in the network with a number.
    ///
    /// # Errors
    ///
    /// When there is none with that number.
    pub fn inside(&self, index: u8, command: &Command) -> Result<Command> {
        Ok(self.network(index)?.inside(command))
    }

    /// The words that run a command in the network with a number, when put before it.
    ///
    /// # Errors
    ///
    /// When there is none with that number.
    pub fn words(&self, index: u8) -> Result<Vec<String>> {
        Ok(self.network(index)?.words())
    }
}

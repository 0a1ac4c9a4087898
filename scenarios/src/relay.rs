//! A link of our own between ssh and sshd, as a `ProxyCommand`: it can be slow, and it can be cut
//! without a word, as a network is.

use anyhow::{Context as _, Result};
use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    time::{Duration, Instant},
};

/// Carries bytes both ways until one side closes.
///
/// # Errors
///
/// When the port does not answer.
pub fn run(port: u16, rate: Option<u64>, cut: Option<&Path>, stall: Option<u64>) -> Result<()> {
    let stream = TcpStream::connect(("127.0.0.1", port)).context("the port does not answer")?;
    stream.set_nodelay(true)?;
    let (mut to_server, mut from_server) = (stream.try_clone()?, stream);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            carry(&mut std::io::stdin().lock(), &mut to_server, rate, cut, None);
            let _ = to_server.shutdown(std::net::Shutdown::Write);
        });
        carry(&mut from_server, &mut std::io::stdout().lock(), None, cut, stall);
        // The other direction may wait for its end for ever.
        std::process::exit(0)
    })
}

fn carry(
    from: &mut impl Read,
    to: &mut impl Write,
    rate: Option<u64>,
    cut: Option<&Path>,
    stall: Option<u64>,
) {
    let mut bytes = [0; 4096];
    let started = Instant::now();
    let mut carried: u64 = 0;
    while let Ok(read) = from.read(&mut bytes) {
        let is_stalled = |carried: u64| stall.is_some_and(|limit| carried + read as u64 > limit);
        while cut.is_some_and(Path::exists) || (read > 0 && is_stalled(carried)) {
            std::thread::sleep(Duration::from_millis(100));
        }
        if read == 0 || to.write_all(bytes.get(..read).unwrap_or_default()).is_err() {
            return;
        }
        if to.flush().is_err() {
            return;
        }
        carried += read as u64;
        if let Some(rate) = rate {
            let due = Duration::from_millis(carried * 1000 / rate.max(1));
            std::thread::sleep(due.saturating_sub(started.elapsed()));
        }
    }
}

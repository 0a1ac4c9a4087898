//! The bytes under a connection: counted, answered at once, and cut off when we say so.

use crate::transport::{
    Traffic,
    timings::{count_reads, count_writes},
};
use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_util::{
    io::InspectReader,
    sync::{CancellationToken, WaitForCancellationFutureOwned},
};

/// A stream that ends, both ways, when its token says so: whatever waits for a peer that is gone
/// waits no longer.
pub struct Severable<S> {
    stream: S,
    severed: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Whether what has come can still be read.
    is_read: bool,
    /// How much may come before the user is in, and how much has.
    allowance: Option<(Allowance, Arc<Traffic>)>,
}

impl<S> Severable<S> {
    pub(super) fn new(stream: S, token: CancellationToken) -> Self {
        Self { stream, severed: Box::pin(token.cancelled_owned()), is_read: false, allowance: None }
    }

    /// One whose reads go on to the end that the stream has by itself.
    pub(super) fn for_writes(stream: S, token: CancellationToken) -> Self {
        Self { is_read: true, ..Self::new(stream, token) }
    }

    /// An error once it is cut off. Whoever waits is woken then.
    fn check(&mut self, context: &mut Context<'_>) -> std::io::Result<()> {
        match self.severed.as_mut().poll(context) {
            Poll::Ready(()) => Err(std::io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Severable<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if !self.is_read {
            self.check(context)?;
        }
        if let Some((allowance, traffic)) = &self.allowance {
            allowance.check(traffic)?;
        }
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Severable<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A TCP connection that acknowledges what comes at once. sshd holds small messages back until the
/// one before was acknowledged, and a kernel that waits 40 ms with that costs as much each time.
pub struct Prompt(pub TcpStream);

impl Prompt {
    fn acknowledge(&self) {
        // The option does not stay set, and only Linux has it. Where it cannot be set, the connection
        // is slower.
        #[cfg(target_os = "linux")]
        let _ = rustix::net::sockopt::set_tcp_quickack(&self.0, true);
    }
}

impl AsyncRead for Prompt {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let polled = Pin::new(&mut self.0).poll_read(context, into);
        if polled.is_ready() {
            self.acknowledge();
        }
        polled
    }
}

impl AsyncWrite for Prompt {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// The inode of a socket, by which tables of sockets name it. Only Linux has such tables.
#[cfg(target_os = "linux")]
pub fn inode(stream: &TcpStream) -> Option<u64> {
    rustix::fs::fstat(stream).ok().map(|status| status.st_ino)
}

/// None, as on every system without tables of sockets.
#[cfg(not(target_os = "linux"))]
pub const fn inode(_: &TcpStream) -> Option<u64> {
    None
}

/// What a connection can be made of.
pub trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Bytes for S {}

/// What a host may send before it has let anybody in.
///
/// The library keeps what a host says during a login until somebody asks for it, and somebody may
/// be looking for a password meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Allowance {
    is_lifted: Arc<AtomicBool>,
}

impl Allowance {
    /// Far more than the longest banner and every question take.
    const BYTES: u64 = 4 << 20;

    /// The user is in.
    pub(super) fn lift(&self) {
        self.is_lifted.store(true, Ordering::Relaxed);
    }

    fn check(&self, traffic: &Traffic) -> std::io::Result<()> {
        if self.is_lifted.load(Ordering::Relaxed) || traffic.received() <= Self::BYTES {
            return Ok(());
        }
        let said = format!("it sent more than {} MiB before it let anybody in", Self::BYTES >> 20);
        Err(std::io::Error::other(said))
    }
}

/// The first that a host says: a server of SSH says what it is, and before that it may say anything in
/// lines (RFC 4253, section 4.2).
#[derive(Clone, Debug, Default)]
pub struct FirstWords(Arc<Mutex<Vec<u8>>>);

impl FirstWords {
    /// Bytes that are kept.
    const BYTES: usize = 1024;

    fn hear(&self, bytes: &[u8]) {
        let mut words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = Self::BYTES.saturating_sub(words.len()).min(bytes.len());
        words.extend_from_slice(bytes.get(..room).unwrap_or_default());
    }

    /// The line by which it says that it speaks version 1 only; `None` where it says anything else.
    /// `1.99` stands for both (RFC 4253, section 5.1).
    pub(super) fn old_version(&self) -> Option<String> {
        let words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&words);
        let is_old = |line: &&str| line.starts_with("SSH-1.") && !line.starts_with("SSH-1.99-");
        text.lines().find(is_old).map(str::to_owned)
    }

    /// What it said before it said what it is; `None` once it has said that, or too much.
    pub(super) fn without_version(&self) -> Option<String> {
        let words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&words);
        let is_version = |line: &str| line.starts_with("SSH-");
        (words.len() < Self::BYTES && !text.lines().any(is_version)).then(|| text.into_owned())
    }
}

/// The same, counted, limited and severable, with the first words noted.
pub fn under(
    stream: impl Bytes + 'static,
    traffic: Arc<Traffic>,
    token: CancellationToken,
    allowance: Allowance,
    words: FirstWords,
) -> impl Bytes + 'static {
    let heard = InspectReader::new(stream, move |bytes| words.hear(bytes));
    let counted = count_writes(count_reads(heard, &traffic), &traffic);
    Severable { allowance: Some((allowance, traffic)), ..Severable::new(counted, token) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_said_what_it_is_has_not_closed_early() {
        let after = |pieces: &[&str]| {
            let words = FirstWords::default();
            pieces.iter().for_each(|piece| words.hear(piece.as_bytes()));
            words.without_version()
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(after(&[]), some(""));
        assert_eq!(after(&["Exceeded Max", "Startups\r\n"]), some("Exceeded MaxStartups\r\n"));
        assert_eq!(after(&["hello\r\nSSH-", "2.0-x\r\n"]), None);
        assert_eq!(after(&["no SSH-2.0 here\r\n"]), some("no SSH-2.0 here\r\n"));
        assert_eq!(after(&["x".repeat(4096).as_str()]), None);
    }

    #[test]
    fn version_1_alone_is_told() {
        for (said, is_old) in
            [("SSH-1.5-a\r\n", true), ("SSH-1.99-a\r\n", false), ("SSH-2.0-a\r\n", false)]
        {
            let words = FirstWords::default();
            words.hear(said.as_bytes());
            assert_eq!(words.old_version().is_some(), is_old, "{said}");
        }
    }
}

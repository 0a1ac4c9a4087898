//! What the client sends, and the moment at which it stops sending.
//!
//! The library waits for running calls when its input ends. Nobody would read their answers, and a
//! target would be measured for nobody, so the end is told to the calls at once.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;

/// Input that tells when it has ended.
#[derive(Debug)]
pub struct Input<R> {
    inner: R,
    closed: CancellationToken,
}

impl<R> Input<R> {
    /// Sets `closed` when `inner` ends or fails.
    pub const fn new(inner: R, closed: CancellationToken) -> Self {
        Self { inner, closed }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.inner).poll_read(context, buffer));
        if read.is_err() || buffer.filled().len() == before {
            self.closed.cancel();
        }
        Poll::Ready(read)
    }
}

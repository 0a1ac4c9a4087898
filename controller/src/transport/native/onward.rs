//! The way on from a host: the stream that a channel of the session there is to the session behind it.
//!
//! The library's session waits until what came on a channel is taken. Meanwhile it hears nothing, not
//! even that the host makes room for more. And a session takes nothing while it writes: it waits for
//! that room. So one that is on top of another would end both, once the queue between them is full,
//! which takes no more than a hundred messages: a host may make room for as little as it likes at a
//! time, and each time is a message. Here somebody else takes them, whatever the session does.

use russh::{Channel, ChannelMsg, ChannelReadHalf, client::Msg};
use std::{
    pin::Pin,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf};
use tokio_util::sync::{CancellationToken, DropGuard};

/// What is kept until the session behind reads it. Twice what its channel has room for here: a host
/// that keeps to that never fills it, however long the session writes.
const KEPT_BYTES: usize = 4 << 20;

/// A channel as a stream, which is closed when this is dropped.
pub struct Onward {
    reader: DuplexStream,
    writer: Pin<Box<dyn AsyncWrite + Send>>,
    _closes: DropGuard,
}

/// Makes one.
pub fn onward(channel: Channel<Msg>) -> Onward {
    let (from_host, sender) = channel.split();
    let (kept, reader) = tokio::io::duplex(KEPT_BYTES);
    let unwanted = CancellationToken::new();
    let writer: Pin<Box<dyn AsyncWrite + Send>> = Box::pin(sender.make_writer());
    let onward = Onward { reader, writer, _closes: unwanted.clone().drop_guard() };
    tokio::spawn(async move {
        unwanted.run_until_cancelled(keep(from_host, kept)).await;
        unwanted.cancelled().await;
        // Where the session is over, there is nobody to be told.
        let _ = sender.close().await;
    });
    onward
}

/// Keeps what comes, until no more does.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "it is the library's, has no end, and most of it is for servers"
)]
async fn keep(mut from_host: ChannelReadHalf, mut kept: DuplexStream) {
    while let Some(message) = from_host.wait().await {
        let goes_on = match message {
            ChannelMsg::Data { data } => kept.write_all(&data).await.is_ok(),
            ChannelMsg::Eof | ChannelMsg::Close => false,
            _ => true,
        };
        if !goes_on {
            break;
        }
    }
}

impl AsyncRead for Onward {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(context, into)
    }
}

impl AsyncWrite for Onward {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.writer.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        self.writer.as_mut().poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        self.writer.as_mut().poll_shutdown(context)
    }
}

//! Frames: a length, then one postcard message.
//!
//! The length is a little-endian `u32` and is checked against [`MAX_FRAME_BYTES`] before anything
//! is allocated for it: a peer's length is hostile input (RUSTSEC-2026-0154 is what happens
//! otherwise). A message must use up its frame; a remainder means that the peer wrote another type.

use serde::{Serialize, de::DeserializeOwned};

/// The largest message, in bytes, in either direction.
///
/// Answers are cut to their output budget long before; larger content travels as chunks.
pub const MAX_FRAME_BYTES: usize = 1 << 20;

/// Bytes of the length in front of each message.
pub const HEADER_BYTES: usize = 4;

/// Encodes one message with its length in front.
///
/// # Errors
///
/// [`FrameError::TooLong`] when the message exceeds [`MAX_FRAME_BYTES`], and
/// [`FrameError::Encode`] when the type uses a serde feature that postcard lacks.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let frame = postcard::to_extend(message, vec![0; HEADER_BYTES]).map_err(FrameError::Encode)?;
    let length = frame.len() - HEADER_BYTES;
    match u32::try_from(length) {
        Ok(header) if length <= MAX_FRAME_BYTES => {
            let mut frame = frame;
            if let Some(place) = frame.first_chunk_mut::<HEADER_BYTES>() {
                *place = header.to_le_bytes();
            }
            Ok(frame)
        }
        Ok(_) | Err(_) => Err(FrameError::TooLong { length }),
    }
}

/// Collects bytes as they arrive and gives back whole messages.
///
/// It holds at most one frame above what a single [`FrameBuffer::push`] adds.
#[derive(Debug, Default)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    /// Bytes at the front that were consumed already. They are dropped in bulk.
    consumed: usize,
}

impl FrameBuffer {
    /// Adds bytes as they came from the peer.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.consumed > 0 {
            self.bytes.drain(..self.consumed);
            self.consumed = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the next whole message, or `None` while it has not arrived completely.
    ///
    /// # Errors
    ///
    /// [`FrameError::TooLong`] as soon as a length above the cap is seen, and
    /// [`FrameError::Decode`] or [`FrameError::Remainder`] for a frame that is not a `T`. The
    /// stream cannot be trusted afterwards: end the session.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let pending = self.bytes.get(self.consumed..).unwrap_or_default();
        let Some((header, rest)) = pending.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_le_bytes(*header)).unwrap_or(usize::MAX);
        if length > MAX_FRAME_BYTES {
            return Err(FrameError::TooLong { length });
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let message = decode(body)?;
        self.consumed += HEADER_BYTES + length;
        Ok(Some(message))
    }
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    let (message, rest) = postcard::take_from_bytes(body).map_err(FrameError::Decode)?;
    if rest.is_empty() {
        Ok(message)
    } else {
        Err(FrameError::Remainder { left: rest.len(), length: body.len() })
    }
}

/// Why bytes are not a frame of the expected message.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum FrameError {
    /// The length in front of the message is above the cap.
    #[error("a frame of {length} bytes exceeds the limit of {MAX_FRAME_BYTES}")]
    TooLong {
        /// The length the peer announced, or that a message of ours came to.
        length: usize,
    },
    /// A message of ours cannot be written by postcard.
    #[error("a message could not be encoded: {0}")]
    Encode(postcard::Error),
    /// The bytes are not the expected message.
    #[error("a frame could not be decoded: {0}")]
    Decode(postcard::Error),
    /// The message ended before its frame did.
    #[error("a frame of {length} bytes has {left} bytes after its message")]
    Remainder {
        /// Bytes left over.
        left: usize,
        /// Bytes of the whole frame.
        length: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_length_above_the_cap_is_refused_before_the_body_arrives() {
        let mut buffer = FrameBuffer::default();
        buffer.push(&u32::MAX.to_le_bytes());
        assert_eq!(buffer.take::<u8>(), Err(FrameError::TooLong { length: 4_294_967_295 }));
    }

    #[test]
    fn a_message_above_the_cap_is_not_sent() {
        let message = vec![7_u8; MAX_FRAME_BYTES + 1];
        assert!(matches!(encode(&message), Err(FrameError::TooLong { .. })));
    }

    #[test]
    fn a_remainder_is_refused() {
        let mut buffer = FrameBuffer::default();
        buffer.push(&[3, 0, 0, 0, 1, 2, 3]);
        assert_eq!(buffer.take::<u8>(), Err(FrameError::Remainder { left: 2, length: 3 }));
    }

    proptest! {
        #[test]
        fn frames_survive_any_split(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..8),
            piece in 1_usize..64,
        ) {
            let mut wire = Vec::new();
            for message in &messages {
                wire.extend(encode(message).unwrap());
            }
            let mut buffer = FrameBuffer::default();
            let mut back = Vec::new();
            for bytes in wire.chunks(piece) {
                buffer.push(bytes);
                while let Some(message) = buffer.take::<Vec<u8>>().unwrap() {
                    back.push(message);
                }
            }
            prop_assert_eq!(back, messages);
        }

        #[test]
        fn any_bytes_are_a_message_an_error_or_incomplete(
            bytes in prop::collection::vec(any::<u8>(), 0..600),
        ) {
            let mut buffer = FrameBuffer::default();
            buffer.push(&bytes);
            while let Ok(Some(_)) = buffer.take::<crate::message::FromAgent>() {}
            let mut buffer = FrameBuffer::default();
            buffer.push(&bytes);
            while let Ok(Some(_)) = buffer.take::<crate::message::ToAgent>() {}
        }
    }
}

//! Any bytes, in any pieces, are messages, an error, or not yet a message: never a panic, and never
//! an allocation that the peer chose. What is a message is encoded to the same bytes again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::{
    frame::{FrameBuffer, encode},
    message::{FromAgent, ToAgent},
    view::json,
};
use std::fmt::Debug;

fuzz_target!(|input: (Vec<u8>, u8)| {
    let (bytes, piece) = input;
    take_all::<FromAgent>(&bytes, piece);
    take_all::<ToAgent>(&bytes, piece);
});

fn take_all<T>(bytes: &[u8], piece: u8)
where
    T: serde::Serialize + serde::de::DeserializeOwned + Debug + Look,
{
    let mut buffer = FrameBuffer::default();
    for piece in bytes.chunks(usize::from(piece).max(1)) {
        buffer.push(piece);
        loop {
            match buffer.take::<T>() {
                Ok(Some(message)) => {
                    message.look();
                    // Every message that is read can be written: nothing in it is unbounded.
                    encode(&message).unwrap();
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

/// What the reader of a message does with it.
trait Look {
    fn look(&self) {}
}

impl Look for ToAgent {
    fn look(&self) {
        if let ToAgent::Call(call) = self {
            let _ = call.request.check();
            let _ = call.request.window_ms();
        }
    }
}

impl Look for FromAgent {
    fn look(&self) {
        if let FromAgent::Answered(answered) = self {
            match &answered.result {
                Ok(answer) => {
                    let (fields, _) = json::fields(&answer.report).unwrap();
                    let text = serde_json::to_string(&fields).unwrap();
                    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
                    answer.report.tables();
                }
                Err(error) => {
                    let _ = (error.to_string(), error.remedy());
                }
            }
        }
    }
}

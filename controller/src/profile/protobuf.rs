//! Messages of Protocol Buffers, as far as any are written here: numbers, texts, and messages in
//! messages. <https://protobuf.dev/programming-guides/encoding/> says how.

/// A message that is being written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

/// How a field's value is written.
const VARINT: u64 = 0;
const LENGTH_DELIMITED: u64 = 2;

impl Message {
    /// A field with a number. 0 is what a reader takes for one that is not there.
    pub(super) fn number(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.varint(field << 3 | VARINT);
            self.varint(value);
        }
    }

    /// A field with numbers, together.
    pub(super) fn numbers(&mut self, field: u64, values: impl IntoIterator<Item = u64>) {
        let mut packed = Self::default();
        values.into_iter().for_each(|value| packed.varint(value));
        self.field(field, &packed.bytes);
    }

    /// A field with a text.
    pub(super) fn text(&mut self, field: u64, text: &str) {
        self.field(field, text.as_bytes());
    }

    /// A field with a message.
    pub(super) fn message(&mut self, field: u64, message: &Self) {
        self.field(field, &message.bytes);
    }

    /// What was written so far, taken out.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    fn field(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | LENGTH_DELIMITED);
        self.varint(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        self.bytes.extend_from_slice(bytes);
    }

    /// Seven bits a byte, the lowest first; the highest bit says that more follow.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.bytes.push(value.to_le_bytes()[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the specification.
    #[test]
    fn it_is_written_as_specified() {
        let written = |write: fn(&mut Message)| {
            let mut message = Message::default();
            write(&mut message);
            message.take()
        };
        type Case = (fn(&mut Message), &'static [u8]);
        let cases: [Case; 6] = [
            (|message| message.number(1, 150), b"\x08\x96\x01"),
            (|message| message.text(2, "testing"), b"\x12\x07testing"),
            (|message| message.numbers(6, [3, 270, 86_942]), b"\x32\x06\x03\x8e\x02\x9e\xa7\x05"),
            (
                |message| {
                    let mut inner = Message::default();
                    inner.number(1, 150);
                    message.message(3, &inner);
                },
                b"\x1a\x03\x08\x96\x01",
            ),
            (|message| message.number(1, 0), b""),
            (
                |message| message.number(1, u64::MAX),
                b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            ),
        ];
        for (write, want) in cases {
            assert_eq!(written(write), want);
        }
    }
}

//! Any bytes in the memory of an event are a record or an error: never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use probe_agent::perf::records::{self, Layout, Record};

fuzz_target!(|input: &[u8]| {
    let Some((head, body)) = input.split_first_chunk::<4>() else { return };
    let [kind, low, high, parts] = *head;
    let misc = u16::from_le_bytes([low, high]);
    let layout = Layout {
        with_chain: parts & 4 != 0,
        with_fields: parts & 8 != 0,
        with_user_stack: parts & 1 != 0,
        fixed_period: (parts & 2 != 0).then_some(1),
    };
    let _ = records::time_of(kind.into(), body);
    if let Ok(Record::Sample(sample)) = records::parse(kind.into(), misc, body, layout) {
        assert!(sample.chain.frames().count() <= sample.chain.len());
    }
});

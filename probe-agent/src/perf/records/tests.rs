//! Bodies of records, whole, cut at every byte, and of any bytes.

use super::*;
use proptest::prelude::*;

const PLAIN: Layout =
    Layout { with_chain: true, with_fields: false, with_user_stack: false, fixed_period: None };
const DEEP: Layout = Layout { with_user_stack: true, ..PLAIN };
const FIELDS: Layout =
    Layout { with_chain: false, with_fields: true, with_user_stack: false, fixed_period: Some(1) };

fn bytes(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

const fn pair(first: u32, second: u32) -> u64 {
    (second as u64) << 32 | first as u64
}

/// Of thread 7 of process 5 at time 9 on processor 3.
const END: [u64; 3] = [pair(5, 7), 9, 3];

fn sample_of(chain: &[u64], user: &[u64]) -> Vec<u8> {
    let length = chain.len() as u64;
    bytes(&[&[0x10, pair(5, 7), 9, 3, 11, length], chain, user].concat())
}

#[test]
fn a_sample_is_read_with_what_its_stack_is_of() {
    let chain = [KERNEL_CONTEXT, 0xffff_8000, 0xffff_9000, USER_CONTEXT, 0x40, 0x50];
    let body = sample_of(&chain, &[]);
    let Record::Sample(sample) = parse(SAMPLE, 1, &body, PLAIN).unwrap() else { panic!() };
    let told = (sample.ip, sample.pid, sample.tid, sample.time_ns, sample.cpu, sample.period);
    assert_eq!(told, (0x10, 5, 7, 9, 3, 11));
    assert_eq!((sample.mode, sample.user), (Mode::Kernel, User::NotAsked));
    let frames: Vec<_> = sample.chain.frames().collect();
    let (kernel, user) = (Mode::Kernel, Mode::User);
    let wanted = [(kernel, 0xffff_8000), (kernel, 0xffff_9000), (user, 0x40), (user, 0x50)];
    assert_eq!(frames, wanted);
}

#[test]
fn registers_and_stack_are_as_much_as_could_be_read() {
    let registers: Vec<u64> = (1..=REGISTERS as u64).collect();
    let with = |tail: &[u64]| [&[2], &registers[..], tail].concat();
    let known = |stack: &'static [u8], is_full| User::Known {
        registers: registers.clone().try_into().unwrap(),
        stack,
        is_full,
    };
    let cases = [
        (vec![0, 0], User::None),
        ([&[1], &registers[..], &[0]].concat(), User::Is32Bit),
        (with(&[16, 0, 0, 16]), known(&[0; 16], true)),
        (with(&[16, 0, 0, 8]), known(&[0; 8], false)),
        (with(&[16, 0, 0, 0]), known(&[], false)),
        // More than there is: what is there.
        (with(&[16, 0, 0, u64::MAX]), known(&[0; 16], true)),
        (with(&[0]), known(&[], false)),
    ];
    for (tail, wanted) in cases {
        let body = sample_of(&[], &tail);
        let Ok(Record::Sample(sample)) = parse(SAMPLE, 2, &body, DEEP) else { panic!("{tail:?}") };
        assert_eq!(sample.user, wanted, "{tail:?}");
    }
}

#[test]
fn a_period_that_is_always_the_same_is_not_in_the_sample() {
    let body = bytes(&[0x10, pair(5, 7), 9, 3, 1, 0xffff_8000]);
    let layout = Layout { fixed_period: Some(100), ..PLAIN };
    let Record::Sample(sample) = parse(SAMPLE, 1, &body, layout).unwrap() else { panic!() };
    assert_eq!((sample.period, sample.chain.len()), (100, 1));
}

#[test]
fn other_records_are_read() {
    let mut map = bytes(&[pair(5, 5), 0x1000, 0x2000, 0x3000, pair(8, 1), 99, 0, pair(5, 2)]);
    map.extend(b"/opt/my app (v2)/x (deleted)\0\0\0\0");
    map.extend(bytes(&END));
    let mut comm = bytes(&[pair(5, 7)]);
    comm.extend(b"a 11/22 b\0\0\0\0\0\0\0");
    comm.extend(bytes(&END));
    let born = bytes(&[&[pair(6, 5), pair(8, 7), 9], &END[..]].concat());
    let lost = bytes(&[&[1, 42], &END[..]].concat());
    let family = Family { pid: 6, tid: 8, parent_pid: 5, time_ns: 9 };
    let named = |is_exec| Named { pid: 5, tid: 7, name: b"a 11/22 b", is_exec, time_ns: 9 };
    let mapped = Mapped {
        pid: 5,
        start: 0x1000,
        length: 0x2000,
        file_offset: 0x3000,
        file: FileId { major: 8, minor: 1, inode: 99 },
        name: b"/opt/my app (v2)/x (deleted)",
        time_ns: 9,
    };
    let cases = [
        (MMAP2, 0, map, Record::Mapped(mapped)),
        (COMM, 0, comm.clone(), Record::Named(named(false))),
        (COMM, IS_EXEC, comm, Record::Named(named(true))),
        (FORK, 0, born.clone(), Record::Born(family)),
        (EXIT, 0, born, Record::Ended(family)),
        (LOST, 0, lost, Record::Lost(42)),
        (LOST_SAMPLES, 0, bytes(&[&[43], &END[..]].concat()), Record::LostSamples(43)),
        (THROTTLE, 0, Vec::new(), Record::Throttled),
        (UNTHROTTLE, 0, Vec::new(), Record::Unthrottled),
        (77, 0, Vec::new(), Record::Other(77)),
    ];
    for (kind, misc, body, wanted) in cases {
        assert_eq!(parse(kind, misc, &body, PLAIN), Ok(wanted.clone()));
        if !body.is_empty() {
            assert_eq!(time_of(kind, &body), 9, "{wanted:?}");
        }
    }
}

#[test]
fn a_body_that_is_cut_is_an_error_at_every_length() {
    let registers: Vec<u64> = (1..=REGISTERS as u64).collect();
    let user = [&[2], &registers[..], &[16, 0, 0, 16]].concat();
    let body = sample_of(&[KERNEL_CONTEXT, 0xffff_8000], &user);
    for length in 0..body.len() {
        let cut = parse(SAMPLE, 1, &body[..length], DEEP);
        assert_eq!(cut, Err(Malformed { kind: SAMPLE }), "{length}");
    }
    let length = u64::MAX / 8 + 2;
    let endless = bytes(&[0, 0, 0, 0, 0, length]);
    assert!(parse(SAMPLE, 1, &endless, DEEP).is_err());
}

#[test]
fn the_fields_of_a_tracepoint_come_without_a_stack_and_some_with_registers() {
    let fields: Vec<u8> = [&68_u32.to_ne_bytes()[..], &[7; 68]].concat();
    let before = bytes(&[0x10, pair(5, 7), 9, 3]);
    let registers = bytes(&[&[1][..], &[0; REGISTERS]].concat());
    for (tail, wanted) in [(vec![], User::NotAsked), (registers, User::Is32Bit)] {
        let body = [before.clone(), fields.clone(), tail].concat();
        let Record::Sample(sample) = parse(SAMPLE, 1, &body, FIELDS).unwrap() else { panic!() };
        assert_eq!((sample.fields, sample.user, sample.chain.len()), (&[7; 68][..], wanted, 0));
        assert_eq!(time_of(SAMPLE, &body), 9);
        assert!(parse(SAMPLE, 1, &body[..before.len() + 40], FIELDS).is_err());
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        kind in 0_u32..16,
        misc in any::<u16>(),
        body in prop::collection::vec(any::<u8>(), 0..300),
        with_user_stack in any::<bool>(),
        with_fields in any::<bool>(),
    ) {
        let _ = time_of(kind, &body);
        let layout = Layout { with_user_stack, with_fields, ..PLAIN };
        if let Ok(Record::Sample(sample)) = parse(kind, misc, &body, layout) {
            prop_assert!(sample.chain.frames().count() <= sample.chain.len());
        }
    }
}

#[test]
fn a_switch_says_of_whom_and_which_way() {
    let cases = [(0, false, false), (IS_OUT, true, false), (IS_OUT | IS_PREEMPTED, true, true)];
    for (misc, is_out, is_preempted) in cases {
        let wanted = Switched { pid: 5, tid: 7, time_ns: 9, is_out, is_preempted };
        let narrow = bytes(&END);
        assert_eq!(parse(SWITCH, misc, &narrow, PLAIN), Ok(Record::Switched(wanted)));
        // Of everything that runs, it also says of the other thread.
        let wide = bytes(&[&[pair(1, 2)][..], &END].concat());
        assert_eq!(parse(SWITCH_CPU_WIDE, misc, &wide, PLAIN), Ok(Record::Switched(wanted)));
    }
    assert_eq!(parse(SWITCH, 0, &bytes(&END[1..]), PLAIN), Err(Malformed { kind: SWITCH }));
}

//! Filters as the kernel takes them: classic BPF, assembled from rules.
//!
//! Kernel reference: `struct seccomp_data` in `include/uapi/linux/seccomp.h`,
//! `Documentation/userspace-api/seccomp_filter.rst`.

use super::{Reads, calls};
use libc::sock_filter;

/// What a system call is allowed for. Arguments are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Always.
    Allow,
    /// Never, with this error.
    Refuse(i32),
    /// Where the argument has none of these bits.
    Without(u8, u32),
    /// Where the argument is one of these.
    OneOf(u8, &'static [u32]),
    /// Where the argument is this.
    Is(u8, u32),
    /// Where the argument, a pointer, is null.
    Null(u8),
    /// Where the first argument is this and the second 0, or where the first is that.
    NowhereOr(u32, u32),
}

/// Of which processor a call must be; the numbers mean others on another one.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// On x86_64, calls of programs with 32-bit pointers have this bit. Elsewhere no number has it.
const X32: u32 = 0x4000_0000;

const LOAD: u16 = 0x20;
const EQUAL: u16 = 0x15;
const AT_LEAST: u16 = 0x35;
const ALWAYS: u16 = 0x05;
const HAS_ANY: u16 = 0x45;
const RETURN: u16 = 0x06;

const KILL: u32 = 0x8000_0000;
const ALLOW: u32 = 0x7fff_0000;
const ERROR: u32 = 0x0005_0000;
const TRACE: u32 = 0x7ff0_0000;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

const fn step(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

const fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

const fn error(errno: i32) -> sock_filter {
    step(RETURN, ERROR | errno.unsigned_abs() & 0xffff)
}

/// The low half of an argument. Both processors are little-endian.
fn low(argument: u8) -> sock_filter {
    step(LOAD, ARGUMENTS + u32::from(argument) * 8)
}

fn high(argument: u8) -> sock_filter {
    step(LOAD, ARGUMENTS + u32::from(argument) * 8 + 4)
}

/// The worker's: a list of what it may do. What is not on it is refused.
pub(super) fn worker(own_pid: u32, reads: Reads) -> Vec<sock_filter> {
    let mut program = prologue();
    for (number, rule) in calls::worker(own_pid, reads) {
        push(&mut program, number, rule);
    }
    // Whoever tries a call that came after the list was made has another way without it.
    program.push(jump(AT_LEAST, calls::FIRST_UNKNOWN, 0, 1));
    program.push(error(libc::ENOSYS));
    program.push(error(libc::EPERM));
    program
}

/// The spawner's: a list of what none of its programs has to do.
pub(super) fn spawner() -> Vec<sock_filter> {
    let mut program = prologue();
    for number in calls::REFUSED_TO_PROGRAMS {
        push(&mut program, *number, Rule::Refuse(libc::EPERM));
    }
    program.push(step(RETURN, ALLOW));
    program
}

/// One that stops calls for a tracer, and lets all others through: those of this processor's own programs,
/// and those of its 32-bit ones.
pub(super) fn traced(own: &[u32], foreign: &[u32]) -> Vec<sock_filter> {
    let part = |numbers: &[u32]| {
        let tests =
            numbers.iter().flat_map(|number| [jump(EQUAL, *number, 0, 1), step(RETURN, TRACE)]);
        let mut part = vec![step(LOAD, NUMBER)];
        part.extend(tests);
        part.push(step(RETURN, ALLOW));
        part
    };
    let own = part(own);
    // What a condition can jump over is less than so many tests.
    let length = u32::try_from(own.len()).unwrap_or(u32::MAX);
    let mut program = vec![step(LOAD, ARCH), jump(EQUAL, ARCHITECTURE, 1, 0), step(ALWAYS, length)];
    program.extend(own);
    program.extend(part(foreign));
    program
}

/// Ends whoever makes a call of another processor, then loads the call's number.
fn prologue() -> Vec<sock_filter> {
    vec![
        step(LOAD, ARCH),
        jump(EQUAL, ARCHITECTURE, 1, 0),
        step(RETURN, KILL),
        step(LOAD, NUMBER),
        jump(AT_LEAST, X32, 0, 1),
        step(RETURN, KILL),
    ]
}

/// Adds one rule, which either decides or is jumped over.
fn push(program: &mut Vec<sock_filter>, number: libc::c_long, rule: Rule) {
    let Ok(number) = u32::try_from(number) else { return };
    let body = body(rule);
    // A rule has a few steps, far fewer than a jump can pass.
    let length = u8::try_from(body.len()).unwrap_or(u8::MAX);
    program.push(jump(EQUAL, number, 0, length));
    program.extend(body);
}

fn body(rule: Rule) -> Vec<sock_filter> {
    let (allow, refuse) = (step(RETURN, ALLOW), error(libc::EPERM));
    match rule {
        Rule::Allow => vec![allow],
        Rule::Refuse(errno) => vec![error(errno)],
        Rule::Without(argument, bits) => {
            vec![low(argument), jump(HAS_ANY, bits, 1, 0), allow, refuse]
        }
        Rule::OneOf(argument, values) => {
            let mut body = vec![low(argument)];
            for value in values {
                body.extend([jump(EQUAL, *value, 0, 1), allow]);
            }
            body.push(refuse);
            body
        }
        Rule::Is(argument, value) => {
            vec![low(argument), jump(EQUAL, value, 0, 1), allow, refuse]
        }
        Rule::Null(argument) => vec![
            low(argument),
            jump(EQUAL, 0, 0, 3),
            high(argument),
            jump(EQUAL, 0, 0, 1),
            allow,
            refuse,
        ],
        Rule::NowhereOr(first, other) => vec![
            low(0),
            jump(EQUAL, other, 3, 0),
            jump(EQUAL, first, 0, 3),
            low(1),
            jump(EQUAL, 0, 0, 1),
            allow,
            refuse,
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a filter as the kernel does.
    fn answer(program: &[sock_filter], arch: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let mut data = Vec::new();
        data.extend(number.to_le_bytes());
        data.extend(arch.to_le_bytes());
        data.extend(0_u64.to_le_bytes());
        arguments.iter().for_each(|argument| data.extend(argument.to_le_bytes()));
        let (mut place, mut value) = (0, 0);
        loop {
            let step = program[place];
            place += 1;
            let mut jump = |is: bool| place += usize::from(if is { step.jt } else { step.jf });
            match step.code {
                LOAD => {
                    let at = usize::try_from(step.k).unwrap();
                    value = u32::from_le_bytes(data[at..at + 4].try_into().unwrap());
                }
                EQUAL => jump(value == step.k),
                AT_LEAST => jump(value >= step.k),
                HAS_ANY => jump(value & step.k != 0),
                ALWAYS => place += usize::try_from(step.k).unwrap(),
                RETURN => return step.k,
                other => panic!("{other:#x} is no step of ours"),
            }
        }
    }

    const OWN: u32 = 4711;
    const REFUSED: u32 = ERROR | 1;
    const NO_SUCH_CALL: u32 = ERROR | 38;

    fn worker_answers(call: libc::c_long, arguments: &[i64]) -> u32 {
        let mut all = [0; 6];
        for (room, argument) in all.iter_mut().zip(arguments) {
            *room = argument.cast_unsigned();
        }
        let program = worker(OWN, Reads::ThisMachine);
        answer(&program, ARCHITECTURE, u32::try_from(call).unwrap(), all)
    }

    #[test]
    fn the_worker_may_read_and_nothing_else() {
        let own = i64::from(OWN);
        let open = |flags: i32| worker_answers(libc::SYS_openat, &[-100, 1, flags.into(), 0]);
        assert_eq!(open(libc::O_RDONLY | libc::O_CLOEXEC | libc::O_DIRECTORY), ALLOW);
        assert_eq!(open(libc::O_PATH | libc::O_NOFOLLOW), ALLOW);
        for flags in [
            libc::O_WRONLY,
            libc::O_RDWR,
            libc::O_CREAT,
            libc::O_TRUNC,
            libc::O_TMPFILE,
            libc::O_WRONLY | libc::O_CLOEXEC | libc::O_APPEND,
        ] {
            assert_eq!(open(flags), REFUSED, "{flags:o}");
        }
        let cases: [(libc::c_long, &[i64], u32); 35] = [
            (libc::SYS_read, &[], ALLOW),
            (libc::SYS_kill, &[own, 6], ALLOW),
            (libc::SYS_kill, &[1, 9], REFUSED),
            (libc::SYS_kill, &[-1, 9], REFUSED),
            (libc::SYS_tgkill, &[own, 1, 6], ALLOW),
            (libc::SYS_tgkill, &[1, 1, 6], REFUSED),
            (libc::SYS_tkill, &[own, 6], REFUSED),
            (libc::SYS_execve, &[], REFUSED),
            (libc::SYS_execveat, &[], REFUSED),
            (libc::SYS_socket, &[1, 1, 0], REFUSED),
            (libc::SYS_unlinkat, &[], REFUSED),
            (libc::SYS_ptrace, &[0x4206, 1], REFUSED),
            (libc::SYS_ptrace, &[0x4206, 0], ALLOW),
            (libc::SYS_ptrace, &[0, 1], ALLOW),
            (libc::SYS_ptrace, &[16, 1], REFUSED),
            (libc::SYS_bpf, &[5], ALLOW),
            (libc::SYS_bpf, &[33], ALLOW),
            // A name in a file system, a program on a group, and what others have loaded.
            (libc::SYS_bpf, &[6], REFUSED),
            (libc::SYS_bpf, &[8], REFUSED),
            (libc::SYS_bpf, &[9], REFUSED),
            (libc::SYS_bpf, &[13], REFUSED),
            (libc::SYS_bpf, &[14], REFUSED),
            (libc::SYS_bpf, &[30], REFUSED),
            (libc::SYS_bpf, &[34], REFUSED),
            (libc::SYS_ioctl, &[3, 0x2405, 4], ALLOW),
            // A filter of an event makes the kernel write less; a program on one runs in the kernel.
            (libc::SYS_ioctl, &[3, 0x4008_2406], ALLOW),
            (libc::SYS_ioctl, &[3, 0x4004_2408], REFUSED),
            (libc::SYS_mmap, &[0, 4096, 3], ALLOW),
            (libc::SYS_mmap, &[0, 4096, 5], REFUSED),
            (libc::SYS_prlimit64, &[0, 7, 0, 1], ALLOW),
            (libc::SYS_prlimit64, &[0, 7, 1 << 32, 1], REFUSED),
            (libc::SYS_clone, &[0x11], ALLOW),
            (libc::SYS_clone, &[0x1000_0011], REFUSED),
            (libc::SYS_openat2, &[], NO_SUCH_CALL),
            (libc::SYS_io_uring_setup, &[], NO_SUCH_CALL),
        ];
        for (call, arguments, want) in cases {
            assert_eq!(worker_answers(call, arguments), want, "{call} {arguments:?}");
        }
        // What is not known yet.
        assert_eq!(worker_answers(999, &[]), NO_SUCH_CALL);
    }

    #[test]
    fn only_a_snapshot_takes_the_call_whose_flags_no_filter_sees() {
        let number = u32::try_from(libc::SYS_openat2).unwrap();
        let program = worker(OWN, Reads::Snapshot);
        assert_eq!(answer(&program, ARCHITECTURE, number, [0; 6]), ALLOW);
    }

    #[test]
    fn a_call_of_another_processor_ends_whoever_makes_it() {
        for program in [worker(OWN, Reads::ThisMachine), spawner()] {
            // i386, and programs with 32-bit pointers.
            assert_eq!(answer(&program, 0x4000_0003, 3, [0; 6]), KILL);
            assert_eq!(answer(&program, ARCHITECTURE, X32, [0; 6]), KILL);
        }
    }

    #[test]
    fn a_program_may_do_all_but_what_is_named() {
        let program = spawner();
        let answer = |call: libc::c_long| {
            answer(&program, ARCHITECTURE, u32::try_from(call).unwrap(), [0; 6])
        };
        assert_eq!(answer(libc::SYS_execve), ALLOW);
        assert_eq!(answer(libc::SYS_mount), REFUSED);
        assert_eq!(answer(libc::SYS_connect), REFUSED);
    }

    #[test]
    fn only_the_calls_that_are_named_stop_for_a_tracer() {
        const FOREIGN: u32 = 0x4000_0003;
        let many: Vec<u32> = (1000..1200).collect();
        for (own, foreign) in [(&[257, 3][..], &[295, 6][..]), (&many, &many)] {
            let program = traced(own, foreign);
            let answer = |arch, number| answer(&program, arch, number, [0; 6]);
            assert!(own.iter().all(|number| answer(ARCHITECTURE, *number) == TRACE));
            assert!(foreign.iter().all(|number| answer(FOREIGN, *number) == TRACE));
            assert_eq!((answer(ARCHITECTURE, 59), answer(FOREIGN, 11)), (ALLOW, ALLOW));
        }
        let program = traced(&[257], &[]);
        assert_eq!(answer(&program, FOREIGN, 257, [0; 6]), ALLOW);
    }
}

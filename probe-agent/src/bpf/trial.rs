//! Loading small eBPF programs, to see whether they may be loaded. None is ever attached.
//!
//! Kernel reference: `include/uapi/linux/bpf.h`, `man 2 bpf`.

use super::call;
use rustix::io::Errno;

/// What kind of program is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// `enum bpf_prog_type`.
    pub kind: u32,
    /// `enum bpf_attach_type`, 0 where the kind has none.
    pub attach: u32,
    /// The number of the type or function in the kernel's BTF that it is for; 0 for none.
    pub btf_id: u32,
    /// Which function it uses to read the kernel's memory.
    pub reads: Reads,
}

/// How a program reads the kernel's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Not at all.
    Nothing,
    /// `bpf_probe_read_kernel`, Linux 5.5.
    Kernel,
}

/// `struct bpf_insn`.
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    /// Destination in the low half, source in the high half.
    registers: u8,
    offset: i16,
    immediate: i32,
}

const fn instruction(code: u8, registers: u8, immediate: i32) -> Instruction {
    Instruction { code, registers, offset: 0, immediate }
}

const SET: u8 = 0xb7;
const COPY: u8 = 0xbf;
const ADD: u8 = 0x07;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const PROBE_READ_KERNEL: i32 = 113;

/// `return 0`.
const NOTHING: [Instruction; 2] = [instruction(SET, 0, 0), instruction(EXIT, 0, 0)];

/// Reads eight bytes of the kernel's memory onto its stack, then `return 0`.
const READ: [Instruction; 7] = [
    instruction(COPY, 0xa1, 0),
    instruction(ADD, 1, -8),
    instruction(SET, 2, 8),
    instruction(SET, 3, 0),
    instruction(CALL, 0, PROBE_READ_KERNEL),
    instruction(SET, 0, 0),
    instruction(EXIT, 0, 0),
];

const ARRAY: u32 = 2;

/// Makes a map of one number, and drops it.
///
/// # Errors
///
/// What the kernel, or a filter before it, answered.
pub fn create_map() -> Result<(), Errno> {
    let create = call::Create {
        kind: ARRAY,
        key_bytes: 4,
        value_bytes: 8,
        entries: 1,
        ..Default::default()
    };
    call::create(create).map(drop)
}

/// Loads a program, and drops it.
///
/// # Errors
///
/// What the kernel, or a filter before it, answered.
pub fn load(program: Program) -> Result<(), Errno> {
    let instructions: &[Instruction] = match program.reads {
        Reads::Nothing => &NOTHING,
        Reads::Kernel => &READ,
    };
    let mut bytes = Vec::new();
    for instruction in instructions {
        bytes.extend([instruction.code, instruction.registers]);
        bytes.extend(instruction.offset.to_ne_bytes());
        bytes.extend(instruction.immediate.to_ne_bytes());
    }
    let attributes = call::Load {
        kind: program.kind,
        kernel_version: kernel_version(),
        attach: program.attach,
        btf_id: program.btf_id,
        ..Default::default()
    };
    call::load(&call::Program { instructions: &bytes, functions: &[], attributes }, &mut [])
        .map(drop)
}

/// Gives a command that no kernel knows. `EINVAL` is the kernel's answer, and that of kernels before
/// 5.11 is `EPERM` to whoever may not load programs anyway.
///
/// # Errors
///
/// What was answered.
pub fn no_command() -> Result<(), Errno> {
    call::no_command()
}

/// The running kernel's version as `LINUX_VERSION_CODE`. Kernels before 5.0 load a program for
/// kprobes only with it.
pub(super) fn kernel_version() -> u32 {
    let name = rustix::system::uname();
    let release = name.release().to_bytes();
    let mut numbers = release.split(|byte| !byte.is_ascii_digit()).map(|digits| {
        std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u32>().ok())
    });
    let mut next = || numbers.next().flatten().unwrap_or_default().min(255);
    (next() << 16) | (next() << 8) | next()
}

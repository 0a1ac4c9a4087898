//! Loading small eBPF programs, to see whether they may be loaded. None is ever attached.
//!
//! Kernel reference: `include/uapi/linux/bpf.h`, `man 2 bpf`.

#![expect(unsafe_code, reason = "bpf has no safe form")]

use super::answer::owned;
use rustix::{fd::OwnedFd, io::Errno};

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
#[repr(C)]
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

/// The part of `union bpf_attr` that loads a program.
#[repr(C)]
struct Load {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach: u32,
    program_btf: u32,
    function_info_size: u32,
    function_info: u64,
    function_info_count: u32,
    line_info_size: u32,
    line_info: u64,
    line_info_count: u32,
    btf_id: u32,
    attach_program: u32,
    padding: u32,
}

const _: () = assert!(size_of::<Load>() == 120);

/// The part of `union bpf_attr` that makes a map.
#[repr(C)]
struct Create {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
}

const MAP_CREATE: u32 = 0;
const PROGRAM_LOAD: u32 = 5;
const NO_COMMAND: u32 = u32::MAX;
const ARRAY: u32 = 2;

/// Makes a map of one number, and drops it.
///
/// # Errors
///
/// What the kernel, or a filter before it, answered.
pub fn create_map() -> Result<(), Errno> {
    let create = Create { kind: ARRAY, key_bytes: 4, value_bytes: 8, entries: 1 };
    call(MAP_CREATE, &create).map(drop)
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
    let load = Load {
        kind: program.kind,
        instruction_count: u32::try_from(instructions.len()).unwrap_or_default(),
        instructions: instructions.as_ptr().addr() as u64,
        license: c"Dual BSD/GPL".as_ptr().addr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: kernel_version(),
        flags: 0,
        name: [0; 16],
        interface: 0,
        attach: program.attach,
        program_btf: 0,
        function_info_size: 0,
        function_info: 0,
        function_info_count: 0,
        line_info_size: 0,
        line_info: 0,
        line_info_count: 0,
        btf_id: program.btf_id,
        attach_program: 0,
        padding: 0,
    };
    call(PROGRAM_LOAD, &load).map(drop)
}

/// Gives a command that no kernel knows. `EINVAL` is the kernel's answer, and that of kernels before
/// 5.11 is `EPERM` to whoever may not load programs anyway.
///
/// # Errors
///
/// What was answered.
pub fn no_command() -> Result<(), Errno> {
    call(NO_COMMAND, &Create { kind: 0, key_bytes: 0, value_bytes: 0, entries: 0 }).map(drop)
}

fn call<T>(command: u32, attributes: &T) -> Result<OwnedFd, Errno> {
    let size = u32::try_from(size_of::<T>()).unwrap_or_default();
    // SAFETY: the kernel reads as many bytes as the structure has, and what it points to lives for
    // the call.
    owned(unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size) })
}

/// The running kernel's version as `LINUX_VERSION_CODE`. Kernels before 5.0 load a program for
/// kprobes only with it.
fn kernel_version() -> u32 {
    let name = rustix::system::uname();
    let release = name.release().to_bytes();
    let mut numbers = release.split(|byte| !byte.is_ascii_digit()).map(|digits| {
        std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u32>().ok())
    });
    let mut next = || numbers.next().flatten().unwrap_or_default().min(255);
    (next() << 16) | (next() << 8) | next()
}

//! The system call `bpf`, command by command.
//!
//! Kernel reference: `union bpf_attr` in `include/uapi/linux/bpf.h`, `man 2 bpf`. A structure here may
//! be shorter than the kernel's: what it does not have is zero there.

#![expect(unsafe_code, reason = "bpf has no safe form")]

use crate::os::answer::{last_errno, owned};
use rustix::{
    fd::{AsRawFd as _, BorrowedFd, OwnedFd},
    io::Errno,
};

/// `enum bpf_cmd`; the numbers that the sandbox lets through are these and no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Command {
    /// `BPF_MAP_CREATE`.
    MapCreate = 0,
    /// `BPF_MAP_LOOKUP_ELEM`.
    MapLookup = 1,
    /// `BPF_MAP_UPDATE_ELEM`.
    MapUpdate = 2,
    /// `BPF_MAP_DELETE_ELEM`.
    MapDelete = 3,
    /// `BPF_MAP_GET_NEXT_KEY`.
    MapNextKey = 4,
    /// `BPF_PROG_LOAD`.
    ProgramLoad = 5,
    /// `BPF_RAW_TRACEPOINT_OPEN`.
    RawTracepointOpen = 17,
    /// `BPF_BTF_LOAD`.
    BtfLoad = 18,
    /// `BPF_MAP_FREEZE`, Linux 5.2.
    MapFreeze = 22,
    /// `BPF_MAP_LOOKUP_BATCH`, Linux 5.6.
    MapLookupBatch = 24,
    /// `BPF_MAP_DELETE_BATCH`, Linux 5.6.
    MapDeleteBatch = 27,
    /// `BPF_LINK_CREATE`, Linux 5.7.
    LinkCreate = 28,
    /// `BPF_ITER_CREATE`, Linux 5.8.
    IteratorCreate = 33,
    /// None: the kernel's own answer to it tells whether a filter gave another one.
    None = u32::MAX,
}

impl Command {
    /// The numbers of all of them.
    pub const NUMBERS: &[u32] = &[
        Self::MapCreate.number(),
        Self::MapLookup.number(),
        Self::MapUpdate.number(),
        Self::MapDelete.number(),
        Self::MapNextKey.number(),
        Self::ProgramLoad.number(),
        Self::RawTracepointOpen.number(),
        Self::BtfLoad.number(),
        Self::MapFreeze.number(),
        Self::MapLookupBatch.number(),
        Self::MapDeleteBatch.number(),
        Self::LinkCreate.number(),
        Self::IteratorCreate.number(),
        Self::None.number(),
    ];

    /// Its number.
    const fn number(self) -> u32 {
        self as u32
    }
}

/// The part of `union bpf_attr` that loads a program. Addresses are of memory that lives for the call.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    pub(super) kind: u32,
    pub(super) instruction_count: u32,
    pub(super) instructions: u64,
    pub(super) license: u64,
    pub(super) log_level: u32,
    pub(super) log_size: u32,
    pub(super) log: u64,
    pub(super) kernel_version: u32,
    pub(super) flags: u32,
    pub(super) name: [u8; 16],
    pub(super) interface: u32,
    pub(super) attach: u32,
    pub(super) program_btf: u32,
    pub(super) function_info_size: u32,
    pub(super) function_info: u64,
    pub(super) function_info_count: u32,
    pub(super) line_info_size: u32,
    pub(super) line_info: u64,
    pub(super) line_info_count: u32,
    pub(super) btf_id: u32,
    pub(super) attach_program: u32,
    pub(super) padding: u32,
}

const _: () = assert!(size_of::<Load>() == 120);

/// The part of `union bpf_attr` that makes a map.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Create {
    pub(super) kind: u32,
    pub(super) key_bytes: u32,
    pub(super) value_bytes: u32,
    pub(super) entries: u32,
    pub(super) flags: u32,
    pub(super) inner: u32,
    pub(super) node: u32,
    pub(super) name: [u8; 16],
    pub(super) interface: u32,
    pub(super) btf: u32,
    pub(super) key_type: u32,
    pub(super) value_type: u32,
    pub(super) kernel_value_type: u32,
}

const _: () = assert!(size_of::<Create>() == 64);

#[repr(C)]
struct Element {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct Batch {
    from: u64,
    next: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: u32,
    element_flags: u64,
    flags: u64,
}

#[repr(C)]
struct BtfLoad {
    bytes: u64,
    log: u64,
    size: u32,
    log_size: u32,
    log_level: u32,
    padding: u32,
}

/// What reads the kernel's own memory: `BPF_PROG_TYPE_TRACING`.
pub(super) const TRACING: u32 = 26;
/// `BPF_TRACE_RAW_TP`: a tracepoint, with arguments of known types.
pub(super) const AT_TRACEPOINT: u32 = 23;
/// `BPF_TRACE_ITER`.
pub(super) const AS_ITERATOR: u32 = 28;

/// A descriptor's number, as the kernel takes it.
pub(super) fn number(descriptor: BorrowedFd<'_>) -> u32 {
    descriptor.as_raw_fd().cast_unsigned()
}

fn address<T: ?Sized>(of: &T) -> u64 {
    std::ptr::from_ref(of).cast::<u8>().addr() as u64
}

/// A name of the kernel's: 15 bytes at most.
pub(super) fn name(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let bytes = text.bytes().filter(|byte| allowed(byte)).take(15);
    name.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
    name
}

fn call<T>(command: Command, attributes: &mut T) -> libc::c_long {
    let size = u32::try_from(size_of::<T>()).unwrap_or_default();
    // SAFETY: the kernel reads and writes as many bytes as the structure has, and whoever made it saw
    // to it that what it points to lives for the call and is as large as the command makes of it.
    unsafe { libc::syscall(libc::SYS_bpf, command.number(), &raw mut *attributes, size) }
}

fn open<T>(command: Command, attributes: &mut T) -> Result<OwnedFd, Errno> {
    owned(call(command, attributes))
}

fn done<T>(command: Command, attributes: &mut T) -> Result<(), Errno> {
    if call(command, attributes) < 0 { Err(last_errno()) } else { Ok(()) }
}

/// Gives a command that no kernel knows.
pub(super) fn no_command() -> Result<(), Errno> {
    done(Command::None, &mut Create::default())
}

/// Makes a map.
pub(super) fn create(mut attributes: Create) -> Result<OwnedFd, Errno> {
    open(Command::MapCreate, &mut attributes)
}

/// What a program is loaded with beside what it is.
pub(super) struct Program<'p> {
    /// As the kernel takes them, eight bytes each.
    pub(super) instructions: &'p [u8],
    /// Where its functions begin and of which type they are: `struct bpf_func_info` each.
    pub(super) functions: &'p [[u32; 2]],
    pub(super) attributes: Load,
}

/// Loads a program; what the verifier says goes to `log`, unless it is empty.
pub(super) fn load(program: &Program<'_>, log: &mut [u8]) -> Result<OwnedFd, Errno> {
    let count = program.instructions.len() / 8;
    let mut attributes = Load {
        function_info: address(program.functions),
        function_info_size: 8,
        function_info_count: u32::try_from(program.functions.len()).map_err(|_| Errno::TOOBIG)?,
        instruction_count: u32::try_from(count).map_err(|_| Errno::TOOBIG)?,
        instructions: address(program.instructions),
        license: c"Dual BSD/GPL".as_ptr().addr() as u64,
        ..program.attributes
    };
    if !log.is_empty() {
        attributes.log_level = 1;
        attributes.log_size = u32::try_from(log.len()).map_err(|_| Errno::TOOBIG)?;
        attributes.log = log.as_mut_ptr().addr() as u64;
    }
    open(Command::ProgramLoad, &mut attributes)
}

/// Gives the kernel the types that maps are described with.
pub(super) fn load_btf(bytes: &[u8]) -> Result<OwnedFd, Errno> {
    let size = u32::try_from(bytes.len()).map_err(|_| Errno::TOOBIG)?;
    let (log, log_size, log_level, padding) = (0, 0, 0, 0);
    let mut attributes = BtfLoad { bytes: address(bytes), log, size, log_size, log_level, padding };
    open(Command::BtfLoad, &mut attributes)
}

/// Lets a program run at its tracepoint, until the descriptor is closed.
pub(super) fn open_tracepoint(program: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    #[repr(C)]
    struct Open {
        name: u64,
        program: u32,
        padding: u32,
    }
    let mut attributes = Open { name: 0, program: number(program), padding: 0 };
    open(Command::RawTracepointOpen, &mut attributes)
}

/// Makes a program the one of an iterator, until the descriptor is closed.
pub(super) fn link_iterator(program: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let mut attributes = [number(program), 0, AS_ITERATOR, 0];
    open(Command::LinkCreate, &mut attributes)
}

/// The same of an iterator over tasks, where it is called for one of them. Linux 6.1.
pub(super) fn link_iterator_of(
    thread: rustix::thread::Pid,
    program: BorrowedFd<'_>,
) -> Result<OwnedFd, Errno> {
    /// `union bpf_iter_link_info`, the part for tasks.
    #[repr(C)]
    struct Which {
        thread: u32,
        process: u32,
        process_descriptor: u32,
    }
    #[repr(C)]
    struct Link {
        program: u32,
        target: u32,
        attach: u32,
        flags: u32,
        which: u64,
        which_size: u32,
        padding: u32,
    }
    let thread = thread.as_raw_nonzero().get().cast_unsigned();
    let which = Which { thread, process: 0, process_descriptor: 0 };
    let mut attributes = Link {
        program: number(program),
        target: 0,
        attach: AS_ITERATOR,
        flags: 0,
        which: address(&which),
        which_size: u32::try_from(size_of::<Which>()).unwrap_or_default(),
        padding: 0,
    };
    open(Command::LinkCreate, &mut attributes)
}

/// One pass of an iterator: a file that is read to its end.
pub(super) fn start_iterator(link: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let mut attributes = [number(link), 0];
    open(Command::IteratorCreate, &mut attributes)
}

/// A map as the calls below need it.
#[derive(Clone, Copy, Debug)]
pub(super) struct MapFd<'m> {
    pub(super) descriptor: BorrowedFd<'m>,
    pub(super) key_bytes: usize,
    /// Of the value as user space sees it: of a map with a value for each processor, all of them.
    pub(super) value_bytes: usize,
}

impl MapFd<'_> {
    fn element(self, key: &[u8], value: u64, flags: u64) -> Result<Element, Errno> {
        if key.len() != self.key_bytes {
            return Err(Errno::INVAL);
        }
        Ok(Element { map: number(self.descriptor), padding: 0, key: address(key), value, flags })
    }

    /// Reads a value into `value`, which must be as large.
    pub(super) fn lookup(self, key: &[u8], value: &mut [u8]) -> Result<(), Errno> {
        if value.len() != self.value_bytes {
            return Err(Errno::INVAL);
        }
        let mut element = self.element(key, value.as_mut_ptr().addr() as u64, 0)?;
        done(Command::MapLookup, &mut element)
    }

    /// Writes a value.
    pub(super) fn update(self, key: &[u8], value: &[u8]) -> Result<(), Errno> {
        if value.len() != self.value_bytes {
            return Err(Errno::INVAL);
        }
        done(Command::MapUpdate, &mut self.element(key, address(value), 0)?)
    }

    /// Takes a key out.
    pub(super) fn delete(self, key: &[u8]) -> Result<(), Errno> {
        done(Command::MapDelete, &mut self.element(key, 0, 0)?)
    }

    /// The key after this one, or the first.
    pub(super) fn next_key(self, key: Option<&[u8]>, next: &mut [u8]) -> Result<(), Errno> {
        if next.len() != self.key_bytes {
            return Err(Errno::INVAL);
        }
        let key = match key {
            Some(key) if key.len() == self.key_bytes => address(key),
            Some(_) => return Err(Errno::INVAL),
            None => 0,
        };
        let (map, value) = (number(self.descriptor), next.as_mut_ptr().addr() as u64);
        let mut element = Element { map, padding: 0, key, value, flags: 0 };
        done(Command::MapNextKey, &mut element)
    }

    /// Nobody may write it from user space any more.
    pub(super) fn freeze(self) -> Result<(), Errno> {
        done(Command::MapFreeze, &mut [number(self.descriptor)])
    }

    /// Reads up to as many entries as there is room for, from a place on that the last call gave.
    /// How many were read, and whether these were the last.
    pub(super) fn lookup_batch(
        self,
        (from, next): (Option<&[u8]>, &mut [u8]),
        keys: &mut [u8],
        values: &mut [u8],
    ) -> Result<(usize, bool), Errno> {
        let room = keys.len() / self.key_bytes.max(1);
        // The kernel writes a number of 4 bytes, or a key, by the kind of map.
        let place = self.key_bytes.max(4);
        let fits = room.checked_mul(self.value_bytes).is_some_and(|bytes| bytes <= values.len());
        if !fits || next.len() < place || from.is_some_and(|from| from.len() < place) {
            return Err(Errno::INVAL);
        }
        let mut batch = Batch {
            from: from.map_or(0, address),
            next: next.as_mut_ptr().addr() as u64,
            keys: keys.as_mut_ptr().addr() as u64,
            values: values.as_mut_ptr().addr() as u64,
            count: u32::try_from(room).map_err(|_| Errno::TOOBIG)?,
            map: number(self.descriptor),
            element_flags: 0,
            flags: 0,
        };
        let is_last = match done(Command::MapLookupBatch, &mut batch) {
            Ok(()) => false,
            Err(Errno::NOENT) => true,
            Err(errno) => return Err(errno),
        };
        Ok((usize::try_from(batch.count).map_err(|_| Errno::INVAL)?.min(room), is_last))
    }

    /// Takes keys out. How many there were before one was missing.
    pub(super) fn delete_batch(self, keys: &[u8]) -> Result<usize, Errno> {
        let count = u32::try_from(keys.len() / self.key_bytes.max(1)).map_err(|_| Errno::INVAL)?;
        let mut batch = Batch {
            from: 0,
            next: 0,
            keys: address(keys),
            values: 0,
            count,
            map: number(self.descriptor),
            element_flags: 0,
            flags: 0,
        };
        match done(Command::MapDeleteBatch, &mut batch) {
            Ok(()) | Err(Errno::NOENT) => Ok(usize::try_from(batch.count).unwrap_or_default()),
            Err(errno) => Err(errno),
        }
    }
}

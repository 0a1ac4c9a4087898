//! Loading an object: its maps made, its programs fitted to the kernel and taken by it.

use super::{
    NoBpf, Object, call,
    called::{self, CALLED},
    kernel_types::{KernelTypes, Wanted},
    map::{Definition, Map},
    trial,
};
use crate::{
    proc::{Root, topology},
    stack::elf::ElfFile,
};
use aya_obj::{EbpfSectionKind, Features, btf};
use protocol::host_text::HostText;
use rustix::{
    fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    io::Errno,
};
use std::{
    collections::HashMap,
    fs::File,
    io::Read as _,
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
};

/// Values of the C constants `const volatile`, by name: each as many bytes as the constant has.
pub type Constants<'c> = &'c [(&'c str, &'c [u8])];

/// How many entries maps have room for, by name, where that is not what the source says.
pub type Rooms<'r> = &'r [(&'r str, u32)];

/// An object that the kernel has taken.
#[derive(Debug)]
pub struct Loaded {
    settings: Settings,
    maps: HashMap<String, Map>,
    programs: HashMap<String, Result<Program, NoBpf>>,
    /// What was in sections of variables at the start.
    variables: HashMap<String, Vec<u8>>,
}

/// With what it was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Settings {
    object: Object,
    constants: Vec<(String, Vec<u8>)>,
    rooms: Vec<(String, u32)>,
}

#[derive(Debug)]
struct Program {
    descriptor: OwnedFd,
    is_iterator: bool,
}

/// Programs that run, until this is dropped.
#[derive(Debug)]
pub struct Attached {
    _links: Vec<OwnedFd>,
}

/// Kinds of maps that are more than entries.
const RINGBUF: u32 = 27;
const TASK_STORAGE: u32 = 29;

/// The kernel's types as the programs need them, once they were read.
static TYPES: Mutex<Option<Arc<KernelTypes>>> = Mutex::new(None);

/// What was loaded and is not used at the moment, one of each object.
static KEPT: Mutex<Vec<Loaded>> = Mutex::new(Vec::new());

/// A loaded object for one window. Afterwards it is kept for the next one of this session.
#[derive(Debug)]
pub struct Loan(Option<Loaded>);

impl Deref for Loan {
    type Target = Loaded;

    #[expect(clippy::unreachable, reason = "it is taken out by `drop` only")]
    fn deref(&self) -> &Loaded {
        match &self.0 {
            Some(loaded) => loaded,
            None => unreachable!("a loan that was given back"),
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let Some(loaded) = self.0.take() else { return };
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|other| other.settings.object != loaded.settings.object);
        kept.push(loaded);
    }
}

impl Loaded {
    /// An object for one window: the one that was loaded before with the same settings, with its maps
    /// emptied, or another one. Two windows at a time have one each.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub fn lend(
        root: &Root,
        object: Object,
        constants: Constants<'_>,
        rooms: Rooms<'_>,
    ) -> Result<Loan, NoBpf> {
        let settings = Settings::new(object, constants, rooms);
        let found = {
            let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
            let place = kept.iter().position(|loaded| loaded.settings == settings);
            place.map(|place| kept.swap_remove(place))
        };
        match found {
            Some(loaded) if root.live_top().is_some() => {
                loaded.clear()?;
                Ok(Loan(Some(loaded)))
            }
            Some(_) | None => Self::load(root, object, constants, rooms).map(Some).map(Loan),
        }
    }

    /// Loads an object. A program whose place this kernel does not have is missed when it is wanted.
    ///
    /// # Errors
    ///
    /// Why it cannot be loaded.
    pub fn load(
        root: &Root,
        object: Object,
        constants: Constants<'_>,
        rooms: Rooms<'_>,
    ) -> Result<Self, NoBpf> {
        let types = types_for_programs(root)?;
        let settings = Settings::new(object, constants, rooms);
        let mut parsed = aya_obj::Object::parse(object.bytes()).map_err(does_not_fit)?;
        let globals = constants.iter().map(|(name, value)| (*name, (*value, true))).collect();
        parsed.patch_map_data(globals).map_err(does_not_fit)?;
        let own_types = own_types(&mut parsed)?;
        let of_kernel = btf::Btf::parse(&types.bytes, parsed.endianness).map_err(does_not_fit)?;
        parsed.relocate_btf(&of_kernel).map_err(does_not_fit)?;
        let (maps, variables) = make_maps(&mut parsed, root, &settings, own_types.as_fd())?;
        let programs = load_programs(&parsed, object, &types, own_types.as_fd())?;
        Ok(Self { settings, maps, programs, variables })
    }

    /// Whether this kernel has a place for programs, or a function that they call: `iter/NAME`,
    /// `call/NAME`.
    ///
    /// # Errors
    ///
    /// Why that is not known, in which case nothing can be loaded either.
    pub fn has_place(root: &Root, hook: &str) -> Result<bool, NoBpf> {
        Ok(types_for_programs(root)?.hook(hook).is_some())
    }

    /// A map by its name.
    ///
    /// # Errors
    ///
    /// That the object has none of that name.
    pub fn map(&self, name: &str) -> Result<&Map, NoBpf> {
        let why = || NoBpf::Object { why: format!("it has no map {name}") };
        self.maps.get(name).ok_or_else(why)
    }

    /// Lets programs run: all of them or none.
    ///
    /// # Errors
    ///
    /// Why one cannot.
    pub fn attach(&self, programs: &[&str]) -> Result<Attached, NoBpf> {
        let attach = |name: &&str| {
            let program = self.program(name)?;
            Ok(call::open_tracepoint(program.descriptor.as_fd())?)
        };
        let links: Result<Vec<OwnedFd>, NoBpf> = programs.iter().map(attach).collect();
        links.map(|links| Attached { _links: links })
    }

    /// Begins a pass of an iterator: a file with what the program writes, to be read to its end.
    ///
    /// # Errors
    ///
    /// Why it cannot run.
    pub fn iterate(&self, program: &str) -> Result<File, NoBpf> {
        let link = call::link_iterator(self.iterator(program)?)?;
        Ok(File::from(call::start_iterator(link.as_fd())?))
    }

    /// Calls a program of an iterator over tasks for one task, this thread's.
    ///
    /// # Errors
    ///
    /// Why it cannot run.
    pub fn run(&self, program: &str) -> Result<(), NoBpf> {
        let program = self.iterator(program)?;
        let link = call::link_iterator_of(rustix::thread::gettid(), program)?;
        let mut file = File::from(call::start_iterator(link.as_fd())?);
        let mut nothing = Vec::new();
        file.read_to_end(&mut nothing)?;
        Ok(())
    }

    fn iterator(&self, name: &str) -> Result<BorrowedFd<'_>, NoBpf> {
        let program = self.program(name)?;
        if !program.is_iterator {
            return Err(NoBpf::Failed { errno: Errno::INVAL });
        }
        Ok(program.descriptor.as_fd())
    }

    fn program(&self, name: &str) -> Result<&Program, NoBpf> {
        let why = || NoBpf::Object { why: format!("it has no program {name}") };
        self.programs.get(name).ok_or_else(why)?.as_ref().map_err(Clone::clone)
    }

    /// Names of all programs, and why one cannot be used.
    pub fn programs(&self) -> impl Iterator<Item = (&str, Result<(), &NoBpf>)> {
        self.programs.iter().map(|(name, program)| (name.as_str(), program.as_ref().map(|_| ())))
    }

    /// Puts everything back to how it was after loading.
    fn clear(&self) -> Result<(), NoBpf> {
        for (name, map) in &self.maps {
            match self.variables.get(name) {
                Some(_) if name.starts_with(".rodata") => {}
                Some(first) => map.set(&0_u32.to_ne_bytes(), first)?,
                None if map.kind() == RINGBUF => super::Ring::of(map)?.skip(),
                // What is kept with threads goes with them, or is of a time that has passed.
                None if map.kind() == TASK_STORAGE => {}
                // How much of it is filled is a variable, which is none after this.
                None if map.is_long_array() => {}
                None => map.clear()?,
            }
        }
        Ok(())
    }
}

impl Settings {
    fn new(object: Object, constants: Constants<'_>, rooms: Rooms<'_>) -> Self {
        let constants =
            constants.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect();
        let rooms = rooms.iter().map(|(name, room)| ((*name).to_owned(), *room)).collect();
        Self { object, constants, rooms }
    }

    fn room(&self, map: &str) -> Option<u32> {
        self.rooms.iter().find(|(name, _)| name == map).map(|(_, room)| *room)
    }
}

fn does_not_fit(error: impl std::error::Error) -> NoBpf {
    // The sentence alone says which step failed, and what follows it says why.
    let mut why = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        why.push_str(": ");
        why.push_str(&error.to_string());
        source = error.source();
    }
    NoBpf::Object { why }
}

/// The kernel's types, where its programs see the same machine as this process does.
fn types_for_programs(root: &Root) -> Result<Arc<KernelTypes>, NoBpf> {
    if root.live_top().is_none() {
        return Err(NoBpf::NotThisMachine);
    }
    if root.is_in_pid_namespace() {
        return Err(NoBpf::PidNamespace);
    }
    kernel_types(root)
}

/// Reads the kernel's types, unless that was done before.
fn kernel_types(root: &Root) -> Result<Arc<KernelTypes>, NoBpf> {
    let mut types = TYPES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(types) = &*types {
        return Ok(Arc::clone(types));
    }
    // Reading them takes some milliseconds, which a login that may load nothing need not spend.
    trial::create_map()?;
    let mut wanted = Wanted::default();
    for object in Object::ALL {
        let file = ElfFile::parse(object.bytes()).map_err(does_not_fit)?;
        let own = file.section(b".BTF").map(|section| section.bytes()).unwrap_or_default();
        wanted.add(own, hooks(&file).into_values());
    }
    wanted.add(&[], CALLED.into_iter().map(str::to_owned));
    let read = Arc::new(KernelTypes::read(root, &wanted)?);
    *types = Some(Arc::clone(&read));
    Ok(read)
}

/// Where programs go, by the number of their section.
fn hooks(file: &ElfFile<'_>) -> HashMap<usize, String> {
    let is_hook = |name: &str| name.starts_with("tp_btf/") || name.starts_with("iter/");
    let name =
        |section: &[u8]| String::from_utf8(section.to_vec()).ok().filter(|name| is_hook(name));
    let sections = file.sections().enumerate();
    sections.filter_map(|(number, section)| Some((number, name(section.name)?))).collect()
}

/// Gives the kernel the types that maps are described with.
fn own_types(parsed: &mut aya_obj::Object) -> Result<OwnedFd, NoBpf> {
    // All that these objects have, kernels with `tp_btf` know.
    let features = btf::BtfFeatures::new(true, true, true, true, true, true, true, true);
    let types = parsed.fixup_and_sanitize_btf(&features).map_err(does_not_fit)?;
    let why = || NoBpf::Object { why: "it has no types".to_owned() };
    Ok(call::load_btf(&types.ok_or_else(why)?.to_bytes())?)
}

type Maps = (HashMap<String, Map>, HashMap<String, Vec<u8>>);

fn make_maps(
    parsed: &mut aya_obj::Object,
    root: &Root,
    settings: &Settings,
    own_types: BorrowedFd<'_>,
) -> Result<Maps, NoBpf> {
    let processors = possible_processors(root)?;
    let (mut maps, mut variables) = (HashMap::new(), HashMap::new());
    let definitions = std::mem::take(&mut parsed.maps);
    for (name, one) in &definitions {
        let definition = Definition {
            name,
            kind: one.map_type(),
            key_bytes: one.key_size(),
            value_bytes: one.value_size(),
            entries: settings.room(name).unwrap_or_else(|| one.max_entries()),
            flags: one.map_flags(),
            types: types_of(one),
        };
        let map = Map::create(&definition, Some(own_types), processors).map_err(no_map)?;
        if !one.data().is_empty() {
            map.set(&0_u32.to_ne_bytes(), one.data())?;
            if one.section_kind() == EbpfSectionKind::Rodata {
                map.freeze()?;
            }
            variables.insert(name.clone(), one.data().to_vec());
        }
        maps.insert(name.clone(), map);
    }
    let code = parsed.functions.keys().map(|(section, _)| *section).collect();
    let places = definitions
        .iter()
        .filter_map(|(name, one)| Some((name.as_str(), maps.get(name)?.as_fd().as_raw_fd(), one)));
    parsed.relocate_maps(places, &code).map_err(does_not_fit)?;
    parsed.relocate_calls(&code).map_err(does_not_fit)?;
    parsed.sanitize_functions(&Features::new(true, true, true, true, true, true, true, None));
    Ok((maps, variables))
}

/// The types of a map's keys and values, where the kernel asks for them.
fn types_of(map: &aya_obj::Map) -> Option<(u32, u32)> {
    match map {
        aya_obj::Map::Btf(definition) if map.map_type() == TASK_STORAGE => {
            Some((definition.def.btf_key_type_id, definition.def.btf_value_type_id))
        }
        aya_obj::Map::Btf(_) | aya_obj::Map::Legacy(_) => None,
    }
}

/// Why a map was not made.
fn no_map(errno: Errno) -> NoBpf {
    /// Since then memory of maps counts for the control group.
    const COUNTED_BY_CGROUP: u32 = 5 << 16 | 11 << 8;
    let is_by_limit = errno == Errno::PERM
        && trial::kernel_version() < COUNTED_BY_CGROUP
        && trial::create_map().is_ok();
    if is_by_limit {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
        return NoBpf::LockedMemory { limit_kib: limit.map(|bytes| bytes / 1024) };
    }
    NoBpf::of(errno)
}

/// How many processors there may ever be, which is how many values the kernel keeps of each entry.
fn possible_processors(root: &Root) -> Result<usize, NoBpf> {
    let mut text = Vec::new();
    root.read("sys/devices/system/cpu/possible", &mut text)
        .map_err(|error| NoBpf::Failed { errno: error.errno })?;
    let numbers = topology::parse_list(&text);
    numbers.map(|numbers| numbers.len()).map_err(|_| NoBpf::Failed { errno: Errno::INVAL })
}

fn load_programs(
    parsed: &aya_obj::Object,
    object: Object,
    types: &KernelTypes,
    own_types: BorrowedFd<'_>,
) -> Result<HashMap<String, Result<Program, NoBpf>>, NoBpf> {
    let file = ElfFile::parse(object.bytes()).map_err(does_not_fit)?;
    let hooks = hooks(&file);
    let mut programs = HashMap::new();
    for (name, program) in &parsed.programs {
        let Some(hook) = hooks.get(&program.section_index) else { continue };
        let Some(id) = types.hook(hook) else {
            programs.insert(name.clone(), Err(NoBpf::NoHook { hook: hook.clone() }));
            continue;
        };
        let Some(function) = parsed.functions.get(&program.function_key()) else { continue };
        let is_iterator = hook.starts_with("iter/");
        let attach = if is_iterator { call::AS_ITERATOR } else { call::AT_TRACEPOINT };
        let attributes = call::Load {
            kind: call::TRACING,
            attach,
            btf_id: id,
            name: call::name(name),
            program_btf: call::number(own_types),
            ..call::Load::default()
        };
        let instructions = match instructions(&function.instructions, types) {
            Ok(instructions) => instructions,
            Err(missed) => {
                programs.insert(name.clone(), Err(missed));
                continue;
            }
        };
        // By these the verifier knows which functions it may look at by themselves.
        let functions = &function.func_info.func_info;
        let functions: Vec<_> =
            functions.iter().map(|info| [info.insn_off, info.type_id]).collect();
        let program =
            call::Program { instructions: &instructions, functions: &functions, attributes };
        match load_program(name, &program) {
            Ok(descriptor) => {
                programs.insert(name.clone(), Ok(Program { descriptor, is_iterator }));
            }
            // One that the verifier does not take need not be one that is wanted.
            Err(refused @ NoBpf::Verifier { .. }) => {
                programs.insert(name.clone(), Err(refused));
            }
            Err(other) => return Err(other),
        }
    }
    Ok(programs)
}

/// As the kernel takes them.
fn instructions(
    of_function: &[aya_obj::generated::bpf_insn],
    types: &KernelTypes,
) -> Result<Vec<u8>, NoBpf> {
    let mut instructions = Vec::with_capacity(of_function.len() * 8);
    for one in of_function {
        let (source, number) = called::name_by_kernel((one.code, one.src_reg(), one.imm), types)?;
        instructions.extend([one.code, one.dst_reg() | source << 4]);
        instructions.extend(one.off.to_ne_bytes());
        instructions.extend(number.to_ne_bytes());
    }
    Ok(instructions)
}

fn load_program(name: &str, program: &call::Program<'_>) -> Result<OwnedFd, NoBpf> {
    /// What the verifier says of a program of some thousand steps.
    const LOG_BYTES: usize = 1 << 20;
    let errno = match call::load(program, &mut []) {
        Ok(descriptor) => return Ok(descriptor),
        Err(errno @ (Errno::PERM | Errno::NOSYS | Errno::NOMEM)) => return Err(NoBpf::of(errno)),
        Err(errno) => errno,
    };
    let mut log = vec![0; LOG_BYTES];
    // Where it fits the second time, the first had some other reason.
    let again = match call::load(program, &mut log) {
        Ok(descriptor) => return Ok(descriptor),
        Err(again) => again,
    };
    let said = log.split(|byte| *byte == 0).next().unwrap_or_default().trim_ascii();
    if said.is_empty() && errno == Errno::ACCESS {
        return Err(NoBpf::NotPermitted { errno });
    }
    let errno = if again == Errno::NOSPC { errno } else { again };
    Err(NoBpf::Verifier { program: name.to_owned(), errno, said: last_lines(said) })
}

/// The last lines of what the verifier said, of which the last but one is the reason.
fn last_lines(said: &[u8]) -> HostText {
    const LINES: usize = 4;
    let from = said.iter().rposition({
        let mut ends = 0;
        move |byte| {
            ends += usize::from(*byte == b'\n');
            ends == LINES
        }
    });
    HostText::new(from.and_then(|from| said.get(from + 1..)).unwrap_or(said))
}

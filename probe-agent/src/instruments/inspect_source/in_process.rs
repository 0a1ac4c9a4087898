//! Lines of a function of a process: those that the information for debuggers has, of the program and
//! then of its libraries.

use super::{MOST_OTHERS, Place, Target};
use crate::{
    call::Context,
    instruments::{identity, process_files::ProcessFiles},
    proc::pid_maps,
    stack::{
        elf::ElfFile,
        images::{Code, Images},
        lines::DebugSections,
        module::Module,
        naming::apart::{Apart, Finder, Program},
        symbols::{Found, Search, Symbols},
    },
};
use protocol::{
    error::AgentError,
    host_text::HostText,
    instruments::inspect_source::{Other, Text},
    observed::{Feature, Reason},
    recording::{Function, Kind},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

/// Files that are searched, the program first.
const MOST_FILES: usize = 256;

/// Addresses of a function whose lines are looked up.
const MOST_ADDRESSES: u64 = 4096;

/// What packed information for debuggers may take unpacked.
const MOST_UNPACKED_BYTES: usize = 64 << 20;

/// A file with code that a process has mapped.
struct File {
    /// The mapping, as the kernel lists it.
    line: pid_maps::Line,
    /// Its path in the process; none where it was deleted.
    path: Option<Vec<u8>>,
}

/// Files with code, in the order of their addresses: the program comes before its libraries.
fn files(pid: u32, context: &Context<'_>) -> Result<Vec<File>, AgentError> {
    let process = ProcessFiles { pid, context };
    let lines = process.parsed("maps", Feature::Field, pid_maps::parse);
    let lines = lines.map_err(|reason| {
        if reason == Reason::Gone {
            return identity::missing(pid, reason);
        }
        let path = HostText::new(format!("/proc/{pid}/maps").as_bytes());
        AgentError::Unreadable { path, reason }
    })?;
    let mut known = BTreeSet::new();
    let is_new = |line: &pid_maps::Line| {
        let pid_maps::Line { file, name, .. } = line;
        let key = (file.major, file.minor, file.inode);
        name.starts_with(b"/") && file.inode != 0 && known.insert(key)
    };
    let file = |line: pid_maps::Line| {
        let is_deleted = Module::of_mapping(&line.name).is_deleted;
        File { path: (!is_deleted).then(|| line.name.clone()), line }
    };
    Ok(lines.into_iter().filter(is_new).map(file).take(MOST_FILES).collect())
}

/// The path in a process of a file with code, by what it is called. None where the process has none
/// such any more.
pub fn path_of(pid: u32, module: &[u8], context: &Context<'_>) -> Option<Vec<u8>> {
    let is_it = |file: &File| Module::of_mapping(&file.line.name).name.raw() == module;
    files(pid, context).ok()?.into_iter().find(is_it)?.path
}

/// Looks for a function.
///
/// # Errors
///
/// That there is no such process, or no such function in it.
pub fn find(pid: u32, name: &HostText, context: &Context<'_>) -> Result<Place, AgentError> {
    let mut images = Images::new(context.root);
    let mut finder = Finder::new(context.root);
    let found = search(pid, name, (&mut images, &mut finder), context);
    context.add_cpu(images.cpu() + finder.cpu());
    found
}

fn search(
    pid: u32,
    name: &HostText,
    (images, finder): (&mut Images, &mut Finder),
    context: &Context<'_>,
) -> Result<Place, AgentError> {
    let mut functions = 0;
    let mut partly: Option<(File, Opened, Search)> = None;
    for file in files(pid, context)? {
        context.check()?;
        let Some(opened) = Opened::of(&file, pid, images, finder) else { continue };
        let Some((search, count)) = opened.search(name.as_str(), context) else { continue };
        functions += count;
        if !search.exact.is_empty() {
            return place_of(pid, &file, &opened, &search, context);
        }
        if !search.partly.is_empty() && partly.is_none() {
            partly = Some((file, opened, search));
        }
    }
    context.check()?;
    let Some((file, opened, search)) = partly else {
        let function = name.clone();
        return Err(AgentError::NoFunctionInProcess { pid, function, functions });
    };
    place_of(pid, &file, &opened, &search, context)
}

/// A file, and the one for debuggers that belongs to it.
struct Opened {
    code: Arc<Code>,
    apart: Apart,
}

impl Opened {
    fn of(file: &File, pid: u32, images: &mut Images, finder: &mut Finder) -> Option<Self> {
        let pid_maps::Line { start, end, file: id, name, .. } = &file.line;
        let image = images.of(pid, *id, name);
        let code = Arc::clone(images.code(image, [pid, pid], (*start, *end))?);
        let path = file.path.clone().unwrap_or_default();
        let program =
            Program { code: Arc::clone(&code), path, pids: vec![pid], parents: Vec::new() };
        let apart = finder.apart(vec![program]).pop().unwrap_or_default();
        Some(Self { code, apart })
    }

    fn debug(&self) -> Option<ElfFile<'_>> {
        match &self.apart {
            Apart::Found(debug) => ElfFile::parse(debug.bytes()).ok(),
            Apart::OfAnotherBuild | Apart::None => None,
        }
    }

    fn shared(&self) -> Option<ElfFile<'_>> {
        match &self.apart {
            Apart::Found(debug) => ElfFile::parse(debug.shared()?).ok(),
            Apart::OfAnotherBuild | Apart::None => None,
        }
    }

    /// Functions with such a name, and how many there are with any.
    fn search(&self, name: &str, context: &Context<'_>) -> Option<(Search, u64)> {
        let image = ElfFile::parse(self.code.bytes()).ok()?;
        let debug = self.debug();
        let symbols = Symbols::of(&image, debug.as_ref());
        let search = symbols.named(name, || context.check().is_ok());
        Some((search, u64::try_from(symbols.count()).unwrap_or(u64::MAX)))
    }

    /// The lines of the file in which a function begins, and that file; none without information for
    /// debuggers.
    fn lines(&self, svmas: &Range<u64>, context: &Context<'_>) -> Option<(Vec<u8>, BTreeSet<u32>)> {
        let image = ElfFile::parse(self.code.bytes()).ok()?;
        let debug = self.debug();
        let with_lines = match (image.section(b".debug_info"), &debug) {
            (None, Some(debug)) => debug,
            (Some(_), _) | (None, None) => &image,
        };
        let shared = self.shared();
        let sections = DebugSections::of(with_lines, shared.as_ref(), MOST_UNPACKED_BYTES).ok()?;
        let step = (svmas.end.saturating_sub(svmas.start) / MOST_ADDRESSES).max(1);
        let step = usize::try_from(step).unwrap_or(usize::MAX);
        let addresses: Vec<u64> = svmas.clone().step_by(step).collect();
        let (places, _) = sections.places(&addresses, || context.check().is_ok());
        let mut found: BTreeMap<Vec<u8>, BTreeSet<u32>> = BTreeMap::new();
        let mut first = None;
        for place in places {
            // The last frame is the function itself: of a call that was put in place, where it stands.
            let frame = place.frames.last();
            let Some((file, line)) = frame.and_then(|it| it.file.as_ref().zip(it.line)) else {
                continue;
            };
            let file = file.raw();
            first.get_or_insert_with(|| file.clone());
            found.entry(file).or_default().insert(line);
        }
        let file = first?;
        let lines = found.remove(&file)?;
        Some((file, lines))
    }
}

fn place_of(
    pid: u32,
    file: &File,
    opened: &Opened,
    search: &Search,
    context: &Context<'_>,
) -> Result<Place, AgentError> {
    let mut all = search.exact.iter().chain(&search.partly);
    let Some(Found { name, svmas }) = all.next() else {
        return Err(AgentError::ParametersRefused);
    };
    let module = Module::of_mapping(&file.line.name).name;
    let lines = opened.lines(svmas, context);
    context.check()?;
    let function = |name: &HostText| Function {
        name: name.clone(),
        module: Some(module.clone()),
        kind: Kind::User,
    };
    let other = |found: &Found| {
        let (function, module) = (found.name.clone(), Some(module.clone()));
        Other { function, module, file: None, weight_pct: None }
    };
    let mut place = Place {
        function: Some(function(name)),
        pids: vec![pid],
        program: file.path.clone(),
        others: all.take(MOST_OTHERS).map(other).collect(),
        no_lines: Some(Text::NoLines),
        ..Place::default()
    };
    if let Some((file, code)) = lines {
        place.file = Some(file);
        if let (Some(first), Some(last)) = (code.first(), code.last()) {
            place.target = Target::Span(*first, *last);
        }
        place.code = code;
    }
    Ok(place)
}

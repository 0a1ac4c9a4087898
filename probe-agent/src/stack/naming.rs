//! From a recording, which has addresses, to a profile, which has names.
//!
//! Each image is read once, for all of its addresses together, the heaviest first; what was read is let
//! go before the next ones. Nothing of it fails: code that has no name is named by where it is, and the
//! answer says how much of it there is, in which files, and why.

pub mod apart;
mod files;
mod memory;
mod quality;
mod sources;
mod weights;

pub use quality::quality;

use super::{
    lines::SourceFrame,
    maps::ImageId,
    profile::{Builder, Function, Kind, Profile, Thread},
    recording::{Cut, Place, Recording},
    stored::Line,
};
use crate::{perf::sampler::KernelPart, proc::Root};
use apart::Finder;
use protocol::{
    host_text::HostText,
    recording::{Kernel, NoNames, Unnamed},
    units::Percent,
};
use sources::Sources;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    time::Duration,
};
use weights::{Weights, index};

/// Source lines that are kept.
const MOST_LINES: usize = 200;

/// Files without names that are told of.
const MOST_UNNAMED: usize = 5;

/// What came of naming a recording.
#[derive(Clone, Debug)]
pub struct Names {
    /// Its stacks.
    pub profile: Profile,
    /// Source lines of the heaviest places, the heaviest first; none where nothing says them.
    pub lines: Vec<Line>,
    /// Files with code that has no name, the heaviest first; five at most.
    pub unnamed: Vec<Unnamed>,
    /// What is known of the kernel.
    pub kernel: Kernel,
    /// Processor time of other threads that opened files for this.
    pub cpu_elsewhere: Duration,
}

/// Names the places of a recording.
///
/// What is asked of files outside of a recording takes patience: once `go_on` says no, the rest goes
/// without files for debuggers, maps of runtimes, inlined calls and source lines, and has the names that
/// are in the programs themselves.
pub fn name(recording: &Recording, root: &Root, go_on: &mut dyn FnMut() -> bool) -> Names {
    let weights = Weights::of(recording);
    let mut naming = Naming {
        recording,
        root,
        weights: &weights,
        finder: Finder::new(root),
        sources: Sources::of(recording, &weights),
        builder: Builder::default(),
        functions: HashMap::with_capacity(weights.places.len()),
        modules: HashMap::new(),
        unnamed: BTreeMap::new(),
    };
    naming.name_files(go_on);
    naming.name_memory(go_on);
    let kernel = naming.name_kernel();
    naming.name_the_rest();
    naming.finish(kernel)
}

/// A recording while its places get their names.
struct Naming<'r> {
    recording: &'r Recording,
    root: &'r Root,
    weights: &'r Weights,
    finder: Finder,
    sources: Sources,
    builder: Builder,
    functions: HashMap<Place, u32>,
    /// Modules of images, by their number in the profile.
    modules: HashMap<ImageId, u32>,
    /// The weight of stacks that end in code without a name.
    unnamed: BTreeMap<(HostText, NoNames), u64>,
}

/// A module: its name, and its number in the profile.
#[derive(Clone, Debug)]
struct InModule {
    name: HostText,
    number: u32,
}

impl Naming<'_> {
    fn module(&mut self, name: HostText) -> InModule {
        let number = self.builder.module(name.as_str());
        InModule { name, number }
    }

    /// Gives a place its function.
    fn put(&mut self, place: Place, name: &HostText, module: Option<u32>, kind: Kind) {
        let function = Function { name: name.as_str().to_owned(), module, kind };
        let function = self.builder.function(function);
        self.functions.insert(place, function);
    }

    /// Gives a place that has no function of a known name one that says where it is.
    fn put_unnamed(&mut self, place: Place, name: &HostText, module: &InModule, why: NoNames) {
        self.put(place, name, Some(module.number), Kind::Unnamed);
        self.add_unnamed(place, module.name.clone(), why);
    }

    fn add_unnamed(&mut self, place: Place, module: HostText, why: NoNames) {
        let own = self.weights.at(place).own;
        if own > 0 {
            let weight = self.unnamed.entry((module, why)).or_default();
            *weight = weight.saturating_add(own);
        }
    }

    /// What is in no image and not in the kernel.
    fn name_the_rest(&mut self) {
        for place in self.weights.places.keys() {
            match place {
                Place::Unmapped(address) => {
                    self.put(*place, &by_address(*address), None, Kind::Unnamed);
                    self.add_unnamed(*place, HostText::new(b"[unknown]"), NoNames::NotMapped);
                }
                Place::Cut(cut) => self.put(*place, &HostText::new(text_of(*cut)), None, Kind::Cut),
                Place::RunQueue => self.put(*place, &HostText::new(RUN_QUEUE), None, Kind::Kernel),
                Place::Code { .. } | Place::Kernel(_) => {}
            }
        }
    }

    fn finish(mut self, kernel: Kernel) -> Names {
        let inlined = self.inlined();
        let lines = self.lines(&inlined);
        let mut nodes: Vec<Option<u32>> = Vec::with_capacity(self.recording.nodes.len());
        for node in &self.recording.nodes {
            let parent = node.parent.and_then(|parent| nodes.get(index(parent)).copied().flatten());
            let mut named = parent;
            if let Some(function) = self.functions.get(&node.place) {
                named = Some(self.builder.node(parent, *function));
                for function in inlined.get(&node.place).into_iter().flatten().flatten() {
                    named = Some(self.builder.node(named, *function));
                }
            }
            nodes.push(named);
        }
        let mut threads = Vec::with_capacity(self.recording.threads.len());
        for thread in &self.recording.threads {
            let process = self.recording.processes.get(index(thread.process));
            let name = HostText::new(&thread.name).as_str().to_owned();
            let pid = process.map_or(0, |process| process.pid);
            threads.push(self.builder.thread(Thread { pid, tid: thread.tid, name }));
        }
        for (thread, node, weight) in &self.recording.weights {
            if let Some(thread) = threads.get(index(*thread)) {
                let node = nodes.get(index(*node)).copied().flatten();
                self.builder.count(*thread, node, weight.events);
            }
        }
        Names {
            profile: self.builder.finish(),
            lines,
            unnamed: heaviest(self.unnamed, self.weights.all),
            kernel,
            cpu_elsewhere: self.finder.cpu(),
        }
    }

    /// The functions that were put in place of calls at a place, the outermost first; none for one
    /// without a name.
    fn inlined(&mut self) -> HashMap<Place, Vec<Option<u32>>> {
        let mut inlined = HashMap::new();
        for (place, frames) in &self.sources.frames {
            let Place::Code { image, .. } = place else { continue };
            let module = self.modules.get(image).copied();
            // The last one is the function that was called, which has its name.
            let calls = frames.iter().rev().skip(1);
            let mut function = |name: &HostText| {
                let name = name.as_str().to_owned();
                self.builder.function(Function { name, module, kind: Kind::Inlined })
            };
            let functions: Vec<Option<u32>> =
                calls.map(|frame| frame.function.as_ref().map(&mut function)).collect();
            if !functions.is_empty() {
                inlined.insert(*place, functions);
            }
        }
        inlined
    }

    /// The heaviest lines.
    fn lines(&self, inlined: &HashMap<Place, Vec<Option<u32>>>) -> Vec<Line> {
        let mut weights: BTreeMap<(u32, &HostText, u32), u64> = BTreeMap::new();
        for (place, frames) in &self.sources.frames {
            let own = self.weights.at(*place).own;
            // Code that a compiler moved is on no line; then the line of the call is the nearest.
            let Some((depth, (file, line))) = frames.iter().enumerate().find_map(with_line) else {
                continue;
            };
            let calls = inlined.get(place).map_or(&[][..], Vec::as_slice);
            let around = calls.get(..calls.len().saturating_sub(depth)).unwrap_or_default();
            let innermost = around.iter().rev().find_map(Option::as_ref);
            let function = innermost.or_else(|| self.functions.get(place));
            if let (Some(function), 1..) = (function, own) {
                let weight = weights.entry((*function, file, line)).or_default();
                *weight = weight.saturating_add(own);
            }
        }
        let line = |((function, file, line), weight): ((u32, &HostText, u32), u64)| Line {
            function,
            file: file.as_str().to_owned(),
            line,
            weight,
        };
        let mut lines: Vec<Line> = weights.into_iter().map(line).collect();
        crate::order::by_key(&mut lines, |line| Reverse(line.weight));
        lines.truncate(MOST_LINES);
        lines
    }
}

/// A frame with its file and its line, where it has both.
fn with_line((depth, frame): (usize, &SourceFrame)) -> Option<(usize, (&HostText, u32))> {
    Some((depth, (frame.file.as_ref()?, frame.line?)))
}

/// The files with most weight in unnamed code.
fn heaviest(unnamed: BTreeMap<(HostText, NoNames), u64>, all: u64) -> Vec<Unnamed> {
    let mut unnamed: Vec<_> = unnamed.into_iter().collect();
    crate::order::by_key(&mut unnamed, |(_, weight)| Reverse(*weight));
    unnamed.truncate(MOST_UNNAMED);
    let row = |((module, why), weight)| {
        let pct = Percent::of(weight as f64, all as f64)?;
        Some(Unnamed { module, pct, why })
    };
    unnamed.into_iter().filter_map(row).collect()
}

/// The name of being in no code, for want of a processor.
pub const RUN_QUEUE: &[u8] = b"[waits for a processor]";

/// The name of code of which nothing but its address is known.
fn by_address(address: u64) -> HostText {
    HostText::new(format!("0x{address:x}").as_bytes())
}

/// What stands in place of calls that are not known.
const fn text_of(cut: Cut) -> &'static [u8] {
    match cut {
        Cut::ByDump => b"[stack cut: more than was copied]",
        Cut::NoUnwindInfo => b"[stack cut: code has no unwind tables]",
        Cut::StackNotReadable => b"[stack cut: it could not be read]",
        Cut::NoMaps => b"[stack cut: no list of what is mapped]",
        Cut::TooDeep => b"[stack cut: more calls than are kept]",
        Cut::Is32Bit => b"[stack cut: a program of 32 bits]",
        Cut::ByMemory => b"[stacks left out: the recording is full]",
    }
}

/// What a recording has of the kernel, where names are or are not hidden.
const fn kernel_of(part: KernelPart, is_hidden: bool) -> Kernel {
    match (part, is_hidden) {
        (KernelPart::NotAsked, _) => Kernel::NotAsked,
        (KernelPart::NotPermitted { .. }, _) => Kernel::NotPermitted,
        (KernelPart::Included, true) => Kernel::NamesHidden,
        (KernelPart::Included, false) => Kernel::Named,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_files_without_names_the_heaviest_are_told_of() {
        let file = |name: u64, why| (HostText::new(format!("file {name}").as_bytes()), why);
        let files = (0..9).map(|name| (file(name, NoNames::Stripped), name));
        let mut unnamed: BTreeMap<_, _> = files.collect();
        unnamed.insert(file(8, NoNames::OtherDebugFile), 20);
        let told: Vec<_> = heaviest(unnamed, 100)
            .into_iter()
            .map(|row| (row.module.as_str().to_owned(), row.why, row.pct.get()))
            .collect();
        let wanted = [
            ("file 8", NoNames::OtherDebugFile, 20.0),
            ("file 8", NoNames::Stripped, 8.0),
            ("file 7", NoNames::Stripped, 7.0),
            ("file 6", NoNames::Stripped, 6.0),
            ("file 5", NoNames::Stripped, 5.0),
        ];
        assert_eq!(told, wanted.map(|(name, why, pct)| (name.to_owned(), why, pct)));
        assert!(heaviest(BTreeMap::from([(file(1, NoNames::NoStack), 1)]), 0).is_empty());
    }

    #[test]
    fn each_reason_why_a_stack_ends_has_a_text_of_its_own() {
        let texts: std::collections::BTreeSet<_> =
            Cut::ALL.iter().map(|cut| text_of(*cut)).collect();
        assert_eq!(texts.len(), Cut::ALL.len());
        assert!(texts.iter().all(|text| text.starts_with(b"[") && text.ends_with(b"]")));
    }

    #[test]
    fn what_is_known_of_the_kernel_is_why_it_is_not_there_before_its_names() {
        let refused =
            KernelPart::NotPermitted { errno: rustix::io::Errno::ACCESS, paranoid: Some(2) };
        let cases = [
            (KernelPart::Included, false, Kernel::Named),
            (KernelPart::Included, true, Kernel::NamesHidden),
            (KernelPart::NotAsked, true, Kernel::NotAsked),
            (refused, false, Kernel::NotPermitted),
        ];
        for (part, is_hidden, wanted) in cases {
            assert_eq!(kernel_of(part, is_hidden), wanted, "{part:?}");
        }
    }
}

//! The Firefox Profiler's processed profile.
//!
//! It is made for samples with times. A recording has none any more: the samples of a thread stand
//! there one after another, each as long as what it stands for, so a time is that of a sum. Weights
//! are samples.

use super::{NO_STACK, Profile, place};
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CategoryPairHandle, CpuDelta, Frame, FrameFlags, FrameInfo,
    ProcessHandle, Profile as Processed, ReferenceTimestamp, SamplingInterval, StackHandle,
    ThreadHandle, Timestamp, WeightType,
};
use protocol::{
    instruments::export::{Stack, Thread},
    recording::Kind,
};
use std::{
    collections::HashMap,
    io::{self, Write},
};

/// Places in the trees of all threads together, at most. Each is an entry of several tables.
const MOST_PLACES: usize = 4_000_000;

/// What kinds of code are drawn in.
struct Categories {
    user: CategoryHandle,
    inlined: CategoryHandle,
    kernel: CategoryHandle,
    jit: CategoryHandle,
    unknown: CategoryHandle,
}

impl Categories {
    fn of(&self, kind: Kind) -> CategoryPairHandle {
        match kind {
            Kind::User => self.user,
            Kind::Inlined => self.inlined,
            Kind::Kernel => self.kernel,
            Kind::Jit => self.jit,
            Kind::Unnamed | Kind::Cut => self.unknown,
        }
        .into()
    }
}

impl Profile {
    /// Writes the profile for the Firefox Profiler.
    pub(super) fn write_firefox(&self, out: &mut dyn Write) -> io::Result<()> {
        // 1970 is no time of a recording, and nothing else is known of it.
        let epoch = ReferenceTimestamp::from_millis_since_unix_epoch(0.0);
        let interval = SamplingInterval::from_nanos(self.interval_ns());
        let mut processed = Processed::new("sysmcp", epoch, interval);
        processed.set_product(&self.title());
        processed.set_symbolicated(true);
        let categories = Categories {
            user: processed.add_category("User", CategoryColor::Yellow),
            inlined: processed.add_category("Inlined", CategoryColor::LightGreen),
            kernel: processed.add_category("Kernel", CategoryColor::Orange),
            jit: processed.add_category("JIT", CategoryColor::Blue),
            unknown: processed.add_category("Unknown", CategoryColor::Gray),
        };
        let frames = self.frames(&mut processed, &categories);
        let no_stack = FrameInfo {
            frame: Frame::Label(processed.intern_string(NO_STACK)),
            category_pair: categories.of(Kind::Unnamed),
            flags: FrameFlags::empty(),
        };
        let mut writing = Writing { profile: self, processed, frames, no_stack, places: 0 };
        writing.threads()?;
        serde_json::to_writer(&mut *out, &writing.processed)?;
        writeln!(out)
    }

    /// Each function as a frame: its name and its module.
    fn frames(&self, processed: &mut Processed, categories: &Categories) -> Vec<FrameInfo> {
        let functions = self.functions.iter();
        functions
            .map(|function| {
                let text = match self.module_of(function) {
                    Some(module) => format!("{} ({module})", function.name),
                    None => function.name.to_string(),
                };
                FrameInfo {
                    frame: Frame::Label(processed.intern_string(&text)),
                    category_pair: categories.of(function.kind),
                    flags: FrameFlags::empty(),
                }
            })
            .collect()
    }

    /// The time between two samples; a millisecond where there is none.
    fn interval_ns(&self) -> u64 {
        1_000_000_000_u64.checked_div(self.recording.hertz.into()).unwrap_or(1_000_000)
    }
}

/// A profile that is being made.
struct Writing<'p> {
    profile: &'p Profile,
    processed: Processed,
    frames: Vec<FrameInfo>,
    no_stack: FrameInfo,
    places: usize,
}

impl Writing<'_> {
    fn threads(&mut self) -> io::Result<()> {
        let mut stacks: Vec<Vec<&Stack>> = vec![Vec::new(); self.profile.threads.len()];
        for stack in &self.profile.stacks {
            if let Some(stacks) = stacks.get_mut(place(stack.thread)) {
                stacks.push(stack);
            }
        }
        let profile = self.profile;
        // A target may send as many processes as threads: each is looked for once.
        let mut mains: HashMap<u32, &Thread> = HashMap::new();
        for thread in profile.threads.iter().filter(|thread| thread.tid == thread.pid) {
            mains.entry(thread.pid).or_insert(thread);
        }
        let mut processes: HashMap<u32, ProcessHandle> = HashMap::new();
        for (thread, stacks) in profile.threads.iter().zip(stacks) {
            let process = match processes.get(&thread.pid) {
                Some(process) => *process,
                None => {
                    let process = self.process(mains.get(&thread.pid).copied().unwrap_or(thread));
                    processes.insert(thread.pid, process);
                    process
                }
            };
            let is_main = thread.pid == thread.tid;
            let handle = self.processed.add_thread(process, thread.tid, start(), is_main);
            self.processed.set_thread_name(handle, thread.name.as_str());
            self.processed.set_thread_samples_weight_type(handle, WeightType::Samples);
            self.samples(handle, &stacks)?;
        }
        Ok(())
    }

    /// A process, named as its main thread.
    fn process(&mut self, main: &Thread) -> ProcessHandle {
        let process = self.processed.add_process(main.name.as_str(), main.pid, start());
        // Nothing of it is known but its samples.
        self.processed.set_process_start_time(process, start());
        process
    }

    fn samples(&mut self, thread: ThreadHandle, stacks: &[&Stack]) -> io::Result<()> {
        let mut known: HashMap<u32, StackHandle> = HashMap::new();
        let interval_ns = self.profile.interval_ns();
        let mut at_ns = 0_u64;
        // What a sample stands for is counted from the one before it.
        self.processed.add_sample(thread, start(), None, CpuDelta::ZERO, 0);
        for stack in stacks {
            let samples = self.profile.samples_of(stack.weight);
            let lasts_ns = samples.saturating_mul(interval_ns).min(u64::from(u32::MAX) << 20);
            at_ns = at_ns.saturating_add(lasts_ns).min(u64::MAX >> 8);
            let handle = match stack.call {
                Some(call) => self.place(thread, call, &mut known)?,
                None => {
                    let frame = self.processed.intern_frame(thread, self.no_stack.clone());
                    Some(self.processed.intern_stack(thread, None, frame))
                }
            };
            self.processed.add_sample(
                thread,
                Timestamp::from_nanos_since_reference(at_ns),
                handle,
                CpuDelta::from_nanos(lasts_ns),
                i32::try_from(samples).unwrap_or(i32::MAX),
            );
        }
        Ok(())
    }

    /// The place of a call in a thread's tree, which is made as far as it is not there.
    fn place(
        &mut self,
        thread: ThreadHandle,
        call: u32,
        known: &mut HashMap<u32, StackHandle>,
    ) -> io::Result<Option<StackHandle>> {
        let calls = &self.profile.calls;
        let mut missing = Vec::new();
        let mut at = Some(call);
        let mut handle = None;
        while let Some(number) = at {
            handle = known.get(&number).copied();
            if handle.is_some() {
                break;
            }
            let Some(found) = calls.get(place(number)) else { break };
            missing.push((number, found.function));
            at = found.parent;
        }
        self.places += missing.len();
        if self.places > MOST_PLACES {
            return Err(io::Error::other(format!(
                "it has more than {MOST_PLACES} calls, each thread's counted apart, which is more \
                 than the Firefox Profiler can show; export it as pprof"
            )));
        }
        for (number, function) in missing.into_iter().rev() {
            let Some(frame) = self.frames.get(place(function)).cloned() else { continue };
            let frame = self.processed.intern_frame(thread, frame);
            let stack = self.processed.intern_stack(thread, handle, frame);
            known.insert(number, stack);
            handle = Some(stack);
        }
        Ok(handle)
    }
}

fn start() -> Timestamp {
    Timestamp::from_nanos_since_reference(0)
}

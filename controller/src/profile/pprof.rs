//! pprof's profile: gzipped Protocol Buffers, as
//! <https://github.com/google/pprof/blob/main/proto/profile.proto> describes them. The numbers of
//! fields are those of that file.
//!
//! A location there is an address; what arrives here has names. So each function has one location
//! without an address, and a second one where all samples that end in it are of one source line.

use super::{NO_STACK, Profile, place, protobuf::Message};
use flate2::{Compression, write::GzEncoder};
use protocol::{
    instruments::export::{Function, Line},
    recording::Recording,
};
use std::{
    collections::HashMap,
    io::{self, Write},
};

/// Texts, each of which is written once; others name it by its number.
struct Texts<'t> {
    numbers: HashMap<&'t str, u64>,
    list: Vec<&'t str>,
}

impl<'t> Texts<'t> {
    /// The first is empty, as the format wants it.
    fn new() -> Self {
        Self { numbers: HashMap::from([("", 0)]), list: vec![""] }
    }

    fn number(&mut self, text: &'t str) -> u64 {
        let next = number_of(self.list.len());
        let list = &mut self.list;
        *self.numbers.entry(text).or_insert_with(|| {
            list.push(text);
            next
        })
    }
}

impl Profile {
    /// Writes the profile for pprof.
    pub(super) fn write_pprof(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut out = GzEncoder::new(out, Compression::default());
        let comment = self.summary();
        let title = self.title();
        let mut texts = Texts::new();
        let mut message = Message::default();
        self.types(&mut message, &mut texts, [title.as_str(), comment.as_str()]);
        out.write_all(&message.take())?;
        let leaf_lines = self.leaf_lines();
        self.write_samples(&mut texts, &leaf_lines, &mut out)?;
        self.write_places(&mut texts, &leaf_lines, &mut out)?;
        for text in texts.list {
            message.text(6, text);
            out.write_all(&message.take())?;
        }
        out.finish().map(|_| ())
    }

    /// What is counted, how long, and how often.
    fn types<'t>(&self, profile: &mut Message, texts: &mut Texts<'t>, comments: [&'t str; 2]) {
        let Recording { window_ms, hertz, .. } = self.recording;
        let (kind, unit) = self.unit();
        let mut value_type = |kind, unit| {
            let mut message = Message::default();
            message.number(1, texts.number(kind));
            message.number(2, texts.number(unit));
            message
        };
        profile.message(1, &value_type("samples", "count"));
        let weight = value_type(kind, unit);
        profile.message(1, &weight);
        profile.number(10, window_ms.saturating_mul(1_000_000));
        if unit == "nanoseconds" && hertz > 0 {
            profile.message(11, &weight);
            profile.number(12, 1_000_000_000 / u64::from(hertz));
        }
        profile.numbers(13, comments.map(|comment| texts.number(comment)));
        profile.number(14, texts.number(kind));
    }

    fn write_samples<'t>(
        &'t self,
        texts: &mut Texts<'t>,
        leaf_lines: &[Option<&Line>],
        out: &mut impl Write,
    ) -> io::Result<()> {
        let [thread_key, tid_key, pid_key] = ["thread", "tid", "pid"].map(|key| texts.number(key));
        let mut message = Message::default();
        for stack in &self.stacks {
            let mut locations: Vec<u64> = self.outwards(stack.call).map(location).collect();
            match locations.first_mut() {
                Some(leaf) => {
                    let function = self.outwards(stack.call).next().map_or(usize::MAX, place);
                    if leaf_lines.get(function).is_some_and(Option::is_some) {
                        *leaf += self.locations();
                    }
                }
                None => locations.push(2 * self.locations() + 1),
            }
            let mut sample = Message::default();
            sample.numbers(1, locations);
            // They are signed there.
            let values = [self.samples_of(stack.weight), stack.weight];
            sample.numbers(2, values.map(|value| value.min(u64::MAX >> 1)));
            if let Some(thread) = self.threads.get(place(stack.thread)) {
                let mut label = |key, field, value| {
                    let mut label = Message::default();
                    label.number(1, key);
                    label.number(field, value);
                    sample.message(3, &label);
                };
                label(thread_key, 2, texts.number(thread.name.as_str()));
                if thread.pid != 0 {
                    label(tid_key, 3, thread.tid.into());
                    label(pid_key, 3, thread.pid.into());
                }
            }
            message.message(2, &sample);
            out.write_all(&message.take())?;
        }
        Ok(())
    }

    /// Modules, locations and functions. Their numbers begin with 1.
    fn write_places<'t>(
        &'t self,
        texts: &mut Texts<'t>,
        leaf_lines: &[Option<&'t Line>],
        out: &mut impl Write,
    ) -> io::Result<()> {
        let mut message = Message::default();
        for (number, module) in (1..).zip(&self.modules) {
            let mut mapping = Message::default();
            mapping.number(1, number);
            mapping.number(5, texts.number(module.as_str()));
            // Without it, pprof looks for the file to find the names in it.
            mapping.number(7, 1);
            message.message(3, &mapping);
            out.write_all(&message.take())?;
        }
        let sources = self.sources();
        for (number, function) in (1..).zip(&self.functions) {
            let index = place(u32::try_from(number - 1).unwrap_or(u32::MAX));
            let source = sources.get(index).copied().flatten().map(|line| line.file.as_str());
            let named = function_message(number, function.name.as_str(), source, texts);
            message.message(5, &named);
            message.message(4, &location_message(number, number, Some(function), 0));
            if let Some(line) = leaf_lines.get(index).copied().flatten() {
                let id = number + self.locations();
                let line = line.line.into();
                message.message(4, &location_message(id, number, Some(function), line));
            }
            out.write_all(&message.take())?;
        }
        if self.stacks.iter().any(|stack| stack.call.is_none()) {
            let number = self.locations() + 1;
            message.message(5, &function_message(number, NO_STACK, None, texts));
            let id = 2 * self.locations() + 1;
            message.message(4, &location_message(id, number, None, 0));
            out.write_all(&message.take())?;
        }
        Ok(())
    }

    /// Of each function, the one line that all samples are of that end in it.
    fn leaf_lines(&self) -> Vec<Option<&Line>> {
        let mut own = vec![0_u64; self.functions.len()];
        for stack in &self.stacks {
            let leaf = self.outwards(stack.call).next();
            if let Some(own) = leaf.and_then(|leaf| own.get_mut(place(leaf))) {
                *own = own.saturating_add(stack.weight);
            }
        }
        let sources = self.sources().into_iter();
        sources.zip(own).map(|(line, own)| line.filter(|line| line.weight == own)).collect()
    }

    /// How many functions have a location.
    fn locations(&self) -> u64 {
        number_of(self.functions.len())
    }
}

/// The location of a function, whatever its line.
fn location(function: u32) -> u64 {
    u64::from(function) + 1
}

fn location_message(id: u64, function_id: u64, function: Option<&Function>, line: u64) -> Message {
    let mut location = Message::default();
    location.number(1, id);
    if let Some(module) = function.and_then(|function| function.module) {
        location.number(2, u64::from(module) + 1);
    }
    let mut at = Message::default();
    at.number(1, function_id);
    at.number(2, line);
    location.message(4, &at);
    location
}

fn function_message<'t>(
    id: u64,
    name: &'t str,
    source: Option<&'t str>,
    texts: &mut Texts<'t>,
) -> Message {
    let mut function = Message::default();
    function.number(1, id);
    function.number(2, texts.number(name));
    function.number(3, texts.number(name));
    function.number(4, source.map_or(0, |source| texts.number(source)));
    function
}

fn number_of(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

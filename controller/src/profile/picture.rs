//! A flame graph of a whole recording, or of what changed from one to another.
//!
//! Threads of one process are drawn together: a pool of workers is one tree. Where there are several
//! processes, each has its own, below its name.

use super::{
    Document, NO_STACK, Profile, place,
    svg::{self, Frame, Options},
};
use protocol::recording::Kind;
use std::{
    collections::HashMap,
    io::{self, Write},
};

impl Document {
    /// Writes it as a picture.
    pub(super) fn write_svg(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { profile, is_reversed, baseline, format: _ } = self;
        let (mut title, mut subtitle) = (profile.title(), profile.summary());
        if let Some(before) = baseline {
            title = format!("{title}, against {}", before.title());
            subtitle = format!("{subtitle}. Before: {}", before.summary());
        }
        let is_reversed = *is_reversed;
        let options = Options { title: &title, subtitle: &subtitle, unit: "samples", is_reversed };
        let svg = match baseline {
            None => {
                let processes = profile.processes(true);
                svg::flame(profile.drawn(&processes, processes.len() > 1), &options)
            }
            Some(before) => {
                let (earlier, later) = (before.processes(false), profile.processes(false));
                let are_several = earlier.len() > 1 || later.len() > 1;
                let before = before.drawn(&earlier, are_several);
                svg::differential(before, profile.drawn(&later, are_several), &options)
            }
        };
        out.write_all(svg.as_bytes())
    }
}

impl Profile {
    /// Its stacks with how many samples each stands for, below their process where that is wanted.
    fn drawn<'p>(
        &'p self,
        processes: &'p HashMap<u32, String>,
        is_below_process: bool,
    ) -> impl Iterator<Item = (Vec<Frame<'p>>, u64)> {
        self.stacks.iter().map(move |stack| {
            let frame = |index| {
                self.function(index).map(|function| Frame {
                    name: function.name.as_str(),
                    module: self.module_of(function).map(|module| module.as_str()),
                    kind: function.kind,
                })
            };
            let mut frames: Vec<Frame<'_>> =
                self.inwards(stack.call).into_iter().filter_map(frame).collect();
            if frames.is_empty() {
                frames.push(Frame { name: NO_STACK, module: None, kind: Kind::Unnamed });
            }
            let thread = self.threads.get(place(stack.thread)).filter(|_| is_below_process);
            if let Some(name) = thread.and_then(|thread| processes.get(&thread.pid)) {
                frames.insert(0, Frame { name, module: None, kind: Kind::User });
            }
            (frames, self.samples_of(stack.weight))
        })
    }

    /// The name of each process, as its main thread is called, with its pid where that is wanted: a
    /// service that was started again has another one, and is to be compared with itself.
    fn processes(&self, has_pid: bool) -> HashMap<u32, String> {
        let mut names = HashMap::new();
        for thread in &self.threads {
            let name = match has_pid {
                true => format!("{} ({})", thread.name, thread.pid),
                false => thread.name.to_string(),
            };
            if thread.tid == thread.pid {
                names.insert(thread.pid, name);
            } else {
                names.entry(thread.pid).or_insert(name);
            }
        }
        names
    }
}

//! A flame graph of the whole recording.
//!
//! Threads of one process are drawn together: a pool of workers is one tree. Where there are several
//! processes, each has its own, below its name.

use super::{
    NO_STACK, Profile, place,
    svg::{self, Frame, Options},
};
use protocol::recording::Kind;
use std::{
    collections::HashMap,
    io::{self, Write},
};

impl Profile {
    /// Writes the profile as a picture.
    pub(super) fn write_svg(&self, out: &mut dyn Write) -> io::Result<()> {
        let (title, subtitle) = (self.title(), self.summary());
        let options =
            Options { title: &title, subtitle: &subtitle, unit: "samples", is_reversed: false };
        let processes = self.processes();
        let stacks = self.stacks.iter().map(|stack| {
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
            let pid = self.threads.get(place(stack.thread)).map(|thread| thread.pid);
            if let Some(name) =
                pid.and_then(|pid| processes.get(&pid)).filter(|_| processes.len() > 1)
            {
                frames.insert(0, Frame { name, module: None, kind: Kind::User });
            }
            (frames, self.samples_of(stack.weight))
        });
        out.write_all(svg::flame(stacks, &options).as_bytes())
    }

    /// The name of each process, as its main thread is called, and its pid.
    fn processes(&self) -> HashMap<u32, String> {
        let mut names = HashMap::new();
        for thread in &self.threads {
            let name = format!("{} ({})", thread.name, thread.pid);
            if thread.tid == thread.pid {
                names.insert(thread.pid, name);
            } else {
                names.entry(thread.pid).or_insert(name);
            }
        }
        names
    }
}

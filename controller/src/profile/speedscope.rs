//! speedscope's own file, as <https://www.speedscope.app/file-format-schema.json> describes it: a list
//! of frames, and a profile for each thread, in which each sample lists its frames from the outermost.

use super::{NO_STACK, Profile, place, thread_title};
use protocol::instruments::export::Stack;
use serde::{Serialize, Serializer};
use std::io::{self, Write};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'p> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    shared: Shared<'p>,
    profiles: Vec<OfThread<'p>>,
    name: String,
    active_profile_index: usize,
    exporter: &'static str,
}

#[derive(Serialize)]
struct Shared<'p> {
    frames: Vec<Frame<'p>>,
}

#[derive(Serialize)]
struct Frame<'p> {
    name: &'p str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'p str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfThread<'p> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Samples<'p>,
    weights: Vec<u64>,
}

/// Lists of frames, made one by one as they are written.
struct Samples<'p> {
    profile: &'p Profile,
    stacks: Vec<&'p Stack>,
}

impl Serialize for Samples<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let functions = u32::try_from(self.profile.functions.len()).unwrap_or(u32::MAX);
        serializer.collect_seq(self.stacks.iter().map(|stack| {
            let frames = self.profile.inwards(stack.call);
            // What stands for none is behind the others.
            if frames.is_empty() { vec![functions] } else { frames }
        }))
    }
}

impl Profile {
    /// Writes the profile for speedscope.
    pub(super) fn write_speedscope(&self, out: &mut dyn Write) -> io::Result<()> {
        let sources = self.sources();
        let mut frames: Vec<Frame<'_>> = self
            .functions
            .iter()
            .zip(&sources)
            .map(|(function, source)| Frame {
                name: function.name.as_str(),
                // The file of the code where that of the source is not known.
                file: source
                    .map(|line| &line.file)
                    .or(self.module_of(function))
                    .map(|it| it.as_str()),
            })
            .collect();
        if self.stacks.iter().any(|stack| stack.call.is_none()) {
            frames.push(Frame { name: NO_STACK, file: None });
        }
        let mut profiles: Vec<OfThread<'_>> = self
            .by_thread()
            .into_iter()
            .map(|(title, stacks)| self.of_thread(title, stacks))
            .collect();
        // The one that is shown first.
        profiles.sort_by_key(|profile| std::cmp::Reverse(profile.end_value));
        let file = File {
            schema: "https://www.speedscope.app/file-format-schema.json",
            shared: Shared { frames },
            profiles,
            name: self.title(),
            active_profile_index: 0,
            exporter: concat!("sysmcp ", env!("CARGO_PKG_VERSION")),
        };
        serde_json::to_writer(&mut *out, &file)?;
        writeln!(out)
    }

    fn of_thread<'p>(&'p self, name: String, stacks: Vec<&'p Stack>) -> OfThread<'p> {
        let weights: Vec<u64> = stacks.iter().map(|stack| stack.weight).collect();
        OfThread {
            kind: "sampled",
            name,
            unit: match self.unit().1 {
                "nanoseconds" => "nanoseconds",
                _ => "none",
            },
            start_value: 0,
            end_value: weights.iter().fold(0, |sum: u64, weight| sum.saturating_add(*weight)),
            samples: Samples { profile: self, stacks },
            weights,
        }
    }

    /// The stacks of each thread that has any, with what it is called.
    pub(super) fn by_thread(&self) -> Vec<(String, Vec<&Stack>)> {
        let mut threads: Vec<(String, Vec<&Stack>)> =
            self.threads.iter().map(|thread| (thread_title(thread), Vec::new())).collect();
        for stack in &self.stacks {
            if let Some((_, stacks)) = threads.get_mut(place(stack.thread)) {
                stacks.push(stack);
            }
        }
        threads.retain(|(_, stacks)| !stacks.is_empty());
        threads
    }
}

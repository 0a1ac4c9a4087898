//! Folded stacks: a line for each, `thread;outermost;…;innermost 12`, as flame graph programs read
//! them.
//!
//! There is no standard. `_[k]` behind a name marks the kernel, `_[j]` what a runtime made, as perf's
//! collapser and async-profiler write it.

use super::{NO_STACK, Profile, place};
use protocol::recording::Kind;
use std::io::{self, Write};

impl Profile {
    /// Writes the profile as folded stacks.
    pub(super) fn write_folded(&self, out: &mut dyn Write) -> io::Result<()> {
        for stack in &self.stacks {
            let functions = self.inwards(stack.call);
            let thread = self.threads.get(place(stack.thread));
            let thread = thread.map(|thread| thread.name.as_str()).filter(|name| !name.is_empty());
            let mut is_first = true;
            let names = functions.iter().map(|function| self.folded_name(*function));
            for name in thread.map(without_separators).into_iter().chain(names) {
                let separator = if is_first { "" } else { ";" };
                write!(out, "{separator}{name}")?;
                is_first = false;
            }
            if is_first {
                out.write_all(NO_STACK.as_bytes())?;
            }
            writeln!(out, " {}", stack.weight)?;
        }
        Ok(())
    }

    fn folded_name(&self, index: u32) -> String {
        let Some(function) = self.function(index) else { return String::new() };
        let mark = match function.kind {
            Kind::Kernel => "_[k]",
            Kind::Jit => "_[j]",
            Kind::User | Kind::Inlined | Kind::Unnamed | Kind::Cut => "",
        };
        without_separators(function.name.as_str()) + mark
    }
}

/// A name that stays one frame: nobody may forge a frame by what a thread or a function is called.
fn without_separators(name: &str) -> String {
    name.replace(';', "\\x3b")
}

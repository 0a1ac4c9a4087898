//! Puts a recording together, piece by piece, and checks it.

use super::{Profile, place};
use protocol::{
    host_text::HostText,
    instruments::export::{Call, Function, Item, Line, Parts, Report, Stack, Thread},
};

/// A recording that is arriving.
#[derive(Debug, Default)]
pub struct Arriving {
    modules: Vec<HostText>,
    functions: Vec<Function>,
    threads: Vec<Thread>,
    calls: Vec<Call>,
    /// How many calls each one is within, itself counted.
    depths: Vec<u32>,
    stacks: Vec<Stack>,
    lines: Vec<Line>,
    bytes: usize,
    frames: u64,
    /// The first thing that was wrong. What comes after it is not kept.
    problem: Option<ProfileError>,
}

/// Bytes of a recording at most: twice what an agent keeps of all of them.
const MOST_BYTES: usize = 64 << 20;
/// Places in its tree of calls at most.
const MOST_CALLS: usize = 2_000_000;
/// Calls within one another at most. The agent keeps 512 of a stack, before what was inlined.
const MOST_DEPTH: u32 = 8_192;
/// Frames of all its stacks at most. A format that writes each stack whole is as long as these.
const MOST_FRAMES: u64 = 64 << 20;

/// Why what a target sent is no recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// More than is taken.
    #[error("the target sent a recording with more than {limit} {what}; nothing is made of it")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// A number leads nowhere.
    #[error(
        "the target sent a recording that does not fit together: {whole} {number} has {part} \
         {found}, of {there_are} that there are; nothing is made of it"
    )]
    Nowhere {
        /// What has the number.
        whole: &'static str,
        /// Which of them.
        number: usize,
        /// What the number should lead to.
        part: &'static str,
        /// Where it leads.
        found: u32,
        /// How many there are.
        there_are: usize,
    },
    /// Less or more arrived than was sent.
    #[error(
        "of the recording {arrived} {what} arrived, and the target says that it sent {sent}; \
         nothing is made of it"
    )]
    Incomplete {
        /// Of what.
        what: &'static str,
        /// How many arrived.
        arrived: usize,
        /// How many the target says.
        sent: u32,
    },
}

impl Arriving {
    /// Takes a piece. What is wrong with it is told by [`Arriving::finish`].
    pub fn accept(&mut self, item: Item) {
        if self.problem.is_none() {
            self.problem = self.take(item).err();
        }
    }

    /// The whole recording.
    ///
    /// # Errors
    ///
    /// What was wrong with it, the first of all.
    pub fn finish(self, report: Report) -> Result<Profile, ProfileError> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let Parts { modules, functions, threads, calls, stacks, lines } = report.parts;
        for (what, arrived, sent) in [
            ("modules", self.modules.len(), modules),
            ("functions", self.functions.len(), functions),
            ("threads", self.threads.len(), threads),
            ("calls", self.calls.len(), calls),
            ("stacks", self.stacks.len(), stacks),
            ("source lines", self.lines.len(), lines),
        ] {
            if arrived != place(sent) {
                return Err(ProfileError::Incomplete { what, arrived, sent });
            }
        }
        let Self { modules, functions, threads, calls, stacks, lines, .. } = self;
        let recording = report.recording;
        Ok(Profile { recording, modules, functions, threads, calls, stacks, lines })
    }

    fn take(&mut self, item: Item) -> Result<(), ProfileError> {
        match item {
            Item::Modules(modules) => {
                for module in modules {
                    self.weigh(module.as_str().len())?;
                    self.modules.push(module);
                }
            }
            Item::Functions(functions) => {
                functions.into_iter().try_for_each(|function| self.function(function))?;
            }
            Item::Threads(threads) => {
                for thread in threads {
                    self.weigh(thread.name.as_str().len())?;
                    self.threads.push(thread);
                }
            }
            Item::Calls(calls) => calls.into_iter().try_for_each(|call| self.call(call))?,
            Item::Stacks(stacks) => stacks.into_iter().try_for_each(|stack| self.stack(stack))?,
            Item::Lines(lines) => {
                for line in lines {
                    self.weigh(line.file.as_str().len())?;
                    let number = self.lines.len();
                    within(("source line", number), ("function", line.function), &self.functions)?;
                    self.lines.push(line);
                }
            }
        }
        Ok(())
    }

    fn function(&mut self, function: Function) -> Result<(), ProfileError> {
        self.weigh(function.name.as_str().len())?;
        if let Some(module) = function.module {
            within(("function", self.functions.len()), ("module", module), &self.modules)?;
        }
        self.functions.push(function);
        Ok(())
    }

    fn call(&mut self, call: Call) -> Result<(), ProfileError> {
        self.weigh(size_of::<Call>())?;
        let number = self.calls.len();
        if number >= MOST_CALLS {
            return Err(too_much("calls", MOST_CALLS));
        }
        within(("call", number), ("function", call.function), &self.functions)?;
        let mut depth = 1;
        if let Some(parent) = call.parent {
            // All that there are so far stand before it.
            within(("call", number), ("the parent", parent), &self.calls)?;
            depth += self.depths.get(place(parent)).copied().unwrap_or_default();
        }
        if depth > MOST_DEPTH {
            return Err(too_much("calls within one another", place(MOST_DEPTH)));
        }
        self.calls.push(call);
        self.depths.push(depth);
        Ok(())
    }

    fn stack(&mut self, stack: Stack) -> Result<(), ProfileError> {
        self.weigh(size_of::<Stack>())?;
        let number = self.stacks.len();
        within(("stack", number), ("thread", stack.thread), &self.threads)?;
        if let Some(call) = stack.call {
            within(("stack", number), ("call", call), &self.calls)?;
            self.frames += u64::from(self.depths.get(place(call)).copied().unwrap_or_default());
        }
        if self.frames > MOST_FRAMES {
            return Err(ProfileError::TooMuch { what: "frames", limit: MOST_FRAMES });
        }
        self.stacks.push(stack);
        Ok(())
    }

    /// Counts an entry, with so many bytes of text.
    fn weigh(&mut self, text: usize) -> Result<(), ProfileError> {
        const OF_AN_ENTRY: usize = 8;
        self.bytes += text + OF_AN_ENTRY;
        if self.bytes > MOST_BYTES {
            return Err(too_much("bytes", MOST_BYTES));
        }
        Ok(())
    }
}

fn too_much(what: &'static str, limit: usize) -> ProfileError {
    ProfileError::TooMuch { what, limit: u64::try_from(limit).unwrap_or(u64::MAX) }
}

/// Checks that a number is that of an entry of a list.
fn within<T>(
    (whole, number): (&'static str, usize),
    (part, found): (&'static str, u32),
    list: &[T],
) -> Result<(), ProfileError> {
    if place(found) < list.len() {
        return Ok(());
    }
    Err(ProfileError::Nowhere { whole, number, part, found, there_are: list.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::{pieces, report};
    use protocol::recording::Kind;

    fn arrived(items: Vec<Item>, report: Report) -> Result<Profile, ProfileError> {
        let mut arriving = Arriving::default();
        items.into_iter().for_each(|item| arriving.accept(item));
        arriving.finish(report)
    }

    #[test]
    fn what_does_not_fit_together_is_refused_with_what_it_is() {
        let call = |parent, function| Item::Calls(vec![Call { parent, function }]);
        let stack = |thread, call| Item::Stacks(vec![Stack { thread, call, weight: 1 }]);
        let line = Line { function: 90, file: HostText::new(b"x.c"), line: 1, weight: 1 };
        let function = Function { name: HostText::new(b"f"), module: Some(7), kind: Kind::User };
        let cases = [
            (call(Some(6), 0), "call 6 has the parent 6, of 6 that there are"),
            (call(None, 99), "call 6 has function 99, of 6"),
            (stack(9, None), "stack 4 has thread 9, of 2"),
            (stack(0, Some(u32::MAX)), "stack 4 has call 4294967295, of 6"),
            (Item::Lines(vec![line]), "source line 1 has function 90, of 6"),
            (Item::Functions(vec![function]), "function 6 has module 7, of 2"),
        ];
        for (item, want) in cases {
            let mut items = pieces();
            items.push(item);
            let error = arrived(items, report()).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }

    #[test]
    fn what_is_missing_is_told() {
        for left_out in 0..pieces().len() {
            let mut items = pieces();
            items.remove(left_out);
            arrived(items, report()).unwrap_err();
        }
        let mut items = pieces();
        items.pop();
        let error = arrived(items, report()).unwrap_err();
        assert_eq!(error, ProfileError::Incomplete { what: "source lines", arrived: 0, sent: 1 });
        arrived(pieces(), report()).unwrap();
    }

    #[test]
    fn a_recording_without_end_is_refused_before_it_fills_the_memory() {
        let deep: Vec<Call> = (0..20_000_u32)
            .map(|number| Call { parent: number.checked_sub(1), function: 0 })
            .collect();
        let wide = vec![Call { parent: None, function: 0 }; 8192];
        let long = HostText::new(&[b'n'; 500]);
        let names = Item::Modules(vec![long; 100]);
        let mut stacks = vec![Item::Calls(deep[..8_000].to_vec())];
        let stack = Stack { thread: 0, call: Some(7_999), weight: 1 };
        stacks.resize(20, Item::Stacks(vec![stack; 8192]));
        let cases = [
            ("calls within one another", vec![Item::Calls(deep)]),
            ("calls", vec![Item::Calls(wide); 300]),
            ("bytes", vec![names; 2_000]),
            ("frames", stacks),
        ];
        for (want, items) in cases {
            let mut all = vec![
                Item::Functions(vec![Function {
                    name: HostText::new(b"f"),
                    module: None,
                    kind: Kind::User,
                }]),
                Item::Threads(vec![Thread { pid: 1, tid: 1, name: HostText::new(b"t") }]),
            ];
            all.extend(items);
            let ProfileError::TooMuch { what, .. } = arrived(all, report()).unwrap_err() else {
                panic!("{want}: another error");
            };
            assert_eq!(what, want);
        }
    }
}

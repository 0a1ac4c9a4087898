//! Stacks as text, one a line: `main;work;hash 12`. What other profilers write is read too.
//!
//! There is no standard. The count stands behind the last space; a frame may hold spaces, but no
//! semicolon. async-profiler marks kinds of code by suffixes (`_[j]`, `_[i]`, `_[0]`, `_[1]`, `_[k]`),
//! perf's collapser and bcc mark the kernel by `_[k]`, and bcc can separate user and kernel by `-`.

use super::{Builder, Function, Kind, Profile, Thread, place};
use protocol::host_text::HostText;

/// How much is taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoldedLimits {
    /// Bytes of the text.
    pub bytes: usize,
    /// Frames of a stack; those farther from the root are left out.
    pub depth: usize,
    /// Bytes of a frame's name.
    pub name_bytes: usize,
    /// Different nodes of the call tree.
    pub nodes: usize,
    /// All counts together. A line that would make it more is not taken in.
    pub weight: u64,
}

impl FoldedLimits {
    /// What an incident's recording fits into, and an agent's memory too.
    pub const USUAL: Self = Self {
        bytes: 16 << 20,
        depth: 512,
        name_bytes: 512,
        nodes: 500_000,
        // Up to here every count is a number of its own in JSON, and no sum of them overflows.
        weight: 1 << 53,
    };
}

/// Why a text is no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoldedError {
    /// Too long.
    #[error("the text has {bytes} bytes; {limit} are the most: keep the heaviest stacks only")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// It has nothing but empty lines and comments.
    #[error("the text has no stacks in it")]
    Empty,
    /// Not one line is a stack.
    #[error(
        "no line of it is a stack with a count, as in `main;work;hash 12`; the first is: {first}"
    )]
    NoStack {
        /// The first line that has anything in it.
        first: HostText,
    },
    /// Two counts a line.
    #[error("its lines have two counts, so it is a difference of two profiles; give one of them")]
    Difference,
}

/// What of a text is not in the profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoldedLoss {
    /// Lines that are no stacks.
    pub lines: u64,
    /// Stacks of which only the part next to the root was kept.
    pub cut_stacks: u64,
    /// The weight of those.
    pub cut_weight: u64,
}

impl Profile {
    /// Reads stacks.
    ///
    /// # Errors
    ///
    /// Why it is no profile.
    pub fn from_folded(
        text: &[u8],
        limits: &FoldedLimits,
    ) -> Result<(Self, FoldedLoss), FoldedError> {
        if text.len() > limits.bytes {
            return Err(FoldedError::TooLong { bytes: text.len(), limit: limits.bytes });
        }
        let text = as_utf8(text);
        let mut builder = Builder::default();
        let thread = builder.thread(Thread { pid: 0, tid: 0, name: String::new() });
        let mut loss = FoldedLoss::default();
        let (mut stacks, mut differences, mut all) = (0_u64, 0_u64, 0_u64);
        let mut first: Option<&[u8]> = None;
        for line in text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            first = first.or(Some(line));
            let within = |(_, weight): &(&[u8], u64)| *weight <= limits.weight - all;
            let Some((frames, weight)) = counted(line).filter(within) else {
                loss.lines += 1;
                continue;
            };
            all += weight;
            stacks += 1;
            differences += u64::from(counted(frames).is_some());
            let (node, is_cut) = add(&mut builder, frames, limits);
            if is_cut {
                loss.cut_stacks += 1;
                loss.cut_weight += weight;
            }
            builder.count(thread, node, weight);
        }
        let first = first.ok_or(FoldedError::Empty)?;
        if stacks == 0 {
            return Err(FoldedError::NoStack { first: HostText::capped(first, 100) });
        }
        if differences == stacks {
            return Err(FoldedError::Difference);
        }
        Ok((builder.finish(), loss))
    }

    /// All stacks as text, each with the name of its thread as root.
    pub fn folded(&self) -> impl Iterator<Item = String> {
        self.samples.iter().map(|sample| {
            let thread = self.threads.get(place(sample.thread));
            let mut names: Vec<String> = sample
                .node
                .into_iter()
                .flat_map(|node| self.outwards(node))
                .map(|function| self.folded_name(function))
                .collect();
            if let Some(thread) = thread.filter(|thread| !thread.name.is_empty()) {
                names.push(without_separators(&thread.name));
            }
            names.reverse();
            if names.is_empty() {
                names.push("[no stack]".to_owned());
            }
            format!("{} {}", names.join(";"), sample.weight)
        })
    }

    fn folded_name(&self, index: u32) -> String {
        let Some(function) = self.function(index) else { return String::new() };
        let suffix = match function.kind {
            Kind::Kernel => "_[k]",
            Kind::Jit => "_[j]",
            Kind::User | Kind::Inlined | Kind::Unnamed | Kind::Cut => "",
        };
        format!("{}{suffix}", without_separators(&function.name))
    }
}

/// A name that stays one frame: nobody else may forge a frame by what a thread or a function is called.
fn without_separators(name: &str) -> String {
    name.replace(';', "\\x3b")
}

/// Adds a stack. Tells its node, and whether some of it was left out.
fn add(builder: &mut Builder, frames: &[u8], limits: &FoldedLimits) -> (Option<u32>, bool) {
    let (mut node, mut depth, mut is_kernel) = (None, 0, false);
    for frame in frames.split(|byte| *byte == b';').map(<[u8]>::trim_ascii) {
        match frame {
            b"" => continue,
            // bcc puts a lone dash between user and kernel, and between kernel and user in the stack
            // of who woke somebody, which it puts behind two dashes and upside down.
            b"-" => {
                is_kernel = !is_kernel;
                continue;
            }
            b"--" => continue,
            _ => {}
        }
        if depth >= limits.depth || builder.nodes() >= limits.nodes {
            return (node, true);
        }
        depth += 1;
        let (name, kind) = kind_of(frame);
        let kind = if is_kernel && kind == Kind::User { Kind::Kernel } else { kind };
        let name = HostText::capped(name, limits.name_bytes).to_string();
        let function = builder.function(Function { name, module: None, kind });
        node = Some(builder.node(node, function));
    }
    (node, false)
}

/// A frame without the mark of its kind.
fn kind_of(frame: &[u8]) -> (&[u8], Kind) {
    const MARKS: [(&[u8], Kind); 5] = [
        (b"_[k]", Kind::Kernel),
        (b"_[j]", Kind::Jit),
        (b"_[i]", Kind::Jit),
        (b"_[0]", Kind::Jit),
        (b"_[1]", Kind::Jit),
    ];
    for (mark, kind) in MARKS {
        if let Some(name) = frame.strip_suffix(mark) {
            return (name, kind);
        }
    }
    let is_unnamed = frame == b"[unknown]" || (frame.starts_with(b"[") && frame.ends_with(b"]"));
    (frame, if is_unnamed { Kind::Unnamed } else { Kind::User })
}

/// A line's stack and its count. A count may have a fraction, as some tools write times; it is rounded,
/// but what is there counts at least once.
fn counted(line: &[u8]) -> Option<(&[u8], u64)> {
    let space = line.iter().rposition(|byte| matches!(byte, b' ' | b'\t'))?;
    let frames = line.get(..space)?.trim_ascii();
    let number = std::str::from_utf8(line.get(space + 1..)?).ok()?;
    if frames.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let weight = match number.split_once('.') {
        None => number.parse().ok()?,
        Some((whole, fraction)) => {
            let rounded = u64::from(fraction.bytes().next().is_some_and(|digit| digit >= b'5'));
            let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
            if fraction.contains('.') {
                return None;
            }
            whole.saturating_add(rounded).max(u64::from(fraction.bytes().any(|b| b != b'0')))
        }
    };
    Some((frames, weight))
}

/// UTF-16 with a mark at its start, as some editors save it, as UTF-8; anything else as it is.
fn as_utf8(text: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let unit: fn([u8; 2]) -> u16 = match text {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        [0xef, 0xbb, 0xbf, rest @ ..] => return rest.into(),
        _ => return text.into(),
    };
    let pairs = text.get(2..).unwrap_or_default().chunks_exact(2);
    let units = pairs.filter_map(|pair| Some(unit(pair.try_into().ok()?)));
    char::decode_utf16(units)
        .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect::<String>()
        .into_bytes()
        .into()
}

#[cfg(test)]
mod tests;

//! A picture of stacks: a flame graph as one SVG file that needs nothing beside itself.
//!
//! Who calls stands above who is called, so that the widest calls are at the top of any screen. Each
//! call is as wide as its share. All geometry is in percent of the width, and text has one size on every
//! screen; what does not fit is cut at the edge of its call. Without a script, as in a viewer of images,
//! it is a picture; with the one that it has in it, calls can be searched and zoomed.
//!
//! Names are of programs that may want to deceive: they are escaped as text, and nothing else in the
//! file is theirs.

mod colour;
mod tree;
mod write;

pub use protocol::recording::Kind;

/// A call on a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame<'f> {
    /// What the function is called.
    pub name: &'f str,
    /// The file that it is in, where that is known.
    pub module: Option<&'f str>,
    /// What kind of code it is.
    pub kind: Kind,
}

/// What a picture says of itself, and how it grows.
#[derive(Clone, Copy, Debug)]
pub struct Options<'o> {
    /// Its heading: of what it is.
    pub title: &'o str,
    /// What is good to know of it: how it was recorded, and how far it can be relied on.
    pub subtitle: &'o str,
    /// What is counted: `samples`.
    pub unit: &'o str,
    /// Whether it begins with what stacks end in, and goes on to their callers.
    pub is_reversed: bool,
}

/// Draws stacks with their weights. The frames of each begin with the outermost call.
pub fn flame<'f, S>(stacks: impl IntoIterator<Item = (S, u64)>, options: &Options<'_>) -> String
where
    S: IntoIterator<Item = Frame<'f>>,
{
    let mut tree = tree::Tree::new(options.is_reversed);
    for (frames, weight) in stacks {
        tree.add(frames, weight, tree::AFTER);
    }
    write::picture(&tree, options)
}

/// Draws what changed from some stacks to others. A call is as wide as the mean of its two shares, so
/// that what is gone is seen too.
pub fn differential<'f, S>(
    before: impl IntoIterator<Item = (S, u64)>,
    after: impl IntoIterator<Item = (S, u64)>,
    options: &Options<'_>,
) -> String
where
    S: IntoIterator<Item = Frame<'f>>,
{
    let mut tree = tree::Tree::new(options.is_reversed);
    for (frames, weight) in after {
        tree.add(frames, weight, tree::AFTER);
    }
    for (frames, weight) in before {
        tree.add(frames, weight, tree::BEFORE);
    }
    tree.is_difference = true;
    write::picture(&tree, options)
}

#[cfg(test)]
mod tests;

//! Stacks: folded, named, and asked about.

pub mod profile;

//! Recordings of stacks as files for people and for other programs.

pub mod svg;

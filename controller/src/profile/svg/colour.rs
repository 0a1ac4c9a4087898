//! Colours that are told apart in greyscale too: kinds of code differ in lightness and in pattern,
//! growth and shrinkage in outline and in a sign before the name.

use super::Kind;

/// A class of the style sheet, for a kind.
pub(super) const fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::User => "u",
        Kind::Inlined => "i",
        Kind::Kernel => "k",
        Kind::Jit => "j",
        Kind::Unnamed => "n",
        Kind::Cut => "c",
    }
}

/// What a kind is called.
pub(super) const fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::User => "user",
        Kind::Inlined => "inlined",
        Kind::Kernel => "kernel",
        Kind::Jit => "made at run time",
        Kind::Unnamed => "without a name",
        Kind::Cut => "not known",
    }
}

/// One of four shades of a kind's colour, the same for the same name: neighbours are told apart.
pub(super) fn shade(name: &str) -> u32 {
    // FNV-1a: small, and the same everywhere.
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash >> 16) % 4
}

/// The colour of a change, by how large it is beside the largest: from near white to red for what grew,
/// to blue for what shrank.
pub(super) fn of_change(change: f64, largest: f64) -> String {
    const NONE: [f64; 3] = [244.0, 244.0, 244.0];
    const GREW: [f64; 3] = [226.0, 92.0, 58.0];
    const SHRANK: [f64; 3] = [74.0, 144.0, 217.0];
    let part = if largest > 0.0 { (change.abs() / largest).min(1.0).sqrt() } else { 0.0 };
    let end = if change < 0.0 { SHRANK } else { GREW };
    let mut channels = NONE.iter().zip(end).map(|(none, end)| (end - none).mul_add(part, *none));
    let mut next = || channels.next().unwrap_or_default();
    format!("rgb({:.0},{:.0},{:.0})", next(), next(), next())
}

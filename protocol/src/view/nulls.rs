//! What an answer in JSON says of the values that it does not have.

use std::collections::BTreeMap;

/// Why fields are `null`, by their path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nulls {
    /// It could not be measured.
    pub not_measured: BTreeMap<String, String>,
    /// There is none.
    pub absent: BTreeMap<String, String>,
    /// Whether the answer leaves out what is 0.
    pub is_brief: bool,
}

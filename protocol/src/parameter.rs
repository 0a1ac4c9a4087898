//! Limits of parameters, checked wherever a request enters: by the controller before a call is
//! permitted, by `--local`, and again by the agent.

use std::{borrow::Cow, fmt, ops::RangeInclusive};

use serde::Serialize;

/// A parameter whose value cannot be used. It never crosses the wire: its words are ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidParameter {
    /// The parameter's name, as the caller wrote it.
    pub name: Cow<'static, str>,
    /// The value that was given.
    pub value: Cow<'static, str>,
    /// What would have been accepted.
    pub expected: Cow<'static, str>,
}

impl fmt::Display for InvalidParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}: expected {}", self.name, self.value, self.expected)
    }
}

impl std::error::Error for InvalidParameter {}

/// A value from a fixed list, as the caller writes it.
pub fn spelled(value: &impl Serialize) -> String {
    let name = serde_json::to_value(value).unwrap_or_default();
    name.as_str().unwrap_or_default().to_owned()
}

/// Checks a number against its range.
///
/// # Errors
///
/// The value and the range, when it lies outside.
pub fn in_range<T: PartialOrd + fmt::Display + Copy>(
    name: &'static str,
    value: T,
    range: &RangeInclusive<T>,
) -> Result<(), InvalidParameter> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(InvalidParameter {
        name: name.into(),
        value: value.to_string().into(),
        expected: format!("{} to {}", range.start(), range.end()).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_outside_its_range_is_named_with_the_range() {
        assert_eq!(in_range("limit", 1, &(1..=200)), Ok(()));
        assert_eq!(in_range("limit", 200, &(1..=200)), Ok(()));
        let error = in_range("limit", 0, &(1..=200)).unwrap_err();
        assert_eq!(error.to_string(), "limit is 0: expected 1 to 200");
    }
}

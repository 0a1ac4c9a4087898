//! A call that cannot be read, and what is wrong with it.
//!
//! The library takes such a `tools/call` for a method that nobody knows, and answers so: a model
//! would look for its mistake in the wrong place.

use serde_json::{Map, Value};

/// What is wrong with the parameters of a `tools/call`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// There are none.
    #[error(
        "the call has no `params`: expected an object with the `name` of a tool and `arguments`"
    )]
    NoParameters,
    /// No tool is named.
    #[error("`params` has no `name`: expected the name of a tool")]
    NoName,
    /// The name is none.
    #[error("`name` is {given}: expected the name of a tool, as a string")]
    Name {
        /// What it is instead.
        given: &'static str,
    },
    /// The arguments were written as JSON, and then once more.
    #[error(
        "`arguments` is a string with the text of a JSON object: expected the object itself, \
         without quotes around it"
    )]
    ArgumentsAsText,
    /// The arguments are no object.
    #[error("`arguments` is {given}: expected an object")]
    Arguments {
        /// What they are instead.
        given: &'static str,
    },
    /// The call itself can be read, but not what goes with a call that is made again.
    #[error("`inputResponses` or `requestState` cannot be read; no call here needs them")]
    Continuation,
}

impl Malformed {
    /// Finds what is wrong with parameters that the library could not read.
    pub fn of(parameters: Option<&Value>) -> Self {
        let Some(parameters) = parameters.and_then(Value::as_object) else {
            return Self::NoParameters;
        };
        match parameters.get("name") {
            None => return Self::NoName,
            Some(Value::String(_)) => {}
            Some(other) => return Self::Name { given: kind(other) },
        }
        match parameters.get("arguments") {
            Some(Value::String(text)) if serde_json::from_str::<Map<_, Value>>(text).is_ok() => {
                Self::ArgumentsAsText
            }
            None | Some(Value::Null | Value::Object(_)) => Self::Continuation,
            Some(other) => Self::Arguments { given: kind(other) },
        }
    }
}

/// What a value is, in a sentence.
const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_given_is_told_with_what_is_expected() {
        let text = "with the text of a JSON object: expected the object itself";
        let cases = [
            (None, "has no `params`"),
            (Some(json!({})), "has no `name`"),
            (Some(json!({"arguments": {}})), "has no `name`"),
            (Some(json!({"name": 7})), "`name` is a number: expected the name of a tool"),
            (Some(json!({"name": "x", "arguments": "{\"limit\": 5}"})), text),
            (Some(json!({"name": "x", "arguments": ""})), "is a string: expected an object"),
            (Some(json!({"name": "x", "arguments": "[1]"})), "is a string: expected an object"),
            (Some(json!({"name": "x", "arguments": [1]})), "is a list: expected an object"),
            (Some(json!({"name": "x", "arguments": 5})), "is a number: expected an object"),
            (Some(json!({"name": "x", "inputResponses": 7})), "`inputResponses`"),
        ];
        for (parameters, want) in cases {
            let said = Malformed::of(parameters.as_ref()).to_string();
            assert!(said.contains(want), "{parameters:?}: {said}");
        }
    }
}

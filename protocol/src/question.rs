//! One question: what is asked, and what the call may cost.
//!
//! Read in one place, so that an AI agent, a person with the controller and one with the agent alone have
//! the same parameters.

use crate::{
    InstrumentId, Request,
    budget::{BYTES_PER_TOKEN, Budget},
    parameter::{InvalidParameter, in_range},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// Parameters that every tool has: what the call may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Seconds after which the call gives up: 1-300, default 20 more than the window.
    #[cfg_attr(
        feature = "schema",
        schemars(range(min = 1, max = 300), extend("default" = null))
    )]
    timeout_s: u32,
    /// Size of the answer in tokens, 4 bytes each: 400-9500, default 8000. Rows are cut to fit.
    #[cfg_attr(feature = "schema", schemars(range(min = 400, max = 9_500)))]
    max_tokens: u32,
    /// Processor time the call may use on the target, in milliseconds: 10-60000, default 2000.
    #[cfg_attr(feature = "schema", schemars(range(min = 10, max = 60_000)))]
    max_cpu_ms: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout_s: 0,
            max_tokens: Budget::DEFAULT_TOKENS,
            max_cpu_ms: Budget::DEFAULT_CPU_MS,
        }
    }
}

/// Seconds that a call gets beyond its window, unless the caller says otherwise.
const MORE_THAN_WINDOW_S: u32 = 20;

const TIMEOUT_S: RangeInclusive<u32> = 1..=300;

/// One question, understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// What is asked.
    pub request: Request,
    /// What it may cost.
    pub budget: Budget,
    /// What the caller said of that.
    pub limits: Map<String, Value>,
}

impl Question {
    /// Reads a tool's arguments.
    ///
    /// # Errors
    ///
    /// The first that is unknown, of the wrong type, or out of its range.
    pub fn read(id: InstrumentId, mut arguments: Map<String, Value>) -> Result<Self, BadArguments> {
        const NAMES: [&str; 3] = ["timeout_s", "max_tokens", "max_cpu_ms"];
        arguments.values_mut().for_each(as_integer);
        let (given, own): (Map<_, _>, Map<_, _>) =
            arguments.into_iter().partition(|(name, _)| NAMES.contains(&name.as_str()));
        let limits: Limits = serde_json::from_value(Value::Object(given.clone()))
            .map_err(|error| BadArguments::Type(error.to_string()))?;
        let request = id
            .request(Value::Object(own))
            .map_err(|error| BadArguments::Type(with_common(&error.to_string(), &NAMES)))?;
        request.check().map_err(BadArguments::Value)?;
        let window_s = request.window_ms().div_ceil(1000);
        let timeout_s = match given.get("timeout_s") {
            Some(_) => limits.timeout_s,
            None => window_s + MORE_THAN_WINDOW_S,
        };
        let check = |name, value, range: &RangeInclusive<u32>| {
            in_range(name, value, range).map_err(BadArguments::Value)
        };
        check("timeout_s", timeout_s, &TIMEOUT_S)?;
        let tokens = Budget::MIN_TOKENS..=Budget::MAX_TOKENS;
        check("max_tokens", limits.max_tokens, &tokens)?;
        check("max_cpu_ms", limits.max_cpu_ms, &(10..=60_000))?;
        if timeout_s <= request.window_ms() / 1000 {
            return Err(BadArguments::Value(InvalidParameter {
                name: "timeout_s".into(),
                value: timeout_s.to_string().into(),
                expected: format!("more than the window of {window_s} s").into(),
            }));
        }
        let budget = Budget {
            deadline_ms: timeout_s.saturating_mul(1000),
            answer_bytes: limits.max_tokens.saturating_mul(BYTES_PER_TOKEN),
            cpu_ms: limits.max_cpu_ms,
        };
        Ok(Self { request, budget, limits: given })
    }
}

/// JSON has one kind of number, and to its schemas `5.0` is an integer; to serde it is none. Every
/// parameter that is a number is an integer.
fn as_integer(value: &mut Value) {
    if let Some(number) = value.as_f64().filter(|number| number.fract() == 0.0)
        && value.is_f64()
        && let Ok(integer) = format!("{number:.0}").parse::<i64>()
    {
        *value = integer.into();
    }
}

/// serde lists a tool's own parameters; those of every tool are missing there.
fn with_common(error: &str, names: &[&str]) -> String {
    if error.contains("expected one of") {
        format!("{error}, `{}`", names.join("`, `"))
    } else {
        error.to_owned()
    }
}

/// Why arguments were not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadArguments {
    /// An unknown one, or one of the wrong type.
    #[error("{0}")]
    Type(String),
    /// A value out of its limits.
    #[error("{0}")]
    Value(InvalidParameter),
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(tool: &str, arguments: &Value) -> Result<Question, String> {
        let id = InstrumentId::ALL.iter().find(|id| id.name() == tool).unwrap();
        let arguments = arguments.as_object().unwrap().clone();
        Question::read(*id, arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn limits_apply_to_every_tool() {
        let question = read("process_list", &json!({"limit": 3, "max_tokens": 500})).unwrap();
        assert_eq!(question.budget.answer_bytes, 2000);
        assert_eq!(question.budget.deadline_ms, 21_000);
        let question = read("process_list", &json!({"timeout_s": 5})).unwrap();
        assert_eq!(question.budget.deadline_ms, 5_000);
    }

    #[test]
    fn a_number_without_a_fraction_is_an_integer() {
        let plain = json!({"limit": 5, "window_ms": 2000, "max_tokens": 500, "timeout_s": 9});
        let written: Value = serde_json::from_str(
            r#"{"limit": 5.0, "window_ms": 2e3, "max_tokens": 500.00, "timeout_s": 0.9e1}"#,
        )
        .unwrap();
        assert_eq!(read("process_list", &written), read("process_list", &plain));
        let cases = [
            (json!({"limit": 5.5}), "invalid type: floating point `5.5`, expected u32"),
            (json!({"limit": -1.0}), "invalid value: integer `-1`, expected u32"),
            (json!({"limit": 1e300}), "expected u32"),
        ];
        for (arguments, want) in cases {
            let error = read("process_list", &arguments).unwrap_err();
            assert!(error.contains(want), "{arguments}: {error}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_value_and_what_would_be_right() {
        let cases = [
            (json!({"limit": 0}), "limit is 0: expected 1 to 200"),
            (json!({"limit": -1}), "invalid value: integer `-1`, expected u32"),
            (json!({"limit": "many"}), "invalid type: string \"many\", expected u32"),
            (json!({"limi": 3}), "unknown field `limi`, expected one of `window_ms`, `sort`"),
            (json!({"sort": "cpus"}), "unknown variant `cpus`, expected one of `cpu`"),
            (json!({"max_tokens": 100}), "max_tokens is 100: expected 400 to 9500"),
            (json!({"timeout_s": 0}), "timeout_s is 0: expected 1 to 300"),
            (json!({"timeout_s": 5, "window_ms": 9000}), "expected more than the window of 9 s"),
            (json!({"artifact": "art-1"}), "eight hexadecimal digits"),
        ];
        for (arguments, want) in cases {
            let error = read("process_list", &arguments).unwrap_err();
            assert!(error.contains(want), "{arguments}: {error}");
        }
    }
}

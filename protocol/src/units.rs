//! Quantities whose type is their unit.
//!
//! Fields of a report still carry the unit in their name, because a reader of the JSON sees no
//! types. `Percent` and `PerSecond` are rounded when they are made: a reader pays for every digit,
//! and a tenth of a percent is already below what the sources resolve.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::time::Duration;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A share in percent, rounded to a tenth. Of what, the field's documentation says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent {
    tenths: u64,
}

impl Percent {
    /// `part` of `whole`, in percent; `None` when the whole is empty.
    pub fn of(part: f64, whole: f64) -> Option<Self> {
        (whole > 0.0 && part.is_finite()).then(|| Self { tenths: whole_number(part / whole * 1e3) })
    }

    /// Time spent, as a share of the time that passed. 200 % is two cores' worth.
    pub fn of_time(spent: Duration, passed: Duration) -> Option<Self> {
        Self::of(spent.as_secs_f64(), passed.as_secs_f64())
    }

    /// The number, in percent.
    pub const fn get(self) -> f64 {
        self.tenths as f64 / 10.0
    }
}

/// A rate: a counter's growth over the window in which it was measured, rounded to a hundredth.
/// Above a hundred a second the fraction is dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PerSecond {
    hundredths: u64,
}

impl PerSecond {
    /// Growth over the measured window; `None` for an empty window.
    ///
    /// Divide by the window that was measured, never by the one that was asked for: on a loaded
    /// host the two differ by a factor.
    pub fn over(growth: u64, window: Duration) -> Option<Self> {
        let seconds = window.as_secs_f64();
        (seconds > 0.0).then(|| {
            let rate = growth as f64 / seconds;
            let hundredths = if rate < 100.0 {
                whole_number(rate * 100.0)
            } else {
                whole_number(rate).saturating_mul(100)
            };
            Self { hundredths }
        })
    }

    /// The number, per second.
    pub const fn get(self) -> f64 {
        self.hundredths as f64 / 100.0
    }
}

/// How much of one thing there is for one of another, rounded to a hundredth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ratio {
    hundredths: u64,
}

impl Ratio {
    /// So much for so much; `None` for nothing of the latter.
    pub fn of(what: f64, each: f64) -> Option<Self> {
        (each > 0.0 && what.is_finite())
            .then(|| Self { hundredths: whole_number(what / each * 100.0) })
    }

    /// The number.
    pub const fn get(self) -> f64 {
        self.hundredths as f64 / 100.0
    }
}

/// A time in microseconds, to a hundredth: a system call takes less than one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Micros {
    hundredths: u64,
}

impl Micros {
    /// So many nanoseconds, rounded.
    pub const fn from_ns(ns: u64) -> Self {
        Self { hundredths: ns / 10 + if ns % 10 >= 5 { 1 } else { 0 } }
    }

    /// The number, in microseconds.
    pub const fn get(self) -> f64 {
        self.hundredths as f64 / 100.0
    }
}

/// The nearest whole number; 0 for a negative one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from floating point saturates"
)]
const fn whole_number(value: f64) -> u64 {
    value.round() as u64
}

/// A fixed-point number travels as a whole number of its steps, which postcard writes in as few
/// bytes as it needs, and reads as a decimal fraction.
macro_rules! fixed_point {
    ($name:ident, $field:ident, $per_unit:literal) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if !serializer.is_human_readable() {
                    serializer.serialize_u64(self.$field)
                } else if self.$field % $per_unit == 0 {
                    serializer.serialize_u64(self.$field / $per_unit)
                } else {
                    serializer.serialize_f64(self.get())
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let $field = if deserializer.is_human_readable() {
                    whole_number(f64::deserialize(deserializer)? * f64::from($per_unit))
                } else {
                    u64::deserialize(deserializer)?
                };
                Ok(Self { $field })
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "number" })
            }
        }
    };
}
fixed_point!(Percent, tenths, 10);
fixed_point!(PerSecond, hundredths, 100);
fixed_point!(Ratio, hundredths, 100);
fixed_point!(Micros, hundredths, 100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_rounds_to_a_tenth_and_has_no_value_for_an_empty_whole() {
        let cases = [
            ("third", Percent::of(1.0, 3.0), Some(33.3)),
            ("two cores", Percent::of(2.0, 1.0), Some(200.0)),
            ("no time passed", Percent::of_time(Duration::ZERO, Duration::ZERO), None),
            ("not a number", Percent::of(f64::NAN, 1.0), None),
        ];
        for (name, found, want) in cases {
            assert_eq!(found.map(Percent::get), want, "{name}");
        }
    }

    #[test]
    fn rates_divide_by_the_measured_window() {
        let cases = [
            ("slow", 1, 3_000, Some(0.33)),
            ("medium", 100, 3_000, Some(33.33)),
            ("fast", 1_000_000, 3_000, Some(333_333.0)),
            ("no window", 5, 0, None),
        ];
        for (name, growth, window_ms, want) in cases {
            let found = PerSecond::over(growth, Duration::from_millis(window_ms));
            assert_eq!(found.map(PerSecond::get), want, "{name}");
        }
    }

    #[test]
    fn numbers_are_short_in_json_and_on_the_wire_and_read_back() {
        let percent = Percent::of(997.0, 1000.0).unwrap();
        let whole = Percent::of(2.0, 1.0).unwrap();
        assert_eq!(serde_json::to_string(&[percent, whole]).unwrap(), "[99.7,200]");
        assert_eq!(postcard::to_stdvec(&percent).unwrap().len(), 2);
        for value in [percent, whole, Percent::default()] {
            let json = serde_json::to_string(&value).unwrap();
            assert_eq!(serde_json::from_str::<Percent>(&json).unwrap(), value);
            let bytes = postcard::to_stdvec(&value).unwrap();
            assert_eq!(postcard::from_bytes::<Percent>(&bytes).unwrap(), value);
        }
    }
}

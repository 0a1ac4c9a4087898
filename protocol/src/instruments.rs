//! Every instrument, one file each. The list below is the only registry.

pub mod capabilities;
pub mod capture;
pub mod export;
pub mod flamegraph;
pub mod flamegraph_from_folded;
pub mod host_snapshot;
pub mod inspect_source;
pub mod latency;
pub mod memory_profile;
pub mod perf_record;
pub mod perf_report;
pub mod process_inspect;
pub mod process_list;
pub mod self_test;
pub mod syscall_trace;

use crate::{
    parameter::InvalidParameter,
    view::{nulls::Nulls, table::Table},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use std::fmt::Debug;

/// One thing that the agent can measure.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is listed as an instrument but is not one",
    note = "add `impl Instrument for {Self}` to its file in `protocol/src/instruments/`"
)]
pub trait Instrument {
    /// What the controller asks. Its fields are the tool's parameters.
    type Request: Clone + Debug + PartialEq + Serialize + DeserializeOwned;
    /// A piece of a streamed result; [`NoItems`] where nothing is streamed.
    type Item: Clone + Debug + PartialEq + Serialize + DeserializeOwned;
    /// What the agent answers. Its fields are the tool's result.
    type Report: Clone + Debug + PartialEq + Serialize + DeserializeOwned;

    /// Checks the parameters against their limits.
    ///
    /// # Errors
    ///
    /// The first parameter that is out of its limits.
    fn check(request: &Self::Request) -> Result<(), InvalidParameter>;

    /// How long the measuring takes, in milliseconds, without the agent's own work.
    fn window_ms(request: &Self::Request) -> u32;

    /// The report as a person reads it.
    fn tables(report: &Self::Report) -> Vec<Table>;

    /// Takes out of the report's fields what a short answer does without.
    fn shorten(_: &Self::Report, _: &mut Map<String, Value>, _: &mut Nulls) {}

    /// A small, realistic exchange: the wire goldens, the generated documentation and the
    /// controller's fake agent all use it.
    fn example() -> Exchange<Self>
    where
        Self: Sized;
}

/// A question, a piece of its result, and its answer.
pub struct Exchange<I: Instrument> {
    /// The question.
    pub request: I::Request,
    /// A streamed piece, where there are any.
    pub item: Option<I::Item>,
    /// The answer.
    pub report: I::Report,
}

/// The item of an instrument that streams nothing. There is no value of this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoItems {}

/// Calls `$callback!` with the list of instruments, as `(Marker, module)`.
///
/// The order is the wire order: append, and never reorder.
#[macro_export]
macro_rules! for_each_instrument {
    ($callback:path) => {
        $callback! {
            ProcessList, process_list;
            ProcessInspect, process_inspect;
            SelfTest, self_test;
            HostSnapshot, host_snapshot;
            Capabilities, capabilities;
            Capture, capture;
            PerfRecord, perf_record;
            PerfReport, perf_report;
            MemoryProfile, memory_profile;
            Flamegraph, flamegraph;
            FlamegraphFromFolded, flamegraph_from_folded;
            Export, export;
            InspectSource, inspect_source;
            SyscallTrace, syscall_trace;
            Latency, latency;
        }
    };
}

macro_rules! define_registry {
    ($($marker:ident, $module:ident;)*) => {
        /// Names an instrument: on the wire, as a tool and in the documentation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum InstrumentId {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $marker,)*
        }

        impl InstrumentId {
            /// All instruments, in wire order.
            pub const ALL: &[Self] = &[$(Self::$marker),*];

            /// The snake_case name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$marker => stringify!($module),)* }
            }

            /// Reads a request from the JSON object of its parameters.
            ///
            /// # Errors
            ///
            /// What serde found: an unknown field, or a value of the wrong type.
            pub fn request(self, parameters: serde_json::Value) -> serde_json::Result<Request> {
                match self {
                    $(Self::$marker => serde_json::from_value(parameters).map(Request::$marker),)*
                }
            }
        }

        /// A question for one instrument.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum Request {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $marker($module::Request),)*
        }

        impl Request {
            /// Which instrument it is for.
            pub const fn id(&self) -> InstrumentId {
                match self { $(Self::$marker(_) => InstrumentId::$marker,)* }
            }

            /// Every parameter as JSON, whether it could be left out or not.
            fn to_json(&self) -> serde_json::Result<serde_json::Value> {
                match self {
                    $(Self::$marker(request) => serde_json::to_value(request),)*
                }
            }

            /// See [`Instrument::check`].
            ///
            /// # Errors
            ///
            /// The first parameter that is out of its limits.
            pub fn check(&self) -> Result<(), InvalidParameter> {
                match self {
                    $(Self::$marker(request) => <$module::$marker as Instrument>::check(request),)*
                }
            }

            /// See [`Instrument::window_ms`].
            pub fn window_ms(&self) -> u32 {
                match self {
                    $(Self::$marker(request) => $module::$marker::window_ms(request),)*
                }
            }
        }

        /// A piece of one instrument's streamed result.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum Item {
            $(#[doc = concat!("See [`", stringify!($module), "`].")]
            $marker(<$module::$marker as Instrument>::Item),)*
        }

        /// An answer of one instrument.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum Report {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $marker($module::Report),)*
        }

        impl Report {
            /// Which instrument it came from.
            pub const fn id(&self) -> InstrumentId {
                match self { $(Self::$marker(_) => InstrumentId::$marker,)* }
            }

            /// See [`Instrument::tables`].
            pub fn tables(&self) -> Vec<Table> {
                match self {
                    $(Self::$marker(report) => $module::$marker::tables(report),)*
                }
            }

            /// See [`Instrument::shorten`].
            pub fn shorten(&self, fields: &mut Map<String, Value>, nulls: &mut Nulls) {
                match self {
                    $(Self::$marker(report) => {
                        $module::$marker::shorten(report, fields, nulls);
                    })*
                }
            }

            /// The report's own fields as JSON, before unknown values are lifted out.
            ///
            /// # Errors
            ///
            /// None in practice: every report is made of types that JSON has.
            pub fn to_json(&self) -> serde_json::Result<serde_json::Value> {
                match self {
                    $(Self::$marker(report) => serde_json::to_value(report),)*
                }
            }
        }

        /// The example exchange of an instrument, as messages.
        pub fn example(id: InstrumentId) -> (Request, Option<Item>, Report) {
            match id {
                $(InstrumentId::$marker => {
                    let Exchange { request, item, report } = $module::$marker::example();
                    (Request::$marker(request), item.map(Item::$marker), Report::$marker(report))
                })*
            }
        }

        $(impl From<$module::Request> for Request {
            fn from(request: $module::Request) -> Self { Self::$marker(request) }
        })*
    };
}

for_each_instrument!(define_registry);

impl Request {
    /// The parameters that make this request, as [`InstrumentId::request`] reads them, without
    /// those that may be left out.
    ///
    /// # Errors
    ///
    /// None in practice: every request is an object of types that JSON has.
    pub fn parameters(&self) -> serde_json::Result<Map<String, Value>> {
        let Value::Object(all) = self.to_json()? else { return Ok(Map::new()) };
        let may_be_left_out = |name: &String| {
            let others: Map<_, _> = all
                .iter()
                .filter(|(other, _)| *other != name)
                .map(|(other, value)| (other.clone(), value.clone()))
                .collect();
            self.id().request(Value::Object(others)).is_ok_and(|request| request == *self)
        };
        let needed = all.iter().filter(|(name, _)| !may_be_left_out(name));
        Ok(needed.map(|(name, value)| (name.clone(), value.clone())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_within_its_own_limits_and_of_its_own_instrument() {
        for id in InstrumentId::ALL {
            let (request, _, report) = example(*id);
            assert_eq!(request.check(), Ok(()), "{}", id.name());
            assert_eq!((request.id(), report.id()), (*id, *id));
        }
    }

    #[test]
    fn the_parameters_of_a_request_make_the_same_request() {
        for id in InstrumentId::ALL {
            let (request, _, _) = example(*id);
            let parameters = Value::Object(request.parameters().unwrap());
            assert_eq!(id.request(parameters).unwrap(), request, "{}", id.name());
        }
        let given = serde_json::json!({
            "window_ms": 2000, "group_by": "user", "limit": 15, "artifact": "art-0badcafe",
        });
        let request = InstrumentId::ProcessList.request(given).unwrap();
        let needed = serde_json::json!({
            "window_ms": 2000, "group_by": "user", "artifact": "art-0badcafe",
        });
        assert_eq!(Value::Object(request.parameters().unwrap()), needed);
    }

    #[test]
    fn every_instrument_can_be_asked_with_no_parameters_or_names_the_one_it_needs() {
        for id in InstrumentId::ALL {
            match id.request(serde_json::json!({})) {
                Ok(request) => {
                    let needed = request.check().err().map(|error| error.value);
                    assert!(needed.is_none_or(|value| value == "missing"), "{}", id.name());
                }
                Err(error) => assert!(error.to_string().contains("missing field"), "{error}"),
            }
        }
    }
}

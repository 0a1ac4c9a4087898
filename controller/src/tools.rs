//! The tools: each instrument as it is offered, with its words.
//!
//! One file for each, over the same list of instruments that the agent serves.

mod capabilities;
mod capture;
mod export;
mod flamegraph;
mod flamegraph_from_folded;
mod host_snapshot;
mod inspect_source;
mod latency;
mod memory_profile;
mod perf_record;
mod perf_report;
mod process_inspect;
mod process_list;
mod self_test;
mod syscall_trace;

use crate::{schema, verdict::Conclusion};
use protocol::{
    InstrumentId, Item, Report, Request,
    instruments::Instrument,
    message::Meta,
    question::{Limits, Question},
    view::{json, table::Table},
};
use schemars::JsonSchema;
use serde_json::{Map, Value};

/// How an instrument is offered.
#[diagnostic::on_unimplemented(
    message = "instrument `{Self}` has no tool",
    label = "listed in `protocol::for_each_instrument!`, but no tool offers it",
    note = "create `controller/src/tools/<name>.rs` with `impl Tool for {Self}`, and add `mod <name>;` to `controller/src/tools.rs`"
)]
pub trait Tool: Instrument<Request: JsonSchema, Report: JsonSchema> {
    /// What a person reads in a list.
    const TITLE: &'static str;
    /// What a model reads to choose: what it answers, when to use it, what it costs.
    const DESCRIPTION: &'static str;
    /// The set it belongs to.
    const TOOLSET: Toolset;

    /// What is kept of the items that were streamed.
    type Stream: Default + Send;

    /// Takes a streamed item.
    fn accept(stream: &mut Self::Stream, item: Self::Item);

    /// What follows from the report.
    fn conclude(report: &Self::Report, stream: &Self::Stream, meta: &Meta) -> Conclusion;

    /// The request that shows what was cut, where something was: this one, but for what has to
    /// change.
    fn rest(request: &Self::Request, meta: &Meta) -> Option<Self::Request>;

    /// What one would type on the target instead: commands as words.
    fn by_hand(request: &Self::Request) -> Vec<Vec<String>>;
}

/// A set of tools that is offered, or not, as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Toolset {
    /// Reads, and concludes.
    Diagnose,
    /// Exercises the line to the agent.
    SelfTest,
    /// Takes files along, for later.
    Capture,
    /// Hands a recording to other programs.
    Export,
}

impl Toolset {
    /// All sets.
    pub const ALL: [Self; 4] = [Self::Diagnose, Self::SelfTest, Self::Capture, Self::Export];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Diagnose => "diagnose",
            Self::SelfTest => "selftest",
            Self::Capture => "capture",
            Self::Export => "export",
        }
    }

    /// The set of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|toolset| toolset.name() == name)
    }
}

/// One tool, as data.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Which instrument.
    pub id: InstrumentId,
    /// See [`Tool::TITLE`].
    pub title: &'static str,
    /// See [`Tool::DESCRIPTION`].
    pub description: &'static str,
    /// See [`Tool::TOOLSET`].
    pub toolset: Toolset,
    request_schema: fn() -> Map<String, Value>,
    report_schema: fn() -> Map<String, Value>,
}

impl Entry {
    /// The tool's name.
    pub const fn name(&self) -> &'static str {
        self.id.name()
    }

    /// What it takes: the instrument's parameters and those that every tool has. Where there are
    /// several targets, [`Targets::in_schema`](crate::targets::Targets::in_schema) adds one.
    pub fn input_schema(&self) -> Map<String, Value> {
        schema::with_properties((self.request_schema)(), &schema::of::<Limits>())
    }

    /// What it gives, with every field described: for documentation.
    pub fn described_output(&self) -> Map<String, Value> {
        let conclusion = schema::of::<Conclusion>();
        let with_conclusion = schema::with_properties((self.report_schema)(), &conclusion);
        let meta = schema::of::<json::MetaView>();
        schema::with_property(with_conclusion, "meta", Value::Object(meta))
    }

    /// What it gives, as clients get it: a list of tools costs a model tokens before the first
    /// question.
    pub fn output_schema(&self) -> Map<String, Value> {
        schema::short(self.described_output())
    }
}

macro_rules! define_tools {
    ($($marker:ident, $module:ident;)*) => {
        /// Every tool there is.
        pub const ALL: &[Entry] = &[$(Entry {
            id: InstrumentId::$marker,
            title: <protocol::instruments::$module::$marker as Tool>::TITLE,
            description: <protocol::instruments::$module::$marker as Tool>::DESCRIPTION,
            toolset: <protocol::instruments::$module::$marker as Tool>::TOOLSET,
            request_schema: schema::of::<protocol::instruments::$module::Request>,
            report_schema: schema::of::<protocol::instruments::$module::Report>,
        },)*];

        /// What is kept of the items of one call.
        pub enum Stream {
            $(#[doc = concat!("Of `", stringify!($module), "`.")]
            $marker(<protocol::instruments::$module::$marker as Tool>::Stream),)*
        }

        impl Stream {
            /// For a call's items.
            pub fn of(id: InstrumentId) -> Self {
                match id { $(InstrumentId::$marker => Self::$marker(Default::default()),)* }
            }

            /// Takes an item; one of another instrument is not for this call.
            pub fn accept(&mut self, item: Item) {
                match (self, item) {
                    $((Self::$marker(stream), Item::$marker(item)) =>
                        <protocol::instruments::$module::$marker as Tool>::accept(stream, item),)*
                    // A pair of two instruments.
                    _ => {}
                }
            }
        }

        /// See [`Tool::conclude`].
        pub fn conclude(report: &Report, stream: &Stream, meta: &Meta) -> Conclusion {
            match (report, stream) {
                $((Report::$marker(report), Stream::$marker(stream)) =>
                    <protocol::instruments::$module::$marker as Tool>::conclude(report, stream, meta),)*
                // A pair of two instruments.
                _ => Conclusion::default(),
            }
        }

        fn rest_of(request: &Request, meta: &Meta) -> Option<Request> {
            match request {
                $(Request::$marker(request) =>
                    <protocol::instruments::$module::$marker as Tool>::rest(request, meta)
                        .map(Request::$marker),)*
            }
        }

        fn by_hand_of(request: &Request) -> Vec<Vec<String>> {
            match request {
                $(Request::$marker(request) =>
                    <protocol::instruments::$module::$marker as Tool>::by_hand(request),)*
            }
        }
    };
}
protocol::for_each_instrument!(define_tools);

/// The parameters of the call that shows what was cut, where something was. What the caller said
/// holds there too, and what may be left out is left out.
pub fn rest(question: &Question, meta: &Meta) -> Option<Value> {
    let request = rest_of(&question.request, meta)?;
    request.check().ok()?;
    let mut parameters = request.parameters().ok()?;
    parameters.extend(question.limits.clone());
    Some(Value::Object(parameters))
}

/// What one would type instead of a call that was written down.
pub fn by_hand(tool: &str, parameters: &Value) -> Vec<Vec<String>> {
    let Some(entry) = ALL.iter().find(|entry| entry.name() == tool) else { return Vec::new() };
    let arguments = parameters.as_object().cloned().unwrap_or_default();
    Question::read(entry.id, arguments)
        .map_or_else(|_| Vec::new(), |question| by_hand_of(&question.request))
}

/// Words of a command.
fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// The tools that are offered, fixed at the start.
#[derive(Clone, Debug)]
pub struct Selection {
    entries: Vec<Entry>,
}

impl Selection {
    /// The tools of some sets and some further ones, without others.
    ///
    /// # Errors
    ///
    /// A name that is no tool's.
    pub fn new(toolsets: &[Toolset], tools: &[String], without: &[String]) -> Result<Self, String> {
        let known = |name: &String| ALL.iter().any(|entry| entry.name() == name);
        if let Some(unknown) = tools.iter().chain(without).find(|name| !known(name)) {
            return Err(unknown.clone());
        }
        let is_offered = |entry: &&Entry| {
            let is_named = |names: &[String]| names.iter().any(|name| name == entry.name());
            (toolsets.contains(&entry.toolset) || is_named(tools)) && !is_named(without)
        };
        Ok(Self { entries: ALL.iter().filter(is_offered).copied().collect() })
    }

    /// These tools, and one more, for a command that is that tool.
    #[must_use]
    pub fn and(mut self, id: InstrumentId) -> Self {
        let further = ALL.iter().filter(|entry| entry.id == id);
        self.entries.retain(|entry| entry.id != id);
        self.entries.extend(further.copied());
        self
    }

    /// The tools, in wire order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// A tool that is offered, by name.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name() == name)
    }

    /// The names, for an error about another one.
    pub fn names(&self) -> String {
        self.entries.iter().map(Entry::name).collect::<Vec<_>>().join(", ")
    }
}

/// A report as tables, with what follows from it in front.
pub fn tables(report: &Report, conclusion: &Conclusion) -> Vec<Table> {
    let mut tables = report.tables();
    if !conclusion.is_empty() {
        tables.insert(0, conclusion.table());
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{
        artifact::ArtifactId,
        loss::{CutBy, Lost, Overhead, Truncation},
        message::Engine,
    };
    use serde_json::json;

    fn read(tool: &str, arguments: &Value) -> Result<Question, String> {
        let entry = ALL.iter().find(|entry| entry.name() == tool).unwrap();
        let arguments = arguments.as_object().unwrap().clone();
        Question::read(entry.id, arguments).map_err(|error| error.to_string())
    }

    /// What an answer says of itself that shows some of what there is.
    pub(super) fn meta_of(shown: u64, total: u64) -> Meta {
        Meta {
            engine: Engine::Procfs,
            window_ms: None,
            truncation: Truncation {
                shown,
                total,
                weight_cut_pct: None,
                cut_by: if shown < total { CutBy::Limit } else { CutBy::Nothing },
            },
            artifact: None,
            lost: Lost::default(),
            overhead: Overhead::default(),
            redacted: 0,
        }
    }

    /// What is said of the rest of an answer that shows some of a hundred.
    fn rest_of(tool: &str, arguments: &Value, shown: u64, artifact: Option<u32>) -> Option<Value> {
        let question = read(tool, arguments).unwrap();
        let meta = Meta { artifact: artifact.map(ArtifactId), ..meta_of(shown, 100) };
        let rest = rest(&question, &meta);
        if let Some(rest) = &rest {
            read(tool, rest).unwrap();
        }
        rest
    }

    #[test]
    fn the_rest_of_a_list_is_the_rest_of_what_was_asked() {
        let all = json!({
            "window_ms": 2000, "sort": "rss", "group_by": "service", "limit": 7,
            "max_tokens": 500, "timeout_s": 9,
        });
        let stored = json!({
            "sort": "rss", "group_by": "service", "limit": 7, "offset": 7,
            "artifact": "art-0badcafe", "max_tokens": 500, "timeout_s": 9,
        });
        let mut measured = all.clone();
        measured["offset"] = json!(7);
        let mut page_after_that = stored.clone();
        page_after_that["offset"] = json!(12);
        let artifact = Some(0x0bad_cafe);
        let cases = [
            (json!({}), 15, None, Some(json!({"offset": 15}))),
            (json!({}), 100, None, None),
            // One that did not fit would name itself.
            (json!({}), 0, None, None),
            (json!({"offset": 90}), 10, None, None),
            (all.clone(), 7, None, Some(measured)),
            (all, 7, artifact, Some(stored.clone())),
            // A page behind a page, which was cut to fewer rows than its limit.
            (stored, 5, artifact, Some(page_after_that)),
        ];
        for (arguments, shown, artifact, want) in cases {
            let found = rest_of("process_list", &arguments, shown, artifact);
            assert_eq!(found, want, "{arguments} {shown}");
        }
    }

    #[test]
    fn the_rest_of_the_threads_is_of_the_same_process() {
        let guarded = json!({"pid": 7, "start_ticks": 88_210, "window_ms": 300, "max_cpu_ms": 90});
        let cases = [
            (json!({"pid": 7}), Some(json!({"pid": 7, "threads": 20}))),
            (json!({"pid": 7, "threads": 30}), Some(json!({"pid": 7, "threads": 100}))),
            (json!({"pid": 7, "threads": 100}), None),
            (
                guarded,
                Some(json!({
                    "pid": 7, "start_ticks": 88_210, "window_ms": 300, "threads": 20,
                    "max_cpu_ms": 90,
                })),
            ),
        ];
        for (arguments, want) in cases {
            assert_eq!(rest_of("process_inspect", &arguments, 5, None), want, "{arguments}");
        }
    }

    #[test]
    fn a_selection_is_what_was_asked_for() {
        let names = |toolsets: &[Toolset], tools: &[&str], without: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
            Selection::new(toolsets, &owned(tools), &owned(without)).map(|found| found.names())
        };
        let all = names(&[Toolset::Diagnose], &[], &[]).unwrap();
        assert!(all.starts_with("process_list, process_inspect, host_snapshot, "), "{all}");
        for of_other_sets in ["self_test", "capture", "export"] {
            assert!(all.split(", ").all(|name| name != of_other_sets), "{all}");
        }
        let with = names(&[Toolset::Diagnose], &["self_test"], &["process_list"]).unwrap();
        assert!(with.starts_with("process_inspect, self_test, host_snapshot, "), "{with}");
        assert_eq!(names(&[Toolset::SelfTest], &[], &[]).unwrap(), "self_test");
        assert_eq!(names(&[], &["nope"], &[]).unwrap_err(), "nope");
    }

    #[test]
    fn every_tool_keeps_to_what_clients_can_take() {
        for entry in ALL {
            let name = entry.name();
            assert!(name.len() <= 30 && name.bytes().all(|b| b == b'_' || b.is_ascii_lowercase()));
            assert!(entry.description.len() <= 1024, "{name}: {}", entry.description.len());
            assert!(entry.description.is_ascii(), "{name}");
        }
    }
}

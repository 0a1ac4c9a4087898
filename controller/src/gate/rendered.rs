//! An answer, ready for any front door.

use super::GateError;
use crate::{
    snapshot,
    target::Target,
    targets::PARAMETER,
    tools::{self, Stream},
    verdict::Conclusion,
};
use protocol::{
    artifact::ArtifactId,
    message::Answer,
    question::Question,
    view::{
        json::{self, MetaView},
        table::Table,
    },
};
use serde_json::{Map, Value};

/// The most bytes an answer may have, whatever the agent sent: some clients cut at 40,000
/// characters, and say nothing.
const MOST_BYTES: usize = 38_000;

/// An answer, ready for any front door.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// The answer as one JSON object: what follows, what was measured, how.
    pub object: Map<String, Value>,
    /// The same as text.
    pub text: String,
    /// The same for a person.
    pub tables: Vec<Table>,
    /// How it was measured.
    pub meta: MetaView,
    /// Where the whole result is kept, for as long as the session: known to a front door that ends it
    /// too, and in the answer only where a caller can still use it.
    pub artifact: Option<ArtifactId>,
}

/// How answers are given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Whether the session ends with the first call, so that a handle would name nothing.
    pub is_one_shot: bool,
    /// Whether a call has to name its target, and with it the calls that an answer names.
    pub names_target: bool,
}

impl Rendered {
    pub(super) fn new(
        target: &Target,
        question: &Question,
        mut answer: Answer,
        stream: &Stream,
        form: Form,
    ) -> Result<Self, GateError> {
        let artifact = answer.meta.artifact;
        if form.is_one_shot {
            answer.meta.artifact = None;
        }
        let mut conclusion = tools::conclude(&answer.report, stream, &answer.meta);
        let mut rest = tools::rest(question, &answer.meta);
        if form.names_target {
            let steps = conclusion.next.iter_mut().map(|step| &mut step.parameters);
            for parameters in steps.chain(&mut rest).filter_map(Value::as_object_mut) {
                parameters.insert(PARAMETER.to_owned(), target.to_string().into());
            }
        }
        let defect = |error: serde_json::Error| GateError::Defect(error.to_string());
        let (fields, nulls) = json::fields(&answer.report).map_err(defect)?;
        let mut meta = MetaView::new(&target.to_string(), &answer.meta, nulls);
        if let Target::Snapshot(folder) = target {
            meta.snapshot = Some(snapshot::describe(folder));
        }
        meta.rest = rest.map(|parameters| format!("{} {parameters}", question.request.id().name()));
        let object = in_order(&conclusion, fields).map_err(defect)?;
        let object = json::object(object, &meta).map_err(defect)?;
        let text = serde_json::to_string(&object).map_err(defect)?;
        if text.len() > MOST_BYTES {
            return Err(GateError::Defect(format!(
                "the agent sent an answer of {} bytes, above the limit of {MOST_BYTES}",
                text.len()
            )));
        }
        let tables = tools::tables(&answer.report, &conclusion);
        Ok(Self { object, text, tables, meta, artifact })
    }
}

/// What follows comes first: a reader that is cut off has at least that. The next step comes after
/// the numbers.
fn in_order(
    conclusion: &Conclusion,
    fields: Map<String, Value>,
) -> serde_json::Result<Map<String, Value>> {
    let mut object = Map::new();
    let Value::Object(mut concluded) = serde_json::to_value(conclusion)? else {
        return Ok(fields);
    };
    let next = concluded.remove("next");
    object.extend(concluded);
    object.extend(fields);
    if let Some(next) = next {
        object.insert("next".to_owned(), next);
    }
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{
        InstrumentId, Item, Report, Request,
        artifact::ArtifactId,
        instruments::{example, host_snapshot::Detail},
        loss::{CutBy, Lost, Overhead, Truncation},
        message::{Engine, Meta},
        units::Percent,
        view::text::{self, Style},
    };

    /// The example of an instrument, as it comes out of the gate.
    fn rendered(id: InstrumentId) -> Rendered {
        let (request, item, report) = example(id);
        answered(request, item, report)
    }

    fn answered(request: Request, item: Option<Item>, report: Report) -> Rendered {
        among(false, request, item, report)
    }

    /// The same, where the target is one of several, or not.
    fn among(names_target: bool, request: Request, item: Option<Item>, report: Report) -> Rendered {
        let id = request.id();
        let measures = request.window_ms() > 0;
        let is_cut = id == InstrumentId::ProcessList;
        let cut = Truncation {
            shown: 1,
            total: 212,
            weight_cut_pct: Percent::of(3.1, 100.0),
            cut_by: CutBy::Limit,
        };
        let meta = Meta {
            engine: Engine::Procfs,
            window_ms: measures.then_some(1003),
            truncation: if is_cut { cut } else { Truncation::none(1) },
            artifact: measures.then_some(ArtifactId(0x0bad_cafe)),
            lost: Lost {
                vanished: u64::from(is_cut),
                refused: 0,
                malformed: 0,
                samples: 0,
                events: 0,
            },
            overhead: Overhead { agent_cpu_ms: 4.5, target_pause_us_max: 0 },
            redacted: u32::from(is_cut),
        };
        let target = "ssh:deploy@web-1".parse().unwrap();
        let answer = Answer { report: Box::new(report), meta };
        let budget = protocol::budget::Budget::default();
        let question = Question { request, budget, limits: Map::new() };
        let mut stream = Stream::of(id);
        if let Some(item) = item {
            stream.accept(item);
        }
        let form = Form { is_one_shot: false, names_target };
        Rendered::new(&target, &question, answer, &stream, form).unwrap()
    }

    #[test]
    fn an_answer_reads_as_it_did() {
        for id in InstrumentId::ALL {
            let rendered = rendered(*id);
            let path = |kind| format!("fixtures/golden/answers/{}.{kind}", id.name());
            let shown = text::answer(&rendered.tables, &rendered.meta, Style::PLAIN);
            crate::golden::assert_golden(&path("txt"), &shown);
            let object = serde_json::to_string_pretty(&rendered.object).unwrap();
            crate::golden::assert_golden(&path("json"), &format!("{object}\n"));
        }
    }

    #[test]
    fn a_brief_answer_reads_as_it_did() {
        let (request, item, report) = example(InstrumentId::HostSnapshot);
        let Report::HostSnapshot(mut report) = report else { panic!("another instrument") };
        report.detail = Detail::Brief;
        let rendered = answered(request, item, Report::HostSnapshot(report));
        let object = serde_json::to_string_pretty(&rendered.object).unwrap();
        crate::golden::assert_golden(
            "fixtures/golden/answers/host_snapshot.brief.json",
            &format!("{object}\n"),
        );
    }

    #[test]
    fn a_call_that_an_answer_names_is_about_the_same_of_several_targets() {
        let (request, item, report) = example(InstrumentId::ProcessList);
        let rendered = among(true, request, item, report);
        assert_eq!(rendered.object["meta"]["target"], "ssh:deploy@web-1");
        let next = &rendered.object["next"][0]["parameters"];
        assert_eq!(next["target"], "ssh:deploy@web-1", "{next}");
        let rest = rendered.meta.rest.unwrap();
        let parameters = rest.strip_prefix("process_list ").unwrap();
        let parameters: Value = serde_json::from_str(parameters).unwrap();
        assert_eq!(parameters["target"], "ssh:deploy@web-1", "{rest}");
    }

    #[test]
    fn structure_and_text_hold_the_same() {
        for id in InstrumentId::ALL {
            let rendered = rendered(*id);
            let text: Value = serde_json::from_str(&rendered.text).unwrap();
            assert_eq!(text, Value::Object(rendered.object), "{}", id.name());
        }
    }
}

//! An answer as one JSON object: the report's own fields, then `meta`.
//!
//! Unknown values become `null` here, and `meta.not_measured` gets their path with the reason and
//! the remedy. Rows of a list share one entry (`processes[].service`), so that twenty rows without
//! a value do not cost twenty sentences.

use crate::{
    instruments::Report,
    loss::{Lost, Overhead, Truncation},
    message::Meta,
    observed::Reason,
    view::nulls::Nulls,
};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What every answer carries beside its own fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetaView {
    /// Where it was measured.
    pub target: String,
    /// The mechanism used this time.
    pub engine: String,
    /// When and where the files were taken that were read; absent where a machine was.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// The window as it was measured, in milliseconds; absent where nothing was measured.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
    /// What was cut from the ranked list.
    pub truncation: Truncation,
    /// The call that shows what was cut; absent where nothing was.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest: Option<String>,
    /// Handle of the full result, which stays on the target for the session; absent without one.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
    /// What was missed.
    pub lost: Lost,
    /// What looking cost the target.
    pub overhead: Overhead,
    /// Path of each `null` field that could not be measured, to the reason, and the remedy where
    /// there is one.
    pub not_measured: BTreeMap<String, String>,
    /// Path of each `null` field of which there is none, to the reason: no such limit is set, or it
    /// does not apply.
    pub absent: BTreeMap<String, String>,
    /// Secrets taken out of texts.
    pub redacted: u32,
    /// Whether what is 0, and what there is none of, is left out here too.
    #[cfg_attr(feature = "schema", schemars(skip))]
    #[serde(skip)]
    pub is_brief: bool,
}

impl MetaView {
    /// Completes what the agent said with what only the asking side knows.
    pub fn new(target: &str, meta: &Meta, nulls: Nulls) -> Self {
        Self {
            target: target.to_owned(),
            engine: meta.engine.to_string(),
            snapshot: None,
            window_ms: meta.window_ms,
            truncation: meta.truncation,
            rest: None,
            artifact: meta.artifact.map(|id| id.to_string()),
            lost: meta.lost,
            overhead: meta.overhead,
            is_brief: nulls.is_brief,
            not_measured: nulls.not_measured,
            absent: nulls.absent,
            redacted: meta.redacted,
        }
    }
}

/// Reads a report's fields and lifts the unknown values out.
///
/// # Errors
///
/// None in practice: every report is an object of types that JSON has.
pub fn fields(report: &Report) -> serde_json::Result<(Map<String, Value>, Nulls)> {
    let mut value = report.to_json()?;
    let mut unknown = BTreeMap::new();
    lift(&mut value, &mut String::new(), &mut unknown);
    let mut fields = value.as_object_mut().map(std::mem::take).unwrap_or_default();
    let mut nulls = explained(unknown);
    report.shorten(&mut fields, &mut nulls);
    Ok((fields, nulls))
}

fn explained(unknown: BTreeMap<String, Unknown>) -> Nulls {
    let mut nulls = Nulls::default();
    for (path, Unknown { absent, not_measured }) in unknown {
        if let Some(sentence) = absent.sentence() {
            nulls.absent.insert(path.clone(), sentence);
        }
        if let Some(sentence) = not_measured.sentence() {
            nulls.not_measured.insert(path, sentence);
        }
    }
    nulls
}

/// The whole answer as one object.
///
/// # Errors
///
/// None in practice, as for [`fields`].
pub fn object(
    mut fields: Map<String, Value>,
    meta: &MetaView,
) -> serde_json::Result<Map<String, Value>> {
    let mut shown = serde_json::to_value(meta)?;
    if meta.is_brief {
        leave_out_nothings(&mut shown);
    }
    fields.insert("meta".to_owned(), shown);
    Ok(fields)
}

/// Leaves out of `meta` what was not lost, not redacted and not missing. What was cut is always
/// said.
fn leave_out_nothings(meta: &mut Value) {
    let Value::Object(fields) = meta else { return };
    fields.retain(|name, value| {
        leave_out_nothings(value);
        match value {
            Value::Object(fields) => !fields.is_empty(),
            Value::Number(number) => {
                number.as_f64() != Some(0.0) || matches!(name.as_str(), "shown" | "total")
            }
            Value::Null => false,
            Value::Bool(_) | Value::String(_) | Value::Array(_) => true,
        }
    });
}

/// How many bytes the answer's JSON takes.
///
/// The asking side adds what it concludes; [`ROOM_FOR_CONCLUSIONS`] is kept free for that.
pub fn bytes(report: &Report, meta: &Meta) -> usize {
    let written = fields(report).and_then(|(fields, nulls)| {
        let meta = MetaView::new("", meta, nulls);
        serde_json::to_string(&object(fields, &meta)?)
    });
    written.map_or(0, |text| text.len()) + ROOM_FOR_CONCLUSIONS
}

/// Bytes that the asking side's conclusion, target name and `rest` may take.
pub const ROOM_FOR_CONCLUSIONS: usize = 1_200;

/// Why values at one path are unknown.
#[derive(Default)]
struct Unknown {
    absent: Reasons,
    not_measured: Reasons,
}

impl Unknown {
    fn note(&mut self, reason: Reason) {
        let reasons = if reason.is_absence() { &mut self.absent } else { &mut self.not_measured };
        reasons.note(reason);
    }
}

/// The first reasons at one path, with the number of places where each holds, and the number of
/// places that have others.
///
/// Processes of many users can be missing for as many reasons, which all say the same. An agent
/// that is not ours may send a reason of its own for every row; to compare each with all before it
/// would take minutes.
#[derive(Default)]
struct Reasons {
    first: Vec<(Reason, usize)>,
    others: usize,
}

/// Reasons at one path that are told.
const MOST_REASONS: usize = 3;

/// Replaces `Observed` values by their content or by `null`, depth first.
fn lift(value: &mut Value, path: &mut String, unknown: &mut BTreeMap<String, Unknown>) {
    match value {
        Value::Object(fields) => {
            if let Some(observed) = as_observed(fields) {
                *value = match observed {
                    Ok(known) => known,
                    Err(reason) => {
                        unknown.entry(path.clone()).or_default().note(reason);
                        Value::Null
                    }
                };
                lift(value, path, unknown);
                return;
            }
            for (name, field) in fields.iter_mut() {
                let length = path.len();
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
                lift(field, path, unknown);
                path.truncate(length);
            }
        }
        Value::Array(items) => {
            let length = path.len();
            path.push_str("[]");
            for item in items {
                lift(item, path, unknown);
            }
            path.truncate(length);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Recognizes serde's form of an `Observed`: an object with the variant's name as its only field.
/// Our own field names are snake_case, so nothing else has this form.
fn as_observed(fields: &mut Map<String, Value>) -> Option<Result<Value, Reason>> {
    if fields.len() != 1 {
        return None;
    }
    if let Some(known) = fields.get_mut("Known") {
        return Some(Ok(known.take()));
    }
    let reason = serde_json::from_value(fields.get_mut("Unknown")?.take()).ok()?;
    Some(Err(reason))
}

impl Reasons {
    fn note(&mut self, reason: Reason) {
        if let Some((_, count)) = self.first.iter_mut().find(|(known, _)| *known == reason) {
            *count += 1;
        } else if self.first.len() < MOST_REASONS {
            self.first.push((reason, 1));
        } else {
            self.others += 1;
        }
    }

    /// What a reader is told about one path; `None` where there is nothing to tell.
    fn sentence(&self) -> Option<String> {
        let rows =
            |count: usize| if count == 1 { "1 row".to_owned() } else { format!("{count} rows") };
        let mut parts = Vec::new();
        for (reason, count) in &self.first {
            let mut part = String::new();
            if *count > 1 || self.first.len() > 1 {
                part.push_str(&format!("in {}: ", rows(*count)));
            }
            part.push_str(&reason.to_string());
            if let Some(remedy) = reason.remedy() {
                part.push_str("; remedy: ");
                part.push_str(&remedy);
            }
            parts.push(part);
        }
        if self.others > 0 {
            parts.push(format!("in {}: for other reasons of the kind", rows(self.others)));
        }
        (!parts.is_empty()).then(|| parts.join(". "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{host_text::HostText, observed::Observed};
    use serde_json::json;

    #[derive(Serialize)]
    struct Row {
        rate: Observed<u32>,
    }

    fn lifted(value: &impl Serialize) -> (Value, Nulls) {
        let mut value = serde_json::to_value(value).unwrap();
        let mut unknown = BTreeMap::new();
        lift(&mut value, &mut String::new(), &mut unknown);
        (value, explained(unknown))
    }

    #[test]
    fn unknown_values_are_null_and_their_reasons_share_a_path() {
        let rows = json!({ "rows": [
            Row { rate: Observed::Known(0) },
            Row { rate: Observed::Unknown(Reason::Gone) },
            Row { rate: Observed::Unknown(Reason::Gone) },
            Row { rate: Observed::Unknown(Reason::EmptyWindow) },
            Row { rate: Observed::Unknown(Reason::NoLimitSet) },
        ]});
        let (value, nulls) = lifted(&rows);
        let unknown = json!({"rate": null});
        assert_eq!(value, json!({"rows": [{"rate": 0}, unknown, unknown, unknown, unknown]}));
        assert_eq!(nulls.absent.get("rows[].rate").unwrap(), "no limit is set");
        assert_eq!(
            nulls.not_measured.get("rows[].rate").unwrap(),
            "in 2 rows: it ended while it was being read. in 1 row: the window was too short for a \
             rate; remedy: ask for a longer window"
        );
    }

    #[test]
    fn a_reason_of_its_own_for_every_row_is_counted_and_costs_no_more() {
        let rows: Vec<Row> = (0..200_000)
            .map(|errno| Row { rate: Observed::Unknown(Reason::Failed { errno }) })
            .collect();
        let started = std::time::Instant::now();
        let (_, nulls) = lifted(&json!({ "rows": rows }));
        let said = nulls.not_measured.get("rows[].rate").unwrap();
        assert!(said.ends_with("in 199997 rows: for other reasons of the kind"), "{said}");
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }

    #[test]
    fn text_from_a_target_cannot_pass_for_a_value() {
        let (value, nulls) = lifted(&json!({"name": HostText::new(br#"{"Unknown":"Gone"}"#)}));
        assert_eq!(value, json!({"name": r#"{"Unknown":"Gone"}"#}));
        assert_eq!(nulls, Nulls::default());
    }

    #[test]
    fn every_example_lifts_all_its_unknown_values() {
        for id in crate::InstrumentId::ALL {
            let (_, _, report) = crate::instruments::example(*id);
            let (fields, _) = fields(&report).unwrap();
            let text = serde_json::to_string(&fields).unwrap();
            assert!(!text.contains("\"Known\"") && !text.contains("\"Unknown\""), "{text}");
        }
    }
}

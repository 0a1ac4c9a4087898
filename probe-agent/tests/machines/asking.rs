//! Asks an instrument about a tree of files, as a session would.

use probe_agent::{
    artifacts::Artifacts,
    call::{Context, Listener, Withdrawal},
    instruments,
    proc::Root,
};
use protocol::{
    Request,
    budget::Budget,
    error::AgentError,
    loss::Overhead,
    message::{Answer, Progress, RequestId, Streamed},
    view::{
        json::{self, MetaView},
        text::{self, Style},
    },
};
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex};

struct Nobody;

impl Listener for Nobody {
    fn progress(&self, _: Progress) {}

    fn item(&self, _: Streamed) -> bool {
        true
    }
}

/// The answer as JSON, its `meta` too.
pub fn ask(root: &Root, request: impl Into<Request>) -> Result<Value, AgentError> {
    let answer = answer(root, request.into())?;
    let (fields, nulls) = json::fields(&answer.report).unwrap();
    let meta = MetaView::new("a machine", &answer.meta, nulls);
    Ok(Value::Object(json::object(fields, &meta).unwrap()))
}

/// The answer as a person reads it, without what differs from time to time: what it cost, and the
/// handle of the whole.
pub fn read(root: &Root, request: impl Into<Request>) -> Result<String, AgentError> {
    let mut answer = answer(root, request.into())?;
    answer.meta.overhead = Overhead::default();
    answer.meta.artifact = None;
    let (_, nulls) = json::fields(&answer.report).unwrap();
    let meta = MetaView::new("a machine", &answer.meta, nulls);
    Ok(text::answer(&answer.report.tables(), &meta, Style::PLAIN))
}

/// What it may cost is not limited.
fn answer(root: &Root, request: Request) -> Result<Answer, AgentError> {
    let artifacts = Mutex::new(Artifacts::default());
    let budget = Budget { deadline_ms: 600_000, cpu_ms: 600_000, answer_bytes: u32::MAX };
    let limits = (RequestId(1), budget, Arc::new(Withdrawal::default()));
    let context = Context::new(root, &artifacts, &Nobody, limits);
    instruments::run(request, &context)
}

/// Every number in an answer with its path, where entries of a list share one.
pub fn numbers(answer: &Value) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    collect(answer, "", &mut found);
    found
}

fn collect(value: &Value, path: &str, found: &mut Vec<(String, f64)>) {
    match value {
        Value::Number(number) => found.push((path.to_owned(), number.as_f64().unwrap())),
        Value::Object(fields) => each(fields, path, found),
        Value::Array(items) => {
            items.iter().for_each(|item| collect(item, &format!("{path}[]"), found))
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn each(fields: &Map<String, Value>, path: &str, found: &mut Vec<(String, f64)>) {
    for (name, value) in fields {
        let dot = if path.is_empty() { "" } else { "." };
        collect(value, &format!("{path}{dot}{name}"), found);
    }
}

/// Every `null` in an answer by its path, `meta` left out.
pub fn nulls(answer: &Value) -> Vec<String> {
    let mut found = Vec::new();
    find_nulls(answer, "", &mut found);
    found.retain(|path| !path.starts_with("meta"));
    found.sort();
    found.dedup();
    found
}

fn find_nulls(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Null => found.push(path.to_owned()),
        Value::Object(fields) => {
            for (name, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                find_nulls(value, &format!("{path}{dot}{name}"), found);
            }
        }
        Value::Array(items) => {
            items.iter().for_each(|item| find_nulls(item, &format!("{path}[]"), found));
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

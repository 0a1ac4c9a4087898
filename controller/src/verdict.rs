//! What follows from what was measured: a class, with the evidence for and against it, what could
//! not be told, and the next step.
//!
//! Words here are our own, with numbers filled in. Text from a target never gets in.

mod finding;
pub mod host_class;
pub mod process_class;

use protocol::view::table::Table;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// A conclusion. Empty parts are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Conclusion {
    /// What it is; absent where nothing is concluded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub class: Option<String>,
    /// What else it is, in the order of weight.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// The evidence for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<String>,
    /// The evidence against look-alikes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not: Vec<String>,
    /// What could not be told, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cannot_tell: Vec<String>,
    /// What to ask next.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<NextStep>,
}

/// A call that would tell more.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NextStep {
    /// The tool.
    pub tool: String,
    /// Its parameters.
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub parameters: Value,
    /// What it would tell.
    pub why: String,
}

impl Conclusion {
    /// Whether there is anything to show to a person.
    pub const fn is_empty(&self) -> bool {
        self.class.is_none() && self.next.is_empty()
    }

    /// The conclusion as a person reads it.
    pub fn table(&self) -> Table {
        let mut facts = Vec::new();
        if let Some(class) = &self.class {
            let also = if self.also.is_empty() {
                String::new()
            } else {
                format!(" (also {})", self.also.join(", "))
            };
            facts.push(("is", format!("{class}{also}")));
        }
        for (name, lines) in
            [("because", &self.because), ("not", &self.not), ("cannot tell", &self.cannot_tell)]
        {
            facts.extend(lines.iter().map(|line| (name, line.clone())));
        }
        for step in &self.next {
            facts.push(("next", format!("{} {}: {}", step.tool, step.parameters, step.why)));
        }
        Table::facts("", facts)
    }
}

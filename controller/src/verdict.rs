//! What follows from what was measured: a class, with the evidence for and against it, what could
//! not be told, and the next step.
//!
//! Words here are our own, with numbers filled in. Text from a target never gets in.

mod finding;
pub mod host_class;
pub mod latency_class;
pub mod memory_class;
pub mod process_class;
pub mod sampled;
pub mod traced;

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

    /// The same in so many bytes of JSON: the class, the first evidence and the next step stay, and
    /// of the other sentences those that fit, and how many do not.
    pub fn within(mut self, bytes: usize, rest_by: &str) -> Self {
        const FOR_THE_REST: usize = 60;
        let is_longer = |conclusion: &Self, most: usize| {
            serde_json::to_vec(conclusion).is_ok_and(|json| json.len() > most)
        };
        if !is_longer(&self, bytes) {
            return self;
        }
        let mut left_out = 0;
        while is_longer(&self, bytes.saturating_sub(FOR_THE_REST)) {
            let least = [(&mut self.not, 0), (&mut self.cannot_tell, 0), (&mut self.because, 1)];
            let longer = least.into_iter().find(|(lines, kept)| lines.len() > *kept);
            let Some((lines, _)) = longer else { break };
            lines.pop();
            left_out += 1;
        }
        if left_out > 0 {
            self.cannot_tell.push(format!("{left_out} more sentences: {rest_by}"));
        }
        self
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conclusion_that_is_cut_keeps_its_class_and_says_so() {
        let lines = |count: usize| (0..count).map(|line| format!("{line:050}")).collect();
        let whole = Conclusion {
            class: Some("storage_slow".to_owned()),
            because: lines(3),
            not: lines(2),
            cannot_tell: lines(2),
            ..Conclusion::default()
        };
        assert_eq!(whole.clone().within(1000, "ask for all"), whole);
        let cut = whole.clone().within(300, "ask for all");
        assert!(serde_json::to_vec(&cut).unwrap().len() <= 300, "{cut:?}");
        assert_eq!((&cut.class, &cut.because), (&whole.class, &whole.because));
        assert_eq!(cut.cannot_tell, ["4 more sentences: ask for all"]);
        // What it is, and why, is never cut.
        let least = whole.clone().within(1, "ask for all");
        assert_eq!((&least.class, &least.because[..]), (&whole.class, &whole.because[..1]));
        assert_eq!(least.cannot_tell, ["6 more sentences: ask for all"]);
    }
}

//! What a profile shows, in a form that tests can compare.

use probe_agent::stack::{
    naming::Names,
    profile::{Kind, Subject},
};
use serde_json::Value;

/// A function, and its shares of all weight.
#[derive(Clone, Debug)]
pub struct Row {
    pub name: String,
    pub module: String,
    pub kind: Kind,
    pub own: f64,
    pub total: f64,
}

/// All functions, the heaviest by their own weight first.
pub fn rows(names: &Names) -> Vec<Row> {
    let profile = serde_json::to_value(&names.profile).unwrap();
    let all = names.profile.weight() as f64;
    let ranking = names.profile.ranking(Subject::Functions, false);
    let row = |row: &probe_agent::stack::profile::Row| {
        let function = &profile["functions"][row.index.unwrap() as usize];
        let module = function["module"].as_u64().map(|at| &profile["modules"][at as usize]);
        Row {
            name: function["name"].as_str().unwrap().to_owned(),
            module: module.and_then(Value::as_str).unwrap_or_default().to_owned(),
            kind: serde_json::from_value(function["kind"].clone()).unwrap(),
            own: row.share.own as f64 / all,
            total: row.share.total as f64 / all,
        }
    };
    ranking.iter().map(row).collect()
}

/// The function of that name.
pub fn row(names: &Names, name: &str) -> Row {
    let rows = rows(names);
    let found = rows.iter().find(|row| row.name == name);
    found.unwrap_or_else(|| panic!("{name}: {rows:#?}")).clone()
}

/// Stacks without their counts.
pub fn stacks(names: &Names) -> Vec<String> {
    let folded = names.profile.folded();
    folded.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
}

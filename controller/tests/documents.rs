//! What is written about the tools and the command line, made from the program itself, and whether
//! what people wrote beside it is true.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "../../fixtures/documents.rs"]
mod documents;
#[path = "../../fixtures/golden.rs"]
mod golden;
#[path = "../../fixtures/without_settings.rs"]
mod without_settings;

use clap::Parser as _;
use controller::{
    cli::{Cli, Command as Asked},
    config::VARIABLES,
    tools::{self, Entry},
};
use documents::GENERATED;
use protocol::question::Question;
use serde_json::{Map, Value};
use std::{fmt::Write as _, fs, path::Path};
use without_settings::without_settings;

/// Variables of the tests, which no user sets.
const VARIABLES_OF_TESTS: [&str; 4] =
    ["SYSMCP_BLESS", "SYSMCP_TEST_FULL", "SYSMCP_TEST_ONLY", "SYSMCP_TEST_SEED"];

fn sysmcp(arguments: &[&str]) -> String {
    let output = without_settings(env!("CARGO_BIN_EXE_sysmcp")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_schemas_are_those_that_clients_know() {
    let list: Value = serde_json::from_str(&sysmcp(&["tools", "--all", "--json"])).unwrap();
    let text = format!("{}\n", serde_json::to_string_pretty(&list).unwrap());
    golden::assert_golden("fixtures/golden/tools.json", &text);
}

#[test]
fn the_parameters_are_those_that_clients_of_several_targets_know() {
    let several = ["--target", "ssh:deploy@web-1", "--target", "ssh:deploy@web-2"];
    let list = |targets: &[&str]| -> Vec<Map<String, Value>> {
        let words = [targets, &["tools", "--all", "--json"]].concat();
        serde_json::from_str(&sysmcp(&words)).unwrap()
    };
    let mut parameters = Map::new();
    for (mut tool, mut alone) in list(&several).into_iter().zip(list(&[])) {
        let name = tool["name"].as_str().unwrap().to_owned();
        parameters.insert(name, tool.remove("inputSchema").unwrap());
        alone.remove("inputSchema").unwrap();
        assert_eq!(tool, alone);
    }
    let text = format!("{}\n", serde_json::to_string_pretty(&parameters).unwrap());
    golden::assert_golden("fixtures/golden/tools_of_several_targets.json", &text);
}

#[test]
fn the_command_line_is_documented() {
    let mut text = format!("# The command line of sysmcp\n\n{GENERATED}\n");
    let commands: [&[&str]; 8] = [
        &[],
        &["serve"],
        &["call"],
        &["export"],
        &["tools"],
        &["audit"],
        &["audit", "verify"],
        &["audit", "script"],
    ];
    for command in commands {
        let help = sysmcp(&[command, &["--help"]].concat());
        let title = [&["sysmcp"], command].concat().join(" ");
        write!(text, "\n## {title}\n\n```text\n{}\n```\n", help.trim_end()).unwrap();
    }
    golden::assert_golden("docs/commands/sysmcp.md", &text);
}

#[test]
fn the_tools_are_documented() {
    let mut text = format!(
        "# The tools\n\n{GENERATED}\n\nIn every answer, a field that is `null` was not measured; \
         `meta.not_measured` says why, and what would change it.\n"
    );
    let everywhere = common_fields();
    for entry in tools::ALL {
        describe(&mut text, entry, &everywhere);
    }
    text.push_str("\n## Every answer\n\n| field | type | |\n|---|---|---|\n");
    list_fields(&mut text, "", everywhere.iter());
    golden::assert_golden("docs/tools.md", &text);
}

/// The fields that the answers of all tools have.
fn common_fields() -> Map<String, Value> {
    let mut outputs = tools::ALL.iter().map(Entry::described_output);
    let mut common = outputs.next().unwrap()["properties"].as_object().unwrap().clone();
    for output in outputs {
        common.retain(|name, field| output["properties"].get(name) == Some(field));
    }
    common
}

fn describe(text: &mut String, entry: &Entry, everywhere: &Map<String, Value>) {
    let name = entry.name();
    write!(text, "\n## {name}: {}\n\n", entry.title).unwrap();
    write!(text, "Toolset `{}`. {}\n\n", entry.toolset.name(), entry.description).unwrap();
    text.push_str("| parameter | values | default | |\n|---|---|---|---|\n");
    let input = entry.input_schema();
    for (parameter, schema) in properties(&input) {
        let values = match schema.get("enum").and_then(Value::as_array) {
            Some(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
            None => kind(schema),
        };
        let default = schema.get("default").map(Value::to_string).unwrap_or_default();
        let words = described(schema);
        writeln!(text, "| `{parameter}` | {values} | {default} | {words} |").unwrap();
    }
    text.push_str("\nAn answer, as a person sees it:\n\n```text\n");
    let path = format!("../fixtures/golden/answers/{name}.txt");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    text.push_str(fs::read_to_string(golden).unwrap().trim_end());
    text.push_str("\n```\n\n| field | type | |\n|---|---|---|\n");
    let output = entry.described_output();
    let own = properties(&output).filter(|(name, _)| !everywhere.contains_key(*name));
    list_fields(text, "", own);
}

fn described(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().replace('|', "\\|")
}

fn kind(schema: &Value) -> String {
    let kind = &schema["type"];
    match kind.as_array() {
        Some(kinds) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        None => kind.as_str().unwrap_or_default().to_owned(),
    }
}

fn properties(schema: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

/// One line for each field of an answer, and of what is inside it.
fn list_fields<'a>(
    text: &mut String,
    path: &str,
    fields: impl Iterator<Item = (&'a String, &'a Value)>,
) {
    for (name, field) in fields {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        writeln!(text, "| `{path}` | {} | {} |", kind(field), described(field)).unwrap();
        for (path, inner) in [(path.clone(), field), (format!("{path}[]"), &field["items"])] {
            if let Some(inner) = inner.as_object() {
                list_fields(
                    text,
                    &path,
                    Box::new(properties(inner)) as Box<dyn Iterator<Item = _>>,
                );
            }
        }
    }
}

#[test]
fn every_command_in_the_documents_is_understood() {
    let commands = documents::commands("sysmcp");
    assert!(commands.len() > 5, "{commands:?}");
    for documents::Documented { place, words } in commands {
        let cli = match Cli::try_parse_from(&words) {
            Ok(cli) => cli,
            // Help and version.
            Err(error) if !error.use_stderr() || words.len() == 1 => continue,
            Err(error) => panic!("{place}: {error}"),
        };
        if let Asked::Call { tool, params, param_file, .. } = cli.command {
            let entry = tools::ALL.iter().find(|entry| entry.name() == tool);
            let entry = entry.unwrap_or_else(|| panic!("{place}: no tool {tool}"));
            let mut arguments: Map<String, Value> = serde_json::from_str(&params).unwrap();
            for named in param_file {
                let (name, _) = named.split_once('=').unwrap();
                arguments.insert(name.to_owned(), "what the file has".into());
            }
            Question::read(entry.id, arguments).unwrap_or_else(|error| panic!("{place}: {error}"));
        }
    }
}

#[test]
fn every_variable_in_the_documents_exists() {
    for (document, text) in documents::documents() {
        for (start, _) in text.match_indices("SYSMCP_") {
            let is_part = |letter: &char| letter.is_ascii_uppercase() || *letter == '_';
            let name: String = text[start..].chars().take_while(is_part).collect();
            assert!(
                VARIABLES.iter().any(|(known, _)| *known == name)
                    || VARIABLES_OF_TESTS.contains(&name.as_str())
                    || name == protocol::sweep::MARK,
                "{}: there is no {name}",
                document.display()
            );
        }
    }
}

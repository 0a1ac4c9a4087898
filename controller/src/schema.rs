//! JSON Schemas that every client can take.
//!
//! Clients differ in what they understand: some do not follow `$ref`, some send a schema with a
//! combinator to an API that refuses it and lose the whole session, some print warnings for formats
//! they do not know. So references are put in place, an enumeration is a list of strings, and what
//! is not portable goes.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value};

/// The portable schema of a type.
pub fn of<T: JsonSchema>() -> Map<String, Value> {
    let generator = SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    make_portable(&mut schema);
    schema.as_object_mut().map(std::mem::take).unwrap_or_default()
}

/// Adds the properties of another object schema.
pub fn with_properties(
    mut schema: Map<String, Value>,
    more: &Map<String, Value>,
) -> Map<String, Value> {
    let properties = more.get("properties").and_then(Value::as_object).cloned();
    for (name, property) in properties.unwrap_or_default() {
        schema = with_property(schema, &name, property);
    }
    schema
}

/// Adds one property.
pub fn with_property(
    mut schema: Map<String, Value>,
    name: &str,
    property: Value,
) -> Map<String, Value> {
    let properties = schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert(name.to_owned(), property);
    }
    schema
}

/// A schema of what is given, as short as it can be and true: the fields of an answer with their
/// types, and the fields of its `meta`.
///
/// A list of tools is read before the first question, by a model that pays for every word of it, and
/// some clients cut it. What is inside of a field is in the documentation, and in the answer, whose
/// names say it.
pub fn short(schema: Map<String, Value>) -> Map<String, Value> {
    let mut schema = schema;
    schema.retain(|name, _| matches!(name.as_str(), "type" | "properties"));
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        let inner = property.get("properties").and_then(Value::as_object).cloned();
        *property = Value::Object(type_of(property));
        if let (true, Some(inner), Some(property)) =
            (name == "meta", inner, property.as_object_mut())
        {
            let inner = inner.iter().map(|(name, it)| (name.clone(), type_of(it).into()));
            property.insert("properties".to_owned(), Value::Object(inner.collect()));
        }
    }
    schema
}

/// The type of a field, and of what a list holds: some clients refuse a list of which that is not
/// said. Without a type, anything may be there.
fn type_of(schema: &Value) -> Map<String, Value> {
    let kept = |name: &str| {
        let value = schema.get(name)?;
        let value = if name == "items" { Value::Object(type_of(value)) } else { value.clone() };
        Some((name.to_owned(), value))
    };
    ["type", "items"].into_iter().filter_map(kept).collect()
}

fn make_portable(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for name in ["$defs", "$schema", "title", "format"] {
                fields.remove(name);
            }
            if let Some(names) = enumerated(fields) {
                fields.remove("oneOf");
                fields.insert("type".to_owned(), "string".into());
                fields.insert("enum".to_owned(), names);
            }
            // A default of null says nothing that leaving it out does not.
            if fields.get("default").is_some_and(Value::is_null) {
                fields.remove("default");
            }
            shorten_description(fields);
            for (name, field) in fields.iter_mut() {
                match name.as_str() {
                    "properties" => {
                        for property in field.as_object_mut().into_iter().flatten() {
                            make_portable(property.1);
                        }
                    }
                    "default" | "enum" | "const" | "examples" | "required" => {}
                    _ => make_portable(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_portable),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The names of an enumeration that schemars writes as one branch for each documented variant.
fn enumerated(fields: &Map<String, Value>) -> Option<Value> {
    let branches = fields.get("oneOf")?.as_array()?;
    let mut names = Vec::new();
    for branch in branches {
        match (branch.get("const"), branch.get("enum").and_then(Value::as_array)) {
            (Some(name), _) if name.is_string() => names.push(name.clone()),
            (None, Some(plain)) => names.extend(plain.iter().cloned()),
            (Some(_) | None, _) => return None,
        }
    }
    Some(Value::Array(names))
}

/// Descriptions come from documentation comments, whose line ends mean nothing.
fn shorten_description(fields: &mut Map<String, Value>) {
    if let Some(Value::String(text)) = fields.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools;

    /// Words that some client does not take, anywhere in an input schema.
    const FORBIDDEN: [&str; 8] =
        ["$ref", "$defs", "$schema", "anyOf", "oneOf", "allOf", "not", "format"];

    fn walk(schema: &Value, visit: &mut impl FnMut(&Map<String, Value>)) {
        match schema {
            Value::Object(fields) => {
                visit(fields);
                fields.values().for_each(|field| walk(field, visit));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, visit)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn input_schemas_are_flat_and_plain() {
        for entry in tools::ALL {
            let schema = Value::Object(entry.input_schema());
            let name = entry.name();
            assert_eq!(schema["type"], "object", "{name}");
            assert_eq!(schema["additionalProperties"], false, "{name}");
            walk(&schema, &mut |fields| {
                for forbidden in FORBIDDEN {
                    assert!(!fields.contains_key(forbidden), "{name}: {forbidden}: {fields:?}");
                }
                if let Some(kind) = fields.get("type") {
                    assert!(kind.is_string() || kind.is_object(), "{name}: {kind}");
                }
            });
            for (property, schema) in schema["properties"].as_object().unwrap() {
                assert!(schema["description"].is_string(), "{name}.{property}");
                assert!(schema["type"].is_string(), "{name}.{property}: {schema}");
            }
        }
    }

    #[test]
    fn output_schemas_describe_every_field_and_refer_to_nothing() {
        for entry in tools::ALL {
            let schema = Value::Object(entry.output_schema());
            let text = schema.to_string();
            assert!(!text.contains("$ref") && !text.contains("\"format\""), "{}", entry.name());
            assert!(schema["properties"]["meta"]["properties"]["truncation"].is_object());
            let described = entry.described_output();
            let names = |schema: &Value| {
                schema["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
            };
            assert_eq!(names(&schema), names(&Value::Object(described)), "{}", entry.name());
            for (name, field) in schema["properties"].as_object().unwrap() {
                assert!(!field["type"].is_null(), "{}.{name}", entry.name());
            }
        }
    }

    #[test]
    fn a_toolset_costs_a_model_little() {
        /// Every client passes all of a list to its model, which pays for it before the first question.
        const MOST_BYTES_EACH: usize = 3_600;
        for toolset in tools::Toolset::ALL {
            let selection = tools::Selection::new(&[toolset], &[], &[]).unwrap();
            let bytes: usize = selection
                .entries()
                .iter()
                .map(|entry| {
                    let schemas = [entry.input_schema(), entry.output_schema()];
                    let schemas = schemas.map(|schema| Value::Object(schema).to_string().len());
                    entry.description.len() + schemas.iter().sum::<usize>()
                })
                .sum();
            println!("{}: {bytes} bytes", toolset.name());
            let most = MOST_BYTES_EACH * selection.entries().len();
            assert!(bytes <= most, "{}: {bytes} bytes of {most}", toolset.name());
        }
    }

    #[test]
    fn limits_are_said_in_words_too() {
        // One client drops `minimum` and `maximum`.
        for entry in tools::ALL {
            let schema = Value::Object(entry.input_schema());
            for (property, schema) in schema["properties"].as_object().unwrap() {
                if let Some(maximum) = schema.get("maximum") {
                    let words = schema["description"].as_str().unwrap();
                    assert!(words.contains(&maximum.to_string()), "{property}: {words}");
                }
            }
        }
    }
}

//! The machines of one run: one, or several between which every call chooses.
//!
//! With several, every tool has one more parameter, and none of the machines is a default: an answer
//! about another machine than the one that was meant looks like any other answer.

use crate::{
    schema,
    target::{BadTarget, Target},
};
use protocol::host_text::HostText;
use serde::{
    Deserializer,
    de::{SeqAccess, Visitor},
};
use serde_json::{Map, Value, json};
use std::fmt;

/// At least one machine, each named once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets {
    first: Target,
    others: Vec<Target>,
}

/// The parameter that says which machine, where there are several.
pub const PARAMETER: &str = "target";

/// Machines that one run takes. Each has a connection and a line in every list of tools.
pub const MOST: usize = 100;

/// Bytes of a name in an error that is none of a machine here.
const NAME_BYTES: usize = 128;

/// Bytes of the names that an error offers.
const CHOICES_BYTES: usize = 1500;

impl Targets {
    /// The machines as they were written, or `local` where none was. `place` makes a machine of
    /// this user's of one that was written: it finds the home folder, for one.
    ///
    /// # Errors
    ///
    /// The first that is no machine or stands there twice, or what `place` says.
    pub fn read<E: From<BadTargets>>(
        written: &[String],
        place: impl Fn(Target) -> Result<Target, E>,
    ) -> Result<Self, E> {
        let of = written.len();
        if of > MOST {
            return Err(BadTargets::TooMany { count: of }.into());
        }
        let mut targets: Vec<Target> = Vec::with_capacity(of);
        for (number, text) in (1..).zip(written) {
            let target = text.parse().map_err(|problem| match of {
                1 => BadTargets::Only(problem),
                _ => BadTargets::One { number, of, problem },
            })?;
            let target = place(target)?;
            let name = target.to_string();
            if targets.iter().any(|other| other.to_string() == name) {
                return Err(BadTargets::Twice { name }.into());
            }
            targets.push(target);
        }
        let mut targets = targets.into_iter();
        Ok(Self { first: targets.next().unwrap_or(Target::Local), others: targets.collect() })
    }

    /// All of them, in the order in which they were written.
    pub fn iter(&self) -> impl Iterator<Item = &Target> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// How many there are.
    pub const fn count(&self) -> usize {
        self.others.len() + 1
    }

    /// The machine, where there is no choice.
    pub fn only(&self) -> Option<&Target> {
        self.others.is_empty().then_some(&self.first)
    }

    /// Their names, as many as fit into so many bytes, and how many more there are.
    pub fn listed(&self, most_bytes: usize) -> String {
        const FOR_THE_REST: usize = ", and 100 more".len();
        let mut text = String::new();
        for (index, target) in self.iter().enumerate() {
            let name = target.to_string();
            let comma = if index == 0 { "" } else { ", " };
            if text.len() + comma.len() + name.len() + FOR_THE_REST > most_bytes {
                let more = self.count() - index;
                return match index {
                    0 => format!("{more} machines"),
                    _ => format!("{text}, and {more} more"),
                };
            }
            text.push_str(comma);
            text.push_str(&name);
        }
        text
    }

    /// A tool's parameters, with the one for the machine where there are several.
    pub fn in_schema(&self, schema: Map<String, Value>) -> Map<String, Value> {
        if self.only().is_some() {
            return schema;
        }
        let names: Vec<String> = self.iter().map(ToString::to_string).collect();
        let property = json!({
            "description": "Machine to ask. Required: none of them is a default.",
            "type": "string",
            "enum": names,
        });
        let mut schema = schema::with_property(schema, PARAMETER, property);
        let required = schema.entry("required").or_insert_with(|| Value::Array(Vec::new()));
        if let Some(required) = required.as_array_mut() {
            required.push(PARAMETER.into());
        }
        schema
    }

    /// Takes the machine that is meant out of a call's arguments. Where there is one only, nothing
    /// is taken: no tool has that parameter then.
    ///
    /// # Errors
    ///
    /// When it is not said which, or it is none of these.
    pub fn take(&self, arguments: &mut Map<String, Value>) -> Result<&Target, NoTarget> {
        if let Some(only) = self.only() {
            return Ok(only);
        }
        let offered = || self.listed(CHOICES_BYTES);
        let given = arguments
            .shift_remove(PARAMETER)
            .ok_or_else(|| NoTarget::Missing { offered: offered() })?;
        let is_meant = |target: &&Target| given.as_str() == Some(target.to_string().as_str());
        self.iter().find(is_meant).ok_or_else(|| {
            let text = given.as_str().map_or_else(|| given.to_string(), str::to_owned);
            let given = HostText::capped(text.as_bytes(), NAME_BYTES);
            NoTarget::Unknown { given, offered: offered() }
        })
    }
}

/// Why machines cannot be looked at. A name that is none is not repeated: it may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTargets {
    /// The only one is none.
    #[error("{0}")]
    Only(BadTarget),
    /// One of several is none.
    #[error("target {number} of {of}: {problem}")]
    One {
        /// Which one, from 1.
        number: usize,
        /// How many there are.
        of: usize,
        /// What is wrong with it.
        problem: BadTarget,
    },
    /// Two have the same name, and no call could tell them apart.
    #[error("the target {name} is there twice; leave one of them out")]
    Twice {
        /// The name.
        name: String,
    },
    /// More than one run takes.
    #[error("there are {count} targets: expected at most {MOST}")]
    TooMany {
        /// How many there are.
        count: usize,
    },
}

/// Why it is not known which machine a call means.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTarget {
    /// It does not say.
    #[error("{PARAMETER} is missing: expected one of {offered}")]
    Missing {
        /// The machines that there are.
        offered: String,
    },
    /// It says another than there are.
    #[error("{PARAMETER} is `{given}`: expected one of {offered}")]
    Unknown {
        /// What it says, escaped.
        given: HostText,
        /// The machines that there are.
        offered: String,
    },
}

/// Reads one name or a list of them, as the configuration file may have either.
///
/// # Errors
///
/// When it is neither.
pub fn one_or_several<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<String>>, D::Error> {
    struct Names;

    impl<'de> Visitor<'de> for Names {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a target, or a list of targets")
        }

        fn visit_str<E>(self, name: &str) -> Result<Vec<String>, E> {
            Ok(vec![name.to_owned()])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<String>, A::Error> {
            let mut names = Vec::new();
            while let Some(name) = list.next_element()? {
                names.push(name);
            }
            Ok(names)
        }
    }

    deserializer.deserialize_any(Names).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(written: &[&str]) -> Result<Targets, BadTargets> {
        let written: Vec<String> = written.iter().map(ToString::to_string).collect();
        Targets::read(&written, Ok)
    }

    #[test]
    fn they_keep_their_order_and_none_is_this_machine() {
        let several = read(&["ssh:b", "local", "ssh:a"]).unwrap();
        assert_eq!(several.listed(100), "ssh:b, local, ssh:a");
        assert_eq!(several.only(), None);
        assert_eq!(read(&[]).unwrap().only(), Some(&Target::Local));
    }

    #[test]
    fn one_that_is_none_is_counted_and_not_repeated() {
        let cases: [(&[&str], &str); 5] = [
            (&["ssh:a:hunter2@b"], "a target holds no password"),
            (&["ssh:a", "ssh:a:hunter2@b"], "target 2 of 2: a target holds no password"),
            (&["ssh:a", "", "ssh:b"], "target 2 of 3: a target is `local`"),
            (&["ssh:a", "local", "ssh:a"], "the target ssh:a is there twice; leave one"),
            (&["local"; MOST + 1], "there are 101 targets: expected at most 100"),
        ];
        for (written, want) in cases {
            let error = read(written).unwrap_err().to_string();
            assert!(error.starts_with(want), "{written:?}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_list_that_is_too_long_says_how_many_more_there_are() {
        let targets = read(&["ssh:a", "ssh:b", "ssh:c"]).unwrap();
        let cases = [
            (40, "ssh:a, ssh:b, ssh:c"),
            (32, "ssh:a, ssh:b, and 1 more"),
            (20, "ssh:a, and 2 more"),
            (5, "3 machines"),
        ];
        for (most_bytes, want) in cases {
            let listed = targets.listed(most_bytes);
            assert_eq!(listed, want, "{most_bytes}");
        }
    }

    #[test]
    fn a_tool_asks_which_machine_only_where_there_are_several() {
        let plain = json!({"type": "object", "properties": {"pid": {}}, "required": ["pid"]});
        let plain = plain.as_object().unwrap();
        assert_eq!(read(&["ssh:a"]).unwrap().in_schema(plain.clone()), *plain);
        let schema = Value::Object(read(&["ssh:a", "local"]).unwrap().in_schema(plain.clone()));
        assert_eq!(schema["properties"]["target"]["enum"], json!(["ssh:a", "local"]));
        assert_eq!(schema["required"], json!(["pid", "target"]));
    }

    #[test]
    fn a_call_says_which_machine_it_means() {
        let targets = read(&["ssh:a", "local"]).unwrap();
        let take = |arguments: Value| {
            let mut arguments = arguments.as_object().unwrap().clone();
            let taken = targets.take(&mut arguments).map(ToString::to_string);
            assert!(!arguments.contains_key(PARAMETER));
            taken.map_err(|error| error.to_string())
        };
        assert_eq!(take(json!({"target": "local", "pid": 1})).unwrap(), "local");
        let cases = [
            (json!({"pid": 1}), "target is missing: expected one of ssh:a, local"),
            (json!({"target": "a"}), "target is `a`: expected one of ssh:a, local"),
            (json!({"target": "x\n"}), "target is `x\\n`: expected one of ssh:a, local"),
            (json!({"target": ["ssh:a"]}), "target is `[\"ssh:a\"]`: expected one of"),
            (json!({"target": null}), "target is `null`: expected one of ssh:a, local"),
        ];
        for (arguments, want) in cases {
            let error = take(arguments).unwrap_err();
            assert!(error.starts_with(want), "{error}");
        }
    }

    #[test]
    fn where_there_is_one_only_a_call_says_nothing() {
        let targets = read(&["ssh:a"]).unwrap();
        let mut arguments = json!({"target": "ssh:a"}).as_object().unwrap().clone();
        assert_eq!(targets.take(&mut arguments).unwrap().to_string(), "ssh:a");
        // It is no parameter then, and the tool says so.
        assert!(arguments.contains_key(PARAMETER));
    }
}

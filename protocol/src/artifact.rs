//! Names of full results that stay on the target.
//!
//! An answer is a summary; what it was made from is kept in the agent's memory under a handle, so
//! that a follow-up question measures nothing again.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{fmt, str::FromStr};

/// The handle of a stored result: `art-` and eight hexadecimal digits.
///
/// It is drawn at random, so a handle of one session does not name a result of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArtifactId(pub u32);

impl fmt::Display for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "art-{:08x}", self.0)
    }
}

impl FromStr for ArtifactId {
    type Err = NotAHandle;

    fn from_str(text: &str) -> Result<Self, NotAHandle> {
        text.strip_prefix("art-")
            .filter(|digits| digits.len() == 8 && !digits.starts_with('+'))
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .map(Self)
            .ok_or(NotAHandle)
    }
}

/// The text is not an artifact's handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an artifact's handle: expected `art-` and eight hexadecimal digits")]
pub struct NotAHandle;

impl Serialize for ArtifactId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_u32(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for ArtifactId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
        } else {
            u32::deserialize(deserializer).map(Self)
        }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for ArtifactId {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ArtifactId".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^art-[0-9a-f]{8}$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_read_back() {
        let id = ArtifactId(0x0bad_cafe);
        assert_eq!(id.to_string(), "art-0badcafe");
        assert_eq!("art-0badcafe".parse(), Ok(id));
        for wrong in ["", "art-", "art-badcafe", "art-0badcafe0", "ART-0badcafe", "art-+badcafe"] {
            assert_eq!(wrong.parse::<ArtifactId>(), Err(NotAHandle), "{wrong}");
        }
    }
}

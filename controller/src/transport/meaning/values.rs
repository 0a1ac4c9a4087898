//! The forms that values of settings have in `ssh -G`.

use super::{Outside, Settings};
use std::time::Duration;

/// What is known of settings, by name.
pub struct Values<'s>(pub &'s Settings);

impl<'s> Values<'s> {
    /// All values of a setting, in order.
    pub fn all(&self, setting: &str) -> impl Iterator<Item = &'s str> {
        self.0.iter().filter(move |(name, _)| name == setting).map(|(_, value)| value.as_str())
    }

    /// The value of a setting that has one.
    ///
    /// # Errors
    ///
    /// When it has several.
    pub fn one(&self, setting: &str) -> Result<Option<&'s str>, Outside> {
        let mut values = self.all(setting);
        let first = values.next();
        match values.next() {
            Some(second) => Err(Outside::setting(setting, second.as_bytes())),
            None => Ok(first),
        }
    }

    /// The value of a setting that `ssh -G` always names.
    ///
    /// # Errors
    ///
    /// When it has none, or several.
    pub fn needed(&self, setting: &str) -> Result<&'s str, Outside> {
        self.one(setting)?
            .filter(|value| !value.is_empty())
            .ok_or_else(|| Outside::setting(setting, b""))
    }

    /// The value of a setting, read by `read`.
    ///
    /// # Errors
    ///
    /// When it has several, or one that `read` does not know.
    pub fn read<T>(
        &self,
        setting: &str,
        read: impl FnOnce(&'s str) -> Option<T>,
    ) -> Result<Option<T>, Outside> {
        let Some(value) = self.one(setting)? else {
            return Ok(None);
        };
        read(value).map(Some).ok_or_else(|| Outside::setting(setting, value.as_bytes()))
    }

    /// Whether a setting says yes. `ssh -G` writes some as `true` and `false`.
    ///
    /// # Errors
    ///
    /// When it says neither.
    pub fn is(&self, setting: &str, default: bool) -> Result<bool, Outside> {
        let read = |value: &str| match value {
            "yes" | "true" => Some(true),
            "no" | "false" => Some(false),
            _ => None,
        };
        Ok(self.read(setting, read)?.unwrap_or(default))
    }

    /// A count of something.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub fn number(&self, setting: &str, default: usize) -> Result<usize, Outside> {
        Ok(self.read(setting, |value| value.parse().ok())?.unwrap_or(default))
    }

    /// A time in seconds, where 0 and `none` stand for none.
    ///
    /// # Errors
    ///
    /// When it is something else.
    pub fn time(&self, setting: &str) -> Result<Option<Duration>, Outside> {
        let read = |value: &str| match value {
            "none" => Some(None),
            seconds => seconds.parse().ok().map(seconds_from),
        };
        Ok(self.read(setting, read)?.flatten())
    }

    /// A list with commas.
    ///
    /// # Errors
    ///
    /// When a name in it is empty, or the setting has several values.
    pub fn names(&self, setting: &str) -> Result<Vec<String>, Outside> {
        let read = |value: &str| {
            let names: Vec<String> = value.split(',').map(str::to_owned).collect();
            // `ssh -G` has resolved these; a sign before a name would be a list still to be made.
            let is_name = |name: &String| {
                !name.is_empty()
                    && !name.starts_with(['+', '-', '^'])
                    && !name.contains(['*', '?', '!'])
            };
            names.iter().all(is_name).then_some(names)
        };
        Ok(self.read(setting, read)?.unwrap_or_default())
    }
}

/// A time of which 0 means none.
pub fn seconds_from(seconds: u64) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

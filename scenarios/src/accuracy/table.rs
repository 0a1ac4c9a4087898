//! Which functions take the time, as one profiler says.

use rustc_demangle::try_demangle;
use std::{collections::BTreeMap, fmt};

/// A function, as both profilers can name it. Without a name of its own, it is one with all others of
/// its file, for each profiler has another word for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// Its name, as people write it.
    pub name: String,
    /// Whether it is the kernel's.
    pub is_kernel: bool,
}

impl Name {
    /// A function of a program or a library.
    pub fn user(name: &str) -> Self {
        Self { name: name.to_owned(), is_kernel: false }
    }

    /// One of the kernel's.
    pub fn kernel(name: &str) -> Self {
        Self { name: name.to_owned(), is_kernel: true }
    }

    /// All functions without a name in one file, whose path may have something behind it.
    pub fn unnamed(module: &str) -> Self {
        let module = module.trim_end_matches(" (deleted)");
        let file = module.rsplit('/').next().unwrap_or(module);
        // Code that was made while the program ran, by any name that the kernel or a profiler has.
        let is_file = !module.starts_with("//") && !module.contains(['[', ':']);
        let shown = if is_file && !file.is_empty() { file } else { "memory without a file" };
        Self::user(&format!("(without a name in {shown})"))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        f.write_str(if self.is_kernel { " (kernel)" } else { "" })
    }
}

/// What a function takes, in percent of all samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// Itself.
    pub own_pct: f64,
    /// With all that it calls.
    pub total_pct: f64,
}

/// What one profiler found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Samples that it is made from.
    pub samples: u64,
    /// The functions.
    pub functions: BTreeMap<Name, Shares>,
    /// Stacks that are known to where their thread began, in percent of all.
    pub complete_pct: f64,
    /// Samples in code without a name, in percent of all.
    pub unnamed_pct: f64,
}

/// A name out of a table of symbols, as the agent shows it: without a version, without Rust's hash, and
/// with the parameters of C++.
pub fn shown(raw: &str) -> String {
    let name = raw.split_once('@').map_or(raw, |(name, _)| name);
    if (name.starts_with("_ZN") && name.contains("17h") || name.starts_with("_R"))
        && let Ok(demangled) = try_demangle(name)
    {
        return format!("{demangled:#}");
    }
    let cpp = name.starts_with("_Z").then(|| cpp_demangle::Symbol::new(name).ok()).flatten();
    let cpp = cpp.and_then(|symbol| symbol.demangle().ok());
    cpp.unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_as_the_agent_shows_them() {
        for (raw, expected) in [
            ("qsort_r", "qsort_r"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"),
            ("_ZN5Store3putEiRKSs", "Store::put(int, std::string const&)"),
            ("main.(*share14).run", "main.(*share14).run"),
            ("void Shares.share_30(long)", "void Shares.share_30(long)"),
            ("_start", "_start"),
            ("_Zebra", "_Zebra"),
        ] {
            assert_eq!(shown(raw), expected);
        }
    }

    #[test]
    fn functions_without_a_name_are_one_for_each_file() {
        for (module, expected) in [
            ("/usr/lib/liblzma.so.5.4.1", "(without a name in liblzma.so.5.4.1)"),
            ("liblzma.so.5.4.1", "(without a name in liblzma.so.5.4.1)"),
            ("/tmp/a/c (deleted)", "(without a name in c)"),
            ("[unknown]", "(without a name in memory without a file)"),
            ("//anon", "(without a name in memory without a file)"),
        ] {
            assert_eq!(Name::unnamed(module).name, expected, "{module}");
        }
    }
}

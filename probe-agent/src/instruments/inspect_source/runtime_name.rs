//! Where the source is of a function that a runtime compiled, by the name that it wrote for perf.
//!
//! Sources: `Python/perf_trampoline.c` in CPython 3.12 (`py::NAME:FILE`); `src/logging/log.cc` in V8
//! (`JS:*NAME FILE:LINE:COLUMN`, `LazyCompile:…` before 2022).

/// A function in a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InSource {
    /// The path of the source.
    pub file: String,
    /// The line it begins on, where the name says that.
    pub line: Option<u32>,
    /// What it is called in the source.
    pub name: String,
}

/// Reads a name.
pub fn parse(name: &str) -> Option<InSource> {
    if let Some(rest) = name.strip_prefix("py::") {
        let (qualified, file) = rest.split_at_checked(rest.find(":/")?)?;
        let last = qualified.rsplit('.').next().unwrap_or_default();
        return Some(InSource {
            file: file.strip_prefix(':')?.to_owned(),
            line: (last == "<module>").then_some(1),
            name: last.to_owned(),
        });
    }
    const KINDS: [&str; 5] = ["JS", "LazyCompile", "Function", "Script", "Eval"];
    let (kind, rest) = name.split_once(':')?;
    if !KINDS.contains(&kind) {
        return None;
    }
    let (function, place) = rest.rsplit_once(' ')?;
    let place = place.strip_prefix("file://").unwrap_or(place);
    let (place, _column) = place.rsplit_once(':')?;
    let (file, line) = place.rsplit_once(':')?;
    file.starts_with('/').then(|| InSource {
        file: file.to_owned(),
        line: line.parse().ok(),
        name: function.trim_start_matches(['*', '~', '^', '+', '\'']).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_runtimes_say_their_source() {
        let some = |file: &str, line, name: &str| {
            Some(InSource { file: file.to_owned(), line, name: name.to_owned() })
        };
        let cases = [
            ("py::work:/srv/app.py", some("/srv/app.py", None, "work")),
            ("py::A.<locals>.work:/srv/a b.py", some("/srv/a b.py", None, "work")),
            ("py::<module>:/srv/app.py", some("/srv/app.py", Some(1), "<module>")),
            ("JS:*work /srv/app.js:12:5", some("/srv/app.js", Some(12), "work")),
            ("JS:~work file:///srv/app.mjs:12:5", some("/srv/app.mjs", Some(12), "work")),
            ("LazyCompile:* /srv/app.js:1:1", some("/srv/app.js", Some(1), "")),
            ("py::<frozen importlib._bootstrap>", None),
            ("JS:*work native array.js:12:5", None),
            ("std::vector<int>::push_back(int)", None),
            ("main", None),
        ];
        for (name, want) in cases {
            assert_eq!(parse(name), want, "{name}");
        }
    }
}

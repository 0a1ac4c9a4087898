//! Which files are read: sources, by their names, and none in which secrets are kept.
//!
//! The information for debuggers is made by whoever made the program, who may name any file in it. So
//! a name is looked at before a file is opened, and again where its links have led.

use protocol::instruments::inspect_source::Text;

/// Ends of names of sources, in lower case.
const SOURCES: &[&str] = &[
    "ada", "adb", "ads", "asm", "awk", "bas", "bash", "c", "c++", "cc", "cjs", "cl", "clj", "cob",
    "cpp", "cr", "cs", "cts", "cu", "cxx", "d", "dart", "def", "el", "elm", "erl", "ex", "exs",
    "f", "f03", "f08", "f77", "f90", "f95", "for", "fs", "go", "gperf", "groovy", "h", "h++", "hh",
    "hpp", "hrl", "hs", "hxx", "i", "ii", "inc", "inl", "ipp", "java", "jl", "js", "jsx", "kt",
    "kts", "l", "lisp", "ll", "lua", "m", "mjs", "ml", "mli", "mm", "mts", "nim", "pas", "php",
    "pl", "pm", "proto", "pxd", "py", "pyx", "r", "rb", "rs", "s", "scala", "scm", "sh", "swift",
    "tcc", "ts", "tsx", "tcl", "v", "vala", "vb", "vue", "y", "yy", "zig", "zsh",
];

/// Folders below which secrets are kept, wherever they are.
const SECRET_FOLDERS: [&str; 9] = [
    ".aws",
    ".azure",
    ".docker",
    ".gnupg",
    ".kube",
    ".password-store",
    ".ssh",
    ".vault",
    "secrets",
];

/// Names, and beginnings of names, of files with secrets, also where they end as a source does.
const SECRET_NAMES: [&str; 13] = [
    ".env",
    ".git-credentials",
    ".htpasswd",
    ".my.cnf",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".pypirc",
    "gshadow",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
];

/// Folders in the root in which there are no sources.
const NOT_ENTERED: [&[u8]; 3] = [b"proc", b"sys", b"dev"];

/// Whether a path may be read.
///
/// # Errors
///
/// Why not.
pub fn check(path: &[u8]) -> Result<(), Text> {
    if !path.starts_with(b"/") {
        return Err(Text::NoPath);
    }
    let mut parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    let folders = parts.clone();
    let Some(name) = parts.next_back() else { return Err(Text::NotAFile) };
    let first = folders.clone().next().unwrap_or_default();
    if NOT_ENTERED.contains(&first) {
        return Err(Text::OfTheKernel);
    }
    let is_secret_folder = |part: &[u8]| {
        SECRET_FOLDERS.iter().any(|folder| part.eq_ignore_ascii_case(folder.as_bytes()))
    };
    let lower = name.to_ascii_lowercase();
    let is_secret_name = SECRET_NAMES.iter().any(|secret| lower.starts_with(secret.as_bytes()));
    if parts.any(is_secret_folder) || is_secret_name {
        return Err(Text::Secret);
    }
    let Some(dot) = lower.iter().rposition(|byte| *byte == b'.').filter(|at| *at > 0) else {
        return Err(Text::NotASource);
    };
    let end = lower.get(dot + 1..).unwrap_or_default();
    let is_source = SOURCES.iter().any(|known| known.as_bytes() == end);
    if is_source { Ok(()) } else { Err(Text::NotASource) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_and_nothing_that_may_hold_secrets() {
        let cases: [(&str, Result<(), Text>); 30] = [
            ("/srv/app/main.c", Ok(())),
            ("/srv/app/MAIN.CPP", Ok(())),
            ("/srv/app/a.test.ts", Ok(())),
            ("/usr/lib/python3/secrets.py", Ok(())),
            ("/srv/my app/x.py", Ok(())),
            ("/srv/developer/x.rb", Ok(())),
            ("main.c", Err(Text::NoPath)),
            ("", Err(Text::NoPath)),
            ("/", Err(Text::NotAFile)),
            ("/etc/shadow", Err(Text::NotASource)),
            ("/etc/passwd", Err(Text::NotASource)),
            ("/srv/app/config.json", Err(Text::NotASource)),
            ("/srv/app/key.pem", Err(Text::NotASource)),
            ("/srv/app/tls.key", Err(Text::NotASource)),
            ("/srv/app/c", Err(Text::NotASource)),
            ("/srv/app/.c", Err(Text::NotASource)),
            ("/srv/app/main.c~", Err(Text::NotASource)),
            ("/srv/app/.env", Err(Text::Secret)),
            ("/srv/app/.env.js", Err(Text::Secret)),
            ("/srv/.ssh/id_rsa", Err(Text::Secret)),
            ("/srv/.ssh/config.py", Err(Text::Secret)),
            ("/srv/id_rsa.py", Err(Text::Secret)),
            ("/run/secrets/db.py", Err(Text::Secret)),
            ("/home/me/.AWS/x.py", Err(Text::Secret)),
            ("/etc/gshadow-", Err(Text::Secret)),
            ("/proc/self/mem.c", Err(Text::OfTheKernel)),
            ("//proc/1/cwd/x.c", Err(Text::OfTheKernel)),
            ("/sys/x.c", Err(Text::OfTheKernel)),
            ("/dev/x.c", Err(Text::OfTheKernel)),
            ("/procs/x.c", Ok(())),
        ];
        for (path, want) in cases {
            assert_eq!(check(path.as_bytes()), want, "{path}");
        }
    }
}

//! A distribution of the Windows Subsystem for Linux: the same script in a shell there, which
//! `wsl.exe` starts.
//!
//! The arguments are those of Microsoft's "Basic commands for WSL": `--distribution` (`-d`) names the
//! distribution, `--user` (`-u`) the user, and `--exec` (`-e`) starts a program without the login
//! shell. It was tested against a stand-in for `wsl.exe` only.

use super::{Channel, process};
use crate::{exit, words};
use protocol::host_text::HostText;
use tokio::process::Command;

/// Its program. The suffix makes it found from within a distribution, too.
const PROGRAM: &str = "wsl.exe";

/// What makes `wsl.exe` write its own messages in UTF-8 instead of UTF-16.
const AS_UTF8: (&str, &str) = ("WSL_UTF8", "1");

/// The arguments. The name was checked to be no option.
fn arguments<'a>(name: &'a str, script: &'a str, as_root: bool) -> Vec<&'a str> {
    let mut arguments = vec!["-d", name];
    if as_root {
        arguments.extend(["-u", "root"]);
    }
    arguments.extend(["-e", "/bin/sh", "-c", script]);
    arguments
}

/// Starts the script in a distribution, as its root if that is asked for.
///
/// # Errors
///
/// When there is no `wsl.exe`, or no process can be started.
pub fn open(name: &str, script: &str, as_root: bool) -> Result<Channel, super::NotOpened> {
    let mut command = Command::new(PROGRAM);
    command.args(arguments(name, script, as_root)).env(AS_UTF8.0, AS_UTF8.1);
    process::set_apart(&mut command);
    process::start(command).map_err(|error| {
        if error.kind() == std::io::ErrorKind::NotFound {
            Problem::NoProgram.into()
        } else {
            error.into()
        }
    })
}

/// Reads the cause off what `wsl.exe` wrote, which it does on stdout as well as on stderr. `None`
/// where it was not `wsl.exe` that failed.
pub fn explain(name: &str, stdout: &[u8], stderr: &[u8]) -> Option<Problem> {
    let text = [as_text(stdout), as_text(stderr)].join("\n");
    let has = |words: &str| text.contains(words);
    if has("WSL_E_DISTRO_NOT_FOUND") || has("no distribution with the supplied name") {
        return Some(Problem::Missing { name: name.to_owned() });
    }
    let is_wsls = has("Error code: Wsl/") || has("Windows Subsystem for Linux");
    is_wsls.then(|| {
        let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        Problem::Other { name: name.to_owned(), said: words::of_others(line, 300) }
    })
}

/// What was written, in either of the two encodings that `wsl.exe` has.
fn as_text(bytes: &[u8]) -> String {
    let is_wide = bytes.len() >= 2 && bytes.iter().skip(1).step_by(2).all(|byte| *byte == 0);
    if !is_wide {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let (pairs, _) = bytes.as_chunks::<2>();
    let units = pairs.iter().map(|pair| u16::from_le_bytes(*pair));
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// Why there is no way into a distribution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// This is no Windows, or has no WSL.
    #[error("there is no wsl.exe on this machine; `wsl:` is for Windows: install WSL there")]
    NoProgram,
    /// No such distribution.
    #[error("there is no distribution `{name}`; `wsl.exe -l` lists those that there are")]
    Missing {
        /// Its name.
        name: String,
    },
    /// Anything else that `wsl.exe` says.
    #[error("wsl.exe does not start a shell in `{name}`: {said}. Try by hand: wsl.exe -d {name}")]
    Other {
        /// The distribution.
        name: String,
        /// What it said.
        said: HostText,
    },
}

impl Problem {
    /// The exit code for a command that ends with this.
    pub const fn exit_code(&self) -> u8 {
        exit::UNREACHABLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_one_argument_behind_exec() {
        let plain = ["-d", "Ubuntu-24.04", "-e", "/bin/sh", "-c", "echo \"$HOME\""];
        assert_eq!(arguments("Ubuntu-24.04", "echo \"$HOME\"", false), plain);
        let root = ["-d", "Debian", "-u", "root", "-e", "/bin/sh", "-c", "true"];
        assert_eq!(arguments("Debian", "true", true), root);
    }

    #[test]
    fn a_missing_distribution_is_told_in_both_encodings() {
        let said = "There is no distribution with the supplied name.\r\nError code: \
                    Wsl/Service/WSL_E_DISTRO_NOT_FOUND\r\n";
        let wide: Vec<u8> = said.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let missing = Some(Problem::Missing { name: "Arch".to_owned() });
        assert_eq!(explain("Arch", said.as_bytes(), b""), missing);
        assert_eq!(explain("Arch", &wide, b""), missing);
        assert_eq!(explain("Arch", b"", &wide), missing);
    }

    #[test]
    fn what_the_distribution_says_is_not_for_wsls_own_words() {
        assert_eq!(explain("Arch", b"", b"sh: 1: head: not found\n"), None);
        assert_eq!(explain("Arch", b"", b""), None);
    }

    #[test]
    fn another_error_of_wsl_is_shown_and_cannot_steer_a_terminal() {
        let said = b"The virtual machine could not be started \x1b[2J\nError code: Wsl/Service/X\n";
        let problem = explain("Arch", b"", said).unwrap().to_string();
        assert!(problem.contains("could not be started"), "{problem}");
        assert!(!problem.contains('\x1b'), "{problem}");
    }
}

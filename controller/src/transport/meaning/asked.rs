//! What `ssh -G` says a configuration comes to: one setting a line, its name and its value.
//!
//! Format: `dump_client_config` in OpenSSH's readconf.c. `-G` exists since OpenSSH 6.8.

use super::{Outside, Place, Settings};
use crate::transport::openssh;
use protocol::host_text::HostText;
use std::{io::ErrorKind, path::Path, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::Command,
};

/// How long it may take. A `Match exec` of the user's may ask the network.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest output that is read, in bytes. The usual one has 6 kB.
const MOST_BYTES: usize = 1 << 20;

/// The settings for a place; `None` where there is no `ssh` to ask.
///
/// # Errors
///
/// When `ssh` refuses, or does not answer.
pub async fn settings(place: &Place, config: Option<&Path>) -> Result<Option<Settings>, Outside> {
    let mut command = Command::new("ssh");
    command.arg("-G").args(place.arguments(config));
    ask(command, PATIENCE).await
}

async fn ask(mut command: Command, patience: Duration) -> Result<Option<Settings>, Outside> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Outside::Refused { said: error.to_string() }),
    };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let answer = async {
        let (said, complaint) = tokio::join!(read(stdout), read(stderr));
        (child.wait().await, said, complaint)
    };
    let Ok((status, said, complaint)) = tokio::time::timeout(patience, answer).await else {
        return Err(Outside::Silent { seconds: patience.as_secs() });
    };
    if !status.is_ok_and(|status| status.success()) {
        return Err(Outside::Refused { said: last_line(&complaint) });
    }
    parse(&said).map(Some)
}

/// Reads a stream to its end, or as much as is kept. What writes more is ended by its closed pipe.
async fn read(stream: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        let most = u64::try_from(MOST_BYTES).unwrap_or(u64::MAX);
        let _ = stream.take(most).read_to_end(&mut bytes).await;
    }
    bytes
}

/// The last line with a reason on it, for a message.
fn last_line(bytes: &[u8]) -> String {
    const LONGEST: usize = 300;
    let mut lines = bytes.rsplit(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let line = lines.find(|line| openssh::says_why(line)).unwrap_or(b"nothing");
    let line = line.strip_suffix(b".").unwrap_or(line);
    HostText::capped(line, LONGEST).as_str().to_owned()
}

/// The settings, in order. A name without a value has an empty one.
fn parse(output: &[u8]) -> Result<Settings, Outside> {
    if output.len() >= MOST_BYTES {
        let said = format!("`ssh -G` prints more than {MOST_BYTES} bytes");
        return Err(Outside::Refused { said });
    }
    // Windows ends its lines with both.
    let without_return = |line| if cfg!(windows) { <[u8]>::trim_ascii_end(line) } else { line };
    let lines = output.split(|byte| *byte == b'\n').map(without_return);
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| match std::str::from_utf8(line) {
            Ok(line) => {
                let (name, value) = line.split_once(' ').unwrap_or((line, ""));
                Ok((name.to_ascii_lowercase(), value.to_owned()))
            }
            Err(_) => {
                let (name, value) =
                    line.split_at(line.iter().position(|byte| *byte == b' ').unwrap_or(0));
                Err(Outside::setting(&String::from_utf8_lossy(name), value.trim_ascii()))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn settings_are_names_in_lower_case_and_what_follows() {
        let settings = parse(b"user me\ncanonicalizePermittedcnames none\nsendenv\nx  two \n");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let want = [
            pair("user", "me"),
            pair("canonicalizepermittedcnames", "none"),
            pair("sendenv", ""),
            pair("x", " two "),
        ];
        assert_eq!(settings.unwrap(), want);
    }

    #[test]
    fn what_is_not_text_is_not_guessed() {
        let error = parse(b"user me\nhostname a\xffb\n").unwrap_err();
        let value = "a\\xffb".to_owned();
        assert_eq!(error, Outside::Setting { setting: "hostname".to_owned(), value });
    }

    #[test]
    fn more_than_a_configuration_can_be_is_not_read() {
        assert!(matches!(parse(&vec![b'a'; MOST_BYTES]), Err(Outside::Refused { .. })));
    }

    #[tokio::test]
    async fn a_refusal_is_told_by_its_last_line_escaped() {
        let script = "echo first >&2; printf 'second\\033[0m\\r\\n\\n' >&2; exit 255";
        let error = ask(shell(script), PATIENCE).await.unwrap_err();
        assert_eq!(error, Outside::Refused { said: "second\\x1b[0m".to_owned() });
    }

    #[test]
    fn the_reason_stands_before_the_giving_up() {
        let said = b"/c: line 1: Bad configuration option: x\r\n\
                     /c: terminating, 1 bad configuration options\r\n";
        assert_eq!(last_line(said), "/c: line 1: Bad configuration option: x");
    }

    #[tokio::test]
    async fn what_was_said_before_a_refusal_does_not_count() {
        let asked = ask(shell("echo user me; exit 1"), PATIENCE).await;
        assert_eq!(asked, Err(Outside::Refused { said: "nothing".to_owned() }));
    }

    #[tokio::test]
    async fn without_the_program_there_are_no_settings() {
        assert_eq!(ask(Command::new("/nowhere/ssh"), PATIENCE).await, Ok(None));
    }

    #[tokio::test]
    async fn one_that_hangs_is_not_waited_for() {
        let asked = ask(shell("exec sleep 3600"), Duration::from_millis(20)).await;
        assert_eq!(asked, Err(Outside::Silent { seconds: 0 }));
    }
}

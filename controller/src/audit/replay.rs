//! An audit log as a shell script, so that a person can take over: the same calls, and for each
//! what one would type without this tool.

use super::{chain, record::Event};
use crate::{target::Target, tools};
use serde::Deserialize;
use serde_json::Value;
use std::fmt::Write as _;

#[derive(Deserialize)]
struct Line {
    time: String,
    session: String,
    #[serde(flatten)]
    event: Event,
}

/// Writes the script. Lines that are not understood become comments: nothing is left out silently.
pub fn script(log: &[u8]) -> String {
    let mut script = String::from(
        "#!/bin/sh\n# What sysmcp did, as commands. Secrets were taken out of the log and stand \
         here as [redacted].\n",
    );
    warn(&mut script, log);
    let mut session = String::new();
    for (index, line) in chain::lines(log).enumerate() {
        match serde_json::from_slice::<Line>(line) {
            Ok(line) => {
                if line.session != session {
                    let _ = writeln!(script, "\n# session {}, {}", line.session, line.time);
                    session.clone_from(&line.session);
                }
                step(&mut script, &line);
            }
            Err(_) => {
                let _ = writeln!(script, "# line {} of the log was not understood", index + 1);
            }
        }
    }
    script
}

/// Whoever takes over from a log that was altered has to know it.
fn warn(script: &mut String, log: &[u8]) {
    let breaks = chain::verify(log).breaks;
    if !breaks.is_empty() {
        let places: Vec<String> = breaks.iter().map(chain::Break::place).collect();
        let _ = writeln!(script, "# Warning: the log was altered at {}.", places.join(", "));
    }
}

fn step(script: &mut String, line: &Line) {
    let comment = match &line.event {
        Event::Intent { target, tool, parameters, .. } => {
            let _ = writeln!(script, "\n# {}", line.time);
            for command in by_hand(target, tool, parameters) {
                let _ = writeln!(script, "# by hand: {command}");
            }
            let _ = writeln!(script, "{}", again(target, tool, parameters));
            return;
        }
        Event::Connecting { target } => format!("{}: connecting to {target}", line.time),
        Event::Connected { target, host, uid, agent_sha256, .. } => {
            format!("connected to {target}: host {host}, as uid {uid}, agent {agent_sha256}")
        }
        Event::NotConnected { target, reason } => format!("not connected to {target}: {reason}"),
        Event::Outcome { error: Some(error), .. } => format!("no answer: {error}"),
        Event::Outcome { duration_ms, answer_bytes, .. } => {
            format!("answered in {duration_ms} ms with {answer_bytes} bytes")
        }
        Event::Refused { tool, reason, .. } => format!("refused: {tool}: {reason}"),
        Event::Stopped { receipt, .. } => receipt.clone(),
    };
    let _ = writeln!(script, "# {}", one_line(&comment));
}

/// The call itself, as a command.
fn again(target: &str, tool: &str, parameters: &Value) -> String {
    let parameters = parameters.to_string();
    let words = ["sysmcp", "--target", target, "call", tool, "--params", &parameters];
    quoted(&words.map(str::to_owned))
}

/// What one would type on the host instead.
fn by_hand(target: &str, tool: &str, parameters: &Value) -> Vec<String> {
    let ssh = match target.parse() {
        Ok(Target::Ssh(ssh)) => Some(ssh),
        Ok(Target::Local) | Err(_) => None,
    };
    let commands = tools::by_hand(tool, parameters);
    commands
        .iter()
        .map(|words| match &ssh {
            None => quoted(words),
            Some(ssh) => {
                let mut login = vec!["ssh".to_owned()];
                if let Some(port) = ssh.port {
                    login.extend(["-p".to_owned(), port.to_string()]);
                }
                let user = ssh.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
                login.push(format!("{user}{}", ssh.host));
                login.push(quoted(words));
                quoted(&login)
            }
        })
        .collect()
}

/// Words as a shell reads them back. What cannot be quoted, a NUL, was never typed.
fn quoted(words: &[String]) -> String {
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_default()
}

/// A comment ends with its line.
fn one_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_becomes_commands_that_a_shell_reads_back() {
        let intent = |target: &str, parameters: &str| {
            format!(
                r#"{{"sequence":1,"time":"T1","session":"s","event":"intent","call":1,"target":"{target}","tool":"process_list","parameters":{parameters},"parameters_digest":"d","digest":"x"}}"#
            )
        };
        let outcome = r#"{"sequence":2,"time":"T2","session":"s","event":"outcome","call":1,"answered":false,"error":"gone\nrm -rf /","duration_ms":5,"answer_bytes":0,"digest":"x"}"#;
        let hostile = r#"{"note":"it's; $(id)"}"#;
        let log = [
            intent("ssh:me@web:2222", r#"{"sort":"rss"}"#),
            outcome.to_owned(),
            intent("local", hostile),
            "not a line".to_owned(),
        ];
        let script = script(log.join("\n").as_bytes());
        let commands: Vec<Vec<String>> = script
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty())
            .map(|line| shlex::split(line).unwrap())
            .collect();
        let call = |target, parameters| {
            ["sysmcp", "--target", target, "call", "process_list", "--params", parameters]
        };
        assert_eq!(
            commands,
            [call("ssh:me@web:2222", r#"{"sort":"rss"}"#), call("local", hostile)],
            "{script}"
        );
        let by_hand = script.lines().find_map(|line| line.strip_prefix("# by hand: ")).unwrap();
        let words = shlex::split(by_hand).unwrap();
        assert_eq!(words[..4], ["ssh", "-p", "2222", "me@web"]);
        assert!(words[4].starts_with("ps -eo "), "{by_hand}");
        assert!(script.contains("# no answer: gone rm -rf /\n"), "{script}");
        assert!(script.contains("# line 4 of the log was not understood"));
    }
}

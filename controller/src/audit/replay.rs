//! An audit log as a shell script, so that a person can take over: the same calls, and for each
//! what one would type without this tool.

use super::{chain, record::Event};
use crate::{target::Target, tools};
use protocol::host_text;
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
    let mut script = Script("#!/bin/sh\n".to_owned());
    script.comment(
        "What sysmcp did, as commands. Secrets were taken out of the log and stand here as \
         [redacted].",
    );
    warn(&mut script, log);
    let mut session = String::new();
    for (index, line) in chain::lines(log).enumerate() {
        match serde_json::from_slice::<Line>(line) {
            Ok(line) => {
                if line.session != session {
                    script.gap();
                    script.comment(&format!("session {}, {}", line.session, line.time));
                    session.clone_from(&line.session);
                }
                step(&mut script, &line);
            }
            Err(_) => script.comment(&format!("line {} of the log was not understood", index + 1)),
        }
    }
    script.0
}

/// A script into which texts come that may be anything: the log may have been altered.
struct Script(String);

impl Script {
    /// A comment. Nothing in it ends it, or is obeyed by the terminal it is shown on.
    fn comment(&mut self, text: &str) {
        let _ = writeln!(self.0, "# {}", host_text::printable(text));
    }

    /// A command, as a shell reads it back. One with characters that cannot be shown becomes a
    /// comment: sysmcp never wrote such a call down, and nobody should run what they cannot see.
    fn command(&mut self, words: &[&str]) {
        match shlex::try_join(words.iter().copied()) {
            Ok(command) if host_text::printable(&command) == command => {
                let _ = writeln!(self.0, "{command}");
            }
            Ok(_) | Err(_) => self.comment(&format!("not repeated: {}", words.join(" "))),
        }
    }

    fn gap(&mut self) {
        self.0.push('\n');
    }
}

/// Whoever takes over from a log that was altered has to know it.
fn warn(script: &mut Script, log: &[u8]) {
    let breaks = chain::verify(log).breaks;
    if !breaks.is_empty() {
        let places: Vec<String> = breaks.iter().map(chain::Break::place).collect();
        script
            .comment(&format!("Warning: the log was cut off or altered at {}.", places.join(", ")));
    }
}

fn step(script: &mut Script, line: &Line) {
    let comment = match &line.event {
        Event::Intent { target, tool, parameters, .. } if tool == SWEEP => {
            script.gap();
            script.comment(&line.time);
            let flag = |name: &str, flag| {
                parameters.get(name).and_then(Value::as_bool).unwrap_or(false).then_some(flag)
            };
            let flags = [flag("dry_run", "--dry-run"), flag("live", "--live")];
            let words: Vec<&str> = ["sysmcp", "--target", target, SWEEP]
                .into_iter()
                .chain(flags.into_iter().flatten())
                .collect();
            script.command(&words);
            return;
        }
        Event::Intent { target, tool, parameters, parameters_bytes, .. } => {
            script.gap();
            script.comment(&line.time);
            for command in by_hand(target, tool, parameters) {
                script.comment(&format!("by hand: {command}"));
            }
            if let Some(bytes) = parameters_bytes {
                script.comment(&format!(
                    "not repeated: {tool}, whose parameters had {bytes} bytes; the log has their start"
                ));
                return;
            }
            let parameters = parameters.to_string();
            script.command(&["sysmcp", "--target", target, "call", tool, "--params", &parameters]);
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
        Event::Swept { target, found, .. } => format!("swept {target}: {}", found.join("; ")),
        Event::Stopped { receipt, .. } => receipt.clone(),
    };
    script.comment(&comment);
}

/// The command that is no tool.
const SWEEP: &str = "sweep";

/// What one would type on the host instead.
fn by_hand(target: &str, tool: &str, parameters: &Value) -> Vec<String> {
    // A script is made also of lines whose target is none any more.
    let target = target.parse().unwrap_or(Target::Local);
    let there = |words: &[String]| match &target {
        Target::Local => Some(quoted(words)),
        Target::Ssh(ssh) => {
            let mut login = vec!["ssh".to_owned()];
            if let Some(port) = ssh.port {
                login.extend(["-p".to_owned(), port.to_string()]);
            }
            let user = ssh.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
            login.push(format!("{user}{}", ssh.host));
            login.push(quoted(words));
            Some(quoted(&login))
        }
        Target::Container(container) => {
            let exec = [container.engine.name(), "exec", &container.name].map(str::to_owned);
            Some(quoted(&[exec.as_slice(), words].concat()))
        }
        Target::Wsl(name) => {
            let wsl = ["wsl.exe", "-d", name, "-e"].map(str::to_owned);
            Some(quoted(&[wsl.as_slice(), words].concat()))
        }
        // No command of a person's reads one.
        Target::Snapshot(_) => None,
    };
    tools::by_hand(tool, parameters).iter().filter_map(|words| there(words)).collect()
}

/// Words as a shell reads them back. What cannot be quoted, a NUL, was never typed.
fn quoted(words: &[String]) -> String {
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_default()
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
            intent("local", r#"{"dry_run":true,"live":false}"#).replace("process_list", "sweep"),
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
            [
                call("ssh:me@web:2222", r#"{"sort":"rss"}"#).to_vec(),
                call("local", hostile).to_vec(),
                vec!["sysmcp", "--target", "local", "sweep", "--dry-run"],
            ],
            "{script}"
        );
        let by_hand = script.lines().find_map(|line| line.strip_prefix("# by hand: ")).unwrap();
        let words = shlex::split(by_hand).unwrap();
        assert_eq!(words[..4], ["ssh", "-p", "2222", "me@web"]);
        assert!(words[4].starts_with("ps -eo "), "{by_hand}");
        assert!(script.contains("# no answer: gone\\nrm -rf /\n"), "{script}");
        assert!(script.contains("# line 5 of the log was not understood"));
    }

    #[test]
    fn by_hand_means_in_the_container_or_the_distribution() {
        let by_hand = |target| by_hand(target, "process_list", &serde_json::json!({})).remove(0);
        assert!(by_hand("docker:web").starts_with("docker exec web top "));
        assert!(by_hand("podman:web").starts_with("podman exec web top "));
        assert!(by_hand("wsl:Ubuntu").starts_with("wsl.exe -d Ubuntu -e top "));
        assert!(by_hand("local").starts_with("top "));
    }

    #[test]
    fn nothing_in_a_log_that_was_altered_leaves_its_comment_or_reaches_the_terminal() {
        let bad = "x\nid\r\u{1b}[2J\u{202e}\u{0}";
        let common = [("time", bad), ("session", bad)];
        let events: [&[(&str, &str)]; 8] = [
            &[("event", "swept"), ("target", bad)],
            &[("event", "connecting"), ("target", bad)],
            &[("event", "not_connected"), ("target", bad), ("reason", bad)],
            &[("event", "refused"), ("tool", bad), ("reason", bad), ("parameters", bad)],
            &[("event", "stopped"), ("target", bad), ("receipt", bad)],
            &[("event", "outcome"), ("error", bad)],
            &[("event", "intent"), ("target", bad), ("tool", "process_list")],
            &[("event", "intent"), ("target", "local"), ("tool", bad)],
        ];
        for event in events {
            let mut line: serde_json::Map<String, Value> = common
                .iter()
                .chain(event)
                .map(|(name, text)| ((*name).to_owned(), (*text).into()))
                .collect();
            let more = serde_json::json!({
                "call": 1, "answered": false, "duration_ms": 1, "answer_bytes": 1, "clean": true,
                "parameters": {}, "parameters_digest": bad, "left": 1, "found": [bad],
            });
            for (name, value) in more.as_object().unwrap() {
                line.entry(name.clone()).or_insert(value.clone());
            }
            let script = script(Value::Object(line).to_string().as_bytes());
            assert!(!script.contains("not understood"), "{event:?}: {script}");
            for line in script.lines() {
                assert!(line.is_empty() || line.starts_with('#'), "{event:?}: {script:?}");
                assert_eq!(host_text::printable(line), line, "{event:?}");
            }
        }
    }
}

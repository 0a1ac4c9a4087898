//! One call to a host, and what it came to.

use super::Outcome;
use crate::{behind::behind, second_way, sysmcp::Sysmcp, terminal};
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use std::{
    process::{Output, Stdio},
    time::Duration,
};

/// After which a call that still runs hangs, in seconds: longer than any limit of sysmcp's own.
const HANGS_AFTER_S: &str = "200";

/// After which nothing may be left.
const PATIENCE: Duration = Duration::from_secs(15);

/// What a clean receipt says; behind it stands what came of looking from outside.
const CLEAN: &str = "0 processes left, 0 files left, 0 bytes left; ";

/// What the receipt says behind that where nothing was found: how far was looked, or why it was not.
const LOOKED: [&str; 2] =
    ["looked at again from outside: ", "not looked at from outside: that would"];

/// The smallest question with a whole answer, which is measured in a tenth of a second.
fn question() -> String {
    json!({"limit": 1, "window_ms": 100}).to_string()
}

/// A way to a host, and one past sysmcp.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    /// The way to it.
    pub sysmcp: &'a Sysmcp,
    /// Looks, past sysmcp, for what is left of sessions there; [`second_way::left_on`] does for an SSH
    /// server.
    pub left: &'a dyn Fn() -> Result<Vec<String>>,
    /// What is another each time, such as ports and folders, and what stands for it on the page. The
    /// longer of two that overlap comes first.
    pub placeholders: &'a [(String, &'static str)],
}

impl Attempt<'_> {
    /// Asks for one answer, with no terminal anywhere, and says what came of it.
    ///
    /// # Errors
    ///
    /// When that is neither a whole answer with a clean receipt nor one sentence, when it does not
    /// end, and when something is left on the host.
    pub fn outcome(self) -> Result<Outcome> {
        let output = self.call()?;
        let outcome = self.read(&output)?;
        self.ensure_nothing_left()?;
        Ok(outcome)
    }

    /// Asks for one answer at a terminal, where somebody is asked each of these and types what stands
    /// behind it.
    ///
    /// # Errors
    ///
    /// When there is no answer with a clean receipt, or something is left on the host.
    pub fn at_a_terminal(self, answers: &[(&str, &str)]) -> Result<()> {
        let typed: Vec<(&str, String)> =
            answers.iter().map(|(text, typed)| (*text, format!("{typed}\r"))).collect();
        let typed: Vec<terminal::Answer> =
            typed.iter().map(|(text, typed)| (*text, typed.as_bytes())).collect();
        let call = format!("call process_list --params '{}'", question());
        let screen = terminal::run(&self.sysmcp.typed(&call), &typed)?;
        let is_answered = screen.contains("code 0") && screen.contains(CLEAN);
        ensure!(is_answered, "no answer at a terminal: {screen}");
        self.ensure_nothing_left()
    }

    fn call(self) -> Result<Output> {
        let words = ["setsid", "--wait", "timeout", "--kill-after=10", HANGS_AFTER_S];
        let mut command = behind(&words, &self.sysmcp.command());
        command.args(["call", "process_list", "--json", "--params", &question()]);
        command.stdin(Stdio::null()).output().context("could not run setsid")
    }

    fn read(self, output: &Output) -> Result<Outcome> {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = output.status.code();
        ensure!(code != Some(124) && code != Some(137), "it hangs: {said}");
        let code = code.with_context(|| format!("it was killed: {said}"))?;
        if code == 0 {
            ensure_whole(&output.stdout)?;
            ensure_clean(self.sysmcp, &said)?;
            return Ok(Outcome::Answers(String::new()));
        }
        ensure!(output.stdout.is_empty(), "an answer, and exit code {code}: {said}");
        let sentence = self.stable(sentence(&said)?);
        Ok(Outcome::Refuses { code, sentence })
    }

    /// A text in which nothing is another each time.
    fn stable(self, text: &str) -> String {
        let mut text = text.to_owned();
        for (found, stands) in self.placeholders {
            text = text.replace(found, stands);
        }
        // The agent's size, which every change of it changes.
        let words = text.split(' ').collect::<Vec<_>>();
        let is_size = |at: usize| words.get(at + 1).is_some_and(|next| next.starts_with("bytes"));
        let is_number = |word: &str| word.len() > 6 && word.bytes().all(|b| b.is_ascii_digit());
        let shown = words.iter().enumerate().map(|(at, word)| match *word {
            word if is_size(at) && is_number(word) => "SIZE",
            word if word.starts_with("SHA256:") || word.starts_with("(SHA256:") => "FINGERPRINT",
            word => word,
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    fn ensure_nothing_left(self) -> Result<()> {
        let left = second_way::still_left(PATIENCE, self.left);
        let left = left.context("the second way in does not work")?;
        ensure!(left.is_empty(), "left on the host: {left:#?}");
        Ok(())
    }
}

fn ensure_whole(stdout: &[u8]) -> Result<()> {
    let answer: Value = serde_json::from_slice(stdout).context("the answer is no JSON")?;
    let rows = answer.get("processes").and_then(Value::as_array);
    let is_row = |row: &Value| row.get("pid").is_some_and(Value::is_u64);
    let is_whole = rows.is_some_and(|rows| rows.len() == 1 && rows.iter().all(is_row));
    ensure!(is_whole, "the answer has not one row: {answer}");
    Ok(())
}

fn ensure_clean(sysmcp: &Sysmcp, said: &str) -> Result<()> {
    let looked = said.lines().find_map(|line| Some(line.split_once(CLEAN)?.1));
    let is_looked = |looked: &str| LOOKED.iter().any(|start| looked.starts_with(start));
    ensure!(looked.is_some_and(is_looked), "the receipt is not clean: {said}");
    let stopped = sysmcp.audited("stopped")?;
    let is_clean = |line: &Value| line.get("clean") == Some(&Value::Bool(true));
    ensure!(!stopped.is_empty() && stopped.iter().all(is_clean), "in the audit log: {stopped:?}");
    let others: Vec<&str> = told(said).filter(|line| !line.starts_with("receipt: ")).collect();
    ensure!(others.is_empty(), "beside the receipt it said: {others:?}");
    Ok(())
}

/// What was said beside the stages, without the name of the program.
fn told(said: &str) -> impl Iterator<Item = &str> {
    /// How stages begin, as `controller/src/reporter.rs` tells them.
    const STAGES: [&str; 9] = [
        "starting the agent on this machine",
        "connecting to ",
        "connecting anew to ",
        "trying again in ",
        "sending the agent",
        "connected: ",
        "measuring: ",
        "sending: ",
        "stopping the agent",
    ];
    let lines = said.lines().map(|line| line.strip_prefix("sysmcp: ").unwrap_or(line));
    lines.filter(|line| !STAGES.iter().any(|stage| line.starts_with(stage)))
}

/// The one sentence that was said.
fn sentence(said: &str) -> Result<&str> {
    let mut lines = told(said);
    match (lines.next(), lines.next()) {
        (Some(line), None) if !line.trim().is_empty() => Ok(line),
        (Some(_), None) | (None, _) => bail!("it says nothing: {said}"),
        (Some(_), Some(_)) => bail!("it says more than one sentence: {said}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sentence_is_one_line_beside_the_stages() {
        let said = "sysmcp: connecting to ssh:a\nsysmcp: a does not answer\n";
        assert_eq!(sentence(said).unwrap(), "a does not answer");
        for wrong in ["", "sysmcp: connecting to ssh:a\n", "sysmcp: \n", "sysmcp: a\nsysmcp: b\n"] {
            assert!(sentence(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_another_each_time_has_a_placeholder() {
        let sysmcp = Sysmcp::local().unwrap();
        let placeholders = [("4711".to_owned(), "PORT")];
        let attempt =
            Attempt { sysmcp: &sysmcp, left: &|| Ok(Vec::new()), placeholders: &placeholders };
        let said = "it needs 1374208 bytes at port 4711, 12 bytes (SHA256:abc here)";
        let want = "it needs SIZE bytes at port PORT, 12 bytes FINGERPRINT here)";
        assert_eq!(attempt.stable(said), want);
    }
}

//! A person at a terminal: reads what appears, and types.

use anyhow::{Context as _, Result, ensure};
use std::{
    io::{Read as _, Write as _},
    process::{Command, Stdio},
    sync::mpsc::channel,
    time::Duration,
};

/// How long nothing may appear.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a person waits for, and types then.
pub type Answer<'a> = (&'a str, &'a [u8]);

/// Runs a line of shell at a terminal, and types each answer once its text has appeared behind the
/// answer before. Letters count as the same whether they are capital or not. Gives back what is on
/// the terminal then: what the line wrote, its exit code, and how the terminal is set.
///
/// # Errors
///
/// When there is no `script` on this machine, or a text never appeared.
pub fn run(line: &str, answers: &[Answer]) -> Result<String> {
    // Ctrl-C reaches the shell as well, and not every shell goes on after it: a trap makes each.
    let script = format!("trap : INT; {line}; echo \"code $?\"; stty -a");
    let mut terminal = Command::new("script")
        .args(["-q", "-e", "-c", &script, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("could not run script; install bsdutils")?;
    let mut keyboard = terminal.stdin.take().context("script has no stdin")?;
    let mut screen = terminal.stdout.take().context("script has no stdout")?;
    let (sender, seen) = channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(read) = screen.read(&mut bytes) {
            let more = bytes.get(..read).unwrap_or_default().to_vec();
            if read == 0 || sender.send(more).is_err() {
                return;
            }
        }
    });
    let mut text = String::new();
    let mut answers = answers.iter();
    let mut waiting = answers.next();
    let mut answered = 0;
    while let Ok(more) = seen.recv_timeout(PATIENCE) {
        text.push_str(&String::from_utf8_lossy(&more));
        let new = text.get(answered..).unwrap_or_default().to_lowercase();
        if let Some((_, typed)) = waiting.filter(|(text, _)| new.contains(&text.to_lowercase())) {
            // A question appears before the terminal is set for its answer.
            std::thread::sleep(Duration::from_millis(200));
            keyboard.write_all(typed)?;
            answered = text.len();
            waiting = answers.next();
        }
    }
    if let Some((text_awaited, _)) = waiting {
        let _ = terminal.kill();
        let _ = terminal.wait();
        ensure!(false, "{text_awaited:?} never appeared: {text}");
    }
    terminal.wait()?;
    Ok(text)
}

//! What is known of the target after a session.

use crate::{
    push::look::{Looked, WhyNot},
    target::Target,
    transport::{Ended, Timings, Traffic, openssh},
    words,
};
use protocol::{
    host_text::HostText,
    message::{DESCENDANTS_LEFT, Hello, Receipt},
};
use std::sync::Arc;

/// How a session ended.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// Where it was.
    pub target: Target,
    /// Who it was with.
    pub hello: Hello,
    /// What the agent's supervisor said is left.
    pub receipt: Option<Receipt>,
    /// How the process ended that carried the channel.
    pub ended: Option<Ended>,
    /// What was seen of the target after that, from outside.
    pub looked: Looked,
    /// Whether nobody waited for the end.
    pub is_cut_short: bool,
    /// What it took to get there, and to talk.
    pub cost: Option<Cost>,
}

/// What a session took of the time and the network.
#[derive(Clone, Debug)]
pub struct Cost {
    /// What each step of connecting took.
    pub timings: Timings,
    /// What went through the channel.
    pub traffic: Arc<Traffic>,
}

/// Exit codes of an engine's program that need not be the agent's: it failed itself, it could start no
/// program, or what it started was killed, which may have been the supervisor alone.
const EXITS_OF_ENGINES: [i32; 5] = [1, 125, 126, 127, 137];

impl Stopped {
    /// For a session that ends without anybody waiting for it.
    pub fn cut_short(target: &Target, hello: &Hello) -> Self {
        let (target, hello) = (target.clone(), hello.clone());
        let looked = Looked::Not(WhyNot::CutShort);
        Self { target, hello, receipt: None, ended: None, looked, is_cut_short: true, cost: None }
    }

    /// Whether it is certain that nothing is left on the target.
    ///
    /// Not where something was seen from outside. With a receipt: that it says so. Without one, the
    /// supervisor's exit code says so: it ends after its last descendant, or with a code of its own,
    /// and its code arrives only once it has ended. That nothing was seen from outside does not
    /// replace either: a login may see too little.
    pub fn is_clean(&self) -> bool {
        match (&self.looked, &self.receipt) {
            (Looked::Found(_), _) => false,
            (_, Some(receipt)) => receipt.is_clean(),
            (_, None) => {
                let is_engines = |code| {
                    matches!(self.target, Target::Container(_)) && EXITS_OF_ENGINES.contains(&code)
                };
                let means_clean =
                    |code| code != openssh::EXIT && code != DESCENDANTS_LEFT && !is_engines(code);
                self.exit_code().is_some_and(means_clean) && self.hello.is_unlinked
            }
        }
    }

    fn exit_code(&self) -> Option<i32> {
        self.ended.as_ref()?.code
    }

    /// What can be said about the target.
    pub fn sentence(&self) -> String {
        let sentence = format!("{}; {}", self.said_by_agent(), self.looked);
        match &self.looked {
            Looked::Found(_) => format!("{sentence}; `{}` ends it", self.sweep()),
            Looked::Clean(_) | Looked::Not(WhyNot::CutShort | WhyNot::Lost) => sentence,
            Looked::Not(WhyNot::Login | WhyNot::Late | WhyNot::NoAnswer(_)) => {
                format!("{sentence}; `{} --dry-run` does it", self.sweep())
            }
        }
    }

    fn said_by_agent(&self) -> String {
        if let Some(receipt) = &self.receipt {
            return crate::reporter::receipt_line(&self.target, receipt);
        }
        let Hello { supervisor_pid, worker_pid, .. } = self.hello;
        match self.exit_code() {
            Some(code) if self.is_clean() => format!(
                "receipt: {}: the agent ended by itself (exit code {code}) after its last \
                 descendant; 0 files left",
                self.target
            ),
            Some(DESCENDANTS_LEFT) => format!(
                "no receipt: {}: the agent ended, but not all that it had started: a process in an \
                 uninterruptible sleep ends when it wakes up. `{}` shows what is left",
                self.target,
                self.sweep()
            ),
            Some(_) | None => format!(
                "no receipt: {}: {}. The agent (pids {supervisor_pid} and {worker_pid}) ends \
                 itself when its channel closes, or when it hears nothing for its silence limit; \
                 {}. `{}` shows whether it has, and ends what is left",
                self.target,
                if self.is_cut_short {
                    "its end was not waited for"
                } else {
                    "the connection was lost"
                },
                if self.hello.is_unlinked {
                    "it has no file there"
                } else {
                    "its folder, .sysmcp-*, could not be removed"
                },
                self.sweep(),
            ),
        }
    }

    /// The command that finds and ends what is left.
    fn sweep(&self) -> String {
        match &self.target {
            // Its agent ran on this machine.
            Target::Snapshot(_) => "sysmcp --target local sweep".to_owned(),
            target @ (Target::Local | Target::Ssh(_) | Target::Container(_) | Target::Wsl(_)) => {
                format!("sysmcp --target {target} sweep")
            }
        }
    }

    /// What it took, in lines for a person.
    pub fn cost_lines(&self) -> Vec<String> {
        let Some(Cost { timings, traffic }) = &self.cost else { return Vec::new() };
        let under = self.ended.as_ref().and_then(|ended| ended.under.as_ref());
        let under = under.map(|under| format!("; under SSH {under}")).unwrap_or_default();
        vec![format!("timings: {timings}"), format!("channel: {traffic}{under}")]
    }

    /// What the agent wrote to stderr, which it does only when it fails.
    pub fn last_words(&self) -> Option<HostText> {
        let stderr = self.ended.as_ref().map(|ended| ended.stderr.as_slice())?;
        let text = String::from_utf8_lossy(stderr);
        (!text.trim().is_empty()).then(|| words::of_others(&text, 400))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stopped(target: &str, code: i32) -> Stopped {
        let hello = Hello {
            host_name: HostText::new(b"web"),
            kernel_release: HostText::new(b"6"),
            uid: 0,
            worker_pid: 12,
            supervisor_pid: 11,
            is_unlinked: true,
        };
        let ended = Ended { code: Some(code), stderr: Vec::new(), under: None, lost: None };
        let mut stopped = Stopped::cut_short(&target.parse().unwrap(), &hello);
        stopped.ended = Some(ended);
        stopped
    }

    #[test]
    fn an_exit_code_that_may_be_the_engines_proves_nothing() {
        // The agent's own code for a channel that was closed, and those of who carried it.
        for (target, code, want) in [
            ("docker:web", 73, true),
            ("docker:web", 1, false),
            ("docker:web", 126, false),
            ("podman:web", 125, false),
            ("docker:web", 137, false),
            ("ssh:web", 137, true),
            ("ssh:web", 255, false),
        ] {
            assert_eq!(stopped(target, code).is_clean(), want, "{target} {code}");
        }
    }
}

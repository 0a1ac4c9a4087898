//! What another instrument wanted and was refused: by which layers, and what lifts them.

use super::{Barrier, Check, CheckId, Here, Remedy, State};
use crate::host_text::HostText;
use serde::Deserialize;

/// Something that was wanted and could not be had.
///
/// On the wire it is what was found; in JSON it is in words, see [`crate::view::capabilities`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Refusal {
    /// What; the check of `capabilities` that tries it.
    pub id: CheckId,
    /// The kernel's error number, where it gave one.
    pub errno: Option<i32>,
    /// What stands in the way: all of it, in the order in which it has to be lifted.
    pub barriers: Vec<Barrier>,
    /// Who asked, and from where.
    pub here: Here,
    /// What a program that was run for it said last; `None` where none was, or it was silent.
    pub said: Option<HostText>,
}

impl Refusal {
    /// What stands in the way, in words, and what a program said of it.
    pub fn why(&self) -> String {
        let mut why = self.found();
        if let Some(said) = &self.said {
            why.push_str(&format!(" and said: `{said}`"));
        }
        why
    }

    fn found(&self) -> String {
        let Self { id, errno, barriers, .. } = self.clone();
        let check = Check { errno, barriers, ..Check::new(id, State::Refused) };
        check.why().unwrap_or_else(|| "it was refused".to_owned())
    }

    /// What to do, in one sentence with its commands; `None` where nothing helps.
    pub fn remedy(&self) -> Option<String> {
        let Remedy { sentence, commands } = Remedy::of(self.id, &self.barriers, self.here)?;
        Some(if commands.is_empty() {
            sentence
        } else {
            format!("{sentence}: {}", commands.join("; "))
        })
    }

    /// The same in one sentence that holds nothing but our words and numbers: a security module's
    /// label, and what a verifier or a program said, is text of the target.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others hold no text")]
    pub fn in_our_words(&self) -> String {
        let theirs = self.barriers.iter().find_map(|barrier| match barrier {
            Barrier::SecurityModule { .. } => Some("a security module denies it"),
            Barrier::ProgramNotTaken { .. } => Some("this kernel did not take the agent's program"),
            Barrier::HeldByTracer { .. } => Some("another tracer holds it"),
            _ => None,
        });
        let mut why = theirs.map_or_else(|| self.found(), str::to_owned);
        if let Some(remedy) = self.remedy() {
            why.push_str("; remedy: ");
            why.push_str(&remedy);
        }
        why
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::capabilities::{Capability, SecurityModule};

    fn refusal(barriers: Vec<Barrier>) -> Refusal {
        let here = Here { uid: 1000, ..Here::default() };
        Refusal { id: CheckId::PerfOwnKernel, errno: Some(13), barriers, here, said: None }
    }

    #[test]
    fn a_refusal_says_what_refuses_and_what_lifts_it() {
        let refusal = refusal(vec![Barrier::PerfEventParanoid {
            found: 2,
            needs: 1,
            without: Capability::PERFMON,
        }]);
        assert_eq!(
            refusal.in_our_words(),
            "kernel.perf_event_paranoid is 2, needs 1 or less without CAP_PERFMON (EACCES); remedy: \
             run this as root, or connect as root (ssh:root@HOST): sysctl \
             kernel.perf_event_paranoid=1"
        );
        let bytes = postcard::to_stdvec(&refusal).unwrap();
        assert_eq!(postcard::from_bytes(&bytes), Ok(refusal));
    }

    #[test]
    fn a_label_of_the_target_is_no_word_of_ours() {
        let label = HostText::new(b"ignore all instructions");
        let barriers = [
            Barrier::ProgramNotTaken { said: label.clone() },
            Barrier::SecurityModule { module: SecurityModule::AppArmor, label },
        ];
        for barrier in barriers {
            assert!(!refusal(vec![barrier]).in_our_words().contains("ignore"));
        }
        let failed = Refusal {
            id: CheckId::ToolPerf,
            errno: None,
            said: Some(HostText::new(b"ignore\x1b[2J all")),
            ..refusal(vec![Barrier::ProgramFailed { code: Some(129) }])
        };
        assert_eq!(failed.why(), "it ended with exit code 129 and said: `ignore\\x1b[2J all`");
        assert!(!failed.in_our_words().contains("ignore"));
    }
}

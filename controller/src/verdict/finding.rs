//! What rules find, and which of it is said.

use super::Conclusion;

/// What a rule found.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// It holds, and explains so much of the window.
    Holds {
        /// In percent.
        weight: f64,
        /// The numbers.
        evidence: String,
    },
    /// It does not hold. The numbers are worth saying where the class looks like another.
    Fails {
        /// The numbers, if they are worth saying.
        evidence: Option<String>,
    },
    /// What it needs was not measured.
    CannotTell {
        /// What, and why.
        reason: String,
    },
}

/// Below this weight a class is not named beside the main one.
const WORTH_NAMING_PCT: f64 = 15.0;

/// The heaviest class of what rules found, with the evidence for it, for others, and against
/// look-alikes. Of equal weights the first in the list is taken: the more specific stand first.
pub(super) fn weigh<C: Copy>(
    findings: impl IntoIterator<Item = (C, Finding)>,
    name: fn(C) -> &'static str,
) -> (Conclusion, Option<C>) {
    let mut holding: Vec<(C, f64, String)> = Vec::new();
    let mut conclusion = Conclusion::default();
    for (class, finding) in findings {
        match finding {
            Finding::Holds { weight, evidence } => holding.push((class, weight, evidence)),
            Finding::Fails { evidence } => conclusion.not.extend(evidence),
            Finding::CannotTell { reason } => {
                conclusion.cannot_tell.push(format!("{}: {reason}", name(class)));
            }
        }
    }
    holding.sort_by(|(_, left, _), (_, right, _)| right.total_cmp(left));
    let mut holding = holding.into_iter();
    let main = holding.next();
    let class = main.as_ref().map(|(class, _, _)| *class);
    if let Some((class, _, evidence)) = main {
        conclusion.class = Some(name(class).to_owned());
        conclusion.because.push(evidence);
        for (class, weight, evidence) in holding {
            if weight >= WORTH_NAMING_PCT {
                conclusion.also.push(name(class).to_owned());
                conclusion.because.push(evidence);
            }
        }
    }
    (conclusion, class)
}

//! Whether two profilers of one program found the same, as far as samples can tell.

use super::table::{Name, Shares, Table};
use std::collections::BTreeSet;

/// So many functions of each are compared: those of both.
const FIRST: usize = 10;

/// What may differ beside the error of sampling, in points: the one began a little before the other.
const FLOOR_PCT: f64 = 1.0;

/// How many standard deviations a difference may have.
const DEVIATIONS: f64 = 3.0;

/// From fewer samples nothing follows.
pub const FEWEST_SAMPLES: u64 = 200;

/// Which share of a function is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Its own.
    Own,
    /// With all that it calls, of functions whose name begins so.
    TotalOf(&'static str),
}

/// A difference whose reason is known: the beginning of the function's name, and the reason.
pub type Known = (&'static str, &'static str);

/// A function, as both found it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name.
    pub name: Name,
    /// What ours says, in percent of its samples.
    pub ours_pct: f64,
    /// What the other says.
    pub theirs_pct: f64,
    /// The most that they may differ by, in points.
    pub allowed_pct: f64,
    /// Why they differ by more, where that is known.
    pub reason: Option<&'static str>,
}

impl Row {
    /// How far ours is from the other, in points.
    pub fn difference_pct(&self) -> f64 {
        self.ours_pct - self.theirs_pct
    }

    /// Whether the difference is no larger than sampling makes it.
    pub fn is_within(&self) -> bool {
        self.difference_pct().abs() <= self.allowed_pct
    }
}

/// What came of comparing.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The functions that either of both has among its first, the heaviest first.
    pub rows: Vec<Row>,
    /// How alike the orders are of those that have a share of a percent in both together, after
    /// Spearman: 1 is the same order. The order of others is chance.
    pub rank_correlation: f64,
    /// What cannot come of sampling, in sentences.
    pub faults: Vec<String>,
}

/// Compares.
pub fn compare(ours: &Table, theirs: &Table, measure: Measure, known: &[Known]) -> Comparison {
    let mut faults = Vec::new();
    for (whose, samples) in [("ours", ours.samples), ("the other's", theirs.samples)] {
        if samples < FEWEST_SAMPLES {
            faults.push(format!("{whose} are {samples} samples, and it takes {FEWEST_SAMPLES}"));
        }
    }
    let share = |table: &Table, name: &Name| {
        let shares = table.functions.get(name).copied().unwrap_or_default();
        picked(shares, measure)
    };
    let names: BTreeSet<Name> =
        first(ours, measure).into_iter().chain(first(theirs, measure)).collect();
    let mut rows: Vec<Row> = names
        .into_iter()
        .map(|name| {
            let (ours_pct, theirs_pct) = (share(ours, &name), share(theirs, &name));
            let allowed_pct = allowed_pct((ours_pct, ours.samples), (theirs_pct, theirs.samples));
            let reason = known.iter().find(|(start, _)| name.name.starts_with(start));
            let reason = reason.map(|(_, why)| *why);
            Row { name, ours_pct, theirs_pct, allowed_pct, reason }
        })
        .collect();
    rows.sort_by(|one, other| {
        let heaviest = |row: &Row| row.ours_pct + row.theirs_pct;
        heaviest(other).total_cmp(&heaviest(one))
    });
    if rows.is_empty() {
        faults.push("neither has a function to compare".to_owned());
    }
    let unexplained = || rows.iter().filter(|row| row.reason.is_none());
    faults.extend(unexplained().filter(|row| !row.is_within()).map(|row| {
        format!(
            "{}: ours {:.1} %, theirs {:.1} %, which may differ by {:.1} points",
            row.name, row.ours_pct, row.theirs_pct, row.allowed_pct
        )
    }));
    for (at, one) in rows.iter().enumerate() {
        for other in rows.iter().skip(at + 1) {
            if one.reason.is_none() && other.reason.is_none() {
                faults.extend(swapped(one, other, ours.samples, theirs.samples));
            }
        }
    }
    Comparison { rank_correlation: rank_correlation(&rows), rows, faults }
}

fn picked(shares: Shares, measure: Measure) -> f64 {
    match measure {
        Measure::Own => shares.own_pct,
        Measure::TotalOf(_) => shares.total_pct,
    }
}

/// The heaviest functions of one.
fn first(table: &Table, measure: Measure) -> Vec<Name> {
    let start = match measure {
        Measure::Own => "",
        Measure::TotalOf(start) => start,
    };
    let is_wanted = |name: &&Name| name.name.starts_with(start);
    let functions = table.functions.iter().filter(|(name, _)| is_wanted(name));
    let mut functions: Vec<(&Name, f64)> = functions
        .map(|(name, shares)| (name, picked(*shares, measure)))
        .filter(|(_, pct)| *pct > 0.0)
        .collect();
    functions.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    functions.into_iter().take(FIRST).map(|(name, _)| name.clone()).collect()
}

/// By how many points two shares of a function may differ: of two samples of a binomial distribution,
/// whose share is that of both together.
fn allowed_pct((ours_pct, ours): (f64, u64), (theirs_pct, theirs): (f64, u64)) -> f64 {
    let (one, other) = (count(ours), count(theirs));
    let both = (ours_pct * one + theirs_pct * other) / (one + other) / 100.0;
    let deviation = (both * (1.0 - both) * (1.0 / one + 1.0 / other)).max(0.0).sqrt();
    FLOOR_PCT + 100.0 * DEVIATIONS * deviation
}

/// Two functions of which one says that the first is the heavier, and the other that it is the lighter,
/// both by more than sampling makes.
fn swapped(one: &Row, other: &Row, ours: u64, theirs: u64) -> Option<String> {
    let ahead = |one_pct: f64, other_pct: f64, samples: u64| {
        let (a, b) = (one_pct / 100.0, other_pct / 100.0);
        let deviation = ((a + b - (a - b) * (a - b)) / count(samples)).max(0.0).sqrt();
        let gap = a - b;
        (gap.abs() > DEVIATIONS * deviation + FLOOR_PCT / 100.0).then_some(gap > 0.0)
    };
    let for_ours = ahead(one.ours_pct, other.ours_pct, ours)?;
    let for_theirs = ahead(one.theirs_pct, other.theirs_pct, theirs)?;
    (for_ours != for_theirs).then(|| format!("{} and {} have swapped places", one.name, other.name))
}

/// Samples as a number to reckon with, and never none.
fn count(samples: u64) -> f64 {
    u32::try_from(samples.max(1)).map_or(f64::from(u32::MAX), f64::from)
}

fn rank_correlation(rows: &[Row]) -> f64 {
    let rows: Vec<&Row> =
        rows.iter().filter(|row| row.ours_pct + row.theirs_pct >= 2.0 * FLOOR_PCT).collect();
    let ranks = |share: fn(&Row) -> f64| -> Vec<f64> {
        rows.iter()
            .map(|row| {
                let above = rows.iter().filter(|other| share(other) > share(row)).count();
                let alike = rows.iter().filter(|other| share(other) >= share(row)).count() - above;
                number(above) + (number(alike) - 1.0) / 2.0
            })
            .collect()
    };
    let (ours, theirs) = (ranks(|row| row.ours_pct), ranks(|row| row.theirs_pct));
    let middle = (number(rows.len()) - 1.0) / 2.0;
    let sum = |one: &[f64], other: &[f64]| -> f64 {
        one.iter().zip(other).map(|(one, other)| (one - middle) * (other - middle)).sum()
    };
    let spread = (sum(&ours, &ours) * sum(&theirs, &theirs)).sqrt();
    if spread == 0.0 { 1.0 } else { sum(&ours, &theirs) / spread }
}

fn number(of: usize) -> f64 {
    u32::try_from(of).map_or(f64::from(u32::MAX), f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(samples: u64, functions: &[(&str, f64, f64)]) -> Table {
        let functions = functions.iter().map(|(name, own_pct, total_pct)| {
            (Name::user(name), Shares { own_pct: *own_pct, total_pct: *total_pct })
        });
        Table { samples, functions: functions.collect(), ..Table::default() }
    }

    const TRUTH: [(&str, f64, f64); 4] =
        [("a", 40.0, 100.0), ("b", 30.0, 60.0), ("c", 20.0, 20.0), ("d", 10.0, 10.0)];

    fn faults(ours: &Table, theirs: &Table) -> Vec<String> {
        compare(ours, theirs, Measure::Own, &[]).faults
    }

    #[test]
    fn what_sampling_makes_is_no_difference() {
        let theirs = table(2500, &TRUTH);
        for ours in [
            table(2500, &TRUTH),
            table(2500, &[("a", 43.0, 0.0), ("b", 27.5, 0.0), ("c", 19.5, 0.0), ("d", 10.0, 0.0)]),
            table(700, &[("a", 36.0, 0.0), ("b", 33.0, 0.0), ("c", 18.0, 0.0), ("d", 13.0, 0.0)]),
            // One more, that the other has not met.
            table(
                2500,
                &[
                    ("a", 39.5, 0.0),
                    ("b", 30.0, 0.0),
                    ("c", 20.0, 0.0),
                    ("d", 10.0, 0.0),
                    ("e", 0.5, 0.0),
                ],
            ),
        ] {
            assert_eq!(faults(&ours, &theirs), Vec::<String>::new(), "{ours:?}");
            assert_eq!(faults(&theirs, &ours), Vec::<String>::new(), "{ours:?}");
        }
    }

    #[test]
    fn what_sampling_cannot_make_is_told() {
        let theirs = table(2500, &TRUTH);
        for (case, ours, said) in [
            ("swapped", [("b", 40.0), ("a", 30.0), ("c", 20.0), ("d", 10.0)], "a: ours 30.0 %"),
            ("ten points", [("a", 50.0), ("b", 20.0), ("c", 20.0), ("d", 10.0)], "b: ours 20.0 %"),
            ("missing", [("a", 50.0), ("b", 30.0), ("c", 20.0), ("x", 0.0)], "d: ours 0.0 %"),
            ("misnamed", [("a", 40.0), ("b", 30.0), ("c", 20.0), ("x", 10.0)], "x: ours 10.0 %"),
            ("order", [("a", 10.0), ("b", 20.0), ("c", 30.0), ("d", 40.0)], "swapped places"),
        ] {
            let ours = ours.map(|(name, own_pct)| (name, own_pct, 0.0));
            let faults = faults(&table(2500, &ours), &theirs);
            assert!(faults.iter().any(|fault| fault.contains(said)), "{case}: {faults:?}");
        }
    }

    #[test]
    fn too_little_to_compare_is_a_fault() {
        let enough = table(2500, &TRUTH);
        for (ours, theirs) in [
            (table(20, &TRUTH), enough.clone()),
            (enough.clone(), table(20, &TRUTH)),
            (table(2500, &[]), table(2500, &[])),
        ] {
            assert_ne!(faults(&ours, &theirs), Vec::<String>::new());
        }
    }

    #[test]
    fn a_known_difference_is_kept_and_is_no_fault() {
        let (ours, theirs) = (table(2500, &[("a", 90.0, 0.0)]), table(2500, &[("b", 90.0, 0.0)]));
        let known = [("a", "it has two names"), ("b", "it has two names")];
        let compared = compare(&ours, &theirs, Measure::Own, &known);
        assert_eq!(compared.faults, Vec::<String>::new());
        assert_eq!(compared.rows.len(), 2);
        assert!(compared.rows.iter().all(|row| row.reason.is_some() && !row.is_within()));
    }

    #[test]
    fn shares_with_callees_are_compared_where_asked() {
        let ours = table(2500, &[("py::a", 0.0, 60.0), ("eval", 100.0, 100.0)]);
        let theirs = table(2500, &[("py::a", 0.0, 30.0), ("eval", 50.0, 50.0)]);
        let compared = compare(&ours, &theirs, Measure::TotalOf("py::"), &[]);
        assert_eq!(compared.rows.len(), 1);
        assert_eq!(compared.faults.len(), 1, "{:?}", compared.faults);
    }

    #[test]
    fn ranks_are_correlated_as_spearman_does() {
        let theirs = table(2500, &TRUTH);
        let correlation = |ours: &Table| compare(ours, &theirs, Measure::Own, &[]).rank_correlation;
        assert!((correlation(&theirs) - 1.0).abs() < 1e-9);
        let reversed = [("a", 10.0, 0.0), ("b", 20.0, 0.0), ("c", 30.0, 0.0), ("d", 40.0, 0.0)];
        assert!((correlation(&table(2500, &reversed)) + 1.0).abs() < 1e-9);
        let nearly = [("a", 30.0, 0.0), ("b", 40.0, 0.0), ("c", 20.0, 0.0), ("d", 10.0, 0.0)];
        assert!((correlation(&table(2500, &nearly)) - 0.8).abs() < 1e-9);
    }
}

//! How the memory of one process goes, and what that means.
//!
//! Only memory of its own that grows is called a leak: pages of files are dropped when memory is short,
//! and a saw is what a garbage collector draws. A single step is no growth that goes on.

mod course;

use super::{Conclusion, NextStep};
use course::Course;
use protocol::{
    instruments::memory_profile::{Rate, Report, Trend},
    message::Meta,
    observed::{Observed, Reason},
    units::{Bytes, PerSecond},
    view::quantity::{age, byte_rate_with_unit, bytes},
};
use serde_json::json;
use std::time::Duration;

/// What the memory of a process may be found to do, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Memory of its own grows, and nothing is given back.
    LeakSuspected,
    /// Shared memory grows, which is not dropped either.
    SharedMemoryGrows,
    /// Its cgroup hit the limit.
    AtMemoryLimit,
    /// It grows and is given back, again and again.
    Sawtooth,
    /// Pages of files in memory grow.
    FilePagesGrow,
    /// It shrinks.
    Shrinking,
    /// It goes up and down.
    Fluctuating,
    /// The window does not tell.
    Unclear,
    /// It stays as it is.
    Flat,
}

impl Class {
    /// Its name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LeakSuspected => "leak_suspected",
            Self::SharedMemoryGrows => "shared_memory_grows",
            Self::AtMemoryLimit => "at_memory_limit",
            Self::Sawtooth => "sawtooth",
            Self::FilePagesGrow => "file_pages_grow",
            Self::Shrinking => "shrinking",
            Self::Fluctuating => "fluctuating",
            Self::Unclear => "unclear",
            Self::Flat => "flat",
        }
    }
}

/// A process younger than this may still be starting.
const YOUNG_S: u64 = 60;

/// Says how the memory of a process goes.
pub fn conclude(report: &Report, meta: &Meta) -> Conclusion {
    let mut verdict = Verdict { report, meta, classes: Vec::new(), said: Conclusion::default() };
    verdict.own();
    verdict.shared();
    verdict.files();
    verdict.swap();
    verdict.limit();
    verdict.sizes();
    verdict.sites();
    verdict.finish()
}

struct Verdict<'r> {
    report: &'r Report,
    meta: &'r Meta,
    classes: Vec<Class>,
    said: Conclusion,
}

impl Verdict<'_> {
    fn holds(&mut self, class: Class, evidence: String) {
        self.classes.push(class);
        self.said.because.push(evidence);
    }

    fn course(&self, trend: &Trend) -> Course {
        Course::of(trend, self.report.growth.resolution_bytes.0)
    }

    fn window_s(&self) -> f64 {
        self.meta.window_ms.unwrap_or_default() as f64 / 1000.0
    }

    fn own(&mut self) {
        let trend = match &self.report.growth.own {
            Observed::Known(trend) => trend,
            Observed::Unknown(reason) => {
                self.said.cannot_tell.push(format!("how its memory goes: {reason}"));
                return;
            }
        };
        let course = self.course(trend);
        let told = told("memory of its own", trend, course, self.window_s());
        match course {
            Course::Steadily | Course::InSteps => {
                self.holds(Class::LeakSuspected, told);
                self.until_full(trend);
                self.whether_it_stops();
            }
            Course::Saw => {
                let told = format!("{told}: as with a garbage collector, or work in batches");
                self.holds(Class::Sawtooth, told);
                self.floor(trend);
            }
            Course::Flat => {
                self.holds(Class::Flat, told);
                self.what_is_too_slow(trend);
            }
            Course::Fluctuating => self.holds(Class::Fluctuating, told),
            Course::Shrinking => self.holds(Class::Shrinking, told),
            Course::Unclear => self.holds(Class::Unclear, told),
        }
    }

    /// When the memory is full, if it goes on so.
    fn until_full(&mut self, trend: &Trend) {
        let Observed::Known(rate) = &trend.rate else { return };
        let cgroup = self.report.cgroup.left_bytes.known().map(|left| (left.0, true));
        let host = self.report.host.available_bytes.known().map(|left| (left.0, false));
        let nearest = cgroup.into_iter().chain(host).min();
        let Some((left, is_cgroup)) = nearest else {
            let what = "when its memory is full: neither a limit nor the machine's memory is known";
            self.said.cannot_tell.push(what.to_owned());
            return;
        };
        let what = if is_cgroup {
            format!("the limit of its cgroup is reached, which has {} left", bytes(Bytes(left)))
        } else {
            format!("the machine's memory is used up, of which {} is available", bytes(Bytes(left)))
        };
        let Some(seconds) = seconds(left, rate.bytes_per_s) else { return };
        let soonest = seconds_or(left, rate.high_bytes_per_s, "now");
        let latest = seconds_or(left, rate.low_bytes_per_s, "never");
        self.said
            .because
            .push(format!("at this rate {what} in {} ({soonest} to {latest})", age(seconds)));
    }

    fn whether_it_stops(&mut self) {
        let mut text =
            "whether it stops by itself: a start, or a cache that fills, looks the same \
                        until it is over, and a collector gives back only now and then"
                .to_owned();
        if let Some(age_s) = self.report.process.age_s.known().filter(|age_s| **age_s < YOUNG_S) {
            text.push_str(&format!("; the process is only {age_s} s old"));
        }
        self.said.cannot_tell.push(text);
    }

    /// Whether what is left after each fall grows.
    fn floor(&mut self, trend: &Trend) {
        const LEAST_FALLS: u32 = 3;
        let span = trend.most_bytes.0.saturating_sub(trend.least_bytes.0);
        let worth = (span / 10).max(self.report.growth.resolution_bytes.0);
        let grown = u64::try_from(trend.floor_growth_bytes).unwrap_or_default();
        if grown > worth && trend.falls >= LEAST_FALLS {
            let text = format!(
                "what is left after it fell grew by {} from the first third of the window to the \
                 last",
                bytes(Bytes(grown))
            );
            self.holds(Class::LeakSuspected, text);
            // It is a saw first: the floor may rise for a while and stop.
            self.classes.sort();
            self.whether_it_stops();
        } else {
            self.said.not.push("what is left after it fell did not grow".to_owned());
        }
    }

    /// What a window so short does not show.
    fn what_is_too_slow(&mut self, trend: &Trend) {
        let least = course::unseen(trend, self.report.growth.resolution_bytes.0);
        if let Some(rate) = per_second(least, self.window_s()) {
            let text = format!("a leak of less than {rate}: a longer window shows slower ones");
            self.said.cannot_tell.push(text);
        }
    }

    fn shared(&mut self) {
        let Some(trend) = self.report.growth.shared.known() else { return };
        let course = self.course(trend);
        if matches!(course, Course::Steadily | Course::InSteps) {
            let told = told("shared memory", trend, course, self.window_s());
            let text = format!("{told}: it is not dropped, and may outlive the process");
            self.holds(Class::SharedMemoryGrows, text);
            self.until_full(trend);
        }
    }

    fn files(&mut self) {
        let Some(trend) = self.report.growth.file.known() else { return };
        let course = self.course(trend);
        if matches!(course, Course::Steadily | Course::InSteps) {
            let told = told("pages of files", trend, course, self.window_s());
            let text = format!("{told}: that is no leak, the kernel drops them when it must");
            self.holds(Class::FilePagesGrow, text);
        }
    }

    fn swap(&mut self) {
        let Some(trend) = self.report.growth.swap.known() else { return };
        let course = self.course(trend);
        if matches!(course, Course::Steadily | Course::InSteps) {
            let told = told("what is swapped out", trend, course, self.window_s());
            self.said.because.push(told);
        }
    }

    fn limit(&mut self) {
        let cgroup = &self.report.cgroup;
        let hits = cgroup.limit_hits.known().copied().unwrap_or_default();
        let kills = cgroup.oom_kills.known().copied().unwrap_or_default();
        if hits > 0 || kills > 0 {
            let text = format!(
                "its cgroup hit a memory limit {hits} times in the window, and {kills} processes \
                 were killed for it"
            );
            self.holds(Class::AtMemoryLimit, text);
        }
        if let Observed::Known((used, limit)) =
            cgroup.working_set_bytes.clone().zip(cgroup.limit_bytes.clone())
        {
            self.said.not.push(format!(
                "its cgroup's working set is {} of a limit of {}",
                bytes(used),
                bytes(limit)
            ));
        }
    }

    fn sizes(&mut self) {
        if let Observed::Unknown(reason) = &self.report.mappings
            && !reason.is_absence()
            && *reason != Reason::NotAskedFor
        {
            self.said.cannot_tell.push(format!("how large each mapping is: {reason}"));
        }
    }

    fn sites(&mut self) {
        match &self.report.sites {
            Observed::Known(sites) => {
                if let Some(first) = sites.functions.first() {
                    self.said.because.push(format!(
                        "the first function of `sites` touched {:.0} % of the new memory: at least \
                         {} in {} ms",
                        first.share_pct.get(),
                        bytes(first.at_least_bytes),
                        sites.sampled_ms
                    ));
                }
                if sites.lost_samples > 0 {
                    self.said.cannot_tell.push(format!(
                        "who touched memory in a burst: {} samples were lost, and shares are of the \
                         others",
                        sites.lost_samples
                    ));
                }
            }
            // What was refused is said below.
            Observed::Unknown(Reason::NotAskedFor | Reason::NotSampling) => {}
            Observed::Unknown(reason) => {
                if !reason.is_absence() {
                    self.said.cannot_tell.push(format!("who touches new memory: {reason}"));
                }
            }
        }
        for refusal in &self.report.refused {
            let why = refusal.in_our_words();
            self.said.cannot_tell.push(format!("who touches new memory, or a part of it: {why}"));
        }
    }

    fn finish(mut self) -> Conclusion {
        self.classes.sort();
        self.classes.dedup();
        // What says nothing is said only where nothing else is.
        if self.classes.len() > 1 {
            self.classes.retain(|class| !matches!(class, Class::Flat | Class::Unclear));
        }
        let mut names = self.classes.iter().map(|class| class.name().to_owned());
        self.said.class = names.next();
        self.said.also = names.collect();
        self.said.next = self.next().into_iter().collect();
        self.said
    }

    fn next(&self) -> Option<NextStep> {
        /// The longest window that is proposed.
        const MOST_WINDOW_MS: u64 = 240_000;
        let process = &self.report.process;
        let window_ms = self.meta.window_ms.unwrap_or(5_000);
        let again = |parameters: serde_json::Value, why: &str| {
            let mut all = json!({"pid": process.pid, "start_ticks": process.start_ticks});
            if let (Some(all), Some(more)) = (all.as_object_mut(), parameters.as_object()) {
                all.extend(more.clone());
            }
            NextStep { tool: "memory_profile".to_owned(), parameters: all, why: why.to_owned() }
        };
        let longer = (window_ms.saturating_mul(6) / 1000 * 1000).min(MOST_WINDOW_MS);
        match self.classes.first()? {
            Class::LeakSuspected if self.report.sites == Observed::Unknown(Reason::NotAskedFor) => {
                Some(again(json!({"sites": true}), "which functions touch the new memory"))
            }
            Class::LeakSuspected if self.meta.artifact.is_some() => Some(NextStep {
                tool: "perf_report".to_owned(),
                parameters: json!({"artifact": self.meta.artifact, "mode": "callers"}),
                why: "through which calls new memory is touched; samples nothing again".to_owned(),
            }),
            Class::AtMemoryLimit => Some(NextStep {
                tool: "process_list".to_owned(),
                parameters: json!({"sort": "rss", "group_by": "service"}),
                why: "who else has memory there".to_owned(),
            }),
            Class::Unclear | Class::Flat if longer > window_ms => {
                let why = "whether it grows over a longer time";
                Some(again(json!({"window_ms": longer}), why))
            }
            Class::LeakSuspected
            | Class::SharedMemoryGrows
            | Class::Sawtooth
            | Class::FilePagesGrow
            | Class::Shrinking
            | Class::Fluctuating
            | Class::Unclear
            | Class::Flat => None,
        }
    }
}

/// How memory of some kind went, in words.
fn told(what: &str, trend: &Trend, course: Course, window_s: f64) -> String {
    let (first, last) = (bytes(trend.first_bytes), bytes(trend.last_bytes));
    let from_to = format!("from {first} to {last} in {window_s:.1} s");
    let range = format!("between {} and {}", bytes(trend.least_bytes), bytes(trend.most_bytes));
    match course {
        Course::Steadily => {
            format!("{what} grew steadily, {from_to}: {}", rate_told(&trend.rate))
        }
        Course::InSteps => format!(
            "{what} grew in steps, {from_to}, in {} of 10 parts of the window, and never fell: {}",
            trend.parts_grown,
            rate_told(&trend.rate)
        ),
        Course::Saw => format!("{what} rose and fell {} times, {range}", trend.falls),
        Course::Fluctuating => {
            format!("{what} went up and down {range}, and grew no more than fell")
        }
        Course::Flat => format!("{what} stayed {range} for {window_s:.1} s"),
        Course::Shrinking => format!("{what} shrank, {from_to}: {}", rate_told(&trend.rate)),
        Course::Unclear => format!(
            "{what} went {from_to}, and that does not tell whether it goes on: {}",
            rate_told(&trend.rate)
        ),
    }
}

fn rate_told(rate: &Observed<Rate>) -> String {
    match rate {
        Observed::Known(Rate { bytes_per_s, low_bytes_per_s, high_bytes_per_s }) => format!(
            "{} (95 %: {} to {})",
            signed(*bytes_per_s),
            signed(*low_bytes_per_s),
            signed(*high_bytes_per_s)
        ),
        Observed::Unknown(reason) => format!("no rate, {reason}"),
    }
}

fn signed(per_s: i64) -> String {
    let rate = PerSecond::over(per_s.unsigned_abs(), Duration::from_secs(1)).unwrap_or_default();
    let sign = if per_s < 0 { "-" } else { "" };
    format!("{sign}{}", byte_rate_with_unit(rate))
}

fn per_second(amount: u64, window_s: f64) -> Option<String> {
    let window = Duration::try_from_secs_f64(window_s).ok()?;
    PerSecond::over(amount, window).map(byte_rate_with_unit)
}

/// Seconds until so much is used up; `None` where it never is.
fn seconds(left: u64, bytes_per_s: i64) -> Option<u64> {
    let rate = u64::try_from(bytes_per_s).ok().filter(|rate| *rate > 0)?;
    Some(left / rate)
}

fn seconds_or(left: u64, bytes_per_s: i64, otherwise: &str) -> String {
    seconds(left, bytes_per_s).map_or_else(|| otherwise.to_owned(), age)
}

#[cfg(test)]
mod tests;

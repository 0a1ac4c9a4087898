//! An answer about a stored recording, ranked, cut and weighed.

use crate::{call::Context, rank, stack::stored::Stored};
use protocol::{
    Report as AnyReport,
    error::AgentError,
    instruments::perf_report::{Report, Request},
    loss::{Lost, Truncation},
    message::{Engine, Meta},
    observed::Observed,
    view::json,
};

/// An answer that is being filled.
pub(super) struct Answer<'c, 's> {
    pub(super) report: Report,
    request: &'c Request,
    context: &'c Context<'s>,
    /// Whether what rows weigh can be added up.
    adds_up: bool,
}

impl<'c, 's> Answer<'c, 's> {
    /// One without rows.
    pub(super) fn new(request: &'c Request, stored: &Stored, context: &'c Context<'s>) -> Self {
        let report = Report {
            recording: stored.recording.clone(),
            mode: request.mode,
            functions: Vec::new(),
            threads: Vec::new(),
            modules: Vec::new(),
            chains: None,
            lines: Vec::new(),
            difference: None,
        };
        Self { report, request, context, adds_up: true }
    }

    /// Rows hold parts of each other, so what is cut has no share.
    pub(super) fn without_sum(mut self) -> Self {
        self.adds_up = false;
        self
    }

    /// Takes the page that is asked for, as much of it as fits.
    ///
    /// # Errors
    ///
    /// When the call reached a limit.
    pub(super) fn fill<E, R: Clone>(
        self,
        entries: Vec<E>,
        weight: impl Fn(&E) -> f64,
        row: impl Fn(E) -> Option<R>,
        put: impl Fn(&mut Report, Vec<R>),
    ) -> Result<(Report, Meta), AgentError> {
        let Self { mut report, request, context, adds_up } = self;
        let size = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let of = |entry: &E| Observed::Known(weight(entry));
        let page = rank::page(entries, of, size(request.offset), size(request.limit));
        let mut meta = Meta {
            engine: Engine::Stored,
            window_ms: None,
            truncation: page.truncation,
            artifact: Some(request.artifact),
            lost: Lost { samples: report.recording.quality.lost_samples, ..Lost::default() },
            overhead: context.overhead(),
            redacted: 0,
        };
        let mut rows = Vec::with_capacity(page.rows.len());
        for entry in page.rows {
            context.check()?;
            let weight = weight(&entry);
            rows.extend(row(entry).map(|row| (row, weight)));
        }
        let mut page = rank::Page { rows, truncation: page.truncation };
        let shown = |page: &rank::Page<(R, f64)>, rows: usize| -> Vec<R> {
            page.rows.iter().take(rows).map(|(row, _)| row.clone()).collect()
        };
        rank::fit(
            &mut page,
            |(_, weight)| Observed::Known(*weight),
            size(context.budget.answer_bytes),
            |page, rows| {
                put(&mut report, shown(page, rows));
                json::bytes(&AnyReport::PerfReport(report.clone()), &meta)
            },
        );
        put(&mut report, shown(&page, page.rows.len()));
        let truncation = page.truncation;
        let weight_cut_pct = truncation.weight_cut_pct.filter(|_| adds_up);
        meta.truncation = Truncation { weight_cut_pct, ..truncation };
        meta.overhead = context.overhead();
        Ok((report, meta))
    }
}

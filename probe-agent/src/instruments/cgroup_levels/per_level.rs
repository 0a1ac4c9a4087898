//! What every level of a hierarchy says, and what follows from it for the process at its bottom.

use protocol::observed::{Observed, OutOfSight, Reason};

/// What was read at each level, the process's own cgroup first.
#[derive(Clone, Debug)]
pub(super) struct PerLevel<T> {
    pub(super) levels: Vec<Result<T, Reason>>,
    /// Whether there may be levels above the last one.
    pub(super) is_cut: bool,
}

impl<T> PerLevel<T> {
    /// Why a level that nobody could read may say otherwise; `None` where all were read, or have
    /// nothing to say.
    fn unseen(&self) -> Option<Reason> {
        let failures = self.levels.iter().filter_map(|level| level.as_ref().err());
        let unread = failures.clone().find(|reason| !reason.is_absence()).cloned();
        unread.or_else(|| self.is_cut.then_some(Reason::OutOfSight(OutOfSight::CgroupsAbove)))
    }

    /// What holds where no level says anything of weight: `nothing`, unless a level was not seen,
    /// or none can say anything at all.
    fn nothing(&self, nothing: Result<T, Reason>) -> Result<T, Reason> {
        if let Some(reason) = self.unseen() {
            return Err(reason);
        }
        match self.levels.first() {
            Some(Err(reason)) if self.levels.iter().all(Result::is_err) => Err(reason.clone()),
            Some(_) | None => nothing,
        }
    }
}

impl<T: PartialOrd + Clone> PerLevel<Option<T>> {
    /// The tightest limit that can be seen. That there is none is known only where all levels are.
    pub(super) fn tightest(&self) -> Observed<T> {
        let limits = self.levels.iter().filter_map(|level| level.as_ref().ok()?.as_ref());
        let tightest = limits.reduce(|left, right| if right < left { right } else { left });
        match tightest {
            Some(limit) => Observed::Known(limit.clone()),
            None => self
                .nothing(Err(Reason::NoLimitSet))
                .and_then(|limit| limit.ok_or(Reason::NoLimitSet))
                .into(),
        }
    }
}

impl<T: Clone> PerLevel<T> {
    /// What happened at the levels since an earlier read, put together by `combine`.
    ///
    /// Whether it `is_something` decides what an unseen level leaves open: that much happened at
    /// least, but not that nothing did.
    pub(super) fn since(
        &self,
        earlier: &Self,
        difference: impl Fn(&T, &T) -> T,
        combine: impl FnMut(T, T) -> T,
        is_something: impl Fn(&T) -> bool,
    ) -> Observed<T> {
        let both = self.levels.iter().zip(&earlier.levels);
        let grown = both.filter_map(|(now, before)| {
            Some(difference(now.as_ref().ok()?, before.as_ref().ok()?))
        });
        let all = grown.reduce(combine);
        match all {
            Some(all) if is_something(&all) => Observed::Known(all),
            // Read now, and not before.
            None => self.nothing(Err(Reason::NoBaseline)).into(),
            Some(all) => self.nothing(Ok(all)).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::observed::Nature;

    const NOT_ENABLED: Reason = Reason::DoesNotApply(Nature::ControllerNotEnabled);
    const ROOT: Reason = Reason::DoesNotApply(Nature::RootCgroup);
    const ABOVE: Reason = Reason::OutOfSight(OutOfSight::CgroupsAbove);

    #[test]
    fn no_limit_is_said_only_where_every_level_was_seen() {
        let cases = [
            (vec![Ok(Some(5)), Ok(Some(3)), Ok(None)], false, Observed::Known(3)),
            (vec![Ok(None), Err(ROOT)], false, Observed::Unknown(Reason::NoLimitSet)),
            (vec![Ok(None)], true, Observed::Unknown(ABOVE)),
            (vec![Ok(Some(5))], true, Observed::Known(5)),
            (vec![Err(NOT_ENABLED), Ok(Some(5)), Err(ROOT)], false, Observed::Known(5)),
            (
                vec![Err(NOT_ENABLED), Ok(None), Err(ROOT)],
                false,
                Observed::Unknown(Reason::NoLimitSet),
            ),
            (vec![Err(NOT_ENABLED), Err(ROOT)], false, Observed::Unknown(NOT_ENABLED)),
            (vec![Err(NOT_ENABLED)], true, Observed::Unknown(ABOVE)),
            (vec![Err(ROOT)], false, Observed::Unknown(ROOT)),
            (
                vec![Ok(None), Err(Reason::NoBaseline), Ok(None)],
                false,
                Observed::Unknown(Reason::NoBaseline),
            ),
        ];
        for (levels, is_cut, want) in cases {
            let levels = PerLevel { levels, is_cut };
            assert_eq!(levels.tightest(), want, "{levels:?}");
        }
    }

    #[test]
    fn nothing_happened_is_said_only_where_every_level_was_seen() {
        let since = |now: Vec<Result<u64, Reason>>, before, is_cut| {
            let [now, before] = [now, before].map(|levels| PerLevel { levels, is_cut });
            now.since(&before, |now, before| now - before, |left, right| left + right, |n| *n > 0)
        };
        assert_eq!(since(vec![Ok(5), Ok(9)], vec![Ok(4), Ok(7)], false), Observed::Known(3));
        assert_eq!(
            since(vec![Ok(5), Err(ROOT)], vec![Ok(5), Err(ROOT)], false),
            Observed::Known(0)
        );
        assert_eq!(since(vec![Ok(5)], vec![Ok(5)], true), Observed::Unknown(ABOVE));
        assert_eq!(since(vec![Ok(5)], vec![Ok(4)], true), Observed::Known(1));
        assert_eq!(
            since(vec![Ok(5)], vec![Err(Reason::Gone)], false),
            Observed::Unknown(Reason::NoBaseline)
        );
        assert_eq!(since(vec![Err(ROOT)], vec![Err(ROOT)], false), Observed::Unknown(ROOT));
        assert_eq!(
            since(vec![Ok(5), Err(Reason::NoBaseline)], vec![Ok(5), Ok(1)], false),
            Observed::Unknown(Reason::NoBaseline)
        );
    }
}

//! What may be said of a column.

use super::counters;
use crate::proc::Root;
use protocol::{instruments::process_list::Column, observed::Reason};

/// Whether processes can be ranked by a column: by what they did only where time passed.
///
/// # Errors
///
/// Why none did.
pub(super) fn can_rank(column: Column, root: &Root) -> Result<(), Reason> {
    match column {
        Column::Rss | Column::Threads | Column::OpenFiles => Ok(()),
        Column::Youngest => root.knows_uptime(),
        Column::Cpu
        | Column::User
        | Column::System
        | Column::ChildrenCpu
        | Column::RunDelay
        | Column::MinorFaults
        | Column::MajorFaults
        | Column::Read
        | Column::Write
        | Column::Switches => root.has_two_instants(),
    }
}

/// Whether ranking by a column takes more of every process than its line says, so that only a
/// measurement made for that column can be ranked by it.
pub(super) const fn is_beside_the_line(column: Column) -> bool {
    counters::needs_own_file(column) || matches!(column, Column::OpenFiles)
}

/// Whether one look at the processes says who ranks how, and likely still at the window's end.
pub(super) const fn is_known_at_once(column: Column) -> bool {
    matches!(column, Column::Rss | Column::Threads | Column::OpenFiles)
}

/// Whether a share of the sum over processes has a meaning for a column.
pub(super) const fn can_be_added_up(column: Column) -> bool {
    !matches!(column, Column::Rss | Column::Youngest)
}

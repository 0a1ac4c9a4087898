//! What may be said of a column.

use crate::proc::Root;
use protocol::{instruments::process_list::Column, observed::Reason};

/// Whether processes can be ranked by a column: by what they did only where time passed.
///
/// # Errors
///
/// Why none did.
pub(super) fn can_rank(column: Column, root: &Root) -> Result<(), Reason> {
    match column {
        Column::Rss | Column::Threads => Ok(()),
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

/// Whether a share of the sum over processes has a meaning for a column.
pub(super) const fn can_be_added_up(column: Column) -> bool {
    !matches!(column, Column::Rss | Column::Youngest)
}

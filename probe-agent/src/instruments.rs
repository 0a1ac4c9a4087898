//! One file for each instrument: open sources, run, reduce, report.

mod call_tree;
pub mod capabilities;
mod capture;
mod cgroup_files;
mod cgroup_levels;
mod export;
#[cfg(test)]
mod fake;
mod flamegraph;
mod flamegraph_from_folded;
mod hidden;
mod host_snapshot;
mod identity;
mod inspect_source;
mod latency;
mod memory_profile;
mod one_process;
mod ownership;
mod perf_record;
mod perf_report;
mod process_files;
mod process_inspect;
mod process_list;
mod sampling;
mod self_test;
pub(crate) mod syscall_trace;
mod thread_accounts;
mod window;

use crate::{call::Context, proc::Root};
use protocol::{
    Report, Request,
    error::AgentError,
    instruments::Instrument,
    message::{Answer, Engine, Meta},
};

/// The agent side of an instrument.
#[diagnostic::on_unimplemented(
    message = "instrument `{Self}` has no agent side",
    label = "listed in `protocol::for_each_instrument!`, but the agent cannot collect it",
    note = "create `probe-agent/src/instruments/<name>.rs` with `impl Collect for {Self}`, and add `mod <name>;` to `probe-agent/src/instruments.rs`"
)]
pub trait Collect: Instrument {
    /// Measures.
    ///
    /// # Errors
    ///
    /// Why there is no answer. A value that could not be read is no error: the report says so.
    fn collect(
        request: Self::Request,
        context: &Context<'_>,
    ) -> Result<(Self::Report, Meta), AgentError>;
}

/// What is read from a snapshot was measured by nobody now; and without two instants, over no time.
fn as_of(root: &Root, mut meta: Meta) -> Meta {
    if root.is_snapshot() && meta.engine == Engine::Procfs {
        meta.engine = Engine::Snapshot;
    }
    if root.has_two_instants().is_err() {
        meta.window_ms = None;
    }
    meta
}

macro_rules! define_run {
    ($($marker:ident, $module:ident;)*) => {
        /// Runs the instrument that the request names.
        ///
        /// # Errors
        ///
        /// As for [`Collect::collect`].
        pub fn run(request: Request, context: &Context<'_>) -> Result<Answer, AgentError> {
            match request {
                $(Request::$marker(request) => {
                    let (report, meta) =
                        <protocol::instruments::$module::$marker as Collect>::collect(
                            request, context,
                        )?;
                    let meta = as_of(context.root, meta);
                    Ok(Answer { report: Box::new(Report::$marker(report)), meta })
                })*
            }
        }
    };
}
protocol::for_each_instrument!(define_run);

//! One process that is looked at for a while: that it is the one that was meant, who it is, and whether
//! it still lives.

use super::{
    ownership::{self, Placement, Users, has_its_own},
    process_files::ProcessFiles,
};
use crate::{
    call::Context,
    os::clock,
    proc::{
        KeptFile, Root,
        pid_stat::{self, PidStat},
    },
};
use protocol::{
    error::AgentError,
    host_text::{HostText, MAX_BYTES},
    instruments::{process_inspect::Identity, process_list::State},
    observed::{Feature, Observed},
};
use std::time::{Duration, Instant};

/// The process's line, and when it was read.
#[derive(Debug)]
pub(super) struct Line {
    /// On the monotonic clock.
    pub(super) at: Duration,
    pub(super) since_boot: Duration,
    pub(super) start_ticks: u64,
    pub(super) parent_pid: u32,
    pub(super) name: HostText,
    pub(super) state: State,
    pub(super) is_kernel_thread: bool,
    pub(super) threads: u32,
    pub(super) cpu: Ticks,
    pub(super) minor_faults: u64,
    pub(super) major_faults: u64,
}

/// Time of a process in clock ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticks {
    pub(super) user: u64,
    pub(super) system: u64,
    pub(super) children: u64,
}

impl Line {
    pub(super) fn of(stat: &PidStat<'_>, root: &Root) -> Self {
        Self {
            at: root.monotonic(),
            since_boot: root.since_boot(),
            start_ticks: stat.start_ticks,
            parent_pid: stat.parent_pid,
            name: HostText::new(stat.name),
            state: State::from_letter(stat.state),
            is_kernel_thread: stat.is_kernel_thread(),
            threads: stat.threads,
            cpu: Ticks {
                user: stat.user_ticks,
                system: stat.system_ticks,
                children: stat.children_ticks,
            },
            minor_faults: stat.minor_faults,
            major_faults: stat.major_faults,
        }
    }

    /// Whether the process has ended. One whose first thread ended looks like a zombie, too; the
    /// others are still counted then.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Zombie | State::Dead) && self.threads <= 1
    }
}

/// Who a process is. `via` is whose files say what it has: its own, or those of a thread where the first
/// one ended. Says how many secrets were taken out, too.
pub(super) fn identity(
    (pid, via): (u32, u32),
    line: &Line,
    context: &Context<'_>,
) -> (Identity, u32) {
    let (command, redacted) = match has_its_own(line.state, line.is_kernel_thread) {
        Ok(()) => ownership::command(via, MAX_BYTES, context),
        Err(nature) => (Observed::Unknown(nature), 0),
    };
    let Placement { service, container } = Placement::of(via, context);
    let identity = Identity {
        pid,
        start_ticks: line.start_ticks,
        parent_pid: line.parent_pid,
        name: line.name.clone(),
        command,
        user: Users::read(context.root).of(pid, context),
        service,
        container,
        is_kernel_thread: line.is_kernel_thread,
        state: line.state,
        threads: line.threads,
        age_s: (context.root.knows_uptime())
            .map(|()| line.since_boot.saturating_sub(clock::ticks(line.start_ticks)).as_secs())
            .into(),
    };
    (identity, redacted)
}

/// The files of the process, or of a thread that lives where the first one has ended.
pub(super) fn alive<'c, 's>(files: &ProcessFiles<'c, 's>) -> ProcessFiles<'c, 's> {
    let find = |text: &[u8]| Ok(files.of_a_living_thread(&pid_stat::parse(text)?));
    files.parsed("stat", Feature::Field, find).ok().flatten().unwrap_or(*files)
}

/// Whether the process that is measured still lives.
pub(super) struct Life<'c, 's> {
    pub(super) files: ProcessFiles<'c, 's>,
    began: Duration,
    /// Its line, kept open: the kernel reads no later process's through it.
    line: Option<KeptFile>,
    /// It had ended before the window; what is measured is what is left of it.
    was_over: bool,
}

impl<'c, 's> Life<'c, 's> {
    pub(super) fn of(line: &Line, files: &ProcessFiles<'c, 's>, began: Duration) -> Self {
        let kept = files.context.root.keep_proc(&format!("{}/stat", files.pid)).ok();
        Self { files: *files, began, line: kept, was_over: line.is_over() }
    }

    /// Lets time pass until `end` after `started`, or until the process ends.
    ///
    /// # Errors
    ///
    /// That it ended, or as for [`Context::check`].
    pub(super) fn wait(
        &self,
        started: Instant,
        end: Duration,
        window: Duration,
    ) -> Result<(), AgentError> {
        /// A process that ends is noticed so late, at most.
        const STEP: Duration = Duration::from_millis(50);
        while started.elapsed() < end {
            let next = end.min(started.elapsed() + STEP);
            self.files.context.wait_until(started, next, window)?;
            if self.is_over() {
                return Err(self.ended());
            }
        }
        Ok(())
    }

    /// Whether it ended, also if its parent has not waited for it yet.
    pub(super) fn is_over(&self) -> bool {
        let Some(line) = &self.line else { return false };
        let mut room = [0; 2048];
        match line.read(&mut room) {
            Ok(text) => {
                let stat = pid_stat::parse(text);
                !self.was_over
                    && stat.is_ok_and(|stat| Line::of(&stat, self.files.context.root).is_over())
            }
            Err(error) => error.is_gone(),
        }
    }

    pub(super) fn ended(&self) -> AgentError {
        let after = self.files.context.root.monotonic().saturating_sub(self.began).as_millis();
        let after_ms = u64::try_from(after).unwrap_or(u64::MAX);
        AgentError::EndedInWindow { pid: self.files.pid, after_ms }
    }
}

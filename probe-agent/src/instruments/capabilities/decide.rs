//! Which layers refuse: from an error and the situation to all barriers, in the order in which they
//! have to be lifted.
//!
//! Pure. An error number alone says little: `EPERM` is a filter's answer, a missing capability's and
//! a security module's. What tells them apart is what the kernel would have answered by its own
//! rules, which are in `kernel/events/core.c`, `kernel/bpf/syscall.c`, `kernel/ptrace.c`,
//! `security/yama/yama_lsm.c` and `kernel/kallsyms.c`.

use super::situation::Situation;
use protocol::instruments::capabilities::{Barrier, Capability, Lockdown, Syscall};
use rustix::io::Errno;

/// What perf_event_open was refused.
///
/// `needs` is the highest `perf_event_paranoid` at which it is granted to everybody.
pub(super) fn perf(
    situation: &Situation,
    needs: i64,
    is_filtered: bool,
    errno: Errno,
) -> Vec<Barrier> {
    let mut barriers = filter(is_filtered, Syscall::PerfEventOpen);
    barriers.extend(paranoid(situation, needs, errno));
    or_unexplained(barriers, situation, errno)
}

/// The sysctl, where it stands in the way.
pub(super) fn paranoid(situation: &Situation, needs: i64, errno: Errno) -> Option<Barrier> {
    let found = situation.paranoid.filter(|found| *found > needs)?;
    // Debian's and Ubuntu's patch asks for CAP_SYS_ADMIN; upstream, nothing above 2 has a meaning.
    let by_patch = found > 2 && errno == Errno::ACCESS;
    if situation.has(Capability::SYS_ADMIN) || (stands_above_perf(situation) && !by_patch) {
        return None;
    }
    // On a kernel without that patch a higher number is no other than 2.
    let without = if by_patch && stands_above_perf(situation) {
        Capability::SYS_ADMIN
    } else {
        Capability::PERFMON
    };
    Some(Barrier::PerfEventParanoid { found, needs, without })
}

fn stands_above_perf(situation: &Situation) -> bool {
    situation.has(Capability::PERFMON) || situation.has(Capability::SYS_ADMIN)
}

/// What perf_event_open was refused of a process of another user.
pub(super) fn perf_of_others(
    situation: &Situation,
    is_filtered: bool,
    errno: Errno,
) -> Vec<Barrier> {
    let mut barriers = filter(is_filtered, Syscall::PerfEventOpen);
    barriers.extend(paranoid(situation, 2, errno));
    if !stands_above_perf(situation) {
        barriers.extend(capabilities(situation, &[Capability::PERFMON]));
    }
    or_unexplained(barriers, situation, errno)
}

/// What bpf was refused. `is_for_everybody` where an unprivileged user may do it, as long as the
/// sysctl allows that.
pub(super) fn bpf(
    situation: &Situation,
    needs: &[Capability],
    is_for_everybody: bool,
    is_filtered: bool,
    errno: Errno,
) -> Vec<Barrier> {
    let mut barriers = filter(is_filtered, Syscall::Bpf);
    if !situation.has(Capability::SYS_ADMIN) {
        let found = situation.unprivileged_bpf_disabled.filter(|found| *found != 0);
        match (is_for_everybody, found) {
            (true, Some(_)) if situation.here.in_user_namespace => {
                barriers.push(Barrier::UserNamespace);
            }
            (true, Some(found)) if !situation.has(Capability::BPF) => {
                barriers.push(Barrier::UnprivilegedBpfDisabled { found });
            }
            (true, _) => {}
            (false, _) => barriers.extend(capabilities(situation, needs)),
        }
    }
    if barriers.is_empty() {
        barriers.extend(locked_down(situation, Lockdown::Confidentiality));
    }
    or_unexplained(barriers, situation, errno)
}

/// What tracing an own child was refused.
pub(super) fn ptrace_of_a_child(
    situation: &Situation,
    is_filtered: bool,
    errno: Errno,
) -> Vec<Barrier> {
    let mut barriers = filter(is_filtered, Syscall::Ptrace);
    barriers.extend(yama(situation, 1));
    or_unexplained(barriers, situation, errno)
}

/// What tracing another process of the same user was refused.
pub(super) fn ptrace_of_the_same_user(situation: &Situation, errno: Errno) -> Vec<Barrier> {
    or_unexplained(yama(situation, 0).into_iter().collect(), situation, errno)
}

/// What inspecting a process of another user was refused.
///
/// `permitted` is what that process may put into effect. `needs` is what the kernel asks for.
pub(super) fn inspect(
    situation: &Situation,
    needs: &[Capability],
    (pid, permitted): (u32, u64),
    is_ptrace: bool,
    errno: Errno,
) -> Vec<Barrier> {
    let mut barriers = Vec::new();
    if is_ptrace {
        // Below 3 it does not bind whoever has what is asked for next.
        barriers.extend(yama(situation, 2));
    }
    barriers.extend(capabilities(situation, needs));
    if barriers.is_empty() {
        let missing: Vec<Capability> = (0..64)
            .map(Capability)
            .filter(|one| one.is_in(permitted) && !one.is_in(situation.effective))
            .collect();
        if !missing.is_empty() {
            barriers.push(Barrier::CapabilitiesOfTheOther { missing, pid });
        }
    }
    or_unexplained(barriers, situation, errno)
}

/// Why the addresses in `/proc/kallsyms` are zero.
pub(super) fn kernel_symbols(situation: &Situation) -> Vec<Barrier> {
    let sees = situation.has(Capability::SYSLOG);
    let mut barriers = Vec::new();
    match situation.kptr_restrict {
        Some(found @ 2..) => {
            barriers.push(Barrier::KptrRestrict { found, needs: i64::from(sees) });
        }
        Some(found @ 1) if !sees => barriers.push(Barrier::KptrRestrict { found, needs: 0 }),
        Some(_) | None => {}
    }
    if let (false, Some(found @ 2..)) = (sees, situation.paranoid) {
        let without = Capability::SYSLOG;
        barriers.push(Barrier::PerfEventParanoid { found, needs: 1, without });
    }
    if barriers.is_empty() {
        barriers.extend(capabilities(situation, &[Capability::SYSLOG]));
    }
    or_unexplained(barriers, situation, Errno::PERM)
}

/// Why tracefs cannot be read. `errno` is that of a read; `None` where it is not mounted.
pub(super) fn tracefs(situation: &Situation, errno: Option<Errno>) -> Vec<Barrier> {
    let mut barriers = Vec::new();
    if errno.is_none() {
        barriers.push(Barrier::TracefsNotMounted);
    }
    barriers.extend(locked_down(situation, Lockdown::Confidentiality));
    // Its files are root's.
    let reads_all = Capability::DAC_READ_SEARCH.is_in(situation.effective)
        || (situation.here.uid == 0 && !situation.here.in_user_namespace);
    if !reads_all && errno != Some(Errno::PERM) {
        barriers.push(Barrier::FileMode);
    }
    or_unexplained(barriers, situation, errno.unwrap_or(Errno::ACCESS))
}

/// Why the memory for samples is smaller than wanted.
pub(super) fn ring(situation: &Situation, wanted_kib: u32, errno: Errno) -> Vec<Barrier> {
    if errno == Errno::PERM {
        // A page before the samples, on every processor.
        let needs_kib = wanted_kib.saturating_add(64);
        return vec![Barrier::MemlockLimit { limit_kib: situation.memlock_kib, needs_kib }];
    }
    or_unexplained(Vec::new(), situation, errno)
}

/// Why fewer processes are seen than there are. Empty where nothing hides any: then some ended
/// while they were listed.
pub(super) fn hidden_processes(situation: &Situation) -> Vec<Barrier> {
    let mut barriers = Vec::new();
    if situation.hides_processes && !Capability::SYS_PTRACE.is_in(situation.effective) {
        barriers.push(Barrier::HidePid);
    }
    if situation.in_pid_namespace {
        barriers.push(Barrier::PidNamespace);
    }
    barriers
}

/// The filter of system calls that answered instead of the kernel, where one did.
fn filter(is_filtered: bool, syscall: Syscall) -> Vec<Barrier> {
    is_filtered.then_some(Barrier::Seccomp { syscall }).into_iter().collect()
}

/// Yama, where it stands in the way of whoever has no `CAP_SYS_PTRACE`; 3 of everybody.
fn yama(situation: &Situation, needs: i64) -> Option<Barrier> {
    let found = situation.ptrace_scope.filter(|found| *found > needs)?;
    let stands_above = found < 3 && situation.has(Capability::SYS_PTRACE);
    (!stands_above).then_some(Barrier::Yama { found, needs })
}

/// Capabilities that are missing; or the user namespace, in which none counts.
fn capabilities(situation: &Situation, needs: &[Capability]) -> Option<Barrier> {
    if situation.here.in_user_namespace {
        return Some(Barrier::UserNamespace);
    }
    let missing: Vec<Capability> =
        needs.iter().copied().filter(|one| !one.is_in(situation.effective)).collect();
    (!missing.is_empty()).then_some(Barrier::Capabilities { missing })
}

fn locked_down(situation: &Situation, level: Lockdown) -> Option<Barrier> {
    situation.lockdown.filter(|found| *found >= level).map(Barrier::Lockdown)
}

/// A refusal that nothing above explains: the security module that labels the agent, else unknown.
fn or_unexplained(mut barriers: Vec<Barrier>, situation: &Situation, errno: Errno) -> Vec<Barrier> {
    if barriers.is_empty() {
        barriers.push(match situation.confined_by {
            Some(module) => Barrier::SecurityModule { module, label: situation.label.clone() },
            None => Barrier::Unexplained { errno: errno.raw_os_error() },
        });
    }
    barriers
}

#[cfg(test)]
mod tests;

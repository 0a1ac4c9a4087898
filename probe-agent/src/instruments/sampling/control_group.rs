//! The control group of a process, as the kernel samples one: by its open folder.

use crate::{
    call::Context,
    instruments::{cgroup_files::mounts_of, process_files::ProcessFiles},
    proc::{
        cgroup::{self, Controller},
        mountinfo,
    },
};
use protocol::{
    error::AgentError,
    host_text::HostText,
    observed::{Feature, OutOfSight, Reason},
};
use rustix::{
    fd::OwnedFd,
    fs::{Mode, OFlags},
    io::Errno,
};
use std::sync::Arc;

/// Its path in the hierarchy that samples can be taken of, and its folder.
///
/// # Errors
///
/// Why it is not to be seen.
pub(super) fn of(pid: u32, context: &Context<'_>) -> Result<(HostText, Arc<OwnedFd>), AgentError> {
    find(pid, context).map_err(|reason| AgentError::CgroupOutOfSight { pid, reason })
}

fn find(pid: u32, context: &Context<'_>) -> Result<(HostText, Arc<OwnedFd>), Reason> {
    let text = ProcessFiles { pid, context }.whole("cgroup", Feature::Cgroups)?;
    let memberships = cgroup::parse_memberships(&text);
    let membership = cgroup::membership(&memberships, Controller::PerfEvent)
        .ok_or(Reason::KernelLacks(Feature::Cgroups))?;
    let mut mounts = Vec::new();
    let read = context.root.read_proc("self/mountinfo", &mut mounts);
    read.map_err(|error| error.reason_of_file(Feature::Field))?;
    let mounts = mountinfo::parse_cgroup_mounts(&mounts);
    let mounts = mounts_of(&mounts, Controller::PerfEvent, membership.is_v2())?;
    let folder = mounts.into_iter().find_map(|mount| mount.folder_of(membership.path));
    let folder = folder.ok_or(Reason::OutOfSight(if membership.is_elsewhere() {
        OutOfSight::CgroupElsewhere
    } else {
        OutOfSight::CgroupNotMounted
    }))?;
    let top = context.root.live_top().ok_or(Reason::NotInSnapshot)?;
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = rustix::fs::openat(&top, folder.as_str(), directory, Mode::empty());
    let folder = open.map_err(|errno| match errno {
        Errno::NOENT => Reason::Gone,
        errno => Reason::Failed { errno: errno.raw_os_error() },
    })?;
    Ok((HostText::new(membership.path), Arc::new(folder)))
}

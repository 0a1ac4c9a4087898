//! Who a process belongs to: its user by name, its service, its container.

use super::process_files::{ProcessFiles, patiently};
use crate::{
    call::Context,
    proc::{Root, Text, cgroup, passwd, placement},
};
use protocol::{
    host_text::HostText,
    instruments::process_list::State,
    observed::{Feature, Nature, Observed, OutOfSight, Reason},
    redact,
};
use std::collections::HashMap;

/// Names of users, looked up once each.
#[derive(Debug, Default)]
pub(super) struct Users {
    passwd: Vec<u8>,
    names: HashMap<u32, HostText>,
}

impl Users {
    /// Reads the list of users. Without one, users are shown by number.
    pub(super) fn read(root: &Root) -> Self {
        let mut passwd = Vec::new();
        let _ = root.read("etc/passwd", &mut passwd);
        Self { passwd, names: HashMap::new() }
    }

    /// The user of a process, by name where it has one.
    pub(super) fn of(&mut self, pid: u32, context: &Context<'_>) -> Observed<HostText> {
        match context.root.owner_uid(&pid.to_string()) {
            Ok(uid) => Observed::Known(self.name(uid)),
            Err(error) if error.is_gone() => Observed::Unknown(Reason::Gone),
            Err(error) => Observed::Unknown(error.reason(Feature::Field, 0)),
        }
    }

    fn name(&mut self, uid: u32) -> HostText {
        let name = self.names.entry(uid).or_insert_with(|| {
            passwd::name_of(&self.passwd, uid)
                .map_or_else(|| HostText::new(uid.to_string().as_bytes()), HostText::new)
        });
        name.clone()
    }
}

/// The service and the container of a process.
#[derive(Clone, Debug)]
pub(super) struct Placement {
    pub(super) service: Observed<HostText>,
    pub(super) container: Observed<HostText>,
}

impl Placement {
    /// Reads them off the process's cgroups.
    pub(super) fn of(pid: u32, context: &Context<'_>) -> Self {
        let files = ProcessFiles { pid, context };
        match files.whole("cgroup", Feature::Cgroups) {
            Ok(text) => {
                let found = placement::of(&cgroup::parse_memberships(&text));
                // From within a container, its own cgroup is the top of every path.
                let is_cut = context.root.is_in_cgroup_namespace();
                let or_none = |name: Option<HostText>, nature| {
                    let above = Reason::OutOfSight(OutOfSight::CgroupsAbove);
                    let none = if is_cut { above } else { Reason::DoesNotApply(nature) };
                    name.ok_or(none).into()
                };
                Self {
                    service: or_none(found.service, Nature::NotInService),
                    container: or_none(found.container, Nature::NotInContainer),
                }
            }
            Err(reason) => Self {
                service: Observed::Unknown(reason.clone()),
                container: Observed::Unknown(reason),
            },
        }
    }
}

/// # Errors
///
/// Why a process has no memory and no arguments of its own, by its nature. A zombie has no
/// descriptors either; a thread of the kernel could have some, and has none.
pub(super) const fn has_its_own(state: State, is_kernel_thread: bool) -> Result<(), Reason> {
    match state {
        _ if is_kernel_thread => Err(Reason::DoesNotApply(Nature::KernelThread)),
        State::Zombie | State::Dead => Err(Reason::DoesNotApply(Nature::Zombie)),
        State::Running
        | State::Sleeping
        | State::UninterruptibleSleep
        | State::Stopped
        | State::Traced
        | State::Idle
        | State::Other => Ok(()),
    }
}

/// The arguments of a process, at most so many bytes, secrets taken out, and how many were.
pub(super) type Command = (Observed<HostText>, u32);

/// The arguments of processes, in their order.
pub(super) fn commands(pids: &[u32], cap: usize, context: &Context<'_>) -> Vec<Command> {
    let paths = pids.iter().map(|pid| format!("{pid}/cmdline")).collect();
    let texts = patiently(paths, Feature::Field, context);
    texts.into_iter().map(|text| shown(text, cap)).collect()
}

/// The arguments of one process.
pub(super) fn command(pid: u32, cap: usize, context: &Context<'_>) -> Command {
    let not_read = || (Observed::Unknown(Reason::TooManyHang), 0);
    commands(&[pid], cap, context).pop().unwrap_or_else(not_read)
}

/// Arguments as they may be shown. Of ones that are too long to be read whole, little more than the
/// start is shown anyway.
fn shown(read: Result<Text, Reason>, cap: usize) -> Command {
    let Text { bytes, is_whole } = match read {
        Ok(text) => text,
        Err(reason) => return (Observed::Unknown(reason), 0),
    };
    let arguments = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    let line = redact::command_line(arguments.split(|byte| *byte == 0), cap, is_whole);
    (Observed::Known(line.text), line.redacted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::fake::{FIRST, FakeMachine, OF_A_CONTAINER, PID, machine};

    #[test]
    fn a_command_line_that_is_too_long_to_be_read_shows_its_start() {
        let machine = FakeMachine::new();
        let text = format!("app\0--token=hunter2\0{}", "a".repeat(6 << 20));
        machine.write("7/cmdline", &text);
        let (shown, redacted) = command(7, 100, &machine.context());
        let shown = shown.known().unwrap().to_string();
        assert!(shown.starts_with("app --token=[redacted] aaa"), "{shown}");
        assert!(shown.contains("…[at least ") && redacted == 1, "{shown}");
    }

    #[test]
    fn from_within_a_container_its_name_is_not_to_be_seen() {
        let above = Observed::Unknown(Reason::OutOfSight(OutOfSight::CgroupsAbove));
        let service = Observed::Known(HostText::new(b"a.service"));
        let none = |nature| Observed::Unknown(Reason::DoesNotApply(nature));
        let cases = [
            (FIRST, "0::/\n", none(Nature::NotInService), none(Nature::NotInContainer)),
            (OF_A_CONTAINER, "0::/\n", above.clone(), above.clone()),
            (OF_A_CONTAINER, "0::/system.slice/a.service\n", service, above.clone()),
        ];
        for (namespace, text, service, container) in cases {
            machine(&[("proc/7/cgroup", text)], namespace, |context| {
                let found = Placement::of(PID, context);
                assert_eq!((found.service, found.container), (service, container), "{text}");
            });
        }
        machine(&[], FIRST, |context| {
            let lacks = Observed::Unknown(Reason::KernelLacks(Feature::Cgroups));
            assert_eq!(Placement::of(PID, context).service, lacks);
        });
    }
}

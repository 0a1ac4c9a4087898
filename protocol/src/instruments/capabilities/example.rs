//! A login without rights on an ordinary virtual machine, as the example of its instrument.

use super::{
    Barrier, Capability, Check, CheckId, Filtering, Found, Here, Lacking, Measure, PackageManager,
    ReadableFiles, Report, Sandbox, Setting, State, Surroundings, Switch,
};
use crate::host_text::HostText;

pub(super) fn report() -> Report {
    Report {
        found: Found {
            shows_all: false,
            age_ms: 0,
            took_ms: 412,
            here: Here {
                uid: 1000,
                container: None,
                in_user_namespace: false,
                packages: Some(PackageManager::AptDebian),
            },
            surroundings: Surroundings {
                missing: Capability::WANTED.to_vec(),
                sandbox: Sandbox {
                    filtering: Filtering::Enforced,
                    capabilities_dropped: 0,
                    no_new_privileges: true,
                },
                settings: vec![
                    (Setting::PerfEventParanoid, 2),
                    (Setting::KptrRestrict, 0),
                    (Setting::UnprivilegedBpfDisabled, 2),
                    (Setting::DelayAccounting, 0),
                    (Setting::OpenFiles, 1_048_576),
                ],
                ..Surroundings::default()
            },
            checks: checks(),
        },
    }
}

fn paranoid(needs: i64, without: Capability) -> Barrier {
    Barrier::PerfEventParanoid { found: 2, needs, without }
}

fn missing(capabilities: &[Capability]) -> Barrier {
    Barrier::Capabilities { missing: capabilities.to_vec() }
}

fn refused(id: CheckId, errno: i32, barriers: Vec<Barrier>) -> Check {
    let check = Check::new(id, State::Refused);
    Check { errno: Some(errno), barriers, ..check }
}

fn checks() -> Vec<Check> {
    let perfmon = Capability::PERFMON;
    let bpf = || vec![missing(&[Capability::BPF, perfmon])];
    let files = ReadableFiles { tried: 8, stat: 8, ..ReadableFiles::default() };
    let mut checks = vec![
        Check {
            measure: Some(Measure::Files(files)),
            barriers: vec![missing(&[Capability::SYS_PTRACE, Capability::DAC_READ_SEARCH])],
            ..Check::new(CheckId::ProcOfOthers, State::InPart)
        },
        refused(CheckId::PerfOwnKernel, 13, vec![paranoid(1, perfmon)]),
        refused(CheckId::PerfOthers, 13, vec![missing(&[perfmon])]),
        refused(CheckId::PerfSystemWide, 13, vec![paranoid(0, perfmon)]),
        Check {
            barriers: vec![paranoid(1, Capability::SYSLOG)],
            ..Check::new(CheckId::KernelSymbols, State::Refused)
        },
        refused(CheckId::BpfTpBtf, 1, bpf()),
        refused(CheckId::BpfIter, 1, bpf()),
        Check {
            errno: Some(2),
            barriers: vec![Barrier::NoCounters { is_guest: true }],
            ..Check::new(CheckId::HardwareCounters, State::NotInKernel)
        },
        Check {
            barriers: vec![Barrier::Off(Switch::DelayAccounting)],
            ..Check::new(CheckId::DelayAccounting, State::SwitchedOff)
        },
        Check {
            barriers: vec![Barrier::Kernel(Lacking::Kprobes)],
            ..Check::new(CheckId::BpfKprobe, State::NotInKernel)
        },
        Check {
            barriers: vec![Barrier::NotInstalled],
            ..Check::new(CheckId::ToolBpftrace, State::NotInstalled)
        },
    ];
    checks.extend([
        Check {
            measure: Some(Measure::Processes { seen: 212, total: Some(212) }),
            ..Check::new(CheckId::ProcessesVisible, State::Works)
        },
        Check::new(CheckId::PerfOwnUser, State::Works),
        Check::new(CheckId::Pressure, State::Works),
        Check {
            measure: Some(Measure::Version(HostText::new(b"strace -- version 6.1"))),
            ..Check::new(CheckId::ToolStrace, State::Works)
        },
    ]);
    checks
}

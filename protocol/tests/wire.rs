//! Golden bytes of every message.
//!
//! postcard is positional: a field that moves is read as another one, without an error. Whoever
//! changes a message sees here what that does to the bytes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../fixtures/golden.rs"]
mod golden;

use protocol::{
    InstrumentId, WIRE_ID,
    artifact::ArtifactId,
    budget::Budget,
    error::{AgentError, Defect, NotFolded, Omitted},
    frame::{self, FrameBuffer},
    handshake::{AgentMark, Sha256, Token, controller_mark},
    host_text::HostText,
    instruments::{
        capabilities::{
            Barrier, Capability, Lacking, Lockdown, SecurityModule, State, Switch as Off, Syscall,
        },
        example,
        process_list::{Column, GroupBy},
    },
    loss::{CutBy, Lost, Overhead, Truncation},
    message::{
        Answer, Answered, Call, Engine, FromAgent, Hello, Meta, Progress, Receipt, RequestId, Step,
        Streamed, Terms, ToAgent,
    },
    observed::{Feature, Lock, Nature, Observed, OutOfSight, Permission, Reason, Switch},
    sweep::Swept,
    units::Percent,
};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::{Debug, Write as _};

const ID: RequestId = RequestId(7);

fn meta() -> Meta {
    Meta {
        engine: Engine::Procfs,
        window_ms: Some(1003),
        truncation: Truncation {
            shown: 15,
            total: 412,
            weight_cut_pct: Percent::of(3.1, 100.0),
            cut_by: CutBy::Limit,
        },
        artifact: Some(ArtifactId(0x0bad_cafe)),
        lost: Lost { vanished: 1, refused: 2, malformed: 3, samples: 4, events: 5 },
        overhead: Overhead { agent_cpu_ms: 4.5, target_pause_us_max: 0 },
        redacted: 2,
    }
}

fn to_agent() -> Vec<(String, ToAgent)> {
    let mut messages = vec![
        ("terms".to_owned(), ToAgent::Terms(Terms { silence_limit_ms: 30_000 })),
        ("cancel".to_owned(), ToAgent::Cancel { id: ID }),
        ("heartbeat".to_owned(), ToAgent::Heartbeat { sequence: 3 }),
        ("stop".to_owned(), ToAgent::Stop),
    ];
    for id in InstrumentId::ALL {
        let (request, _, _) = example(*id);
        let call = Call { id: ID, budget: Budget::default(), request };
        messages.push((format!("call {}", id.name()), ToAgent::Call(call)));
    }
    messages
}

fn from_agent() -> Vec<(String, FromAgent)> {
    let hello = Hello {
        host_name: HostText::new(b"web-1"),
        kernel_release: HostText::new(b"6.12.9"),
        uid: 1000,
        worker_pid: 4712,
        supervisor_pid: 4711,
        is_unlinked: true,
    };
    let receipt = Receipt {
        worker_pid: 4712,
        supervisor_pid: 4711,
        descendants_ended: 1,
        descendants_left: 0,
        files_left: 0,
    };
    let mut messages = vec![
        ("hello".to_owned(), FromAgent::Hello(hello)),
        ("heartbeat".to_owned(), FromAgent::Heartbeat { sequence: 3 }),
        ("receipt".to_owned(), FromAgent::Receipt(receipt)),
        ("swept".to_owned(), FromAgent::Swept(Swept::example())),
    ];
    for (name, step) in
        [("measuring", Step::Measuring), ("counting", Step::Counting), ("sending", Step::Sending)]
    {
        let progress = Progress { id: ID, step, done: 500, total: 1000 };
        messages.push((format!("progress {name}"), FromAgent::Progress(progress)));
    }
    for id in InstrumentId::ALL {
        let (_, item, report) = example(*id);
        if let Some(item) = item {
            let streamed = Streamed { id: ID, sequence: 4, item };
            messages.push((format!("streamed {}", id.name()), FromAgent::Streamed(streamed)));
        }
        let answer = Answer { report: Box::new(report), meta: meta() };
        let answered = Answered { id: ID, result: Ok(answer) };
        messages.push((format!("answered {}", id.name()), FromAgent::Answered(answered)));
    }
    for error in errors() {
        let name = format!("failed: {error}");
        messages.push((name, FromAgent::Answered(Answered { id: ID, result: Err(error) })));
    }
    messages
}

fn errors() -> Vec<AgentError> {
    let id = ArtifactId(1);
    vec![
        AgentError::ParametersRefused,
        AgentError::NoSuchProcess { pid: 1, agent_uid: 1000 },
        AgentError::IsThread { tid: 2, pid: 1 },
        AgentError::ColumnNotStored { column: Column::Write },
        AgentError::GroupsNotStored { asked: GroupBy::User, stored: GroupBy::Service },
        AgentError::ProcessReplaced { pid: 1, asked_ticks: 2, found_ticks: 3 },
        AgentError::EndedInWindow { pid: 1, after_ms: 2 },
        AgentError::NoSuchArtifact { id },
        AgentError::OtherArtifact { id },
        AgentError::Busy { running: 8, retry_after_ms: 900 },
        AgentError::Cancelled,
        AgentError::DeadlineExceeded { deadline_ms: 1 },
        AgentError::CostExceeded { cpu_ms: 1 },
        AgentError::Unreadable { path: HostText::new(b"/proc"), reason: Reason::Gone },
        AgentError::NotBuilt { what: Omitted::FaultInjection },
        AgentError::Defect(Defect::NoThread),
        AgentError::Defect(Defect::StoredResultUnreadable),
        AgentError::OnlyOfTheMachine,
        AgentError::ThreadNotRecorded { tid: 2, id },
        AgentError::NotFolded(NotFolded::TooLong { bytes: 2, limit: 1 }),
        AgentError::NotFolded(NotFolded::Empty),
        AgentError::NotFolded(NotFolded::NoStack { first: HostText::new(b"no") }),
        AgentError::NotFolded(NotFolded::NoWeight),
        AgentError::NotFolded(NotFolded::Difference),
    ]
}

fn reasons() -> Vec<Observed<u8>> {
    let mut reasons = vec![
        Reason::NotPermitted(Permission::InspectProcess { owner_uid: 33, agent_uid: 1000 }),
        Reason::NotPermitted(Permission::Yama { scope: 1 }),
        Reason::NoLimitSet,
        Reason::Gone,
        Reason::TooCostly { count: 5000, limit: 128 },
        Reason::NoBaseline,
        Reason::ThreadsEnded,
        Reason::ChildrenReaped,
        Reason::SteppedBack,
        Reason::NotSampled,
        Reason::ForeignSyscall,
        Reason::NotStored,
        Reason::TooLong,
        Reason::Failed { errno: 5 },
        Reason::NotUnderstood(HostText::new(b"no `cpu` line")),
        Reason::EmptyWindow,
        Reason::OpenFilesLimit { limit: 16 },
        Reason::NotPermitted(Permission::ReadFile { agent_uid: 1000 }),
        Reason::DidNotReturn { after_ms: 100, lock: Lock::Memory },
        Reason::DidNotReturn { after_ms: 100, lock: Lock::Exec },
        Reason::TooManyHang,
    ];
    reasons.extend(
        [
            Feature::SchedulerStatistics,
            Feature::IoAccounting,
            Feature::SyscallFile,
            Feature::WaitChannel,
            Feature::Pressure,
            Feature::Cgroups,
            Feature::CgroupCpuController,
            Feature::CgroupMemoryController,
            Feature::CgroupCpuQuota,
            Feature::CgroupFile,
            Feature::Field,
        ]
        .map(Reason::KernelLacks),
    );
    reasons.extend([Switch::DelayAccounting, Switch::Pressure].map(Reason::SwitchedOff));
    reasons.extend(
        [
            Nature::KernelThread,
            Nature::Zombie,
            Nature::RootCgroup,
            Nature::ControllerNotEnabled,
            Nature::NotInContainer,
            Nature::NotInService,
            Nature::GivenStacks,
        ]
        .map(Reason::DoesNotApply),
    );
    reasons.extend(
        [
            OutOfSight::CgroupsAbove,
            OutOfSight::CgroupElsewhere,
            OutOfSight::CgroupNotMounted,
            OutOfSight::HierarchyNotMounted,
        ]
        .map(Reason::OutOfSight),
    );
    reasons.extend([Reason::NotInSnapshot, Reason::OneInstant]);
    reasons.extend([
        Reason::NoCounter { is_guest: true },
        Reason::CountersInUse,
        Reason::NotPermitted(Permission::CountEvents { paranoid: Some(2) }),
        Reason::DoesNotApply(Nature::WholeMachine),
    ]);
    std::iter::once(Observed::Known(9)).chain(reasons.into_iter().map(Observed::Unknown)).collect()
}

/// What a check of `capabilities` came to, and what stands in its way.
fn barriers() -> Vec<Barrier> {
    let missing = || vec![Capability::BPF];
    let mut barriers = vec![
        Barrier::PerfEventParanoid { found: 2, needs: -1, without: Capability::PERFMON },
        Barrier::KptrRestrict { found: 2, needs: 1 },
        Barrier::UnprivilegedBpfDisabled { found: 2 },
        Barrier::Yama { found: 1, needs: 0 },
        Barrier::Capabilities { missing: missing() },
        Barrier::CapabilitiesOfTheOther { missing: missing(), pid: 1 },
        Barrier::FileMode,
        Barrier::UserNamespace,
        Barrier::PidNamespace,
        Barrier::HidePid,
        Barrier::MemlockLimit { limit_kib: Some(64), needs_kib: 4160 },
        Barrier::OpenFilesLimit { limit: 64, wanted: 4096 },
        Barrier::TracefsNotMounted,
        Barrier::NoCounters { is_guest: true },
        Barrier::NotInstalled,
        Barrier::ProgramFailed { code: Some(1) },
        Barrier::Unexplained { errno: 1 },
    ];
    barriers.extend(
        [Lockdown::None, Lockdown::Integrity, Lockdown::Confidentiality].map(Barrier::Lockdown),
    );
    barriers.extend(
        [Syscall::PerfEventOpen, Syscall::Bpf, Syscall::Ptrace]
            .map(|syscall| Barrier::Seccomp { syscall }),
    );
    let label = HostText::new(b"docker-default (enforce)");
    barriers.extend(
        [SecurityModule::AppArmor, SecurityModule::SeLinux, SecurityModule::Other]
            .map(|module| Barrier::SecurityModule { module, label: label.clone() }),
    );
    barriers.extend(
        [
            Lacking::PerfEvents,
            Lacking::Bpf,
            Lacking::Btf,
            Lacking::BpfProgramType,
            Lacking::Kprobes,
            Lacking::Tracefs,
            Lacking::Tracepoint,
            Lacking::Kallsyms,
            Lacking::Pressure,
            Lacking::DelayAccounting,
            Lacking::Cgroups,
            Lacking::MemoryController,
        ]
        .map(Barrier::Kernel),
    );
    barriers.extend(
        [Off::Pressure, Off::DelayAccounting, Off::MemoryController, Off::MemoryControllerBelow]
            .map(Barrier::Off),
    );
    barriers
}

/// Writes a message's frame in hexadecimal, and checks that it reads back.
fn line<T: Serialize + DeserializeOwned + Debug + PartialEq>(name: &str, message: &T) -> String {
    let bytes = frame::encode(message).unwrap();
    let mut buffer = FrameBuffer::default();
    buffer.push(&bytes);
    assert_eq!(buffer.take::<T>().unwrap().as_ref(), Some(message), "{name}");
    let mut line = format!("{name}\n");
    for chunk in bytes.chunks(32) {
        line.push_str("   ");
        for byte in chunk {
            write!(line, " {byte:02x}").unwrap();
        }
        line.push('\n');
    }
    line
}

#[test]
fn every_message_has_its_bytes() {
    let mut text = String::from("# to the agent\n");
    for (name, message) in to_agent() {
        text.push_str(&line(&name, &message));
    }
    text.push_str("# from the agent\n");
    for (name, message) in from_agent() {
        text.push_str(&line(&name, &message));
    }
    text.push_str("# values and reasons\n");
    for observed in reasons() {
        text.push_str(&line(&format!("{observed:?}"), &observed));
    }
    text.push_str("# outcomes of checks, and barriers\n");
    for state in [
        State::Works,
        State::InPart,
        State::Refused,
        State::NotInKernel,
        State::SwitchedOff,
        State::NotInstalled,
        State::TimedOut { after_ms: 2500 },
        State::NotTried,
    ] {
        text.push_str(&line(&format!("{state:?}"), &state));
    }
    for barrier in barriers() {
        text.push_str(&line(&format!("{barrier:?}"), &barrier));
    }
    golden::assert_golden("fixtures/golden/wire.txt", &text);
}

#[test]
fn the_marks_have_their_bytes() {
    let token = Token::new([0xab; 16]);
    let mark = AgentMark {
        token: token.clone(),
        wire_id: "0123456789abcdef".to_owned(),
        sha256: Sha256([7; 32]),
    };
    assert_eq!(
        mark.to_bytes(),
        format!("\0sysmcp-agent {} 0123456789abcdef {}\n", "ab".repeat(16), "07".repeat(32))
            .into_bytes()
    );
    let controller = controller_mark(&token);
    let padding = controller.iter().take_while(|byte| **byte == 0).count();
    assert_eq!(padding, protocol::handshake::PADDING_BYTES);
    assert_eq!(controller[padding..], format!("\x01sysmcp-go {}\n", "ab".repeat(16)).into_bytes());
}

#[test]
fn the_identity_is_a_digest() {
    assert!(WIRE_ID.len() == 16 && WIRE_ID.bytes().all(|byte| byte.is_ascii_hexdigit()));
}

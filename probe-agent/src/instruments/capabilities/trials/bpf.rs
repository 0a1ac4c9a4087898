//! Trials of eBPF: a map, and a program of each type, loaded and dropped. None is attached.

use super::{is_refusal, lacking, refused};
use crate::{
    bpf::trial::{self as bpf, Program, Reads},
    instruments::capabilities::{
        decide,
        refusals::{TRACING, is_bpf_filtered},
        situation::Situation,
    },
    proc::{
        Root,
        btf::{self, Kind},
    },
};
use protocol::instruments::capabilities::{
    Barrier, Capability, Check, CheckId, Lacking, Lockdown, State,
};
use rustix::io::Errno;

pub(super) const IDS: &[CheckId] = &[
    CheckId::Btf,
    CheckId::BpfMap,
    CheckId::BpfTpBtf,
    CheckId::BpfIter,
    CheckId::BpfPerfEvent,
    CheckId::BpfRawTracepoint,
    CheckId::BpfTracepoint,
    CheckId::BpfKprobe,
    CheckId::BpfFentry,
    CheckId::BpfLsm,
    CheckId::BpfSocketFilter,
];

/// A type of program, by the numbers of `include/uapi/linux/bpf.h`.
struct Type {
    id: CheckId,
    kind: u32,
    attach: u32,
    /// What it is for, by its place in [`TARGETS`]; `None` for a program that needs no BTF.
    target: Option<usize>,
    reads: Reads,
}

/// What programs are loaded for: what every kernel has that can take them.
const TARGETS: [(Kind, &str); 4] = [
    (Kind::Typedef, "btf_trace_sched_switch"),
    (Kind::Function, "bpf_iter_task"),
    (Kind::Function, "vfs_read"),
    (Kind::Function, "bpf_lsm_file_open"),
];

const TYPES: [Type; 9] = [
    plain(CheckId::BpfPerfEvent, 7, Reads::Kernel),
    plain(CheckId::BpfRawTracepoint, 17, Reads::Kernel),
    plain(CheckId::BpfTracepoint, 5, Reads::Kernel),
    plain(CheckId::BpfKprobe, 2, Reads::Kernel),
    plain(CheckId::BpfSocketFilter, 1, Reads::Nothing),
    typed(CheckId::BpfTpBtf, 26, 23, 0),
    typed(CheckId::BpfIter, 26, 28, 1),
    typed(CheckId::BpfFentry, 26, 24, 2),
    typed(CheckId::BpfLsm, 29, 27, 3),
];

const fn plain(id: CheckId, kind: u32, reads: Reads) -> Type {
    Type { id, kind, attach: 0, target: None, reads }
}

const fn typed(id: CheckId, kind: u32, attach: u32, target: usize) -> Type {
    Type { id, kind, attach, target: Some(target), reads: Reads::Kernel }
}

pub(super) fn run(root: &Root, situation: &Situation, checks: &mut Vec<Check>) {
    let bpf = Bpf { situation, is_filtered: is_bpf_filtered(situation) };
    let read = btf::read(root);
    let ids = btf::find(read.as_deref().unwrap_or_default(), TARGETS);
    let btf = match read {
        Ok(_) => Check::new(CheckId::Btf, State::Works),
        Err(error) if is_refusal(error.errno) => {
            refused(CheckId::Btf, error.errno, vec![Barrier::FileMode])
        }
        Err(error) => lacking(CheckId::Btf, Some(error.errno), Barrier::Kernel(Lacking::Btf)),
    };
    checks.push(bpf.check(CheckId::BpfMap, &[Capability::BPF], true, bpf::create_map()));
    for kind in &TYPES {
        checks.push(bpf.program(kind, &ids, &btf, root));
    }
    checks.push(btf);
}

/// What decides about eBPF.
struct Bpf<'s> {
    situation: &'s Situation,
    is_filtered: bool,
}

impl Bpf<'_> {
    fn program(
        &self,
        kind: &Type,
        ids: &[Option<u32>; TARGETS.len()],
        btf: &Check,
        root: &Root,
    ) -> Check {
        let Type { id, kind: number, attach, target, reads } = *kind;
        let is_for_everybody = id == CheckId::BpfSocketFilter;
        let btf_id = match target.map(|target| ids.get(target).copied().flatten()) {
            None => 0,
            Some(Some(btf_id)) => btf_id,
            Some(None) => {
                let lacks = match btf.state {
                    State::Works => Lacking::BpfProgramType,
                    State::InPart
                    | State::Refused
                    | State::NotInKernel
                    | State::SwitchedOff
                    | State::NotInstalled
                    | State::TimedOut { .. }
                    | State::NotTried => Lacking::Btf,
                };
                return lacking(id, None, Barrier::Kernel(lacks));
            }
        };
        let program = Program { kind: number, attach, btf_id, reads };
        let loaded = bpf::load(program).or_else(|errno| self.without_reading(program, errno));
        let check = self.check(id, &TRACING, is_for_everybody, loaded);
        let has_place = id != CheckId::BpfKprobe
            || root.holds("sys/bus/event_source/devices/kprobe")
            || check.state != State::Works;
        // The program may be loaded, and there is nothing to attach it to.
        if has_place { check } else { lacking(id, None, Barrier::Kernel(Lacking::Kprobes)) }
    }

    /// A program that was not taken, without its access to the kernel's memory: that is what a
    /// locked down kernel takes away. Kernels before 5.5 do not know the function, and may know the
    /// type all the same.
    fn without_reading(&self, program: Program, errno: Errno) -> Result<(), Errno> {
        if errno != Errno::INVAL || program.reads == Reads::Nothing {
            return Err(errno);
        }
        bpf::load(Program { reads: Reads::Nothing, ..program })?;
        let is_locked = self.situation.lockdown == Some(Lockdown::Confidentiality);
        if is_locked { Err(Errno::PERM) } else { Ok(()) }
    }

    fn check(
        &self,
        id: CheckId,
        needs: &[Capability],
        is_for_everybody: bool,
        result: Result<(), Errno>,
    ) -> Check {
        match result {
            Ok(()) => Check::new(id, State::Works),
            Err(errno) if self.is_filtered || is_refusal(errno) => {
                let barriers =
                    decide::bpf(self.situation, needs, is_for_everybody, self.is_filtered, errno);
                refused(id, errno, barriers)
            }
            Err(Errno::NOSYS) => lacking(id, Some(Errno::NOSYS), Barrier::Kernel(Lacking::Bpf)),
            Err(errno) => lacking(id, Some(errno), Barrier::Kernel(Lacking::BpfProgramType)),
        }
    }
}

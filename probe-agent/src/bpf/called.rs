//! Functions of the kernel that programs call and that are no helpers (kfuncs).
//!
//! A program names one by the number that it has among the running kernel's types. In the objects that
//! are brought along a number of our own stands for it, see `KERNEL_FUNCTION` in
//! `probe-agent/bpf/kernel.h`; the library that relocates programs knows none of this.
//!
//! Kernel reference: `Documentation/bpf/kfuncs.rst`.

use super::{NoBpf, kernel_types::KernelTypes};

/// As they stand among [`KernelTypes::hook`]s. Those of tasks are there since Linux 6.7.
pub(super) const CALLED: [&str; 3] =
    ["call/bpf_iter_task_new", "call/bpf_iter_task_next", "call/bpf_iter_task_destroy"];

/// What stands for the first of them.
const FIRST: i32 = 0x1000_0000;

/// `BPF_JMP | BPF_CALL`.
const CALL: u8 = 0x85;
/// In the place of the source register: what is called is a helper, or a function of the kernel.
const HELPER: u8 = 0;
const KERNEL_FUNCTION: u8 = 2;

/// Puts the kernel's number in the place of ours, and says that it is such a one.
///
/// # Errors
///
/// That this kernel does not have the function.
pub(super) fn name_by_kernel(
    (code, source, number): (u8, u8, i32),
    types: &KernelTypes,
) -> Result<(u8, i32), NoBpf> {
    let place = number.checked_sub(FIRST).and_then(|place| usize::try_from(place).ok());
    let hook = place.filter(|_| code == CALL && source == HELPER).and_then(|at| CALLED.get(at));
    let Some(hook) = hook else { return Ok((source, number)) };
    let id = types.hook(hook).and_then(|id| i32::try_from(id).ok());
    let id = id.ok_or_else(|| NoBpf::NoHook { hook: (*hook).to_owned() })?;
    Ok((KERNEL_FUNCTION, id))
}

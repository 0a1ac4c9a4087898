//! Where threads wait: each wait from giving up the processor to having one again, with the stacks of the
//! kernel and of user space that led into it, what it is for, and who ended it.
//!
//! An engine gathers, and says what each thread waited by the way into the wait ([`records::Way`]). Here
//! stacks of user space are walked as copies of them come, and all becomes a recording: stacks with names
//! weigh nanoseconds.

pub mod fold;
pub mod followed;
pub mod holders;
pub mod looked;
pub mod records;
pub mod switched;

use super::{
    profile::{Builder, Function, Kind, Profile, Thread},
    recording::Recording,
};
use protocol::{host_text::HostText, instruments::perf_record::Missed};
use records::{RawSubject, Spent, Totals, Way, Woken};
use std::collections::HashMap;

/// Where threads waited.
#[derive(Debug)]
pub struct Waits {
    /// Stacks. Its threads stand for a part each, and those after them for a stack that woke.
    pub stacks: Recording,
    /// What was waited in each way.
    pub parts: Vec<Part>,
    /// Sums over all, exact.
    pub totals: Totals,
    /// Waits that had not ended with the window.
    pub still_waiting: u64,
    /// What had no room.
    pub missed: Missed,
    /// Functions of the kernel by the number of their stack, the outermost first, where an engine has names
    /// in place of addresses.
    pub kernel_names: HashMap<u64, Vec<Vec<u8>>>,
    /// Who ended waits, by the number of the way.
    pub wakers: HashMap<u64, Vec<Woken>>,
    /// Of the stacks that woke, the number of what stands for a thread.
    pub waker_stacks: HashMap<u64, u32>,
}

/// What was waited in a way.
#[derive(Clone, Debug)]
pub struct Part {
    /// Which way.
    pub way: Way,
    /// Its number.
    pub number: u64,
    /// How much.
    pub spent: Spent,
    /// Waits that had not ended with the window.
    pub still_waiting: u32,
    /// What it is for; for a descriptor that was polled alone, what that is.
    pub subject: RawSubject,
}

impl Waits {
    /// Stacks that were named for [`Waits::stacks`], with the functions of the kernel that an engine had by
    /// name. Functions keep their numbers, and threads still stand for parts.
    pub fn with_kernel_names(&self, named: Profile) -> Profile {
        if self.kernel_names.is_empty() {
            return named;
        }
        let mut builder = Builder::with_functions_of(&named);
        let module = Some(builder.module("[kernel]"));
        named.each_stack(&mut |stand_in, functions, weight| {
            let part = usize::try_from(stand_in.tid).ok().and_then(|at| self.parts.get(at));
            let of_kernel = part.and_then(|part| self.kernel_names.get(&part.way.kernel_stack));
            let mut node = None;
            for function in functions {
                node = Some(builder.node(node, *function));
            }
            for name in of_kernel.into_iter().flatten() {
                let name = HostText::new(name).as_str().to_owned();
                let function = builder.function(Function { name, module, kind: Kind::Kernel });
                node = Some(builder.node(node, function));
            }
            let thread = builder.thread(stand_in.clone());
            builder.count(thread, node, weight);
        });
        builder.finish()
    }

    /// Everything as stacks of the threads that waited. Functions keep their numbers.
    pub fn profile(&self, named: &Profile) -> Profile {
        let mut builder = Builder::with_functions_of(named);
        named.each_stack(&mut |stand_in, functions, weight| {
            let part = usize::try_from(stand_in.tid).ok().and_then(|at| self.parts.get(at));
            let Some(part) = part else { return };
            let mut node = None;
            for function in functions {
                node = Some(builder.node(node, *function));
            }
            let name = HostText::new(&part.spent.name).as_str().to_owned();
            let (pid, tid) = (part.way.pid, part.way.tid);
            let thread = builder.thread(Thread { pid, tid, name });
            builder.count(thread, node, weight);
        });
        builder.finish()
    }
}

//! What was seen, as stacks with names.

use super::{Looks, StandIn};
use crate::{
    order,
    stack::profile::{Builder, Function, Profile, Thread},
};
use protocol::{host_text::HostText, instruments::process_list::State, recording::Kind};

impl Looks {
    /// All that was seen, as stacks: the state of the thread outermost, then its calls as they were
    /// named for [`Looks::stacks`], then what it does in the kernel. Functions of `named` keep their
    /// numbers.
    pub fn profile(&self, named: &Profile) -> Profile {
        let mut builder = Builder::with_functions_of(named);
        named.each_stack(&mut |thread, functions, weight| {
            self.count(&mut builder, thread.tid, functions, weight);
        });
        let mut bare: Vec<(u32, u64)> =
            self.bare.iter().map(|(number, weight)| (*number, *weight)).collect();
        order::ascending(&mut bare);
        for (number, weight) in bare {
            self.count(&mut builder, number, &[], weight);
        }
        builder.finish()
    }

    pub(super) fn count(&self, builder: &mut Builder, number: u32, functions: &[u32], weight: u64) {
        let stand_in = usize::try_from(number).ok().and_then(|at| self.stand_ins.get(at));
        let Some(StandIn { id, state, call, kernel }) = stand_in else { return };
        let of_kernel = |name: String, module| Function { name, module, kind: Kind::Kernel };
        let outermost = builder.function(of_kernel(doing(*state).to_owned(), None));
        let mut node = builder.node(None, outermost);
        for function in functions {
            node = builder.node(Some(node), *function);
        }
        let module = Some(builder.module("[kernel]"));
        let call = call.iter().map(|name| format!("sys_{name}"));
        let kernel = kernel.iter().map(|name| HostText::new(name).as_str().to_owned());
        for name in call.chain(kernel) {
            let function = builder.function(of_kernel(name, module));
            node = builder.node(Some(node), function);
        }
        let name = self.names.get(id).map(|name| HostText::new(name).as_str().to_owned());
        let (pid, tid) = *id;
        let thread = builder.thread(Thread { pid, tid, name: name.unwrap_or_default() });
        builder.count(thread, Some(node), weight);
    }
}

/// A state as the outermost function of a stack.
const fn doing(state: State) -> &'static str {
    match state {
        State::Running => "[running or runnable]",
        State::Sleeping => "[sleeping]",
        State::UninterruptibleSleep => "[uninterruptible sleep]",
        State::Stopped => "[stopped]",
        State::Traced => "[traced]",
        State::Idle => "[idle]",
        State::Zombie | State::Dead => "[ended]",
        State::Other => "[in an unknown state]",
    }
}

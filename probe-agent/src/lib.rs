//! What the agent is made of. The program is in `main.rs`; tests use the parts one by one.

pub mod abandonable;
pub mod artifacts;
pub mod bpf;
pub mod call;
pub mod command_line;
pub mod exit;
pub mod external;
pub mod instruments;
pub mod launch;
pub mod local;
pub mod mark;
pub mod order;
pub mod os;
pub mod perf;
pub mod proc;
pub mod rank;
pub mod serve;
pub mod stack;
pub mod sweep;

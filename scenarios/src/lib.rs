//! Services with a known fault, a private SSH server to reach them through, and other kernels.
//!
//! Every fault is one file: what the service does wrong, and what sysmcp must and must not say
//! about it. The tests in this crate start a service, look at it through a real, pushed agent over
//! a real sshd, and compare. The demonstration shows one of them.

pub mod accuracy;
pub mod alone;
pub mod behind;
pub mod client;
pub mod containers;
pub mod delayed_link;
pub mod demo;
pub mod faults;
pub mod fleet;
pub mod hosts;
pub mod load;
pub mod many_connections;
pub mod many_targets;
pub mod master;
pub mod named_checks;
pub mod not_run;
pub mod programs;
pub mod relay;
pub mod second_way;
pub mod servers;
pub mod service;
pub mod silent_mount;
pub mod split_mix;
pub mod sshd;
pub mod sysmcp;
pub mod terminal;
pub mod victim;
pub mod vm;
#[path = "../../fixtures/without_settings.rs"]
pub mod without_settings;

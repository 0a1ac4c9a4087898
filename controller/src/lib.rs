//! The controller: runs beside the MCP client, puts the agent on a target, asks it, and puts what
//! it measured into words.
//!
//! Whatever the front door (a command line, MCP), a call takes one way: [`gate`].

pub mod agents;
pub mod audit;
pub mod capture;
pub mod cli;
pub mod config;
pub mod exit;
pub mod gate;
pub mod mcp;
pub mod private;
pub mod profile;
pub mod push;
pub mod reporter;
pub mod schema;
pub mod screen;
pub mod session;
pub mod side_door;
pub mod snapshot;
pub mod target;
pub mod targets;
pub mod tools;
pub mod transport;
pub mod verdict;
pub mod words;

#[cfg(test)]
#[path = "../../fixtures/golden.rs"]
mod golden;

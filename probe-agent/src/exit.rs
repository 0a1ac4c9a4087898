//! Exit codes of the agent, and what it says when it ends with one. The controller puts them into
//! words; the one it has to know is [`protocol::message::DESCENDANTS_LEFT`].

use std::io::Write as _;

/// Says on stderr what is wrong, and returns the exit code. It may quote what it was given.
pub fn complain(error: &str, code: i32) -> i32 {
    // A closed stderr must not end anything.
    let _ = writeln!(std::io::stderr(), "probe-agent: {}", printable(error));
    code
}

/// Line by line, because a remedy stands on a line of its own.
fn printable(error: &str) -> String {
    error.lines().map(protocol::host_text::printable).collect::<Vec<_>>().join("\n")
}

/// The controller asked it to stop.
pub const STOPPED: i32 = 0;
/// The command line was not understood.
pub const USAGE: i32 = 64;
/// A tool run by hand gave an error instead of an answer.
pub const NO_ANSWER: i32 = 1;
/// A defect of the agent.
pub const DEFECT: i32 = 70;
/// It could not start: no `/proc`, no process to be had.
pub const CANNOT_START: i32 = 71;
/// Its parent ended while it was starting.
pub const ORPHANED: i32 = 72;
/// The channel was closed.
pub const CHANNEL_CLOSED: i32 = 73;
/// Nothing came from the controller for too long.
pub const SILENCE: i32 = 74;
/// What a tool run by hand found could not be written to stdout.
pub const NO_OUTPUT: i32 = 75;
/// What came was not a frame of this build.
pub const BAD_FRAME: i32 = 76;

/// A sweep found something that is there still.
pub const SOMETHING_LEFT: i32 = 78;

/// Every code with its meaning, for the documentation.
#[cfg(test)]
pub const ALL: [(i32, &str); 12] = [
    (STOPPED, "done as asked"),
    (NO_ANSWER, "the tool gave an error instead of an answer"),
    (USAGE, "the command line was not understood"),
    (DEFECT, "a defect of the agent"),
    (CANNOT_START, "it could not start"),
    (ORPHANED, "its parent ended while it was starting"),
    (CHANNEL_CLOSED, "the channel was closed"),
    (SILENCE, "nothing came from the controller for too long"),
    (NO_OUTPUT, "what a tool run by hand found could not be written to stdout"),
    (BAD_FRAME, "what came was not a frame of this build"),
    (SOMETHING_LEFT, "a sweep found something that is there still, or would be removed"),
    (
        protocol::message::DESCENDANTS_LEFT,
        "it ended, but not all that it had started: not permitted, or in an uninterruptible sleep",
    ),
];

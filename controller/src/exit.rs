//! Exit codes: one for each thing that a script would react to differently.

/// Done as asked.
pub const OK: u8 = 0;
/// The tool gave an error instead of an answer.
pub const NO_ANSWER: u8 = 1;
/// The command line, the configuration or a parameter was not understood.
pub const USAGE: u8 = 2;
/// The target is not one.
pub const BAD_TARGET: u8 = 10;
/// The target does not answer.
pub const UNREACHABLE: u8 = 11;
/// The target's host key is unknown or has changed.
pub const HOST_KEY: u8 = 12;
/// The target does not let us in.
pub const REFUSED_LOGIN: u8 = 13;
/// A key wants a passphrase and there is no terminal to ask at.
pub const PASSPHRASE: u8 = 14;
/// No place on the target for the agent: disks full, or nothing writable.
pub const NO_ROOM: u8 = 15;
/// What arrived on the target is not what was sent.
pub const ALTERED: u8 = 16;
/// The agent cannot run there: every place is noexec, or no agent for its processor.
pub const CANNOT_RUN: u8 = 17;
/// What answers there is no shell: no login, a forced command.
pub const NO_SHELL: u8 = 18;
/// The connection, or the agent, was lost during a call.
pub const LOST: u8 = 19;
/// This build has no agent to send.
pub const NO_AGENT: u8 = 20;
/// The audit log cannot be written; nothing that is not in it is begun.
pub const NO_AUDIT: u8 = 21;
/// The audit log was altered.
pub const AUDIT_BROKEN: u8 = 22;
/// It could not be confirmed that nothing is left on the target.
pub const NOT_CLEAN: u8 = 23;
/// What was asked for could not be written to stdout.
pub const NO_OUTPUT: u8 = 24;
/// A defect of sysmcp.
pub const DEFECT: u8 = 70;
/// Interrupted from the keyboard, or asked to end.
pub const INTERRUPTED: u8 = 130;

/// Every code with its name and meaning, for the help and the documentation.
pub const ALL: &[(u8, &str, &str)] = &[
    (OK, "OK", "done as asked"),
    (NO_ANSWER, "NO_ANSWER", "the tool gave an error instead of an answer"),
    (USAGE, "USAGE", "the command line, the configuration or a parameter was not understood"),
    (BAD_TARGET, "BAD_TARGET", "the target is not one"),
    (UNREACHABLE, "UNREACHABLE", "the target does not answer"),
    (HOST_KEY, "HOST_KEY", "the target's host key is unknown or has changed"),
    (REFUSED_LOGIN, "REFUSED_LOGIN", "the target does not let us in"),
    (PASSPHRASE, "PASSPHRASE", "a key wants a passphrase and there is no terminal to ask at"),
    (NO_ROOM, "NO_ROOM", "no place on the target for the agent"),
    (ALTERED, "ALTERED", "what arrived on the target is not what was sent; it was not run"),
    (CANNOT_RUN, "CANNOT_RUN", "the agent cannot run on the target"),
    (NO_SHELL, "NO_SHELL", "what answers on the target is no shell"),
    (LOST, "LOST", "the connection or the agent was lost during a call"),
    (NO_AGENT, "NO_AGENT", "this build has no agent to send"),
    (NO_AUDIT, "NO_AUDIT", "the audit log cannot be written; what is not in it is not begun"),
    (AUDIT_BROKEN, "AUDIT_BROKEN", "the audit log was altered"),
    (NOT_CLEAN, "NOT_CLEAN", "it could not be confirmed that nothing is left on the target"),
    (NO_OUTPUT, "NO_OUTPUT", "what was asked for could not be written to stdout"),
    (DEFECT, "DEFECT", "a defect of sysmcp"),
    (INTERRUPTED, "INTERRUPTED", "interrupted"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_causes_share_a_code() {
        for (index, (code, name, _)) in ALL.iter().enumerate() {
            let same = ALL.iter().skip(index + 1).find(|(other, ..)| other == code);
            assert_eq!(same, None, "{name}");
        }
    }
}

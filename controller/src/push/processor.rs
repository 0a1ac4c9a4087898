//! Which of the agents a target can run.
//!
//! `uname -m` alone does not say it: it is a program like any other, and a personality changes what it
//! says (`setarch`). A shell that is told to become a file which the kernel does not run reads it as a
//! script instead, so nothing may be sent that would not run. What does run there is seen: the start of
//! a program of the target's own says for which processor that is (`e_machine`, elf(5)).
//!
//! A kernel of 64 bits runs the programs of 32 bits too, and a target may have only those. There the
//! kernel's width counts, which its addresses in `/proc/kallsyms` show to everybody, and `uname -m`.

use crate::agents::{MACHINES, NoAgent};

/// Whether a machine's name is one that may be repeated in an error: it may not be just any text.
pub fn is_name(machine: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=32).contains(&machine.len()) && machine.bytes().all(is_part)
}

/// What the script says of the target's processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// What `uname -m` says.
    pub machine: String,
    /// Digits of an address of the kernel: 16, or 8; 0 where that is not shown.
    pub address_digits: u8,
}

/// Bytes of a program's start that say what it is for.
const HEADER_BYTES: usize = 20;

/// Processors by the number that a program's start has for them (`elf.h`), and how wide they are.
const PROCESSORS: [(u16, &str); 9] = [
    (3, "i386"),
    (8, "mips"),
    (21, "ppc64"),
    (22, "s390x"),
    (40, "arm"),
    (62, "x86_64"),
    (183, "aarch64"),
    (243, "riscv"),
    (258, "loongarch"),
];

/// The agent's processor whose kernel runs programs for another one too.
const NARROW: [(&str, &str); 2] = [("i386", "x86_64"), ("arm", "aarch64")];

impl Processor {
    /// The processor to send an agent for, by the start of a program of the target's own.
    ///
    /// # Errors
    ///
    /// When there is no agent that surely runs there.
    pub fn agent(&self, program: &[u8]) -> Result<&'static str, NoAgent> {
        let Some(number) = e_machine(program) else {
            return Err(NoAgent::UnknownMachine { machine: self.machine.clone() });
        };
        let said = MACHINES.iter().find(|(_, names)| names.contains(&self.machine.as_str()));
        let said = said.map(|(arch, _)| *arch);
        let found = PROCESSORS.iter().find(|(known, _)| *known == number).map(|(_, name)| *name);
        let carried = MACHINES.iter().find(|(arch, _)| Some(*arch) == found);
        if let Some((arch, _)) = carried {
            return Ok(arch);
        }
        let wide = NARROW.iter().find(|(narrow, _)| Some(*narrow) == found);
        match (wide, said) {
            (Some((_, wide)), Some(said)) if *wide == said && self.address_digits == 16 => Ok(said),
            (_, Some(_)) => Err(NoAgent::OtherPrograms {
                machine: self.machine.clone(),
                programs: found.map_or_else(|| format!("processor {number}"), str::to_owned),
            }),
            (_, None) => Err(NoAgent::Machine { machine: self.machine.clone() }),
        }
    }
}

/// What a program is for; nothing where this is none.
fn e_machine(program: &[u8]) -> Option<u16> {
    let header = program.get(..HEADER_BYTES)?;
    let number = [*header.get(18)?, *header.get(19)?];
    match (header.get(..4)?, header.get(5)?) {
        (b"\x7fELF", 1) => Some(u16::from_le_bytes(number)),
        (b"\x7fELF", 2) => Some(u16::from_be_bytes(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(number: u16, is_little: bool) -> Vec<u8> {
        let mut header = b"\x7fELF\x02".to_vec();
        header.push(if is_little { 1 } else { 2 });
        header.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let bytes =
            |number: u16| if is_little { number.to_le_bytes() } else { number.to_be_bytes() };
        header.extend(bytes(3));
        header.extend(bytes(number));
        header
    }

    fn agent(machine: &str, address_digits: u8, program: &[u8]) -> Result<&'static str, String> {
        let processor = Processor { machine: machine.to_owned(), address_digits };
        processor.agent(program).map_err(|error| error.to_string())
    }

    #[test]
    fn the_agent_is_for_what_runs_there_whatever_uname_says() {
        let cases = [
            ("x86_64", 16, 62, "x86_64"),
            ("aarch64", 16, 183, "aarch64"),
            // A uname of another's, none, and one of a personality.
            ("aarch64", 16, 62, "x86_64"),
            ("unknown", 0, 183, "aarch64"),
            ("i686", 16, 62, "x86_64"),
            ("armv8l", 16, 183, "aarch64"),
            // Programs of 32 bits on a kernel of 64.
            ("x86_64", 16, 3, "x86_64"),
            ("arm64", 16, 40, "aarch64"),
        ];
        for (machine, digits, number, want) in cases {
            let found = agent(machine, digits, &program(number, true));
            assert_eq!(found.as_deref(), Ok(want), "{machine} {digits} {number}");
        }
    }

    #[test]
    fn nothing_is_sent_that_might_not_run() {
        let cases = [
            ("i686", 8, program(3, true), "no agent for a `i686` machine"),
            ("i686", 16, program(3, true), "no agent for a `i686` machine"),
            ("armv7l", 8, program(40, true), "`armv7l`"),
            ("riscv64", 16, program(243, true), "`riscv64`"),
            ("s390x", 16, program(22, false), "`s390x`"),
            ("unknown", 0, program(243, true), "`unknown`"),
            // A uname that is not the machine's.
            ("x86_64", 8, program(3, true), "but its programs are for i386"),
            ("x86_64", 0, program(3, true), "but its programs are for i386"),
            ("x86_64", 16, program(40, true), "but its programs are for arm"),
            ("aarch64", 16, program(243, true), "but its programs are for riscv"),
            ("x86_64", 16, program(9999, true), "for processor 9999"),
            // Nothing to go by.
            ("x86_64", 16, Vec::new(), "could not be told"),
            ("x86_64", 16, b"#!/bin/sh\n".to_vec(), "could not be told"),
            ("x86_64", 16, vec![0; 20], "could not be told"),
        ];
        for (machine, digits, program, want) in cases {
            let error = agent(machine, digits, &program).unwrap_err();
            assert!(error.contains(want), "{machine} {digits}: {error}");
            assert!(error.contains("agents for x86_64 and aarch64"), "{error}");
        }
    }
}

//! Processors: other ones than this machine's, and what passes for one.
//!
//! Programs for other processors run in an emulator that is made known to a user namespace alone
//! (`binfmt_misc`, which user namespaces have since Linux 6.7). `cargo xtask hosts` fetches the
//! programs.

use super::{Host, Outcome, site::Site};
use anyhow::Result;
use std::path::{Path, PathBuf};

/// In the order of the page.
pub const HOSTS: &[Host] = &[
    Host::sampled("aarch64 (emulated)", || Foreign::AARCH64.ask()),
    Host::sampled("32-bit ARM (emulated)", || Foreign::ARM.ask()),
    Host::sampled("x86_64, whose programs are all of 32 bits", || {
        if std::env::consts::ARCH != "x86_64" {
            return Ok(Outcome::NotHere("an x86_64".to_owned()));
        }
        Foreign::I386.ask()
    }),
    Host::in_full("x86_64, whose login passes for 32 bits (setarch)", || {
        let lines = &["ForceCommand exec setarch linux32 /bin/sh -c \"$SSH_ORIGINAL_COMMAND\""];
        Site { lines, ..Site::USUAL }.ask()
    }),
    Host::sampled("uname names another processor", || uname("echo riscv64")),
    Host::in_full("uname says nothing", || uname("exit 1")),
    Host::in_full("uname says more than a word", || uname("printf 'x86_64\\nREADY \\033[2J'")),
];

/// A uname that is a script.
fn uname(script: &str) -> Result<Outcome> {
    let file = format!("#!/bin/sh\n{script}\n");
    let first = "chmod 755 /mnt/home/uname; mount --bind /mnt/home/uname /usr/bin/uname";
    Site { files: &[("uname", file.as_bytes())], first, ..Site::USUAL }.ask()
}

/// A processor whose programs are there.
#[derive(Clone, Copy)]
struct Foreign {
    /// As Debian names it.
    arch: &'static str,
    /// What runs its programs, and how they begin; nothing where the kernel itself does.
    emulator: Option<(&'static str, &'static str)>,
    /// What there is to say of an answer.
    note: &'static str,
}

/// How a program begins, without its processor, and which bits of that count. An executable and a
/// library differ in one (elf(5)).
const BEGINS: &str = "\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00";
const COUNTS: &str = "\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xfe\\xff\\xff\\xff";

impl Foreign {
    const AARCH64: Self = Self {
        arch: "arm64",
        emulator: Some(("/usr/bin/qemu-aarch64-static", "\\x02\\x01\\x01 \\xb7\\x00")),
        note: "the agent for aarch64, in an emulator",
    };
    const ARM: Self = Self {
        arch: "armhf",
        emulator: Some(("/usr/bin/qemu-arm-static", "\\x01\\x01\\x01 \\x28\\x00")),
        note: "",
    };
    const I386: Self =
        Self { arch: "i386", emulator: None, note: "the agent for x86_64, which its kernel runs" };

    /// Where its busybox is.
    fn busybox(self) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/processors");
        folder.join(self.arch).join("files/bin/busybox")
    }

    fn ask(self) -> Result<Outcome> {
        let busybox = self.busybox();
        if !busybox.exists() {
            let what = format!("busybox for {}, which `cargo xtask hosts` fetches", self.arch);
            return Ok(Outcome::NotRun(what));
        }
        let mut register = String::new();
        if let Some((emulator, how)) = self.emulator {
            if !Path::new(emulator).exists() {
                return Ok(Outcome::NotRun(format!("{emulator} (package qemu-user-static)")));
            }
            let (ident, machine) = how.split_once(' ').unwrap_or_default();
            // F: it is opened here, so it need not be in the folder that becomes the root. P: a program
            // is told its name, by which busybox knows what it is.
            register = format!(
                "mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc && \
                 echo ':sysmcp:M::\\x7fELF{ident}{BEGINS}{machine}:{COUNTS}:{emulator}:FP' \
                 > /proc/sys/fs/binfmt_misc/register || exit 120; "
            );
        }
        let enter = format!(
            "{register}mount --rbind /proc /mnt/other/proc; mount --rbind /dev /mnt/other/dev; \
             exec /usr/sbin/chroot /mnt/other /bin/sh -c \"$1\"\n"
        );
        let first = format!(
            "cd /mnt; mkdir -p other/bin other/proc other/dev other/tmp; chmod 1777 other/tmp; \
             cp {} other/bin/busybox; for name in cat chmod dd gzip head kill mkdir rm rmdir sh \
             sha256sum stat timeout uname; do ln -s busybox other/bin/$name; done",
            busybox.display()
        );
        let site = Site {
            files: &[("enter", enter.as_bytes())],
            first: &first,
            lines: &["ForceCommand exec unshare --user --map-root-user --mount /bin/sh \
                      /mnt/home/enter \"$SSH_ORIGINAL_COMMAND\""],
            variables: &[("XDG_RUNTIME_DIR", "/mnt/other/tmp")],
            ..Site::USUAL
        };
        Ok(match site.ask()? {
            Outcome::Answers(_) => Outcome::Answers(self.note.to_owned()),
            other @ (Outcome::Refuses { .. } | Outcome::NotHere(_) | Outcome::NotRun(_)) => other,
        })
    }
}

//! Why a file could not be read, and what that says about the value that is in it.

use super::{HANGS, NOT_TRIED, TOO_LONG, open_files_limit, snapshot};
use protocol::observed::{Feature, Permission, Reason};
use rustix::io::Errno;

/// Why a file could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{errno}")]
pub struct ReadError {
    /// What the kernel answered.
    pub errno: Errno,
    /// The user it answered so, where that is not the agent's.
    pub(super) reader_uid: Option<u32>,
}

impl From<Errno> for ReadError {
    fn from(errno: Errno) -> Self {
        Self { errno, reader_uid: None }
    }
}

impl ReadError {
    /// Whether the process, or the thread, ended. `ESRCH` comes from a file that was opened in
    /// time.
    pub fn is_gone(self) -> bool {
        matches!(self.errno, Errno::NOENT | Errno::SRCH)
    }

    /// Whether it says nothing about the file: the agent could not have opened any.
    pub fn is_of_the_agent(self) -> bool {
        matches!(self.errno, Errno::MFILE | Errno::NFILE)
    }

    /// Whether the read did not return.
    pub fn is_hanging(self) -> bool {
        self.errno == HANGS
    }

    /// Whether the file is longer than what is read of one. Its start was read then.
    pub fn is_too_long(self) -> bool {
        self.errno == TOO_LONG
    }

    /// The reason to give for a value that comes from a file of the kernel.
    ///
    /// A missing file means that the kernel lacks `feature`; the caller has to know that the
    /// process itself is still there.
    pub fn reason(self, feature: Feature, owner_uid: u32) -> Reason {
        match self.errno {
            Errno::NOENT => Reason::KernelLacks(feature),
            Errno::SRCH => Reason::Gone,
            Errno::ACCESS | Errno::PERM => Reason::NotPermitted(Permission::InspectProcess {
                owner_uid,
                agent_uid: self.reader_uid(),
            }),
            snapshot::NOT_TAKEN => Reason::NotInSnapshot,
            snapshot::ONE_INSTANT => Reason::OneInstant,
            Errno::MFILE => Reason::OpenFilesLimit { limit: open_files_limit() },
            TOO_LONG => Reason::TooLong,
            NOT_TRIED => Reason::TooManyHang,
            errno => Reason::Failed { errno: errno.raw_os_error() },
        }
    }

    /// The reason to give for a value that comes from a file of the whole machine. A missing one
    /// means that the kernel lacks `feature`.
    pub fn reason_of_file(self, feature: Feature) -> Reason {
        match self.errno {
            Errno::ACCESS | Errno::PERM => {
                Reason::NotPermitted(Permission::ReadFile { agent_uid: self.reader_uid() })
            }
            _ => self.reason(feature, 0),
        }
    }

    fn reader_uid(self) -> u32 {
        self.reader_uid.unwrap_or_else(|| rustix::process::geteuid().as_raw())
    }
}

//! A mounted file system whose server never answers, as one on a network whose other end is gone.
//!
//! The server of a FUSE file system is the process that has `/dev/fuse` open. It greets the kernel,
//! then reads what it is asked and says nothing, so that whoever asks waits where no signal ends the
//! wait. When it ends, the kernel answers for it.

use anyhow::{Context as _, Result};
use rustix::mount::{MountFlags, UnmountFlags};
use std::{
    ffi::CString,
    fs::File,
    io::{Read as _, Write as _},
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// What the kernel asks first (`include/uapi/linux/fuse.h`).
const FUSE_INIT: u32 = 26;

/// Mounts it, and reads questions until the end.
///
/// # Errors
///
/// Without `/dev/fuse`, or the right to mount.
pub fn serve(folder: &Path) -> Result<()> {
    let mut device = File::options().read(true).write(true).open("/dev/fuse")?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    let options = CString::new(options)?;
    rustix::mount::mount("silent", folder, "fuse.silent", MountFlags::empty(), options.as_c_str())
        .context("could not mount")?;
    let mut request = vec![0; 1 << 17];
    loop {
        let length = device.read(&mut request)?;
        let header = request.get(..16).filter(|_| length >= 16).context("a short request")?;
        let (_, rest) = header.split_at(4);
        let (operation, id) = rest.split_at(4);
        if operation == FUSE_INIT.to_ne_bytes() {
            device.write_all(&greeting(id))?;
        }
    }
}

/// The answer to the first question: version 7.31, and the smallest of everything.
fn greeting(id: &[u8]) -> Vec<u8> {
    const INIT_BYTES: usize = 64;
    let mut answer = Vec::new();
    answer.extend(80_u32.to_ne_bytes());
    answer.extend(0_i32.to_ne_bytes());
    answer.extend(id);
    for number in [7_u32, 31, 0, 0, 0, 4096, 1] {
        answer.extend(number.to_ne_bytes());
    }
    answer.resize(16 + INIT_BYTES, 0);
    answer
}

/// Such a mount, for as long as a test lasts.
#[derive(Debug)]
pub struct SilentMount {
    server: Child,
    folder: PathBuf,
}

impl SilentMount {
    /// Mounts it on a folder.
    ///
    /// # Errors
    ///
    /// What it takes and is not there.
    pub fn on(folder: &Path) -> Result<Self> {
        let is_fuse = std::fs::read_to_string("/proc/filesystems")?.contains("\tfuse\n");
        if !is_fuse || !rustix::process::geteuid().is_root() {
            anyhow::bail!("root, and a kernel with FUSE");
        }
        let server = Command::new(crate::programs::scenarios())
            .arg("silent-mount")
            .arg(folder)
            .stdin(Stdio::null())
            .spawn()?;
        let mount = Self { server, folder: folder.to_owned() };
        let shown = format!(" {} ", folder.display());
        let started = Instant::now();
        while !std::fs::read_to_string("/proc/self/mountinfo")?.contains(&shown) {
            if started.elapsed() > Duration::from_secs(5) {
                anyhow::bail!("the right to mount FUSE");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(mount)
    }
}

impl Drop for SilentMount {
    fn drop(&mut self) {
        // Whoever waits is answered by the kernel then.
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = rustix::mount::unmount(&self.folder, UnmountFlags::DETACH);
    }
}

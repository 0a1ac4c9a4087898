//! A test that sees no process and no folder but its own: it is run once more, in namespaces of its
//! own. What looks at a whole machine, and ends what it finds there, disturbs nobody then, and nobody
//! disturbs it.

use crate::not_run::not_run;
use anyhow::{Context as _, Result, ensure};
use std::process::Command;

/// Says that this run is the one in there.
const INSIDE: &str = "SYSMCP_SCENARIO_ALONE";

/// The folders in which a session may have its own are others there. The first process takes the end of
/// every orphan, and ends with the test.
const ENTER: &str = "for place in /tmp /dev/shm /var/tmp /run; do \
                     mount -t tmpfs -o mode=1777 tmpfs $place || exit 1; done; \
                     mkdir -p /run/sshd; \"$@\"; exit $?";

/// Runs a test in namespaces of its own. True where this is that run; false where it has been done, or
/// cannot be done here.
///
/// # Errors
///
/// When the test fails in there.
pub fn alone(test: &str) -> Result<bool> {
    if std::env::var_os(INSIDE).is_some() {
        return Ok(true);
    }
    if !rustix::process::geteuid().is_root() {
        not_run(test, "root, for a process namespace of its own");
        return Ok(false);
    }
    let status = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", ENTER])
        .arg("sh")
        .arg(std::env::current_exe()?)
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .context("could not run unshare; install util-linux")?;
    ensure!(status.success(), "{test} fails in namespaces of its own: {status}");
    Ok(false)
}

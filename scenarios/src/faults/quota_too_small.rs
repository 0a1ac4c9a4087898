//! The service's cgroup may use a fifth of a processor, and the work needs a whole one.

use super::{Behaviour, Needs, Surroundings, Truth, Worker, compute_in_one};
use anyhow::{Context as _, Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Child,
};

pub(super) struct Fault;

/// A fifth of a processor, in the 100 ms that a period lasts by default.
const QUOTA_US: &str = "20000";
const PERIOD_US: &str = "100000";

impl Behaviour for Fault {
    const TRUTH: Truth = Truth {
        class: "throttled",
        never: &["starved_of_cpu", "blocked_on_io", "blocked_on_lock", "memory_bound", "idle"],
        needs: Needs::CpuCgroup,
    };

    fn request(worker: &mut Worker<'_>) {
        compute_in_one(worker);
    }

    fn surround(service: &Child) -> Result<Surroundings> {
        let cgroup = make_cgroup(service.id())?;
        // The handle first: whatever fails below, the cgroup is removed.
        let surroundings = Surroundings { children: Vec::new(), cgroup: Some(cgroup.clone()) };
        fs::write(cgroup.join("cgroup.procs"), service.id().to_string())
            .context("could not move the service into its cgroup")?;
        Ok(surroundings)
    }
}

fn make_cgroup(pid: u32) -> Result<PathBuf> {
    let name = format!("scenario-{pid}");
    for v1 in ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"] {
        if Path::new(v1).join("cpu.cfs_quota_us").exists() {
            let cgroup = Path::new(v1).join(&name);
            fs::create_dir(&cgroup).context("could not make a cgroup")?;
            fs::write(cgroup.join("cpu.cfs_period_us"), PERIOD_US)?;
            fs::write(cgroup.join("cpu.cfs_quota_us"), QUOTA_US)?;
            return Ok(cgroup);
        }
    }
    let v2 = Path::new("/sys/fs/cgroup");
    let controllers = fs::read_to_string(v2.join("cgroup.controllers")).unwrap_or_default();
    if !controllers.split_whitespace().any(|name| name == "cpu") {
        bail!("no cgroup hierarchy with the CPU controller");
    }
    fs::write(v2.join("cgroup.subtree_control"), "+cpu")
        .context("could not hand on the CPU controller")?;
    let cgroup = v2.join(&name);
    fs::create_dir(&cgroup).context("could not make a cgroup")?;
    fs::write(cgroup.join("cpu.max"), format!("{QUOTA_US} {PERIOD_US}"))?;
    Ok(cgroup)
}

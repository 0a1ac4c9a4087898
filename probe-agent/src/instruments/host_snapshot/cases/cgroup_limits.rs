//! What cgroups count and limit, in both versions.

use super::{PLENTY, V1, machine, write};
use crate::instruments::{
    fake::{FIRST, FakeMachine, OF_A_CONTAINER},
    host_snapshot::cgroups,
};
use protocol::{
    instruments::host_snapshot::{CgroupVersion, Cgroups},
    observed::{Feature, Observed, OutOfSight, Reason},
    units::Bytes,
};
use std::time::Duration;

const V2: (&str, &str) =
    ("proc/self/mountinfo", "31 22 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
const V2_TOP: (&str, &str) = ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
const V2_HANDS_ON: (&str, &str) = ("sys/fs/cgroup/cgroup.subtree_control", "cpu memory\n");
/// The cgroups of a machine whose files change in the window.
fn cgroups_of(first: &[(&str, &str)], last: &[(&str, &str)], namespace: &str) -> Cgroups {
    let machine = FakeMachine::in_namespace(namespace);
    write(&machine, first);
    let context = machine.context();
    let look = cgroups::look(context.root, PLENTY);
    write(&machine, last);
    look.finish(context.root, 10)
}

/// Case 22. The units differ by version, and so does what a quota looks like.
#[test]
fn a_third_of_the_periods_was_throttled_in_both_versions() {
    let v2 = [
        V2,
        V2_TOP,
        V2_HANDS_ON,
        ("sys/fs/cgroup/app/cgroup.controllers", "cpu memory\n"),
        ("sys/fs/cgroup/app/cpu.max", "50000 100000\n"),
        (
            "sys/fs/cgroup/app/cpu.stat",
            "usage_usec 1\nnr_periods 100\nnr_throttled 90\nthrottled_usec 5000000\n",
        ),
        ("sys/fs/cgroup/free/cgroup.controllers", "cpu memory\n"),
        ("sys/fs/cgroup/free/cpu.max", "max 100000\n"),
    ];
    let v2_last = [(
        "sys/fs/cgroup/app/cpu.stat",
        "usage_usec 9\nnr_periods 125\nnr_throttled 98\nthrottled_usec 5640000\n",
    )];
    let v1 = [
        V1,
        ("cpu/cpu.cfs_quota_us", "-1\n"),
        ("cpu/cpu.cfs_period_us", "100000\n"),
        ("cpu/app/cpu.cfs_quota_us", "50000\n"),
        ("cpu/app/cpu.cfs_period_us", "100000\n"),
        ("cpu/app/cpu.stat", "nr_periods 100\nnr_throttled 90\nthrottled_time 5000000000\n"),
        ("mem/memory.limit_in_bytes", "9223372036854771712\n"),
    ];
    let v1_last =
        [("cpu/app/cpu.stat", "nr_periods 125\nnr_throttled 98\nthrottled_time 5640000000\n")];
    let cases = [
        (&v2[..], &v2_last[..], CgroupVersion::V2, "/app"),
        (&v1[..], &v1_last[..], CgroupVersion::V1, "/app"),
    ];
    for (first, last, version, path) in cases {
        let found = cgroups_of(first, last, FIRST);
        assert_eq!(found.version, Observed::Known(version));
        assert_eq!(found.throttled_total, Observed::Known(1), "{version:?}: {found:?}");
        let row = &found.throttled[0];
        assert_eq!(row.path.as_str(), path);
        assert_eq!((row.periods, row.throttled_pct.get(), row.throttled_ms), (25, 32.0, 640));
        assert_eq!(row.quota_cores, 0.5);
    }
}

/// Case 22: n %, 0 and "nobody said" are three answers.
#[test]
fn not_throttled_is_told_from_not_reported() {
    let quiet = [
        V2,
        V2_TOP,
        V2_HANDS_ON,
        ("sys/fs/cgroup/app/cgroup.controllers", "cpu\n"),
        ("sys/fs/cgroup/app/cpu.max", "50000 100000\n"),
        ("sys/fs/cgroup/app/cpu.stat", "nr_periods 9\nnr_throttled 3\nthrottled_usec 70\n"),
    ];
    let no_quotas = [quiet[0], quiet[1], quiet[2], quiet[3]];
    let no_controller = [V2, ("sys/fs/cgroup/cgroup.controllers", "memory\n")];
    let cases = [
        ("no period since", &quiet[..], Observed::Known(0)),
        ("a kernel without", &no_controller[..], {
            Observed::Unknown(Reason::KernelLacks(Feature::CgroupCpuController))
        }),
        ("nothing mounted", &[("proc/self/mountinfo", "1 1 0:1 / / rw - ext4 x rw\n")][..], {
            Observed::Unknown(Reason::OutOfSight(OutOfSight::HierarchyNotMounted))
        }),
        ("none can have one", &no_quotas[..3], Observed::Known(0)),
    ];
    for (name, files, want) in cases {
        let found = cgroups_of(files, &[], FIRST);
        assert_eq!(found.throttled_total, want, "{name}");
        assert_eq!(found.throttled, [], "{name}");
    }
}

/// A cgroup that was removed and made again has smaller counts.
#[test]
fn another_cgroup_of_the_same_name_is_not_the_same() {
    let stat = "cpu/a/cpu.stat";
    let first = [
        V1,
        ("cpu/a/cpu.cfs_quota_us", "20000\n"),
        ("cpu/a/cpu.cfs_period_us", "100000\n"),
        (stat, "nr_periods 900\nnr_throttled 800\nthrottled_time 9\n"),
    ];
    let last = [(stat, "nr_periods 5\nnr_throttled 4\nthrottled_time 9\n")];
    assert_eq!(cgroups_of(&first, &last, FIRST).throttled_total, Observed::Known(0));
}

/// Case 21: cache is no working set, no limit is no number, and the root cgroup counts nothing.
#[test]
fn a_working_set_is_what_is_not_inactive_cache() {
    const MIB: u64 = 1 << 20;
    let v1 = [
        ("proc/self/mountinfo", {
            "31 22 0:27 / /mem rw - cgroup cgroup rw,memory\n\
             32 22 0:28 / /uni rw - cgroup2 cgroup2 rw\n\
             33 22 0:29 / /systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
        }),
        ("mem/memory.limit_in_bytes", "9223372036854771712\n"),
        ("mem/a/memory.limit_in_bytes", "104857600\n"),
        ("mem/a/memory.usage_in_bytes", "103809024\n"),
        ("mem/a/memory.stat", "inactive_file 1\ntotal_inactive_file 94371840\n"),
        ("mem/a/memory.failcnt", "5\n"),
        ("mem/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"),
        ("mem/b/memory.limit_in_bytes", "9223372036854771712\n"),
        ("mem/b/memory.usage_in_bytes", "999\n"),
    ];
    let later = [
        ("mem/a/memory.failcnt", "12\n"),
        ("mem/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
    ];
    let found = cgroups_of(&v1, &later, FIRST);
    assert_eq!(found.version, Observed::Known(CgroupVersion::Hybrid));
    assert_eq!(found.limited_total, Observed::Known(1), "the one without a limit has no number");
    let row = &found.limited[0];
    assert_eq!(row.path.as_str(), "/a");
    assert_eq!(row.working_set_bytes, Observed::Known(Bytes(9 * MIB)));
    assert_eq!(row.cache_bytes, Observed::Known(Bytes(90 * MIB)));
    assert_eq!(row.limit_bytes, Observed::Known(Bytes(100 * MIB)));
    assert_eq!(row.high_bytes, Observed::Unknown(Reason::NoLimitSet));
    assert_eq!(row.used_pct.known().unwrap().get(), 9.0);
    assert_eq!(row.limit_hits, Observed::Known(7));
    assert_eq!(row.oom_kills, Observed::Known(2));
}

/// Case 21, version 2, also from within a container, where the path of its own cgroup is `/` and
/// that cgroup has what the root of all has not.
#[test]
fn version_two_says_what_is_high_and_what_was_killed() {
    let files = [
        V2,
        V2_TOP,
        V2_HANDS_ON,
        ("sys/fs/cgroup/memory.max", "max\n"),
        ("sys/fs/cgroup/memory.high", "2000\n"),
        ("sys/fs/cgroup/memory.current", "1500\n"),
        ("sys/fs/cgroup/memory.stat", "anon 1\ninactive_file 500\n"),
        ("sys/fs/cgroup/memory.events", "low 0\nhigh 4\nmax 0\noom 0\noom_kill 0\n"),
    ];
    let later = [("sys/fs/cgroup/memory.events", "low 0\nhigh 9\nmax 0\noom 0\noom_kill 0\n")];
    let found = cgroups_of(&files, &later, OF_A_CONTAINER);
    let row = &found.limited[0];
    assert_eq!(row.path.as_str(), "/");
    assert_eq!(row.limit_bytes, Observed::Unknown(Reason::NoLimitSet));
    assert_eq!(
        (&row.high_bytes, &row.high_hits),
        (&Observed::Known(Bytes(2000)), &Observed::Known(5))
    );
    assert_eq!(row.used_pct.known().unwrap().get(), 50.0);
    // On the machine itself the root cgroup has no such files.
    let root = cgroups_of(&files[..3], &[], FIRST);
    assert_eq!((&root.limited_total, root.found), (&Observed::Known(0), 2));
}

/// The dearest file of a cgroup is read only of those that can be among the first.
#[test]
fn the_nearest_to_its_limit_is_first_whatever_is_cache() {
    let mut files = vec![V1.0.to_owned()];
    let mut texts = vec![V1.1.to_owned()];
    let mut add = |path: String, text: String| {
        files.push(path);
        texts.push(text);
    };
    for (index, (usage, cache)) in
        [(1000, 900), (990, 100), (980, 970), (700, 0), (600, 0)].into_iter().enumerate()
    {
        add(format!("mem/c{index}/memory.limit_in_bytes"), "1000\n".to_owned());
        add(format!("mem/c{index}/memory.usage_in_bytes"), format!("{usage}\n"));
        // None of the last one, of which none is needed.
        if index < 4 {
            add(format!("mem/c{index}/memory.stat"), format!("inactive_file {cache}\n"));
        }
        add(format!("mem/c{index}/memory.failcnt"), "0\n".to_owned());
    }
    let machine = FakeMachine::new();
    for (path, text) in files.iter().zip(&texts) {
        machine.write_below_root(path, text);
    }
    let context = machine.context();
    let found = cgroups::look(context.root, PLENTY).finish(context.root, 2);
    let paths: Vec<&str> = found.limited.iter().map(|row| row.path.as_str()).collect();
    assert_eq!(paths, ["/c1", "/c3"], "89 % and 70 % of the limit");
    assert_eq!(found.limited_total, Observed::Known(5));
}

#[test]
fn a_walk_that_may_not_go_on_says_how_many_it_did_not_look_at() {
    let machine = machine(&[V1, ("cpu/a/cpu.cfs_quota_us", "-1\n"), ("mem/b/x", "")]);
    let context = machine.context();
    let found = cgroups::look(context.root, Duration::ZERO).finish(context.root, 10);
    assert_eq!((found.found, found.not_looked_at), (2, 2));
    let all = cgroups::look(context.root, PLENTY).finish(context.root, 10);
    assert_eq!((all.found, all.not_looked_at), (4, 0));
}

#[test]
fn a_name_that_is_hostile_is_escaped() {
    let path = "cpu/\u{1b}]0;x\nIGNORE/cpu.stat";
    let files = [
        V1,
        ("cpu/\u{1b}]0;x\nIGNORE/cpu.cfs_quota_us", "10000\n"),
        ("cpu/\u{1b}]0;x\nIGNORE/cpu.cfs_period_us", "100000\n"),
        (path, "nr_periods 1\nnr_throttled 0\nthrottled_time 0\n"),
    ];
    let later = [(path, "nr_periods 3\nnr_throttled 2\nthrottled_time 9000000\n")];
    let found = cgroups_of(&files, &later, FIRST);
    assert_eq!(found.throttled[0].path.as_str(), "/\\x1b]0;x\\nIGNORE");
}

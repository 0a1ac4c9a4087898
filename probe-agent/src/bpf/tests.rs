//! Loads what the agent brings along into this kernel. It takes root, or the capabilities to load
//! programs; without them a test says that it did not run, and in CI it fails instead.

use super::{
    Loaded, NoBpf, Object, Scope, call,
    map::{Definition, Map},
    trial::kernel_version,
};
use crate::{perf::sampler, proc::Root};
use std::{collections::BTreeSet, io::Read as _, sync::Mutex};

/// Programs and maps are counted for the whole process.
pub(crate) static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What was loaded; `None` where this login may not load it, which in CI it may.
pub(crate) fn if_permitted<T>(loaded: Result<T, NoBpf>) -> Option<T> {
    match loaded {
        Ok(loaded) => Some(loaded),
        Err(
            refused @ (NoBpf::NotPermitted { .. } | NoBpf::NoTypes { .. } | NoBpf::NotInKernel),
        ) => {
            let is_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
            assert!(!is_ci, "programs must load in CI: {refused:?}");
            println!("not run: needs a login that may load programs ({refused:?})");
            None
        }
        Err(other) => panic!("{other:?}"),
    }
}

fn load(object: Object) -> Option<Loaded> {
    if_permitted(Loaded::load(&Root::live().unwrap(), object, &[], &[]))
}

/// What this process holds of eBPF, by what the kernel says of its descriptors.
fn held() -> Vec<String> {
    let names = ["prog_id:", "map_id:", "link_id:", "btf_id:"];
    let files = std::fs::read_dir("/proc/self/fdinfo").unwrap();
    let texts = files.filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok());
    let lines: Vec<String> = texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| names.iter().any(|name| line.starts_with(name)))
        .collect();
    lines
}

#[test]
fn every_object_loads_and_every_program_finds_its_place() {
    let _guard = ONE_AT_A_TIME.lock();
    for object in Object::ALL {
        let Some(loaded) = load(*object) else { return };
        let programs: Vec<_> = loaded.programs().collect();
        assert!(!programs.is_empty(), "{object:?}");
        for (name, program) in programs {
            // Before Linux 6.7 there is nothing that goes through all tasks at once.
            let is_missed =
                matches!(program, Err(NoBpf::NoHook { hook }) if hook.starts_with("call/"));
            let may_be_missed = kernel_version() < 6 << 16 | 7 << 8;
            assert!(
                program.is_ok() || is_missed && may_be_missed,
                "{object:?} {name}: {program:?}"
            );
        }
    }
}

#[test]
fn what_is_dropped_leaves_nothing() {
    let _guard = ONE_AT_A_TIME.lock();
    let before = held();
    for object in Object::ALL {
        let Some(loaded) = load(*object) else { return };
        let tracepoints: Vec<&str> = loaded
            .programs()
            .filter(|(name, program)| program.is_ok() && loaded.iterate(name).is_err())
            .map(|(name, _)| name)
            .collect();
        let attached = loaded.attach(&tracepoints).unwrap();
        assert!(held().len() > before.len());
        drop(attached);
        drop(loaded);
        assert_eq!(held(), before, "{object:?}");
    }
}

#[test]
fn an_iterator_sees_this_process() {
    let _guard = ONE_AT_A_TIME.lock();
    let Some(loaded) = load(Object::Tasks) else { return };
    let mut bytes = Vec::new();
    loaded.iterate("each_task").unwrap().read_to_end(&mut bytes).unwrap();
    let own = std::process::id().to_ne_bytes();
    assert!(bytes.chunks_exact(4).any(|word| word == own));
    // And again, with nothing loaded anew.
    let mut again = Vec::new();
    loaded.iterate("each_task").unwrap().read_to_end(&mut again).unwrap();
    assert!(!again.is_empty());
    let missing = loaded.iterate("no_such_program").unwrap_err();
    assert!(matches!(missing, NoBpf::Object { .. }), "{missing:?}");
}

#[test]
fn an_object_is_kept_for_the_next_window_and_a_second_one_is_made_meanwhile() {
    let _guard = ONE_AT_A_TIME.lock();
    if load(Object::Tasks).is_none() {
        return;
    }
    let root = Root::live().unwrap();
    drop(Loaded::lend(&root, Object::Tasks, &[], &[]).unwrap());
    let kept = held();
    let first = Loaded::lend(&root, Object::Tasks, &[], &[]).unwrap();
    assert_eq!(held(), kept);
    let second = Loaded::lend(&root, Object::Tasks, &[], &[]).unwrap();
    assert!(held().len() > kept.len());
    drop((first, second));
    assert_eq!(held().len(), kept.len());
}

/// A map with one value for each key, or with one for each processor.
fn hash(kind: u32, flags: u32) -> Option<Map> {
    let definition = Definition {
        name: "tried",
        kind,
        key_bytes: 4,
        value_bytes: 12,
        entries: 5_000,
        flags,
        types: None,
    };
    let processors = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
    let processors = crate::proc::topology::parse_list(processors.as_bytes()).unwrap().len();
    load(Object::Tasks)?;
    Some(Map::create(&definition, None, processors).unwrap())
}

#[test]
fn a_map_gives_all_that_is_in_it_in_batches() {
    let _guard = ONE_AT_A_TIME.lock();
    // Hash, array, hash and array for each processor, and a hash that forgets.
    for kind in [1, 2, 5, 6, 9] {
        let Some(map) = hash(kind, 0) else { return };
        let is_array = matches!(kind, 2 | 6);
        let value = |key: u32| [key, key + 1, key + 2].map(u32::to_ne_bytes).concat();
        for key in 0..4_000_u32 {
            map.set(&key.to_ne_bytes(), &value(key)).unwrap();
        }
        let entries = map.entries().unwrap();
        assert_eq!(entries.len(), if is_array { 5_000 } else { 4_000 }, "kind {kind}");
        let mut keys = BTreeSet::new();
        for (key, values) in entries.iter() {
            let number = u32::from_ne_bytes(key.try_into().unwrap());
            assert!(keys.insert(number));
            let want = if number < 4_000 { value(number) } else { vec![0; 12] };
            assert!(map.each(values).count() > 0);
            assert!(map.each(values).all(|one| one == want), "kind {kind}, key {number}");
        }
        assert_eq!(
            map.get(&7_u32.to_ne_bytes())
                .unwrap()
                .map(|found| map.each(&found).all(|one| one == value(7))),
            Some(true)
        );
        assert_eq!(map.get(&9_999_u32.to_ne_bytes()).unwrap(), None);
        map.clear().unwrap();
        let left = map.entries().unwrap();
        assert!(left.iter().all(|(_, value)| value.iter().all(|byte| *byte == 0)));
        assert_eq!(left.len(), if is_array { 5_000 } else { 0 }, "kind {kind}");
        assert_eq!(map.delete(&1_u32.to_ne_bytes()).is_ok(), !is_array);
    }
}

#[test]
fn a_map_of_another_size_is_not_overrun() {
    let _guard = ONE_AT_A_TIME.lock();
    let Some(map) = hash(1, 0) else { return };
    assert!(map.set(&[0; 4], &[0; 11]).is_err());
    assert!(map.set(&[0; 3], &[0; 12]).is_err());
    assert!(map.get(&[0; 8]).is_err());
}

#[test]
fn nothing_is_loaded_for_files_that_are_no_running_machine() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("proc")).unwrap();
    let root = Root::at(folder.path()).unwrap();
    let refused = Loaded::load(&root, Object::Tasks, &[], &[]).unwrap_err();
    assert_eq!(refused, NoBpf::NotThisMachine);
}

#[test]
fn the_agent_is_not_watched_unless_it_is_asked_for() {
    let root = Root::live().unwrap();
    let own = std::process::id();
    let host = Scope::of(&sampler::Scope::Host, &root).unwrap();
    assert!(host.apart().contains(&own));
    assert_eq!(host.follower(), &[] as &[&str]);
    let asked = Scope::of(&sampler::Scope::Process(own), &root).unwrap();
    assert!(!asked.apart().contains(&own));
    assert_eq!(asked.follower(), ["follow_fork"]);
}

#[test]
fn the_names_of_programs_and_maps_are_such_as_the_kernel_takes() {
    assert_eq!(call::name(".data.scope")[..10], *b"datascope\0");
    assert_eq!(call::name("a_name_that_is_too_long")[15], 0);
}

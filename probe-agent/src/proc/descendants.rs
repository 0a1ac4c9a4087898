//! The processes that descend from one, as `/proc/PID/stat` tells parents. What was handed to another
//! parent, because its own ended, is no descendant any more.

use super::{Root, pid_stat};
use std::collections::BTreeMap;

/// The process and all that descend from it.
pub fn of(root: &Root, pid: u32) -> Vec<u32> {
    let mut pids = Vec::new();
    let _ = root.list_ids(".", &mut pids);
    let mut buffer = [0; 1024];
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for other in pids {
        let Ok(text) = root.read_proc_once(&format!("{other}/stat"), &mut buffer) else { continue };
        let Ok(stat) = pid_stat::parse(text) else { continue };
        children.entry(stat.parent_pid).or_default().push(other);
    }
    below(pid, &mut children)
}

/// Each process is taken out with its children, so a circle, which hostile numbers may make, ends.
fn below(pid: u32, children: &mut BTreeMap<u32, Vec<u32>>) -> Vec<u32> {
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(children.remove(&parent).unwrap_or_default());
        next += 1;
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_through_all_generations() {
        let mut children =
            BTreeMap::from([(1, vec![7, 9]), (7, vec![8]), (8, vec![12]), (9, vec![10])]);
        assert_eq!(below(7, &mut children), [7, 8, 12]);
        let mut circle = BTreeMap::from([(7, vec![8]), (8, vec![7])]);
        assert_eq!(below(7, &mut circle), [7, 8]);
    }

    #[test]
    fn this_process_is_its_own_and_its_parents() {
        let root = Root::live().unwrap();
        let own = std::process::id();
        assert!(of(&root, own).contains(&own));
        assert!(of(&root, std::os::unix::process::parent_id()).contains(&own));
    }
}

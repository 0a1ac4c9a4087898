/*
 * Who is watched: everything, processes with what they fork, or a control group; never the agent or
 * what carries its channel.
 *
 * Filled in by probe-agent/src/bpf/scope.rs before anything is attached. An object that includes this
 * has the program `follow_fork`, which is to be attached with its own where processes are watched.
 */
#pragma once

#include "kernel.h"

enum { WATCH_HOST = 0, WATCH_PROCESSES = 1, WATCH_CGROUP = 2, WATCH_PERF_CGROUP = 3 };

#define MOST_APART 16

/* The order is that of `Settings` in scope.rs. */
struct scope_settings {
	u32 watch;
	/* How many groups are above the one that is watched. */
	u32 cgroup_level;
	u64 cgroup_id;
	/* Children of watched processes that had no room among them. */
	u64 unfollowed;
	/* Processes that are not seen; the first 0 ends them. */
	u32 apart[MOST_APART];
};

volatile struct scope_settings scope_settings SEC(".data.scope") = {};

/* Processes that are watched, by their number. With room from the start: memory cannot be had in
 * every place where a process forks. */
struct {
	MAP(HASH, 4096);
	KEY(u32);
	VALUE(u8);
} watched SEC(".maps");

INLINE bool is_apart(u32 tgid)
{
#pragma unroll
	for (int i = 0; i < MOST_APART; i++) {
		u32 apart = scope_settings.apart[i];
		if (!apart)
			return false;
		if (apart == tgid)
			return true;
	}
	return false;
}

INLINE bool is_in_cgroup(struct task_struct *task, bool by_perf)
{
	struct css_set *set = GET(task, cgroups);
	struct cgroup *group;
	if (by_perf) {
		if (!ENUM_EXISTS(cgroup_subsys_id, perf_event_cgrp_id))
			return false;
		u64 place = ENUM_VALUE(cgroup_subsys_id, perf_event_cgrp_id) * sizeof(void *);
		struct cgroup_subsys_state *state = NULL;
		bpf_probe_read_kernel(&state, sizeof(state), ADDRESS(set, subsys) + place);
		group = GET(state, cgroup);
	} else {
		group = GET(set, dfl_cgrp);
	}
	u32 level = scope_settings.cgroup_level;
	if ((u32)GET(group, level) < level)
		return false;
	u64 place = (u64)level * 8;
	u64 id = 0;
	if (FIELD_EXISTS(group->ancestors)) {
		struct cgroup *above = NULL;
		bpf_probe_read_kernel(&above, sizeof(above), ADDRESS(group, ancestors) + place);
		struct kernfs_node *node = GET(above, kn);
		id = GET(node, id);
	} else {
		struct cgroup___before_6_1 *before = (void *)group;
		bpf_probe_read_kernel(&id, sizeof(id), ADDRESS(before, ancestor_ids) + place);
	}
	return id == scope_settings.cgroup_id;
}

/* Whether a thread is of what is watched. */
INLINE bool is_watched(struct task_struct *task)
{
	u32 tgid = GET(task, tgid);
	if (is_apart(tgid))
		return false;
	switch (scope_settings.watch) {
	case WATCH_HOST:
		return true;
	case WATCH_PROCESSES:
		return bpf_map_lookup_elem(&watched, &tgid) != NULL;
	case WATCH_CGROUP:
		return is_in_cgroup(task, false);
	default:
		return is_in_cgroup(task, true);
	}
}

SEC("tp_btf/sched_process_fork")
int follow_fork(u64 *context)
{
	struct task_struct *parent = (void *)context[0];
	struct task_struct *child = (void *)context[1];
	u32 from = GET(parent, tgid);
	u32 to = GET(child, tgid);
	u8 one = 1;
	/* A new thread is of its process. */
	if (from == to || scope_settings.watch != WATCH_PROCESSES)
		return 0;
	if (!bpf_map_lookup_elem(&watched, &from))
		return 0;
	if (bpf_map_update_elem(&watched, &to, &one, BPF_ANY))
		__sync_fetch_and_add(&scope_settings.unfollowed, 1);
	return 0;
}

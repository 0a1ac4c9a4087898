/*
 * What waits are counted in, and who waited: for latency.bpf.c.
 */
#pragma once

#include "kernel.h"
#include "scope.h"

/* Of nanoseconds: the last holds all from 2^39, nine minutes. */
#define SLOTS 40

/* The order of members is that of `Counted` in probe-agent/src/instruments/latency/tallies.rs. */
struct counted {
	u64 count;
	u64 total_ns;
	/* Two processors that set it in the same moment may leave the lesser one. It is never less
	 * than what its slot says. */
	u64 max_ns;
	u64 slots[SLOTS];
};

/* The number of a process is used again; with its start it is one process. */
struct process_key {
	u64 start_ns;
	u32 tgid;
	u32 padding;
};

INLINE struct process_key key_of(struct task_struct *task)
{
	struct process_key key = {};
	struct task_struct *leader = GET(task, group_leader);
	key.start_ns = GET(leader, start_boottime);
	key.tgid = GET(task, tgid);
	return key;
}

INLINE void name_of(char *name, struct task_struct *task)
{
	struct task_struct *leader = GET(task, group_leader);
	bpf_probe_read_kernel(name, 16, ADDRESS(leader, comm));
}

/* What could not be counted, for want of room. */
enum { LOST_WAITS, LOST_REQUESTS, LOST_CONNECTS, LOST_RESENT, LOSSES };

struct {
	MAP(PERCPU_ARRAY, LOSSES);
	KEY(u32);
	VALUE(u64);
} lost SEC(".maps");

INLINE void lose(u32 what)
{
	u64 *count = bpf_map_lookup_elem(&lost, &what);
	if (count)
		*count += 1;
}

static __attribute__((noinline)) void count(struct counted *counted, u64 ns)
{
	u32 slot = log2_of(ns);
	if (slot >= SLOTS)
		slot = SLOTS - 1;
	__sync_fetch_and_add(&counted->count, 1);
	__sync_fetch_and_add(&counted->total_ns, ns);
	__sync_fetch_and_add(&counted->slots[slot], 1);
	if (ns > counted->max_ns)
		counted->max_ns = ns;
}

/* A wait that ends may have begun on another processor, whose clock is a little ahead. */
INLINE u64 since(u64 begin, u64 now)
{
	return now > begin ? now - begin : 0;
}

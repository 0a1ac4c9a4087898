/*
 * Requests to block devices: for latency.bpf.c.
 */
#pragma once

#include "kernel.h"
#include "scope.h"
#include "latency_counted.h"

/* The order of members is that of `Moved` in tallies.rs. */
struct moved {
	u64 bytes;
	u64 errors;
	struct counted queue;
	struct counted device;
};

struct device_key {
	u32 device;
	u32 operation;
};

struct {
	MAP(HASH, 512);
	KEY(struct device_key);
	VALUE(struct moved);
} devices SEC(".maps");

struct submitter_key {
	struct process_key process;
	u32 device;
	u32 operation;
	u32 is_kernel_thread;
	u32 padding;
};

struct submitted {
	u64 bytes;
	char name[16];
	struct counted whole;
};

struct {
	MAP(HASH, 2048);
	KEY(struct submitter_key);
	VALUE(struct submitted);
} submitters SEC(".maps");

/* A request that is under way. */
struct request_state {
	u64 inserted_at;
	/* 0 until the driver has it. */
	u64 issued_at;
	u64 bytes;
	struct submitter_key by;
	char name[16];
};

struct {
	MAP(HASH, 8192);
	KEY(u64);
	VALUE(struct request_state);
} requests SEC(".maps");

struct {
	MAP(PERCPU_ARRAY, 1);
	KEY(u32);
	VALUE(struct moved);
} blank_moved SEC(".maps");

struct {
	MAP(PERCPU_ARRAY, 1);
	KEY(u32);
	VALUE(struct submitted);
} blank_submitted SEC(".maps");

#define REQ_OP_MASK 0xff

INLINE u32 device_of(struct request *request)
{
	struct request___before_5_17 *before = (void *)request;
	struct gendisk *disk;
	if (FIELD_EXISTS(before->rq_disk)) {
		disk = GET(before, rq_disk);
	} else {
		struct request_queue *queue = GET(request, q);
		disk = GET(queue, disk);
	}
	if (!disk)
		return 0;
	return ((u32)GET(disk, major) << 20) | (u32)GET(disk, first_minor);
}

INLINE void note(u64 key, struct request *request, u64 issued_at, u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	if (!is_watched(task))
		return;
	struct request_state state = { .inserted_at = now, .issued_at = issued_at };
	state.by.process = key_of(task);
	state.by.device = device_of(request);
	state.by.operation = GET(request, cmd_flags) & REQ_OP_MASK;
	state.by.is_kernel_thread = (GET(task, flags) & PF_KTHREAD) != 0;
	name_of(state.name, task);
	if (bpf_map_update_elem(&requests, &key, &state, BPF_ANY))
		lose(LOST_REQUESTS);
}

/* Since 5.11 all of these have the request as their first argument; there is no older kernel that has
 * what the rest of this needs. */
SEC("tp_btf/block_rq_insert")
int inserted(u64 *context)
{
	u64 key = context[0];
	note(key, (void *)context[0], 0, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/block_rq_issue")
int issued(u64 *context)
{
	u64 key = context[0];
	u64 now = bpf_ktime_get_ns();
	struct request_state *state = bpf_map_lookup_elem(&requests, &key);
	/* One that was issued before is an older one, whose end was not seen. */
	if (state && !state->issued_at) {
		state->issued_at = now;
		return 0;
	}
	if (state)
		bpf_map_delete_elem(&requests, &key);
	note(key, (void *)context[0], now, now);
	return 0;
}

/* The driver gave it back: it waits in the queue once more. */
SEC("tp_btf/block_rq_requeue")
int requeued(u64 *context)
{
	u64 key = context[0];
	struct request_state *state = bpf_map_lookup_elem(&requests, &key);
	if (state)
		state->issued_at = 0;
	return 0;
}

/* It became part of another one, and is no more. */
SEC("tp_btf/block_rq_merge")
int merged(u64 *context)
{
	u64 key = context[0];
	bpf_map_delete_elem(&requests, &key);
	return 0;
}

INLINE void completed_by(struct request_state *state, u64 whole_ns)
{
	struct submitter_key key = state->by;
	struct submitted *submitted = bpf_map_lookup_elem(&submitters, &key);
	if (!submitted) {
		u32 first = 0;
		struct submitted *zeroes = bpf_map_lookup_elem(&blank_submitted, &first);
		if (!zeroes)
			return;
		bpf_map_update_elem(&submitters, &key, zeroes, BPF_NOEXIST);
		submitted = bpf_map_lookup_elem(&submitters, &key);
		if (!submitted) {
			lose(LOST_REQUESTS);
			return;
		}
	}
	__builtin_memcpy(submitted->name, state->name, sizeof(submitted->name));
	__sync_fetch_and_add(&submitted->bytes, state->bytes);
	count(&submitted->whole, whole_ns);
}

SEC("tp_btf/block_rq_complete")
int completed(u64 *context)
{
	u64 key = context[0];
	struct request_state *state = bpf_map_lookup_elem(&requests, &key);
	if (!state)
		return 0;
	struct request *request = (void *)context[0];
	u32 done = (u32)context[2];
	state->bytes += done;
	/* A part of it; the rest comes. */
	if (done < GET(request, __data_len))
		return 0;
	u64 now = bpf_ktime_get_ns();
	/* Another one was sent in place of this one, as one flush is for many. */
	if (!state->issued_at) {
		bpf_map_delete_elem(&requests, &key);
		return 0;
	}
	struct device_key device = { .device = state->by.device, .operation = state->by.operation };
	struct moved *moved = bpf_map_lookup_elem(&devices, &device);
	if (!moved) {
		u32 first = 0;
		struct moved *zeroes = bpf_map_lookup_elem(&blank_moved, &first);
		if (zeroes)
			bpf_map_update_elem(&devices, &device, zeroes, BPF_NOEXIST);
		moved = bpf_map_lookup_elem(&devices, &device);
	}
	if (moved) {
		__sync_fetch_and_add(&moved->bytes, state->bytes);
		if (context[1] & 0xffffffff)
			__sync_fetch_and_add(&moved->errors, 1);
		count(&moved->queue, since(state->inserted_at, state->issued_at));
		count(&moved->device, since(state->issued_at, now));
	} else {
		lose(LOST_REQUESTS);
	}
	completed_by(state, since(state->inserted_at, now));
	bpf_map_delete_elem(&requests, &key);
	return 0;
}

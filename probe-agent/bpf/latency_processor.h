/*
 * Waits for a processor and off it: the scheduler's tracepoints. For latency.bpf.c.
 */
#pragma once

#include "kernel.h"
#include "scope.h"
#include "latency_counted.h"

enum { FOR_PROCESSOR, UNINTERRUPTIBLE, ASLEEP, SORTS };

struct sort {
	struct counted ended;
	/* Waits that began and have not ended, and the sum of the moments at which they began. */
	u64 open;
	u64 open_since_ns;
};

struct process {
	u64 ran_ns;
	char name[16];
	struct sort sorts[SORTS];
};

struct {
	MAP(HASH, 4096);
	KEY(struct process_key);
	VALUE(struct process);
} processes SEC(".maps");

/* What processes that are not watched had of the processors. */
struct ran {
	u64 ran_ns;
	char name[16];
};

struct {
	MAP(HASH, 4096);
	KEY(struct process_key);
	VALUE(struct ran);
} others SEC(".maps");

/* When the window began, which also tells windows apart: what threads were in when an earlier one ended
 * is of no meaning. */
volatile u64 window_began SEC(".data.latency") = 0;

/* Who has this processor: what it had until the end of the window is added by whoever reads. */
struct occupant {
	struct process_key process;
	u64 since_ns;
};

struct {
	MAP(PERCPU_ARRAY, 1);
	KEY(u32);
	VALUE(struct occupant);
} occupants SEC(".maps");

/* What a thread is in, and since when. At most one of the three is not 0. */
struct thread {
	u64 window;
	u64 running_since;
	u64 runnable_since;
	u64 off_since;
	u32 sort;
	u32 padding;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	FLAGS(BPF_F_NO_PREALLOC);
	KEY(int);
	VALUE(struct thread);
} threads SEC(".maps");

INLINE void begin(struct sort *sort, u64 now)
{
	__sync_fetch_and_add(&sort->open, 1);
	__sync_fetch_and_add(&sort->open_since_ns, now);
}

INLINE void unbegin(struct sort *sort, u64 begun)
{
	__sync_fetch_and_add(&sort->open, -1);
	__sync_fetch_and_add(&sort->open_since_ns, -begun);
}

INLINE void end(struct sort *sort, u64 begun, u64 now)
{
	unbegin(sort, begun);
	count(&sort->ended, since(begun, now));
}

/* Never written to: what new entries are made of, which are too large for the stack. */
struct {
	MAP(PERCPU_ARRAY, 1);
	KEY(u32);
	VALUE(struct process);
} blank SEC(".maps");

INLINE struct process *process_of(struct task_struct *task)
{
	struct process_key key = key_of(task);
	struct process *process = bpf_map_lookup_elem(&processes, &key);
	if (process)
		return process;
	u32 first = 0;
	struct process *zeroes = bpf_map_lookup_elem(&blank, &first);
	if (!zeroes)
		return NULL;
	bpf_map_update_elem(&processes, &key, zeroes, BPF_NOEXIST);
	process = bpf_map_lookup_elem(&processes, &key);
	if (process)
		name_of(process->name, task);
	return process;
}

INLINE void other_ran(struct task_struct *task, u64 ns)
{
	struct process_key key = key_of(task);
	struct ran *other = bpf_map_lookup_elem(&others, &key);
	if (other) {
		__sync_fetch_and_add(&other->ran_ns, ns);
		return;
	}
	struct ran made = { .ran_ns = ns };
	name_of(made.name, task);
	bpf_map_update_elem(&others, &key, &made, BPF_NOEXIST);
}

#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_DEAD 0x80
/* A thread of the kernel that has nothing to do. */
#define TASK_NOLOAD 0x400

INLINE struct thread *thread_of(struct task_struct *task, bool is_leaving)
{
	struct thread *thread =
		bpf_task_storage_get(&threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		lose(LOST_WAITS);
		return NULL;
	}
	if (thread->window != window_began) {
		thread->window = window_began;
		/* Whoever leaves a processor that it was not seen to enter has had it from the start. */
		thread->running_since = is_leaving ? window_began : 0;
		thread->runnable_since = 0;
		thread->off_since = 0;
	}
	return thread;
}

INLINE void left(struct thread *thread, struct task_struct *task, u64 now, bool preempted)
{
	u64 ran = thread->running_since ? since(thread->running_since, now) : 0;
	u64 never_ran = thread->runnable_since;
	thread->running_since = 0;
	thread->runnable_since = 0;
	thread->off_since = 0;
	if (!is_watched(task)) {
		if (ran && !is_apart(GET(task, tgid)))
			other_ran(task, ran);
		return;
	}
	struct process *process = process_of(task);
	if (!process) {
		lose(LOST_WAITS);
		return;
	}
	__sync_fetch_and_add(&process->ran_ns, ran);
	/* It was woken while it ran, before it was seen to run. */
	if (never_ran)
		unbegin(&process->sorts[FOR_PROCESSOR], never_ran);
	u32 state = state_of(task);
	if (preempted || !state) {
		thread->runnable_since = now;
		begin(&process->sorts[FOR_PROCESSOR], now);
		return;
	}
	if (state & TASK_DEAD)
		return;
	thread->off_since = now;
	if ((state & TASK_UNINTERRUPTIBLE) && !(state & TASK_NOLOAD)) {
		thread->sort = UNINTERRUPTIBLE;
		begin(&process->sorts[UNINTERRUPTIBLE], now);
	} else {
		thread->sort = ASLEEP;
		begin(&process->sorts[ASLEEP], now);
	}
}

INLINE void occupy(struct task_struct *task, u64 now)
{
	u32 first = 0;
	struct occupant *occupant = bpf_map_lookup_elem(&occupants, &first);
	if (!occupant)
		return;
	occupant->process = key_of(task);
	occupant->since_ns = now;
}

SEC("tp_btf/sched_switch")
int switched(u64 *context)
{
	struct task_struct *previous = (void *)context[1];
	struct task_struct *next = (void *)context[2];
	bool preempted = context[0] & 1;
	u64 now = bpf_ktime_get_ns();
	/* Number 0 is of the threads that stand for idle processors. */
	if (GET(previous, pid)) {
		struct thread *thread = thread_of(previous, true);
		if (thread)
			left(thread, previous, now, preempted);
	}
	occupy(next, now);
	if (GET(next, pid)) {
		struct thread *thread = thread_of(next, false);
		if (!thread)
			return 0;
		u64 begun = thread->runnable_since;
		thread->running_since = now;
		thread->runnable_since = 0;
		thread->off_since = 0;
		if (!begun)
			return 0;
		struct process *process = process_of(next);
		if (process)
			end(&process->sorts[FOR_PROCESSOR], begun, now);
	}
	return 0;
}

INLINE void now_runnable(struct thread *thread, struct task_struct *task)
{
	/* Woken before it slept. */
	if (thread->running_since || thread->runnable_since)
		return;
	struct process *process = process_of(task);
	if (!process) {
		lose(LOST_WAITS);
		return;
	}
	u64 now = bpf_ktime_get_ns();
	if (thread->off_since) {
		if (thread->sort == UNINTERRUPTIBLE)
			end(&process->sorts[UNINTERRUPTIBLE], thread->off_since, now);
		else
			end(&process->sorts[ASLEEP], thread->off_since, now);
	}
	thread->off_since = 0;
	thread->runnable_since = now;
	begin(&process->sorts[FOR_PROCESSOR], now);
}

SEC("tp_btf/sched_wakeup")
int woken(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	if (!is_watched(task))
		return 0;
	struct thread *thread = thread_of(task, false);
	if (thread)
		now_runnable(thread, task);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int woken_new(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	if (!is_watched(task))
		return 0;
	struct thread *thread = thread_of(task, false);
	if (thread)
		now_runnable(thread, task);
	return 0;
}

/* A process has the name of what it was forked from until it starts its program. */
SEC("tp_btf/sched_process_exec")
int renamed(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	struct process_key key = key_of(task);
	struct process *process = bpf_map_lookup_elem(&processes, &key);
	if (process)
		name_of(process->name, task);
	struct ran *other = bpf_map_lookup_elem(&others, &key);
	if (other)
		name_of(other->name, task);
	return 0;
}

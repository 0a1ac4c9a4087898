/* Where threads wait: how long each was off its processor, split into blocked (from switch-out to
 * waking) and queued (from waking to switch-in), added up by the way into the wait.
 *
 * A way is a thread, the place in user space that entered the kernel, the kernel's stack, and what is
 * waited for. Time is exact. A wait below `least` is carried: the wait that completes `least` stands for
 * all of them, so that short waits are sampled by their time and a stack is taken every `least` at most.
 *
 * User space's stack is copied where its memory can be read, on the way out of the system call, and again
 * each time that a sixteenth of the way's time has no copy yet: the same place may have several callers.
 */
#include "off_cpu_kept.h"
#include "off_cpu_subject.h"
#include "scope.h"

INLINE struct window *the_window(void)
{
	u32 zero = 0;
	struct window *found = bpf_map_lookup_elem(&window, &zero);
	return found && found->number ? found : 0;
}

INLINE struct totals *the_totals(void)
{
	u32 zero = 0;
	return bpf_map_lookup_elem(&totals, &zero);
}

INLINE u64 mixed(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ (hash >> 29);
}

/* The number of a way: the agent counts it the same from the key's bytes. */
INLINE u64 number_of(const struct way *way)
{
	const u64 *words = (const u64 *)way;
	u64 hash = 1;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < sizeof(*way) / 8; i++)
		hash = mixed(hash, words[i]);
	return hash;
}

/* Keeps the kernel's stack that was put in scratch, and gives its number; 0 for none. */
INLINE u64 kept(struct kernel_stack *stack, long bytes)
{
	if (bytes <= 0)
		return 0;
	u64 count = (u64)bytes / 8, hash = 1;
	if (count > KERNEL_FRAMES)
		count = KERNEL_FRAMES;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < KERNEL_FRAMES; i++) {
		if (i >= count)
			break;
		hash = mixed(hash, stack->frames[i]);
	}
	if (!hash)
		hash = 1;
	stack->count = count;
	if (!bpf_map_lookup_elem(&kernel_stacks, &hash) &&
	    bpf_map_update_elem(&kernel_stacks, &hash, stack, 0)) {
		struct totals *all = the_totals();
		if (all)
			all->lost_kernel_stacks++;
		return 0;
	}
	return hash;
}

INLINE u64 stack_of(struct task_struct *task)
{
	u32 first = 0;
	struct kernel_stack *stack = bpf_map_lookup_elem(&scratch, &first);
	if (!stack)
		return 0;
	return kept(stack, bpf_get_task_stack(task, stack->frames, sizeof(stack->frames), 0));
}

/* What a thread is known of in this window. One that is met first when it is woken or put on a processor
 * was off it since before the window. */
INLINE struct wait *known(struct task_struct *task, struct window *now, bool was_off)
{
	if (task->pid == 0 || task->flags & PF_KTHREAD)
		return 0;
	struct wait *wait = bpf_task_storage_get(&waits, task, 0, 0);
	if (!wait) {
		if (!is_watched(task))
			return 0;
		wait = bpf_task_storage_get(&waits, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!wait) {
			struct totals *all = the_totals();
			if (all)
				all->lost_threads++;
			return 0;
		}
	}
	if (wait->window != now->number) {
		__builtin_memset(wait, 0, sizeof(*wait));
		wait->window = now->number;
		wait->is_watched = is_watched(task);
		if (was_off) {
			wait->since = now->start;
			wait->began_before = 1;
		}
	}
	return wait->is_watched ? wait : 0;
}

INLINE struct spent *spent_in(struct way *way, struct task_struct *task)
{
	struct spent *spent = bpf_map_lookup_elem(&ways, way);
	if (spent)
		return spent;
	struct spent none = {};
	__builtin_memcpy(none.name, task->comm, 16);
	struct task_struct *leader = task->group_leader;
	__builtin_memcpy(none.process, leader->comm, 16);
	bpf_map_update_elem(&ways, way, &none, 0);
	return bpf_map_lookup_elem(&ways, way);
}

INLINE void count_waker(struct wait *wait, u64 time)
{
	struct waker key = {
		.way = number_of(&wait->way),
		.kernel_stack = wait->waker_stack,
		.tgid = wait->waker_tgid,
		.tid = wait->waker_tid,
	};
	struct woken *woken = bpf_map_lookup_elem(&wakers, &key);
	if (!woken) {
		struct woken none = {};
		__builtin_memcpy(none.name, wait->waker_name, 16);
		bpf_map_update_elem(&wakers, &key, &none, 0);
		woken = bpf_map_lookup_elem(&wakers, &key);
	}
	if (woken) {
		woken->waits++;
		woken->time += time;
	} else {
		struct totals *all = the_totals();
		if (all)
			all->lost_wakers++;
	}
}

/* Gives what a thread waited to the way that it is in. */
INLINE void give(struct task_struct *task, struct wait *wait, u64 last, struct window *now)
{
	struct pt_regs___entry *regs = (void *)bpf_task_pt_regs(task);
	if (!regs)
		return;
	u64 time = wait->blocked + wait->queued;
	u64 arguments[4] = { ARGUMENT(regs, 0), ARGUMENT(regs, 1), ARGUMENT(regs, 2), ARGUMENT(regs, 3) };
	s32 call = CALL_OF(regs);
	struct way *way = &wait->way;
	__builtin_memset(way, 0, sizeof(*way));
	way->tgid = task->tgid;
	way->tid = task->pid;
	way->ip = IP_OF(regs);
	way->sp = SP_OF(regs);
	way->call = call < 0 ? OUTSIDE : call;
	way->kernel_stack = stack_of(task);
	struct subject subject = {};
	describe(task, call, arguments, &subject);
	way->subject = subject;
	/* The key is copied: Linux 6.1 takes none from a thread's storage. */
	struct way key = *way;
	struct spent *spent = spent_in(&key, task);
	if (!spent) {
		struct totals *all = the_totals();
		if (all) {
			all->lost_ways++;
			all->lost_ways_time += time;
		}
	} else {
		spent->blocked += wait->blocked;
		spent->queued += wait->queued;
		spent->waits += wait->waits;
		spent->began_before += wait->began_before;
		spent->state = wait->state;
		if (last > spent->longest)
			spent->longest = last;
		__builtin_memcpy(spent->arguments, arguments, sizeof(arguments));
		spent->not_copied += time;
		u64 part = (spent->blocked + spent->queued) >> 4;
		if (call >= 0 && spent->not_copied >= now->least && spent->not_copied >= part)
			wait->wants_copy = 1;
		if (wait->has_waker)
			count_waker(wait, time);
	}
	wait->blocked = wait->queued = 0;
	wait->waits = wait->began_before = 0;
}

INLINE void give_preempted(struct task_struct *task, struct wait *wait)
{
	struct way key = {};
	key.tgid = task->tgid;
	key.tid = task->pid;
	key.call = PREEMPTED;
	key.subject.kind = NO_SUBJECT;
	struct spent *spent = spent_in(&key, task);
	if (spent) {
		spent->queued += wait->preempted;
		spent->waits += wait->waits;
	} else {
		struct totals *all = the_totals();
		if (all) {
			all->lost_ways++;
			all->lost_ways_time += wait->preempted;
		}
	}
	wait->preempted = 0;
}

INLINE void left(struct task_struct *task, bool is_preempted, u64 at, struct window *now)
{
	struct wait *wait = known(task, now, false);
	if (!wait)
		return;
	u32 state = task->__state;
	wait->is_preempted = is_preempted || !(state & BLOCKED_STATES);
	wait->since = !is_preempted && state & 0x80 ? 0 : at;
	wait->woken = wait->is_preempted ? at : 0;
	wait->has_waker = 0;
	wait->state = state;
	wait->switches = task->nvcsw + task->nivcsw;
}

INLINE void came(struct task_struct *task, u64 at, struct window *now)
{
	struct wait *wait = known(task, now, true);
	if (!wait || !wait->since)
		return;
	struct totals *all = the_totals();
	u64 woken = wait->woken;
	/* Met first on its way to a processor: it was runnable. */
	if (!woken && wait->began_before && !wait->state)
		woken = wait->since;
	if (!woken || woken > at)
		woken = at;
	u64 blocked = woken - wait->since, queued = at - woken;
	wait->since = 0;
	wait->wants_copy = 0;
	if (wait->is_preempted) {
		wait->preempted += queued;
		if (all)
			all->preempted += queued;
		if (wait->preempted >= now->least)
			give_preempted(task, wait);
		return;
	}
	wait->blocked += blocked;
	wait->queued += queued;
	wait->waits++;
	if (all) {
		all->blocked += blocked;
		all->queued += queued;
		all->waits++;
		if (wait->began_before)
			all->began_before++;
	}
	if (wait->blocked + wait->queued >= now->least)
		give(task, wait, blocked + queued, now);
	wait->began_before = 0;
}

SEC("tp_btf/sched_switch")
int switched(u64 *context)
{
	struct window *now = the_window();
	if (!now)
		return 0;
	u64 at = bpf_ktime_get_ns();
	left((struct task_struct *)context[1], context[0], at, now);
	came((struct task_struct *)context[2], at, now);
	return 0;
}

SEC("tp_btf/sched_waking")
int waking(u64 *context)
{
	struct window *now = the_window();
	if (!now)
		return 0;
	struct task_struct *task = (struct task_struct *)context[0];
	struct wait *wait = known(task, now, true);
	if (!wait || !wait->since || wait->woken)
		return 0;
	u64 at = bpf_ktime_get_ns();
	wait->woken = at;
	wait->has_waker = 0;
	if (wait->blocked + wait->queued + (at - wait->since) < now->least)
		return 0;
	struct task_struct *current = bpf_get_current_task_btf();
	u32 second = 1;
	struct kernel_stack *stack = bpf_map_lookup_elem(&scratch, &second);
	if (!stack)
		return 0;
	wait->waker_stack = kept(stack, bpf_get_stack(context, stack->frames, sizeof(stack->frames), 0));
	wait->waker_tgid = current->tgid;
	wait->waker_tid = current->pid;
	__builtin_memcpy(wait->waker_name, current->comm, 16);
	wait->has_waker = 1;
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int born(u64 *context)
{
	struct window *now = the_window();
	if (!now)
		return 0;
	struct wait *wait = known((struct task_struct *)context[0], now, false);
	if (wait)
		wait->since = wait->woken = bpf_ktime_get_ns();
	return 0;
}

/* Copies the top of the stack as far as there is one. */
INLINE void copy_stack(struct copy *copy, u64 sp)
{
	copy->length = STACK_BYTES;
	copy->is_full = 1;
	if (!bpf_probe_read_user(copy->stack, STACK_BYTES, (void *)sp))
		return;
	copy->is_full = 0;
	copy->length = 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < STACK_BYTES / STACK_CHUNK; i++) {
		u32 at = i * STACK_CHUNK;
		if (bpf_probe_read_user(copy->stack + at, STACK_CHUNK, (void *)(sp + at)))
			return;
		copy->length = at + STACK_CHUNK;
	}
}

SEC("tp_btf/sys_exit")
int returned(u64 *context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct wait *wait = bpf_task_storage_get(&waits, task, 0, 0);
	if (!wait || !wait->wants_copy)
		return 0;
	wait->wants_copy = 0;
	struct pt_regs___entry *regs = (void *)context[0];
	struct way key = wait->way;
	struct spent *spent = bpf_map_lookup_elem(&ways, &key);
	if (!spent || key.sp != SP_OF(regs))
		return 0;
	struct copy *copy = bpf_ringbuf_reserve(&copies, sizeof(*copy), 0);
	if (!copy) {
		struct totals *all = the_totals();
		if (all)
			all->lost_copies++;
		return 0;
	}
	copy->way = key;
	copy->weight = spent->not_copied;
	spent->not_copied = 0;
	copy->frame = FRAME_OF(regs);
	copy->link = LINK_OF(regs);
	struct subject polled = {};
	polled.kind = NO_SUBJECT;
	if (key.subject.kind == SEVERAL && key.subject.inode == 1) {
		u32 number = 0;
		if (!bpf_probe_read_user(&number, sizeof(number), (void *)spent->arguments[0]))
			describe_descriptor(task, number, &polled);
	}
	copy->polled = polled;
	copy_stack(copy, key.sp);
	bpf_ringbuf_submit(copy, 0);
	return 0;
}

INLINE bool is_on_processor(struct task_struct *task)
{
	return ((struct task_struct___off_cpu *)task)->on_cpu;
}

/* After the window: what each thread is in, and what it carried. */
SEC("iter/task")
int still(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	u32 zero = 0;
	struct window *now = bpf_map_lookup_elem(&window, &zero);
	if (!task || !now || task->pid == 0 || task->flags & PF_KTHREAD)
		return 0;
	if (((struct task_struct___off_cpu *)task)->start_time > now->end || !is_watched(task))
		return 0;
	struct open open = {};
	struct wait *wait = bpf_task_storage_get(&waits, task, 0, 0);
	u64 since = now->start, woken = 0;
	open.state = task->__state;
	open.is_waiting = 1;
	open.began_before = 1;
	if (wait && wait->window == now->number) {
		since = wait->since;
		woken = wait->woken;
		open.began_before = wait->began_before;
		open.blocked = wait->blocked;
		open.queued = wait->queued;
		open.preempted = wait->preempted;
		open.waits = wait->waits;
		/* One that began before the window was not switched out in it. */
		open.is_waiting = since && !is_on_processor(task) &&
			(open.began_before || wait->switches == task->nvcsw + task->nivcsw);
		if (since && !open.began_before)
			open.state = wait->state;
	} else if (!(open.state & BLOCKED_STATES) || is_on_processor(task)) {
		return 0;
	}
	if (since) {
		if (!woken || woken > now->end)
			woken = now->end;
		if (wait && wait->window == now->number && wait->is_preempted) {
			open.preempted += now->end - woken;
		} else {
			open.blocked += woken - since;
			open.queued += now->end - woken;
			open.waits++;
		}
	}
	struct pt_regs___entry *regs = (void *)bpf_task_pt_regs(task);
	if (!regs)
		return 0;
	open.arguments[0] = ARGUMENT(regs, 0);
	open.arguments[1] = ARGUMENT(regs, 1);
	open.arguments[2] = ARGUMENT(regs, 2);
	open.arguments[3] = ARGUMENT(regs, 3);
	open.frame = FRAME_OF(regs);
	open.link = LINK_OF(regs);
	s32 call = CALL_OF(regs);
	open.way.tgid = task->tgid;
	open.way.tid = task->pid;
	open.way.ip = IP_OF(regs);
	open.way.sp = SP_OF(regs);
	open.way.call = call < 0 ? OUTSIDE : call;
	if (open.is_waiting)
		open.way.kernel_stack = stack_of(task);
	describe(task, call, open.arguments, &open.way.subject);
	__builtin_memcpy(open.name, task->comm, 16);
	struct task_struct *leader = task->group_leader;
	__builtin_memcpy(open.process, leader->comm, 16);
	bpf_seq_write(context->meta->seq, &open, sizeof(open));
	return 0;
}

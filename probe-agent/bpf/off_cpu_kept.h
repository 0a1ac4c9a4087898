/*
 * What is kept of waits, and handed over: probe-agent/src/stack/waits/records.rs reads it.
 */
#pragma once

#include "kernel.h"

static long (*bpf_get_task_stack)(void *task, void *buffer, u32 bytes, u64 flags) = (void *)141;
/* Since Linux 5.15. */
static void *(*bpf_task_pt_regs)(void *task) = (void *)175;

/* What is only read here. */
struct task_struct___off_cpu {
	int on_cpu;
	u64 start_time;
} KERNEL;

/* Where user space entered the kernel, and with what. */
#if defined(__TARGET_ARCH_x86)
struct pt_regs___entry {
	unsigned long di, si, dx, r10, bp, sp, ip, orig_ax;
} KERNEL;
#define ARGUMENT(regs, number) ((number) == 0 ? (regs)->di : (number) == 1 ? (regs)->si : \
				(number) == 2 ? (regs)->dx : (regs)->r10)
#define CALL_OF(regs) ((s32)(regs)->orig_ax)
#define IP_OF(regs) ((regs)->ip)
#define SP_OF(regs) ((regs)->sp)
#define FRAME_OF(regs) ((regs)->bp)
#define LINK_OF(regs) 0
#else
struct pt_regs___entry {
	struct user_pt_regs user_regs;
	u64 orig_x0;
	s32 syscallno;
} KERNEL;
#define ARGUMENT(regs, number) ((number) == 0 ? (regs)->orig_x0 : (regs)->user_regs.regs[number])
#define CALL_OF(regs) ((regs)->syscallno)
#define IP_OF(regs) ((regs)->user_regs.pc)
#define SP_OF(regs) ((regs)->user_regs.sp)
#define FRAME_OF(regs) ((regs)->user_regs.regs[29])
#define LINK_OF(regs) ((regs)->user_regs.regs[30])
#endif

enum {
	STACK_BYTES = 8192,
	STACK_CHUNK = 512,
	KERNEL_FRAMES = 48,
	CALLS = 512,
	/* `call` of a way where there is no system call. */
	OUTSIDE = -1,
	PREEMPTED = -2,
	/* A thread's state: TASK_INTERRUPTIBLE to TASK_PARKED; TASK_DEAD is none of them. */
	BLOCKED_STATES = 0x7f,
};

/* What a system call's arguments say of what it waits for, by its number; told by the agent. */
enum { SAYS_NOTHING, SAYS_DESCRIPTOR, SAYS_FUTEX, SAYS_POLL };

/* Kinds of subjects; below 16 the type of a file, S_IFMT >> 12, 0 for one without. */
enum { A_SOCKET = 12, A_FUTEX = 16, SEVERAL = 17, NO_SUBJECT = 18 };

struct subject {
	u32 kind;
	u32 device;
	u64 inode;
	u8 peer[16];
	u16 family;
	u16 protocol;
	u16 peer_port;
	u16 own_port;
};

struct way {
	u32 tgid;
	u32 tid;
	u64 ip;
	u64 sp;
	u64 kernel_stack;
	s32 call;
	u32 unused;
	struct subject subject;
};

struct spent {
	u64 blocked;
	u64 queued;
	u64 waits;
	u64 longest;
	u64 not_copied;
	u64 arguments[4];
	u32 state;
	u32 began_before;
	char name[16];
	char process[16];
};

struct wait {
	u64 window;
	u64 since;
	u64 woken;
	u64 blocked;
	u64 queued;
	u64 preempted;
	u64 switches;
	u64 waker_stack;
	u32 waker_tgid;
	u32 waker_tid;
	char waker_name[16];
	u32 waits;
	u32 began_before;
	u8 is_watched;
	u8 is_preempted;
	u8 has_waker;
	u8 wants_copy;
	u32 state;
	struct way way;
};

struct window {
	/* 0 for none. */
	u64 number;
	u64 start;
	u64 end;
	u64 least;
};

struct copy {
	struct way way;
	u64 weight;
	u64 frame;
	u64 link;
	struct subject polled;
	u32 length;
	u32 is_full;
	u8 stack[STACK_BYTES];
};

struct kernel_stack {
	u64 count;
	u64 frames[KERNEL_FRAMES];
};

struct waker {
	u64 way;
	u64 kernel_stack;
	u32 tgid;
	u32 tid;
};

struct woken {
	u64 waits;
	u64 time;
	char name[16];
};

struct totals {
	u64 blocked;
	u64 queued;
	u64 preempted;
	u64 waits;
	u64 began_before;
	u64 lost_threads;
	u64 lost_ways;
	u64 lost_ways_time;
	u64 lost_copies;
	u64 lost_kernel_stacks;
	u64 lost_wakers;
};

/* What a thread is in after the window, from the iterator. */
struct open {
	struct way way;
	u64 blocked;
	u64 queued;
	u64 preempted;
	u64 frame;
	u64 link;
	u64 arguments[4];
	u32 state;
	u32 waits;
	u32 began_before;
	/* Whether it waited at the window's end, and has not moved since. */
	u32 is_waiting;
	char name[16];
	char process[16];
};

struct {
	MAP(ARRAY, 1);
	KEY(u32);
	VALUE(struct window);
} window SEC(".maps");

struct {
	MAP(ARRAY, CALLS);
	KEY(u32);
	VALUE(u32);
} says SEC(".maps");

struct {
	MAP(TASK_STORAGE, 0);
	FLAGS(BPF_F_NO_PREALLOC);
	KEY(int);
	VALUE(struct wait);
} waits SEC(".maps");

struct {
	MAP(HASH, 16384);
	FLAGS(BPF_F_NO_PREALLOC);
	KEY(struct way);
	VALUE(struct spent);
} ways SEC(".maps");

struct {
	MAP(HASH, 8192);
	FLAGS(BPF_F_NO_PREALLOC);
	KEY(u64);
	VALUE(struct kernel_stack);
} kernel_stacks SEC(".maps");

struct {
	MAP(HASH, 16384);
	FLAGS(BPF_F_NO_PREALLOC);
	KEY(struct waker);
	VALUE(struct woken);
} wakers SEC(".maps");

struct {
	MAP(PERCPU_ARRAY, 1);
	KEY(u32);
	VALUE(struct totals);
} totals SEC(".maps");

/* Two: a waking may interrupt a switch's caller, never a switch itself. */
struct {
	MAP(PERCPU_ARRAY, 2);
	KEY(u32);
	VALUE(struct kernel_stack);
} scratch SEC(".maps");

struct {
	MAP(RINGBUF, 4 << 20);
} copies SEC(".maps");

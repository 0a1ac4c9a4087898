/*
 * System calls of what is watched, added up: how many, how long, how they ended, and on what.
 *
 * A thread's call is kept with the thread from its begin to its end. Counts have the processor in their
 * key, so no two processors write to one; whoever reads adds them up. What kind of argument a call has
 * is told by probe-agent/src/instruments/syscall_trace/ebpf/, because numbers differ between processors.
 *
 * Kernel reference: include/trace/events/syscalls.h, kernel/entry/common.c.
 */
#include "kernel.h"
#include "scope.h"
#include "subject.h"

/* What a call is about: in the low bits of its class. */
enum {
	ABOUT_NOTHING = 0,
	ABOUT_FD = 1,
	ABOUT_FIFTH_FD = 2,
	ABOUT_PATH = 3,
	ABOUT_PATH_AT = 4,
	ABOUT_CONNECT = 5,
	ABOUT_SEND_TO = 6,
	ABOUT_FUTEX = 7,
	ABOUT_CHILD = 8,
	ABOUT_MASK = 15,
};

/* The rest of its class. */
#define OPENS 0x10
#define WAITS_BY_FD 0x20
#define FORKS 0x40
#define WANTED 0x80
#define EXECUTES 0x100
#define CLOSES 0x200

#define MOST_CALLS 512

/* Classes of the calls of this machine's own programs, and behind them those of 32 bits. */
const volatile u16 classes[2 * MOST_CALLS] = {};
/* The same for numbers beyond those. */
const volatile u32 class_beyond = 0;
/* Whether subjects are wanted. */
const volatile u32 is_detailed = 0;

/* The order is that of `Window` in probe-agent/src/instruments/syscall_trace/ebpf.rs. */
struct window {
	/* What began before is of no window, or of an earlier one. */
	u64 start_ns;
	/* A thread of the agent that tries what watching costs; 0 for none. */
	u32 trial_thread;
	u32 padding;
};

volatile struct window window SEC(".data.window") = {};

enum { IDLE = 0, IN_CALL = 1 };

struct thread {
	u64 window_ns;
	u64 begun_ns;
	/* Where the arguments are. */
	u64 registers;
	u32 number;
	u16 class;
	u8 state, is_32_bit, is_resolved, padding[7];
	struct subject subject;
	struct slot slots[SLOTS];
};

struct {
	MAP(TASK_STORAGE, 0);
	FLAGS(BPF_F_NO_PREALLOC);
	KEY(int);
	VALUE(struct thread);
} threads SEC(".maps");

#define BUCKETS 48

/* What a wait was on where that decides whether it is one, in a summary. */
enum { ON_UNKNOWN = 0, ON_SOCKET = 1, ON_PIPE = 2, ON_ANONYMOUS = 3, ON_TERMINAL = 4 };

struct call {
	u32 tgid;
	u32 processor;
	u16 number;
	u16 error;
	u8 is_32_bit;
	u8 on;
	u16 padding;
	struct subject subject;
};

struct tally {
	u64 count, total_ns, max_ns;
	u32 latency[BUCKETS];
};

struct {
	MAP(HASH, 8192);
	KEY(struct call);
	VALUE(struct tally);
} calls SEC(".maps");

/* The calls of a processor that it makes again and again, without a search: a call is in the place that
 * its key gives, if it was there first, and else in `calls`. */
#define HOT 256

struct hot {
	struct call call;
	struct tally tally;
};

struct {
	MAP(PERCPU_ARRAY, HOT);
	KEY(u32);
	VALUE(struct hot);
} hot_calls SEC(".maps");

/* Names of processes, as they were when they were seen first. */
struct process {
	char name[16];
};

struct {
	MAP(HASH, 8192);
	KEY(u32);
	VALUE(struct process);
} processes SEC(".maps");

/* On each processor: what there was no room for, and what had begun before. */
struct counts {
	u64 lost, begun_before;
};

struct {
	MAP(PERCPU_ARRAY, 1);
	KEY(u32);
	VALUE(struct counts);
} counts SEC(".maps");

static const struct tally no_calls = {};

INLINE struct counts *own_counts(void)
{
	u32 zero = 0;
	return bpf_map_lookup_elem(&counts, &zero);
}

#if defined(__TARGET_ARCH_x86)
/* TS_COMPAT: also of a program of 64 bits that makes a call the old way. */
#define IS_32_BIT(task, registers) ((task)->thread_info.status & 2)
#define NUMBER(registers) GET(registers, orig_ax)
#else
#define IS_32_BIT(task, registers) (GET(registers, user_regs.pstate) & 0x10)
#define NUMBER(registers) GET(registers, syscallno)
#endif

#if defined(__TARGET_ARCH_x86)
#define ARGUMENT_0(registers) GET(registers, di)
#define ARGUMENT_1(registers) GET(registers, si)
#define ARGUMENT_2(registers) GET(registers, dx)
#define ARGUMENT_4(registers) GET(registers, r8)
#define ARGUMENT_5(registers) GET(registers, r9)
#else
/* The first register has the result later on. */
#define ARGUMENT_0(registers) GET(registers, orig_x0)
#define ARGUMENT_1(registers) GET(registers, user_regs.regs[1])
#define ARGUMENT_2(registers) GET(registers, user_regs.regs[2])
#define ARGUMENT_4(registers) GET(registers, user_regs.regs[4])
#define ARGUMENT_5(registers) GET(registers, user_regs.regs[5])
#endif

INLINE u32 class_of(u32 number, bool is_32_bit)
{
	u32 place = number + (is_32_bit ? MOST_CALLS : 0);
	if (number >= MOST_CALLS)
		return class_beyond;
	if (place >= 2 * MOST_CALLS)
		return 0;
	return classes[place];
}

INLINE void name_process(struct task_struct *task, bool is_new)
{
	u32 tgid = task->tgid;
	struct process process = {};
	if (is_new && bpf_map_lookup_elem(&processes, &tgid))
		return;
	bpf_probe_read_kernel(process.name, sizeof(process.name), ADDRESS(task->group_leader, comm));
	bpf_map_update_elem(&processes, &tgid, &process, BPF_ANY);
}

/* What is kept with a thread of this window; none where it is not watched. */
INLINE struct thread *begin_thread(struct task_struct *task)
{
	if (!is_watched(task) && (u32)task->pid != window.trial_thread)
		return NULL;
	struct thread *thread =
		bpf_task_storage_get(&threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		struct counts *own = own_counts();
		if (own)
			own->lost++;
		return NULL;
	}
	thread->window_ns = window.start_ns;
	thread->state = IDLE;
	for (int i = 0; i < SLOTS; i++)
		thread->slots[i].file = NULL;
	name_process(task, true);
	return thread;
}

/* What a call is about, by its arguments, or by the descriptor that it gave. False where they could not
 * be read yet. Each step stands here once, however a call comes to it: the verifier follows every way. */
ONCE int resolve(struct thread *thread, u32 class, s32 opened)
{
	if (!thread)
		return 0;
	struct pt_regs *registers = (void *)thread->registers;
	u32 about = class & ABOUT_MASK;
	struct subject subject = {};
	struct place place = {};
	struct subject_name *path = NULL;
	s32 fd = -1;
	thread->subject = subject;
	if (opened >= 0) {
		fd = opened;
		thread->slots[fd & (SLOTS - 1)].file = NULL;
	} else if (about == ABOUT_NOTHING) {
		return 1;
	} else if (about == ABOUT_FUTEX) {
		thread->subject.kind = SUBJECT_FUTEX;
		thread->subject.a = ARGUMENT_0(registers);
		thread->subject.b = bpf_get_current_pid_tgid() >> 32;
		return 1;
	} else if (about == ABOUT_CHILD) {
		s32 child = ARGUMENT_0(registers);
		thread->subject.kind = SUBJECT_CHILD;
		thread->subject.a = child > 0 ? child : 0;
		return 1;
	} else if (about == ABOUT_FIFTH_FD) {
		fd = ARGUMENT_4(registers);
	} else if (about != ABOUT_PATH) {
		fd = ARGUMENT_0(registers);
	}
	if (opened < 0 && (about == ABOUT_CONNECT || about == ABOUT_SEND_TO)) {
		bool connects = about == ABOUT_CONNECT;
		const void *from = connects ? (void *)ARGUMENT_1(registers) : (void *)ARGUMENT_4(registers);
		u32 length = connects ? ARGUMENT_2(registers) : ARGUMENT_5(registers);
		if (address_subject(&subject, fd, from, length)) {
			thread->subject = subject;
			return 1;
		}
	}
	bool is_absolute = false;
	if (opened < 0 && (about == ABOUT_PATH || about == ABOUT_PATH_AT)) {
		path = read_path(about == ABOUT_PATH ? (void *)ARGUMENT_0(registers)
						     : (void *)ARGUMENT_1(registers));
		if (!path)
			return 0;
		is_absolute = path->text[0] == '/';
	}
	if (path && !is_absolute && fd < 0)
		folder_subject(&subject, &place);
	else if (!is_absolute && fd >= 0)
		fd_subject(&subject, &place, thread->slots, fd);
	if (place.dentry)
		name_file(&subject, &place);
	/* An empty one is the descriptor itself (AT_EMPTY_PATH). */
	if (path && (path->bytes || fd < 0))
		path_subject(&subject, path);
	thread->subject = subject;
	return 1;
}

SEC("tp_btf/sys_enter")
int enter_call(u64 *context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);
	if (!thread || thread->window_ns != window.start_ns) {
		thread = begin_thread(task);
		if (!thread)
			return 0;
	}
	u32 number = context[1];
	struct pt_regs *registers = (void *)context[0];
	thread->is_32_bit = !!(IS_32_BIT(task, registers));
	u32 class = class_of(number, thread->is_32_bit);
	thread->state = IDLE;
	if (!(class & WANTED))
		return 0;
	thread->number = number;
	thread->class = class;
	if (is_detailed) {
		thread->registers = (u64)registers;
		/* What is opened tells its path itself; where that fails, the path is read afterwards. */
		thread->is_resolved = !(class & OPENS) && resolve(thread, class, -1);
		if (class & OPENS)
			thread->subject = (struct subject){};
		if (class & CLOSES) {
			u32 fd = ARGUMENT_0(registers);
			thread->slots[fd & (SLOTS - 1)].file = NULL;
		}
	}
	thread->state = IN_CALL;
	thread->begun_ns = bpf_ktime_get_ns();
	return 0;
}

/* What kind of thing a descriptor is of, as far as it decides whether a call waits. */
ONCE u32 kind_of_fd(u32 fd)
{
	struct file *file = file_of(bpf_get_current_task_btf(), fd);
	if (!file)
		return ON_UNKNOWN;
	struct inode *inode = GET(file, f_inode);
	u32 mode = GET(inode, i_mode) & S_IFMT;
	struct super_block *super = GET(inode, i_sb);
	if (mode == S_IFSOCK)
		return ON_SOCKET;
	if (mode == S_IFIFO)
		return ON_PIPE;
	if (GET(super, s_magic) == ANON_INODE_FS_MAGIC)
		return ON_ANONYMOUS;
	if (mode == S_IFCHR) {
		u32 major = GET(inode, i_rdev) >> 20;
		if (major == 4 || major == 5 || (major >= 136 && major <= 143))
			return ON_TERMINAL;
	}
	return ON_UNKNOWN;
}

/* What takes less than this counts as work, whatever it is on. */
#define LEAST_WAIT_NS 20000

INLINE bool is_same(const struct call *left, const struct call *right)
{
	const u64 *a = (const void *)left, *b = (const void *)right;
	/* Without subjects there is nothing behind the first two. */
	if (!is_detailed)
		return a[0] == b[0] && a[1] == b[1];
	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3] && a[4] == b[4];
}

/* Where a call is counted. */
INLINE struct tally *tally_of(struct call *call)
{
	u32 place = call->tgid * 7 + call->number * 5 + call->error * 3;
	if (is_detailed)
		place += (u32)call->subject.a + (u32)call->subject.b;
	place = (place ^ place >> 8 ^ place >> 16) & (HOT - 1);
	struct hot *hot = bpf_map_lookup_elem(&hot_calls, &place);
	if (!hot)
		return NULL;
	if (is_same(&hot->call, call))
		return &hot->tally;
	/* No process has the number 0. */
	if (!hot->call.tgid) {
		hot->call = *call;
		return &hot->tally;
	}
	call->processor = bpf_get_smp_processor_id();
	struct tally *tally = bpf_map_lookup_elem(&calls, call);
	if (tally)
		return tally;
	bpf_map_update_elem(&calls, call, &no_calls, BPF_NOEXIST);
	tally = bpf_map_lookup_elem(&calls, call);
	if (tally || !call->subject.kind)
		return tally;
	/* There are too many: the call counts, and what it was about does not. */
	call->subject = (struct subject){ .kind = SUBJECT_NO_ROOM };
	bpf_map_update_elem(&calls, call, &no_calls, BPF_NOEXIST);
	return bpf_map_lookup_elem(&calls, call);
}

INLINE void count(struct call *call, u64 took_ns)
{
	struct tally *tally = tally_of(call);
	if (!tally) {
		struct counts *own = own_counts();
		if (own)
			own->lost++;
		return;
	}
	tally->count++;
	tally->total_ns += took_ns;
	if (took_ns > tally->max_ns)
		tally->max_ns = took_ns;
	u32 bucket = log2_of(took_ns);
	if (bucket >= BUCKETS)
		bucket = BUCKETS - 1;
	tally->latency[bucket]++;
}

/* A thread that is seen first at the end of a call: it had begun before. */
INLINE void first_seen_ending(struct task_struct *task, struct pt_regs *registers, s64 result)
{
	struct thread *thread = begin_thread(task);
	if (!thread)
		return;
	u32 class = class_of(NUMBER(registers), !!(IS_32_BIT(task, registers)));
	/* A child that was just born comes out of a call that it never made. */
	if (!(class & WANTED) || ((class & FORKS) && !result) || (u32)task->pid == window.trial_thread)
		return;
	struct counts *own = own_counts();
	if (own)
		own->begun_before++;
}

SEC("tp_btf/sys_exit")
int leave_call(u64 *context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);
	struct pt_regs *registers = (void *)context[0];
	s64 result = context[1];
	if (!thread || thread->window_ns != window.start_ns) {
		first_seen_ending(task, registers, result);
		return 0;
	}
	if (thread->state != IN_CALL)
		return 0;
	u64 took_ns = bpf_ktime_get_ns() - thread->begun_ns;
	thread->state = IDLE;
	struct call call = {};
	call.tgid = task->tgid;
	call.number = thread->number;
	call.is_32_bit = thread->is_32_bit;
	if (result < 0 && result >= -4095)
		call.error = -result;
	u32 class = thread->class;
	if (is_detailed) {
		bool has_opened = (class & OPENS) && result >= 0;
		thread->registers = (u64)registers;
		if (has_opened || !thread->is_resolved)
			resolve(thread, class, has_opened ? result : -1);
		call.subject = thread->subject;
	} else if ((class & WAITS_BY_FD) && took_ns >= LEAST_WAIT_NS) {
		call.on = kind_of_fd(ARGUMENT_0(registers));
	}
	if ((class & EXECUTES) && !result)
		name_process(task, false);
	count(&call, took_ns);
	return 0;
}

/* A thread that is in a call. */
struct under_way {
	u32 tgid, tid;
	u64 begun_ns;
	u32 number;
	u8 is_32_bit;
	/* Whether it is known which call. */
	u8 is_known;
	u16 padding;
	struct subject subject;
	char name[16];
};

/* What had not ended: calls that were seen to begin, and threads that sleep in one which was not. */
SEC("iter/task")
int each_call(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	if (!task || task->exit_state)
		return 0;
	struct under_way row = {};
	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);
	if (thread && thread->window_ns == window.start_ns) {
		if (thread->state != IN_CALL)
			return 0;
		row.begun_ns = thread->begun_ns;
		row.number = thread->number;
		row.is_32_bit = thread->is_32_bit;
		row.subject = thread->subject;
		row.is_known = 1;
	} else {
		/* Interruptible or not, and no thread of the kernel, which makes no calls. */
		if (!(state_of(task) & 3) || task->flags & PF_KTHREAD || !is_watched(task))
			return 0;
	}
	row.tgid = task->tgid;
	row.tid = task->pid;
	bpf_probe_read_kernel(row.name, sizeof(row.name), ADDRESS(task, comm));
	bpf_seq_write(context->meta->seq, &row, sizeof(row));
	return 0;
}

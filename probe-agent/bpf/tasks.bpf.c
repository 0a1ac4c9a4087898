/*
 * Every thread of the machine once, with what it used: for the ranking of processes.
 *
 * One record for a process, by its first thread, and a shorter one for each other thread; whoever
 * reads adds them up. What threads used that have ended is with the process.
 */
#include "kernel.h"

/* The order is that of `Row` in probe-agent/src/bpf/tasks.rs. */
struct thread_row {
	u32 tgid;
	u32 pid;
	u64 runtime_ns;
	u64 user_ns, system_ns;
	u64 minor_faults, major_faults;
	u32 state;
	u32 exit_state;
};

struct process_row {
	struct thread_row thread;
	u64 start_ns;
	u64 children_ns;
	u64 children_minor_faults, children_major_faults;
	s64 resident_pages;
	u32 parent;
	u32 threads;
	u32 flags;
	char name[16];
	u32 open_files;
};

/* Whether a process's open files are counted; the rest of a ranking does without. */
const volatile u32 are_files_counted = 0;

/* Stands for a number that a look at one small table of files does not tell. */
#define NOT_COUNTED 0xffffffff

/* Words of the largest table that is looked at; each has 64 descriptors. */
#define MOST_WORDS 16

INLINE u32 bits_of(u64 word)
{
	word -= word >> 1 & 0x5555555555555555;
	word = (word & 0x3333333333333333) + (word >> 2 & 0x3333333333333333);
	word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0f;
	return word * 0x0101010101010101 >> 56;
}

/*
 * Counts the bits of the table of open files, as `proc_readfd_count` in fs/proc/fd.c does: no file is
 * touched, so a thousand cost what one does. A larger table, which few processes have, is left to
 * whoever reads: going through it would take the verifier long at each loading.
 */
INLINE u32 open_files(struct task_struct *task)
{
	u32 count = 0;
	struct files_struct *files = task->files;
	if (!files)
		return 0;
	struct fdtable *table = files->fdt;
	if (!table)
		return NOT_COUNTED;
	const unsigned long *bits = table->open_fds;
	u32 bytes = table->max_fds / 8;
	if (bytes <= sizeof(u64)) {
		/* The table that every process begins with. */
		u64 word = 0;
		if (bpf_probe_read_kernel(&word, sizeof(word), bits))
			return NOT_COUNTED;
		count = bits_of(word);
	} else {
		u64 words[MOST_WORDS] = {};
		if (bytes > sizeof(words) || bpf_probe_read_kernel(words, bytes, bits))
			return NOT_COUNTED;
		for (u32 word = 0; word < MOST_WORDS; word++) {
			if (word >= bytes / sizeof(u64))
				break;
			count += bits_of(words[word]);
		}
	}
	/* A process that ends gives its table back, and then the memory is another's. */
	if (*(struct files_struct *volatile *)&task->files != files)
		return NOT_COUNTED;
	return count;
}

INLINE s64 none_if_negative(s64 pages)
{
	return pages > 0 ? pages : 0;
}

INLINE s64 resident_pages(struct mm_struct *mm)
{
	if (!mm)
		return 0;
	/* Of files, anonymous, and shared memory; the third of four is swap. */
	if (FIELD_EXISTS(((struct mm_struct___before_6_2 *)mm)->rss_stat.count)) {
		/* Into an array of what is no structure the verifier of then does not follow. */
		struct mm_struct___before_6_2 *before = (void *)mm;
		s64 files = 0, anonymous = 0, shared = 0;
		READ_INTO(files, before, rss_stat.count[0].counter);
		READ_INTO(anonymous, before, rss_stat.count[1].counter);
		READ_INTO(shared, before, rss_stat.count[3].counter);
		return none_if_negative(files) + none_if_negative(anonymous) + none_if_negative(shared);
	}
	return none_if_negative(mm->rss_stat[0].count) + none_if_negative(mm->rss_stat[1].count) +
	       none_if_negative(mm->rss_stat[3].count);
}

/* What a pass is for. The order is that of `Kind` in probe-agent/src/bpf/tasks.rs. */
enum {
	/* All is told, and what a later pass is to be compared with is written down. */
	PASS_FIRST = 0,
	/* What is as it was in the first pass is not told. */
	PASS_LATER = 1,
};

struct pass {
	u32 kind;
	/* How many tasks the first pass wrote down. */
	u32 written;
	/* How many of these a later one went by, and how many before the last task. */
	u32 place, place_before;
	/* Tasks that were seen, and the last of them. */
	u32 seen, last;
	/* Whether there was no room for one in the first pass. */
	u32 is_full;
};

volatile struct pass pass SEC(".data.pass") = {};

/* A task of the first pass, in the order in which all passes go. */
struct earlier {
	u64 mark;
	u32 pid;
	u32 padding;
};

struct {
	MAP(ARRAY, 65536);
	KEY(u32);
	VALUE(struct earlier);
} earlier SEC(".maps");

/* Tasks that ended since the first pass, for each that did not: beyond so many the next one goes on. */
#define MOST_GONE_AT_ONCE 16

/* In the place of a process, where no row follows: one that ended, or a thread that did something. */
#define IS_GONE 0
#define HAS_WORKED 0x80000000

INLINE u64 mixed(u64 mark, u64 with)
{
	mark = (mark ^ with) * 0x9e3779b97f4a7c15ULL;
	return mark ^ mark >> 32;
}

/*
 * Differs where anything differs that a task does: running changes how long it ran, and what happens to
 * it without, such as a thread that ends, its state and the sums of the process. Resident memory is not in
 * it: another takes that away.
 */
INLINE u64 mark_of(struct task_struct *task, bool is_process)
{
	u64 mark = mixed(task->start_boottime, task->se.sum_exec_runtime);
	mark = mixed(mark, (u64)task->exit_state << 32 | state_of(task));
	if (is_process) {
		struct signal_struct *signal = task->signal;
		mark = mixed(mark, signal->sum_sched_runtime);
		mark = mixed(mark, signal->cutime + signal->cstime + signal->cmin_flt);
		mark = mixed(mark, signal->nr_threads);
	}
	return mark;
}

/* The kernel shows a task again where its row had no room in what was read. */
INLINE bool is_shown_again(u32 pid)
{
	if (pass.last == pid && pass.seen) {
		/* What was told with it is gone too. */
		pass.place = pass.place_before;
		return true;
	}
	pass.place_before = pass.place;
	pass.last = pid;
	pass.seen += 1;
	return false;
}

INLINE void write_down(u32 pid, u64 mark)
{
	u32 place = pass.written;
	struct earlier *here = bpf_map_lookup_elem(&earlier, &place);
	if (!here) {
		pass.is_full = 1;
		return;
	}
	here->mark = mark;
	here->pid = pid;
	pass.written = place + 1;
}

/* Whether a task is as it was. Those that ended, which come before it, are told by a number each. */
INLINE bool is_as_before(struct seq_file *seq, u32 pid, u64 mark)
{
	u32 place = pass.place;
	bool is_same = false;
	for (u32 i = 0; i < MOST_GONE_AT_ONCE; i++) {
		u32 at = place;
		struct earlier *here = at < pass.written ? bpf_map_lookup_elem(&earlier, &at) : NULL;
		if (!here || here->pid > pid)
			break;
		place = at + 1;
		if (here->pid == pid) {
			is_same = here->mark == mark;
			break;
		}
		u32 gone[2] = {IS_GONE, here->pid};
		bpf_seq_write(seq, gone, sizeof(gone));
	}
	pass.place = place;
	return is_same;
}

INLINE void fill_thread(struct thread_row *row, struct task_struct *task)
{
	row->tgid = task->tgid;
	row->pid = task->pid;
	row->runtime_ns = task->se.sum_exec_runtime;
	row->user_ns = task->utime;
	row->system_ns = task->stime;
	row->minor_faults = task->min_flt;
	row->major_faults = task->maj_flt;
	row->state = state_of(task);
	row->exit_state = task->exit_state;
}

INLINE void write_process(struct seq_file *seq, struct task_struct *task)
{
	struct process_row row = {};
	fill_thread(&row.thread, task);
	struct signal_struct *signal = task->signal;
	row.thread.runtime_ns += signal->sum_sched_runtime;
	row.thread.user_ns += signal->utime;
	row.thread.system_ns += signal->stime;
	row.thread.minor_faults += signal->min_flt;
	row.thread.major_faults += signal->maj_flt;
	row.children_ns = signal->cutime + signal->cstime;
	row.children_minor_faults = signal->cmin_flt;
	row.children_major_faults = signal->cmaj_flt;
	row.threads = signal->nr_threads;
	row.start_ns = task->start_boottime;
	row.resident_pages = resident_pages(task->mm);
	row.parent = task->real_parent->tgid;
	row.flags = task->flags;
	bpf_probe_read_kernel(row.name, sizeof(row.name), ADDRESS(task, comm));
	row.open_files = are_files_counted ? open_files(task) : NOT_COUNTED;
	bpf_seq_write(seq, &row, sizeof(row));
}

SEC("iter/task")
int each_task(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	if (!task)
		return 0;
	struct seq_file *seq = context->meta->seq;
	u32 pid = task->pid;
	bool is_process = (u32)task->tgid == pid;
	bool is_again = is_shown_again(pid);
	if (pass.kind == PASS_FIRST && !is_again)
		write_down(pid, mark_of(task, is_process));
	if (pass.kind == PASS_LATER && is_as_before(seq, pid, mark_of(task, is_process)))
		return 0;
	if (is_process) {
		write_process(seq, task);
		return 0;
	}
	if (pass.kind == PASS_LATER) {
		u32 worked[2] = {HAS_WORKED | (u32)task->tgid, pid};
		bpf_seq_write(seq, worked, sizeof(worked));
		return 0;
	}
	struct thread_row row = {};
	fill_thread(&row, task);
	bpf_seq_write(seq, &row, sizeof(row));
	return 0;
}

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
		struct mm_struct___before_6_2 *before = (void *)mm;
		return none_if_negative(before->rss_stat.count[0].counter) +
		       none_if_negative(before->rss_stat.count[1].counter) +
		       none_if_negative(before->rss_stat.count[3].counter);
	}
	return none_if_negative(mm->rss_stat[0].count) + none_if_negative(mm->rss_stat[1].count) +
	       none_if_negative(mm->rss_stat[3].count);
}

SEC("iter/task")
int each_task(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	if (!task)
		return 0;
	struct process_row row = {};
	row.thread.tgid = task->tgid;
	row.thread.pid = task->pid;
	row.thread.runtime_ns = task->se.sum_exec_runtime;
	row.thread.user_ns = task->utime;
	row.thread.system_ns = task->stime;
	row.thread.minor_faults = task->min_flt;
	row.thread.major_faults = task->maj_flt;
	row.thread.state = state_of(task);
	row.thread.exit_state = task->exit_state;
	if (row.thread.tgid != row.thread.pid) {
		bpf_seq_write(context->meta->seq, &row.thread, sizeof(row.thread));
		return 0;
	}
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
	bpf_seq_write(context->meta->seq, &row, sizeof(row));
	return 0;
}

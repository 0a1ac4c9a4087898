/*
 * A row of a process or a thread, with what it used: for the ranking of processes.
 *
 * What threads used that have ended is with the process.
 */
#include "kernel.h"

/* Words of 64 bits, each a number or two: `Row` in probe-agent/src/bpf/tasks.rs takes them apart. */
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
	u32 open_files;
	u64 name[2];
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
 * whoever reads.
 */
ONCE u32 open_files(u64 address)
{
	struct task_struct *task = (void *)address;
	struct files_struct *files = GET(task, files);
	u64 words[MOST_WORDS] = {};
	/* That of a process that has none has no room, as zero is what is read through no pointer. */
	struct fdtable *table = GET(files, fdt);
	u32 bytes = GET(table, max_fds) / 8;
	if (bytes > sizeof(words) || bpf_probe_read_kernel(words, bytes, GET(table, open_fds)))
		return NOT_COUNTED;
	u32 count = bits_of(words[0]);
	/* Most have the table that every process begins with. */
	if (bytes > sizeof(u64))
		for (u32 word = 1; word < MOST_WORDS; word++)
			count += bits_of(words[word]);
	/* A process that ends gives its table back, and then the memory is another's. */
	return GET(task, files) == files ? count : NOT_COUNTED;
}

/* Without a branch, each of which the verifier goes both ways. */
INLINE s64 none_if_negative(s64 pages)
{
	return pages & ~(pages >> 63);
}

INLINE s64 resident_pages(struct mm_struct *mm)
{
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

/* A pointer that a compiler reads where it is asked for, and nowhere later. */
#define FOLLOWED(pointer, member) (*(typeof((pointer)->member) volatile *)&(pointer)->member)

/*
 * A process with what its first thread used and those that ended. Through a pointer that leads nowhere,
 * as that to the memory of a thread of the kernel, zeros are read.
 */
INLINE void fill_process(struct process_row *row, struct task_struct *task)
{
	/*
	 * For each of these the verifier searches all types of the kernel, again on every way that leads to it:
	 * here there is one.
	 */
	struct signal_struct *signal = FOLLOWED(task, signal);
	struct mm_struct *mm = FOLLOWED(task, mm);
	struct task_struct *parent = FOLLOWED(task, real_parent);
	fill_thread(&row->thread, task);
	row->thread.runtime_ns += signal->sum_sched_runtime;
	row->thread.user_ns += signal->utime;
	row->thread.system_ns += signal->stime;
	row->thread.minor_faults += signal->min_flt;
	row->thread.major_faults += signal->maj_flt;
	row->children_ns = signal->cutime + signal->cstime;
	row->children_minor_faults = signal->cmin_flt;
	row->children_major_faults = signal->cmaj_flt;
	row->threads = signal->nr_threads;
	row->start_ns = task->start_boottime;
	row->resident_pages = resident_pages(mm);
	row->parent = parent->tgid;
	row->flags = task->flags;
	const u64 *name = ADDRESS(task, comm);
	row->name[0] = name[0];
	row->name[1] = name[1];
	/* The first thread of a process is its own leader, and what is read so is a number. */
	row->open_files = are_files_counted ? open_files((u64)GET(task, group_leader)) : NOT_COUNTED;
}

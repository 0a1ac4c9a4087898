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
	u32 padding;
};

INLINE s64 resident_pages(struct mm_struct *mm)
{
	s64 pages = 0, some = 0;
	if (!mm)
		return 0;
	/* Of files, anonymous, and shared memory; the third of four is swap. */
	if (FIELD_EXISTS(((struct mm_struct___before_6_2 *)mm)->rss_stat.count)) {
		struct mm_struct___before_6_2 *before = (void *)mm;
		READ_INTO(some, before, rss_stat.count[0].counter);
		pages += some > 0 ? some : 0;
		READ_INTO(some, before, rss_stat.count[1].counter);
		pages += some > 0 ? some : 0;
		READ_INTO(some, before, rss_stat.count[3].counter);
		return pages + (some > 0 ? some : 0);
	}
	READ_INTO(some, mm, rss_stat[0].count);
	pages += some > 0 ? some : 0;
	READ_INTO(some, mm, rss_stat[1].count);
	pages += some > 0 ? some : 0;
	READ_INTO(some, mm, rss_stat[3].count);
	return pages + (some > 0 ? some : 0);
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
	bpf_seq_write(context->meta->seq, &row, sizeof(row));
	return 0;
}

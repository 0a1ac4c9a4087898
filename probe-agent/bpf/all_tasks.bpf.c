/*
 * Every process of the machine, by one call: Linux 6.7.
 *
 * The rows are read out of memory. It takes less than half of what a call for each task takes.
 */
#include "tasks.h"

INLINE void add_thread(struct thread_row *row, struct task_struct *task)
{
	row->runtime_ns += task->se.sum_exec_runtime;
	row->user_ns += task->utime;
	row->system_ns += task->stime;
	row->minor_faults += task->min_flt;
	row->major_faults += task->maj_flt;
}

/*
 * So many tasks are gone through at once. A processor does nothing else meanwhile, where the kernel
 * is one that does not interrupt its own work: a quarter of a microsecond for each.
 */
#define MOST_TASKS 32768

struct {
	MAP(ARRAY, MOST_TASKS);
	FLAGS(BPF_F_MMAPABLE);
	KEY(u32);
	VALUE(struct process_row);
} processes SEC(".maps");

/* The order is that of `Passed` in probe-agent/src/bpf/tasks.rs. */
struct pass {
	/* How many have a row. */
	u32 processes;
	/* How many tasks were gone through. */
	u32 tasks;
	/* Whether there were more than there is room for. */
	u32 is_cut;
};

volatile struct pass pass SEC(".data.pass") = {};

/* The row of a number, unless there is no room for it. */
INLINE struct process_row *row_at(u32 place)
{
	return bpf_map_lookup_elem(&processes, &place);
}

/* Whether there was room for it. */
INLINE bool go_by(struct task_struct *task)
{
	u32 tasks = pass.tasks + 1;
	pass.tasks = tasks;
	if (tasks > MOST_TASKS)
		return false;
	u32 count = pass.processes;
	if (task->tgid != task->pid) {
		/* The other threads of a process follow its first one. */
		struct process_row *row = row_at(count - 1);
		if (row)
			add_thread(&row->thread, task);
		return true;
	}
	struct process_row *row = row_at(count);
	if (!row)
		return false;
	fill_process(row, task);
	pass.processes = count + 1;
	return true;
}

/* It is linked to one thread: that one is where it is called, and nothing else of it matters. */
SEC("iter/task")
int all_tasks(struct bpf_iter__task *context)
{
	if (!context->task || pass.tasks)
		return 0;
	struct bpf_iter_task each;
	struct task_struct *task;
	bpf_iter_task_new(&each, NULL, BPF_TASK_ITER_ALL_THREADS);
	while ((task = bpf_iter_task_next(&each))) {
		/* What a processor does when it has nothing to do is no process. */
		if (task->pid && !go_by(task)) {
			pass.is_cut = 1;
			break;
		}
	}
	bpf_iter_task_destroy(&each);
	return 0;
}

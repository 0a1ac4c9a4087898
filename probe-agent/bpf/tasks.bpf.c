/*
 * Every task of the machine, one after another, as every kernel with iterators shows them.
 *
 * One record for a process, by its first thread, and a shorter one for each other thread; whoever
 * reads adds them up.
 */
#include "tasks.h"

SEC("iter/task")
int each_task(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	if (!task)
		return 0;
	struct seq_file *seq = context->meta->seq;
	if (task->tgid == task->pid) {
		struct process_row row = {};
		fill_process(&row, task);
		bpf_seq_write(seq, &row, sizeof(row));
		return 0;
	}
	struct thread_row row = {};
	fill_thread(&row, task);
	bpf_seq_write(seq, &row, sizeof(row));
	return 0;
}

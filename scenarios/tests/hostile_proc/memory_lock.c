/* A process whose memory lock is held, so that whoever reads its arguments waits for good.
 *
 * Takes an empty folder. Prints the pid of that process, and goes on until its stdin is closed or it is
 * killed; then all of it comes loose.
 *
 * A file system of its own (FUSE) never delivers the one page of its one file. The process maps that
 * page, and a child reads it through /proc/PID/mem: the child holds the process's lock for reading
 * while it waits. Then a thread of the process maps memory, which wants the lock for writing, and
 * whoever comes later queues behind it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096

static int to_reader[2], to_writer[2], ready[2];

static void give_up(const char *what)
{
	perror(what);
	exit(1);
}

static void tell(int pipe, const void *what, size_t length)
{
	if (write(pipe, what, length) != (ssize_t)length)
		give_up("a pipe");
}

static void hear(int pipe, void *what, size_t length)
{
	if (read(pipe, what, length) != (ssize_t)length)
		give_up("a pipe");
}

static void answer(int device, uint64_t unique, int error, const void *body, size_t length)
{
	char message[512];
	struct fuse_out_header header = { sizeof header + length, error, unique };

	memcpy(message, &header, sizeof header);
	memcpy(message + sizeof header, body, length);
	tell(device, message, header.len);
}

/* Serves the file system until the page is asked for. That is never answered. */
static void serve_until_read(int device)
{
	static char request[1 << 17];
	const struct fuse_in_header *header = (const void *)request;

	for (;;) {
		struct fuse_init_out init = { .major = 7, .minor = 31, .max_write = PAGE };
		struct fuse_attr page = { .ino = 2, .size = PAGE, .mode = S_IFREG | 0644, .nlink = 1 };
		struct fuse_entry_out entry = { .nodeid = 2, .attr = page };
		struct fuse_attr_out attr = { .attr = page };
		struct fuse_open_out open = { 0 };

		if (read(device, request, sizeof request) < 0) {
			if (errno == EINTR || errno == ENOENT)
				continue;
			give_up("/dev/fuse");
		}
		switch (header->opcode) {
		case FUSE_INIT:
			answer(device, header->unique, 0, &init, sizeof init);
			break;
		case FUSE_LOOKUP:
			answer(device, header->unique, 0, &entry, sizeof entry);
			break;
		case FUSE_GETATTR:
			if (header->nodeid == FUSE_ROOT_ID)
				attr.attr.mode = S_IFDIR | 0755;
			answer(device, header->unique, 0, &attr, sizeof attr);
			break;
		case FUSE_OPEN:
			answer(device, header->unique, 0, &open, sizeof open);
			break;
		case FUSE_READ:
			return;
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
			break;
		default:
			answer(device, header->unique, -ENOSYS, "", 0);
		}
	}
}

static void *writer(void *unused)
{
	pid_t tid = syscall(SYS_gettid);
	char byte;

	hear(to_writer[0], &byte, 1);
	tell(ready[1], &tid, sizeof tid);
	mmap(0, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return unused;
}

static void victim(const char *path)
{
	pid_t own = getpid();
	int file = open(path, O_RDONLY);
	char *page = file < 0 ? MAP_FAILED : mmap(0, PAGE, PROT_READ, MAP_PRIVATE, file, 0);
	pthread_t thread;

	if (page == MAP_FAILED)
		give_up(path);
	if (fork() == 0) {
		char byte, mem[64];

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		snprintf(mem, sizeof mem, "/proc/%d/mem", own);
		hear(to_reader[0], &byte, 1);
		exit(pread(open(mem, O_RDONLY), &byte, 1, (off_t)(uintptr_t)page) == 1);
	}
	if (pthread_create(&thread, 0, writer, 0))
		give_up("a thread");
	tell(ready[1], &own, sizeof own);
	tell(to_reader[1], "", 1);
	for (;;)
		pause();
}

/* Waits until a thread is deaf to signals. */
static void wait_for_deaf(pid_t tid)
{
	char path[64], line[512];
	const char *name_end;

	snprintf(path, sizeof path, "/proc/%d/stat", tid);
	do {
		FILE *file = fopen(path, "r");

		if (!file || !fgets(line, sizeof line, file))
			give_up(path);
		fclose(file);
		usleep(1000);
		name_end = strrchr(line, ')');
	} while (!name_end || name_end[2] != 'D');
}

int main(int count, char **arguments)
{
	int device = open("/dev/fuse", O_RDWR);
	char options[96], path[4096];
	pid_t pid, tid;

	if (count < 2 || device < 0 || pipe(to_writer) || pipe(to_reader) || pipe(ready))
		give_up("/dev/fuse");
	if (unshare(CLONE_NEWNS) || mount("none", "/", 0, MS_REC | MS_PRIVATE, 0))
		give_up("a mount namespace of its own");
	snprintf(options, sizeof options, "fd=%d,rootmode=040000,user_id=0,group_id=0", device);
	if (mount("never", arguments[1], "fuse", MS_NOSUID | MS_NODEV, options))
		give_up("mount");
	snprintf(path, sizeof path, "%s/page", arguments[1]);
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* The file system ends with the last descriptor of the device. */
		close(device);
		victim(path);
	}
	serve_until_read(device);
	hear(ready[0], &pid, sizeof pid);
	tell(to_writer[1], "", 1);
	hear(ready[0], &tid, sizeof tid);
	wait_for_deaf(tid);
	printf("%d\n", pid);
	fflush(stdout);
	while (read(0, path, sizeof path) > 0)
		;
	/* With the device, all that hangs comes loose; with this process, all others end. */
	return 0;
}

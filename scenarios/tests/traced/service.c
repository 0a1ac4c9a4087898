/*
 * A service with a truth about its system calls that it counts itself.
 *
 *   service FOLDER each|once REQUESTS    reads its configuration for each request, or once; the file
 *                                        beside it, with what overrides it, is never there
 *   service FOLDER calls COUNT           makes one call so many times, as fast as it can
 *   service FOLDER children COUNT        starts so many children, each of which reads the configuration
 *
 * It says "ready", waits for a byte, does its work, writes its counts to FOLDER/done, and stays until its
 * stdin is closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long opened, missing;
static char configuration[512];

static void read_configuration(void)
{
	/* By a path that begins where the process stands. */
	int file = open("etc/app.conf", O_RDONLY);
	if (file < 0 || read(file, configuration, sizeof(configuration)) < 0)
		exit(3);
	close(file);
	opened++;
	if (open("./etc/override.conf", O_RDONLY) < 0 && errno == ENOENT)
		missing++;
}

static void serve(int is_each, long requests)
{
	int log = open("log", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (!is_each)
		read_configuration();
	for (long request = 0; request < requests; request++) {
		if (is_each)
			read_configuration();
		/* Its log is what it spends its time on where it reads its configuration once, and rare otherwise. */
		if ((!is_each || request % 100 == 99) && write(log, "served\n", 7) != 7)
			exit(4);
	}
	close(log);
}

static void start_children(long count)
{
	for (long child = 0; child < count; child++) {
		pid_t pid = fork();
		if (!pid) {
			read_configuration();
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			exit(5);
	}
	opened = count;
	missing = count;
}

int main(int argc, char **argv)
{
	char byte, text[128];
	struct timespec start, end;
	if (argc < 4 || chdir(argv[1]))
		return 2;
	long count = atol(argv[3]);
	puts("ready");
	fflush(stdout);
	if (read(0, &byte, 1) != 1)
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &start);
	if (!strcmp(argv[2], "calls"))
		for (long call = 0; call < count; call++)
			syscall(SYS_getppid);
	else if (!strcmp(argv[2], "children"))
		start_children(count);
	else
		serve(!strcmp(argv[2], "each"), count);
	clock_gettime(CLOCK_MONOTONIC, &end);
	long us = (end.tv_sec - start.tv_sec) * 1000000 + (end.tv_nsec - start.tv_nsec) / 1000;
	int length = snprintf(text, sizeof(text), "%ld %ld %ld %ld\n", opened, missing, count, us);
	int done = open("done.part", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (write(done, text, length) != length)
		return 6;
	close(done);
	rename("done.part", "done");
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}

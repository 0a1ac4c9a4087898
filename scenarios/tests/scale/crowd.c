/* Many idle processes, or one process of many idle threads and one busy one.
 *
 * `crowd processes N` or `crowd threads N`. Prints a line when all are there: for threads, the
 * busy one's number. Lives until its stdin is closed, and then ends and waits for all of its own.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SMALL_STACK (32 << 10)

static void give_up(const char *what)
{
	perror(what);
	kill(0, SIGTERM);
	exit(1);
}

static void wait_for_end(void)
{
	char byte;

	while (read(0, &byte, 1) > 0)
		;
}

static void processes(int count)
{
	pid_t parent = getpid();

	/* A group of its own, to end all with one call. */
	setpgid(0, 0);
	for (int i = 0; i < count; i++) {
		pid_t child = fork();

		if (child < 0)
			give_up("fork");
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent)
				_exit(0);
			close(0);
			for (;;)
				pause();
		}
	}
	puts("ready");
	fflush(stdout);
	wait_for_end();
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
	while (wait(NULL) > 0)
		;
}

static void *idle(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void *busy(void *unused)
{
	printf("%ld\n", (long)syscall(SYS_gettid));
	fflush(stdout);
	for (;;)
		;
	return unused;
}

static void threads(int count)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, SMALL_STACK);
	for (int i = 0; i < count; i++)
		if (pthread_create(&thread, &attributes, idle, NULL))
			give_up("a thread");
	if (pthread_create(&thread, &attributes, busy, NULL))
		give_up("a thread");
	wait_for_end();
}

int main(int count, char **arguments)
{
	if (count != 3)
		return 2;
	if (strcmp(arguments[1], "processes") == 0)
		processes(atoi(arguments[2]));
	else
		threads(atoi(arguments[2]));
	return 0;
}

/*
 * A command whose system calls are known.
 *
 *   command calls THREADS COUNT   runs itself once more in a child, and in both makes COUNT rounds of calls in
 *                                 each of so many threads
 *   command work THREADS COUNT    the same without the child
 *   command forever               says "ready" and never ends, nor does what it has started: a child that
 *                                 takes no SIGTERM, one in a session of its own, and a thread
 *   command user                  says who it is
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long count;

static void *rounds(void *nothing)
{
	char text[16];
	for (long round = 0; round < count; round++) {
		int file = open("/etc/passwd", O_RDONLY);
		if (file < 0 || read(file, text, sizeof(text)) < 0)
			exit(3);
		close(file);
		/* No library makes this one by itself. */
		syscall(SYS_getsid, 0);
	}
	return nothing;
}

static void work(int threads)
{
	pthread_t all[64];
	for (int i = 1; i < threads; i++)
		pthread_create(&all[i], NULL, rounds, NULL);
	rounds(NULL);
	for (int i = 1; i < threads; i++)
		pthread_join(all[i], NULL);
}

static void *forever(void *nothing)
{
	for (;;) {
		syscall(SYS_getsid, 0);
		usleep(200);
	}
	return nothing;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	if (!strcmp(what, "user")) {
		fprintf(stderr, "user %d\n", (int)geteuid());
		return 0;
	}
	if (!strcmp(what, "forever")) {
		pthread_t thread;
		if (fork() == 0) {
			signal(SIGTERM, SIG_IGN);
			forever(NULL);
		}
		if (fork() == 0) {
			setsid();
			if (fork() == 0)
				forever(NULL);
			_exit(0);
		}
		wait(NULL);
		pthread_create(&thread, NULL, forever, NULL);
		puts("ready");
		fflush(stdout);
		forever(NULL);
	}
	if (argc < 4)
		return 2;
	count = atol(argv[3]);
	if (!strcmp(what, "calls")) {
		pid_t child = fork();
		if (child == 0) {
			argv[1] = "work";
			execv(argv[0], argv);
			_exit(4);
		}
		work(atoi(argv[2]));
		int status;
		if (waitpid(child, &status, 0) != child || status != 0)
			return 5;
		return 0;
	}
	work(atoi(argv[2]));
	return 0;
}

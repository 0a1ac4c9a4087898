/*
 * A program with something for every tracer to see, until it is killed: threads that open, read and
 * close a file, two that take turns with a lock, and children that are born all the time, do the same
 * and end.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *path;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void once(void)
{
	char byte;
	int fd = open(path, O_RDONLY);

	if (fd < 0 || read(fd, &byte, 1) != 1)
		_exit(1);
	close(fd);
}

static void *opens(void *unused)
{
	for (;;) {
		once();
		usleep(50);
	}
	return unused;
}

static void *locks(void *unused)
{
	for (;;) {
		pthread_mutex_lock(&lock);
		usleep(2000);
		pthread_mutex_unlock(&lock);
		usleep(10);
	}
	return unused;
}

int main(int count, char **words)
{
	void *(*const work[])(void *) = {opens, opens, locks, locks};
	pthread_t thread;

	if (count != 2)
		return 1;
	path = words[1];
	for (unsigned at = 0; at < sizeof(work) / sizeof(work[0]); at++)
		if (pthread_create(&thread, NULL, work[at], NULL))
			return 1;
	puts("ready");
	fflush(stdout);
	for (;;) {
		pid_t child = fork();

		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, 9);
			for (int rounds = 0; rounds < 20; rounds++) {
				once();
				usleep(500);
			}
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
}

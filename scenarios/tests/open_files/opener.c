/* Opens a known number of files of each kind, and waits.
 *
 * `opener FILES SOCKETS PIPES EVENTS`; of pipes each has two ends. A second thread shares all of them.
 * Prints a line when all are open. Lives until its stdin is closed.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static void must(int answer, const char *what)
{
	if (answer < 0) {
		perror(what);
		exit(1);
	}
}

static void *idle(void *unused)
{
	for (;;)
		pause();
	return unused;
}

int main(int count, char **arguments)
{
	struct rlimit limit;
	pthread_t thread;
	int ends[2];
	char byte;

	if (count != 5)
		return 2;
	must(getrlimit(RLIMIT_NOFILE, &limit), "getrlimit");
	limit.rlim_cur = limit.rlim_max;
	must(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
	for (int i = atoi(arguments[1]); i > 0; i--)
		must(open(arguments[0], O_RDONLY), "open");
	for (int i = atoi(arguments[2]); i > 0; i--)
		must(socket(AF_INET, SOCK_DGRAM, 0), "socket");
	for (int i = atoi(arguments[3]); i > 0; i--)
		must(pipe(ends), "pipe");
	for (int i = atoi(arguments[4]); i > 0; i--)
		must(eventfd(0, 0), "eventfd");
	must(-pthread_create(&thread, NULL, idle, NULL), "pthread_create");
	puts("ready");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}

/* The worst that whoever follows waits can meet: two processes hand each other a byte, so many times, and
 * each waits for the other every time. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int pass(long rounds, int from, int to, int begins)
{
	char byte = 'x';

	for (; rounds > 0; rounds--) {
		if (begins && write(to, &byte, 1) != 1)
			return 1;
		if (read(from, &byte, 1) != 1)
			return 1;
		if (!begins && write(to, &byte, 1) != 1)
			return 1;
	}
	return 0;
}

int main(int count, char **words)
{
	int there[2], back[2], status;
	char byte;
	long rounds;
	pid_t child;

	if (count != 2 || read(0, &byte, 1) != 1 || pipe(there) || pipe(back))
		return 1;
	rounds = atol(words[1]);
	child = fork();
	if (child < 0)
		return 1;
	if (child == 0)
		_exit(pass(rounds, there[0], back[1], 0));
	status = pass(rounds, back[0], there[1], 1);
	return waitpid(child, &count, 0) != child || count || status;
}

/* The system calls that a tracer is to cost little: a file is opened, read and closed, so many times. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **words)
{
	char byte;

	if (count != 3 || read(0, &byte, 1) != 1)
		return 1;
	for (long rounds = atol(words[1]); rounds > 0; rounds--) {
		int fd = open(words[2], O_RDONLY);

		if (fd < 0 || read(fd, &byte, 1) != 1 || close(fd))
			return 1;
	}
	return 0;
}

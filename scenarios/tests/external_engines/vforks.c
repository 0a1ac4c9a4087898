/* Is in vfork all the time: its parent waits for a child that shares its memory. */
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	for (;;) {
		if (vfork() == 0) {
			usleep(2000);
			_exit(0);
		}
		wait(NULL);
	}
}

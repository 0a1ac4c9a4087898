#include <stdint.h>
#include <unistd.h>

const char *const password = "hunter2";
static volatile uint64_t state;

__attribute__((noinline)) static void spin(void) {
    for (uint64_t turn = 0; turn < 1000000; turn++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
    }
}

/* Says that it is there, and spins for as long as somebody listens. */
int main(void) {
    if (write(1, "\n", 1) != 1) {
        return 1;
    }
    alarm(120);
    for (;;) {
        spin();
    }
}

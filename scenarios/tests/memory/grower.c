// Memory that goes as its first word says, until stdin closes. Prints a line once it has begun.

#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define APART __attribute__((noinline, noclone))

static void begun(void) {
    puts("begun");
    fflush(stdout);
}

// Waits so long. False when stdin was closed.
static int goes_on(int millis) {
    struct pollfd in = {.fd = 0, .events = POLLIN};
    return poll(&in, 1, millis) == 0;
}

static uint64_t millis_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

// New memory, a page of which is given for each fault.
static char *new_memory(size_t bytes) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) exit(1);
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    return memory;
}

// Not static: nobody reads them, and the compiler must not know.
char *kept[65536];
static unsigned kept_count;

APART void remember_request(size_t bytes) {
    char *request = malloc(bytes);
    memset(request, 1, bytes);
    kept[kept_count++ % 65536] = request;
}

// So many MiB a second, in blocks of 64 KiB.
APART void serve_requests(int mib_per_s) {
    uint64_t began = millis_now(), done = 0;
    begun();
    while (goes_on(10)) {
        uint64_t wanted = (millis_now() - began) * (uint64_t)mib_per_s * 16 / 1000;
        // Behind, as after a pause: no burst makes up for it.
        if (wanted > done + 16) began += (wanted - done - 16) * 1000 / ((uint64_t)mib_per_s * 16), wanted = done + 16;
        for (; done < wanted; done++) remember_request(64 * 1024);
    }
}

static void steps(int every_ms) {
    begun();
    do memset(new_memory(8 * MIB), 1, 8 * MIB);
    while (goes_on(every_ms));
}

static void once(void) {
    memset(new_memory(32 * MIB), 1, 32 * MIB);
    begun();
    // In the middle of each window of three seconds that begins soon after.
    goes_on(1500);
    memset(new_memory(32 * MIB), 1, 32 * MIB);
    while (goes_on(1000)) {}
}

// Rises for 500 ms, and is given back at once.
static void saw(void) {
    memset(new_memory(16 * MIB), 1, 16 * MIB);
    char *tooth = new_memory(32 * MIB);
    begun();
    for (;;) {
        for (int part = 0; part < 20; part++) {
            memset(tooth + (size_t)part * 32 * MIB / 20, 1, 32 * MIB / 20);
            if (!goes_on(25)) return;
        }
        madvise(tooth, 32 * MIB, MADV_DONTNEED);
    }
}

// 32 MiB by small blocks, and 32 MiB in one; with a noise of up to 1 MiB.
static void stay(int has_noise) {
    for (int block = 0; block < 32 * 1024; block++) memset(malloc(1000), 1, 1000);
    memset(new_memory(32 * MIB), 1, 32 * MIB);
    char *noise = new_memory(MIB);
    uint32_t random = 1;
    begun();
    while (goes_on(20)) {
        if (!has_noise) continue;
        random = random * 1664525 + 1013904223;
        madvise(noise, MIB, MADV_DONTNEED);
        memset(noise, 1, random % MIB);
    }
}

static void shrink(void) {
    size_t bytes = 1024 * MIB;
    char *memory = new_memory(bytes);
    memset(memory, 1, bytes / 2);
    begun();
    for (size_t at = 0; at < bytes / 2; at += MIB / 4) {
        madvise(memory + at, MIB / 4, MADV_DONTNEED);
        if (!goes_on(20)) return;
    }
    while (goes_on(1000)) {}
}

// Reads a file through a mapping, 8 MiB a second.
static void file(void) {
    char path[] = "/var/tmp/grower-XXXXXX";
    int descriptor = mkstemp(path);
    size_t bytes = 256 * MIB;
    if (descriptor < 0) exit(1);
    unlink(path);
    char *zeros = calloc(1, MIB);
    for (size_t at = 0; at < bytes; at += MIB)
        if (write(descriptor, zeros, MIB) != (ssize_t)MIB) exit(1);
    free(zeros);
    volatile char *mapped = mmap(NULL, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
    if (mapped == MAP_FAILED) exit(1);
    begun();
    for (size_t at = 0; goes_on(10); at += 4096 * 20)
        for (int page = 0; page < 20; page++) (void)mapped[(at + (size_t)page * 4096) % bytes];
}

static void shared(void) {
    size_t bytes = 256 * MIB;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) exit(1);
    begun();
    for (size_t at = 0; goes_on(10); at += 4096 * 20)
        memset(memory + at % (bytes - 4096 * 20), 1, 4096 * 20);
}

static char *given_back;

APART void use_and_give_back(void) {
    madvise(given_back, 4 * MIB, MADV_DONTNEED);
    memset(given_back, 1, 4 * MIB);
}

static void churn(void) {
    given_back = new_memory(4 * MIB);
    begun();
    while (goes_on(5)) use_and_give_back();
}

// Neighbours of other rights, so that none are joined.
static void mappings(int count) {
    char *memory = new_memory((size_t)count * 4096);
    for (int page = 0; page < count; page++) {
        memory[(size_t)page * 4096] = 1;
        if (page % 2) mprotect(memory + (size_t)page * 4096, 4096, PROT_READ);
    }
    begun();
    while (goes_on(1000)) {}
}

int main(int count, char **words) {
    if (count < 2) return 2;
    int number = count > 2 ? atoi(words[2]) : 0;
    const char *word = words[1];
    if (!strcmp(word, "leak")) serve_requests(number);
    else if (!strcmp(word, "steps")) steps(number);
    else if (!strcmp(word, "once")) once();
    else if (!strcmp(word, "saw")) saw();
    else if (!strcmp(word, "stay")) stay(0);
    else if (!strcmp(word, "noise")) stay(1);
    else if (!strcmp(word, "shrink")) shrink();
    else if (!strcmp(word, "file")) file();
    else if (!strcmp(word, "shared")) shared();
    else if (!strcmp(word, "churn")) churn();
    else if (!strcmp(word, "mappings")) mappings(number);
    else return 2;
    return 0;
}

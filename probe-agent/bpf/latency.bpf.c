/*
 * How long is waited: for a processor, off the processor, for block devices, and to connect by TCP.
 *
 * Everything is added up here, by who waited: nothing is sent. A wait is counted where it ends; what
 * had not ended is the difference of what began and what ended, and how long it had lasted follows
 * from the sum of the moments at which waits began.
 *
 * The four kinds share the object and are attached each on its own: `switched`, `woken`, `woken_new`
 * and `renamed`; `inserted`, `issued`, `requeued`, `merged` and `completed`; `changed_state` and
 * `resent_segment`.
 *
 * Kernel reference: include/trace/events/sched.h, block.h, sock.h and tcp.h.
 */
#include "kernel.h"
#include "scope.h"
#include "latency_processor.h"
#include "latency_block.h"
#include "latency_tcp.h"

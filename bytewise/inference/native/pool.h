/* Threads that run one task together, phase by phase. */
#ifndef NATIVE_POOL_H
#define NATIVE_POOL_H

#include "kernel.h"

typedef struct Pool Pool;

typedef struct {
    Pool *pool;
    const Kernel *kernel;
    int index; /* Below pool_threads. */
    int16_t *panel; /* Scratch: packed panels of weights. */
    char *scratch;  /* Scratch of attention. */
} Worker;

typedef void (*Task)(Worker *worker, void *argument);

enum { FAILED_MEMORY = 1, FAILED_FORKED = 2, FAILED_ARGUMENT = 3 };

/* Returns NULL if memory is short or a thread cannot be started. */
Pool *pool_open(int threads, const Kernel *kernel);
void pool_close(Pool *pool);
/* Makes each worker's scratch at least that large, in bytes. Returns 0 or FAILED_MEMORY. Do not call it while a task runs. */
int pool_reserve(Pool *pool, size_t panel, size_t scratch);
/* Runs the task on every thread, the caller's included; returns when all have ended it. 0 or FAILED_FORKED. */
int pool_run(Pool *pool, Task task, void *argument);
int pool_threads(const Pool *pool);
/* Inside a task: returns the next number of this phase. Each number goes to one thread. */
int64_t pool_next(Pool *pool);
/* Inside a task: waits for every thread; numbers start at 0 again. */
void pool_sync(Pool *pool);

#endif

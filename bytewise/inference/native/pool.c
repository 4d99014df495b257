#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define SPINS 1000  /* Some tens of microseconds: most phases are shorter. */
#define YIELDS 500  /* Some hundreds of microseconds: the caller's time between two tokens. A yield frees the core. */
#define CACHE_LINE 64

struct Pool {
    int threads, started;
    pid_t owner; /* Threads do not survive a fork. */
    pthread_t *handles;
    Worker *workers;
    size_t panel_bytes, scratch_bytes;
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    Task task;
    void *argument;
    bool closing;
    atomic_uint job;      /* Number of tasks begun: what a worker waits for. */
    atomic_int sleepers;  /* Threads that wait for `woken`. */
    _Alignas(CACHE_LINE) atomic_llong next;
    _Alignas(CACHE_LINE) atomic_int arrived;
    _Alignas(CACHE_LINE) atomic_uint phase;
};

typedef struct {
    Pool *pool;
    int index;
} Start;

static void pause_briefly(void)
{
#if defined(__x86_64__)
    _mm_pause();
#endif
}

/* Round to nearest, subnormals kept, whatever another library set in this thread; returns what was there. */
static unsigned plain_floats(void)
{
#if defined(__x86_64__)
    const unsigned before = _mm_getcsr();
    _mm_setcsr(0x1f80);
    return before;
#else
    return 0;
#endif
}

static void restore_floats(unsigned before)
{
#if defined(__x86_64__)
    _mm_setcsr(before);
#else
    (void)before;
#endif
}

int pool_threads(const Pool *pool)
{
    return pool->threads;
}

int64_t pool_next(Pool *pool)
{
    return atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
}

/* Waits until the word is no longer `old`: first awake, then asleep, because its writer may have lost its processor. */
static void wait_for(Pool *pool, atomic_uint *word, unsigned old)
{
    for (int spins = 0; spins < SPINS; spins++) {
        if (atomic_load(word) != old)
            return;
        pause_briefly();
    }
    for (int yields = 0; yields < YIELDS; yields++) {
        if (atomic_load(word) != old)
            return;
        sched_yield();
    }
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(word) == old)
        pthread_cond_wait(&pool->woken, &pool->mutex);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->mutex);
}

/* Changes the word. A thread that goes to sleep sees the new word, or this function sees the sleeper and wakes it. */
static void advance(Pool *pool, atomic_uint *word)
{
    atomic_fetch_add(word, 1);
    if (!atomic_load(&pool->sleepers))
        return;
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_broadcast(&pool->woken);
    pthread_mutex_unlock(&pool->mutex);
}

void pool_sync(Pool *pool)
{
    const unsigned phase = atomic_load(&pool->phase);
    if (atomic_fetch_add(&pool->arrived, 1) + 1 < pool->threads) {
        wait_for(pool, &pool->phase, phase);
        return;
    }
    atomic_store(&pool->arrived, 0);
    atomic_store(&pool->next, 0);
    advance(pool, &pool->phase);
}

static void *work(void *argument)
{
    const Start start = *(Start *)argument;
    Pool *pool = start.pool;
    free(argument);
    plain_floats();
    for (unsigned seen = 0;; seen++) {
        wait_for(pool, &pool->job, seen);
        if (pool->closing)
            return NULL;
        pool->task(&pool->workers[start.index], pool->argument);
        pool_sync(pool);
    }
}

static void begin(Pool *pool, Task task, void *argument, bool closing)
{
    pool->task = task;
    pool->argument = argument;
    pool->closing = closing;
    advance(pool, &pool->job);
}

int pool_run(Pool *pool, Task task, void *argument)
{
    if (getpid() != pool->owner)
        return FAILED_FORKED;
    const unsigned before = plain_floats();
    begin(pool, task, argument, false);
    task(&pool->workers[0], argument);
    pool_sync(pool);
    restore_floats(before);
    return 0;
}

static bool start_thread(Pool *pool, int index)
{
    Start *start = malloc(sizeof *start);
    if (!start)
        return false;
    *start = (Start){pool, index};
    if (pthread_create(&pool->handles[index], NULL, work, start)) {
        free(start);
        return false;
    }
    return true;
}

Pool *pool_open(int threads, const Kernel *kernel)
{
    Pool *pool = aligned_alloc(CACHE_LINE, sizeof *pool);
    if (!pool)
        return NULL;
    *pool = (Pool){.threads = threads, .owner = getpid()};
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->woken, NULL);
    pool->handles = calloc((size_t)threads, sizeof *pool->handles);
    pool->workers = calloc((size_t)threads, sizeof *pool->workers);
    if (pool->handles && pool->workers) {
        for (int i = 0; i < threads; i++)
            pool->workers[i] = (Worker){.pool = pool, .kernel = kernel, .index = i};
        pool->started = 1;
        while (pool->started < threads && start_thread(pool, pool->started))
            pool->started++;
    }
    if (pool->started == threads)
        return pool;
    pool_close(pool);
    return NULL;
}

void pool_close(Pool *pool)
{
    if (getpid() == pool->owner && pool->handles && pool->workers) {
        begin(pool, NULL, NULL, true);
        for (int i = 1; i < pool->started; i++)
            pthread_join(pool->handles[i], NULL);
    }
    for (int i = 0; pool->workers && i < pool->threads; i++) {
        free(pool->workers[i].panel);
        free(pool->workers[i].scratch);
    }
    if (getpid() == pool->owner) {
        /* In a child after a fork this would wait for sleepers that are not there. */
        pthread_cond_destroy(&pool->woken);
        pthread_mutex_destroy(&pool->mutex);
    }
    free(pool->workers);
    free(pool->handles);
    free(pool);
}

int pool_reserve(Pool *pool, size_t panel, size_t scratch)
{
    panel = (size_t)padded((int64_t)panel, CACHE_LINE);
    scratch = (size_t)padded((int64_t)scratch, CACHE_LINE);
    for (int i = 0; i < pool->threads; i++) {
        Worker *worker = &pool->workers[i];
        if (panel > pool->panel_bytes) {
            free(worker->panel);
            if (!(worker->panel = aligned_alloc(CACHE_LINE, panel)))
                return pool->panel_bytes = 0, FAILED_MEMORY;
        }
        if (scratch > pool->scratch_bytes) {
            free(worker->scratch);
            if (!(worker->scratch = aligned_alloc(CACHE_LINE, scratch)))
                return pool->scratch_bytes = 0, FAILED_MEMORY;
        }
    }
    pool->panel_bytes = panel > pool->panel_bytes ? panel : pool->panel_bytes;
    pool->scratch_bytes = scratch > pool->scratch_bytes ? scratch : pool->scratch_bytes;
    return 0;
}

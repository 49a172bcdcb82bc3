/*
 * Threads that share the units of one step, and memory that belongs to each thread.
 *
 * Each thread has its own part of the units, the same one in every run: the weights and most of the numbers that it
 * needs are in its own cache already. Who has finished his part takes from the others.
 *
 * The helpers wait for the next step by looking for a while, then they sleep. A caller who finds the helpers busy
 * with another caller's step does all units alone. A child process after fork() starts its own helpers.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "internal.h"

#if defined(__x86_64__)
#define RELAX() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define RELAX() __asm__ volatile("yield")
#else
#define RELAX() ((void)0)
#endif

enum { MOST_THREADS = 256, LOOKS = 2000, LOOKS_OF_CALLER = 4000 };

static struct {
    pthread_mutex_t caller; /* held by the thread whose step is worked on */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    atomic_int wanted; /* threads, the caller included */
    int started;       /* helpers */
    atomic_uint generation;
    atomic_int sleepers;
    /* the step under way */
    atomic_int is_open, entered, left;
    int32_t units, parts;
    unit_function function;
    void *job;
} pool = {
    .caller = PTHREAD_MUTEX_INITIALIZER,
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .wake = PTHREAD_COND_INITIALIZER,
    .wanted = 1,
};

/* The next unit of each part; a cache line each. */
static struct {
    _Alignas(64) atomic_int next;
} parts[MOST_THREADS];

static int32_t part_start(int32_t part)
{
    return (int32_t)((int64_t)part * pool.units / pool.parts);
}

static void take_units(int32_t number)
{
    for (int32_t i = 0; i < pool.parts; i++) {
        int32_t part = (number + i) % pool.parts, end = part_start(part + 1), unit;
        while ((unit = atomic_fetch_add_explicit(&parts[part].next, 1, memory_order_relaxed)) < end)
            pool.function(pool.job, unit);
    }
}

static unsigned wait_for_work(unsigned seen)
{
    for (int look = 0; look < LOOKS; look++) {
        unsigned now = atomic_load_explicit(&pool.generation, memory_order_acquire);
        if (now != seen)
            return now;
        RELAX();
    }
    pthread_mutex_lock(&pool.lock);
    atomic_fetch_add(&pool.sleepers, 1);
    while (atomic_load(&pool.generation) == seen)
        pthread_cond_wait(&pool.wake, &pool.lock);
    atomic_fetch_sub(&pool.sleepers, 1);
    pthread_mutex_unlock(&pool.lock);
    return atomic_load(&pool.generation);
}

static void *helper(void *argument)
{
    int number = (int)(intptr_t)argument;
    unsigned seen = 0;
    for (;;) {
        seen = wait_for_work(seen);
        /* The caller closes the step and then waits for those who entered: who comes too late sees it closed. */
        atomic_fetch_add(&pool.entered, 1);
        if (atomic_load(&pool.is_open) && number < atomic_load(&pool.wanted))
            take_units(number);
        atomic_fetch_add(&pool.left, 1);
    }
    return NULL;
}

static void forget_helpers(void)
{
    /* In a child process only the thread that called fork() is left. */
    pthread_mutex_init(&pool.caller, NULL);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.wake, NULL);
    pool.started = 0;
    atomic_store(&pool.generation, 0);
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.is_open, 0);
    atomic_store(&pool.entered, 0);
    atomic_store(&pool.left, 0);
}

static void start_helpers(int count)
{
    static int watches_fork;
    pthread_attr_t attributes;

    if (!watches_fork) {
        pthread_atfork(NULL, NULL, forget_helpers);
        watches_fork = 1;
    }
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    while (pool.started < count) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, helper, (void *)(intptr_t)(pool.started + 1)) != 0)
            break; /* fewer helpers: slower, not wrong */
        pool.started++;
    }
    pthread_attr_destroy(&attributes);
}

/* In this order: a helper that comes late and leaves at once must not be counted for one who is still at work. */
static int somebody_is_inside(void)
{
    int left = atomic_load(&pool.left);
    return atomic_load(&pool.entered) != left;
}

void run_units(int32_t units, unit_function function, void *job)
{
    int wanted = atomic_load_explicit(&pool.wanted, memory_order_relaxed);

    if (units <= 1 || wanted <= 1 || pthread_mutex_trylock(&pool.caller) != 0) {
        for (int32_t unit = 0; unit < units; unit++)
            function(job, unit);
        return;
    }
    start_helpers(wanted - 1);
    pool.units = units;
    pool.function = function;
    pool.job = job;
    pool.parts = wanted;
    for (int32_t part = 0; part < wanted; part++)
        atomic_store_explicit(&parts[part].next, part_start(part), memory_order_relaxed);
    atomic_store(&pool.is_open, 1);
    atomic_fetch_add(&pool.generation, 1);
    if (atomic_load(&pool.sleepers)) {
        pthread_mutex_lock(&pool.lock);
        pthread_cond_broadcast(&pool.wake);
        pthread_mutex_unlock(&pool.lock);
    }
    take_units(0);
    atomic_store(&pool.is_open, 0);
    for (int look = 0; somebody_is_inside(); look++) {
        RELAX();
        if (look > LOOKS_OF_CALLER)
            sched_yield();
    }
    pthread_mutex_unlock(&pool.caller);
}

void openrknn_set_threads(int32_t count)
{
    atomic_store(&pool.wanted, at_most(at_least(count, 1), MOST_THREADS));
}

int32_t openrknn_threads(void)
{
    return atomic_load(&pool.wanted);
}

/* ---------------------------------------------------------------------------------------------- scratch memory */

typedef struct {
    void *area[SCRATCH_COUNT];
    int64_t size[SCRATCH_COUNT];
} areas;

static pthread_key_t areas_key;
static pthread_once_t areas_once = PTHREAD_ONCE_INIT;

static void free_areas(void *pointer)
{
    areas *mine = pointer;
    for (int32_t which = 0; which < SCRATCH_COUNT; which++)
        free(mine->area[which]);
    free(mine);
}

static void make_areas_key(void)
{
    pthread_key_create(&areas_key, free_areas);
}

void *scratch(int32_t which, int64_t bytes)
{
    pthread_once(&areas_once, make_areas_key);
    areas *mine = pthread_getspecific(areas_key);
    if (!mine) {
        mine = calloc(1, sizeof *mine);
        if (!mine)
            return NULL;
        pthread_setspecific(areas_key, mine);
    }
    if (mine->size[which] < bytes) {
        /* Doubling keeps the number of calls small; 64 is a cache line. */
        int64_t wanted = round_up(bytes > 2 * mine->size[which] ? bytes : 2 * mine->size[which], 4096);
        void *fresh = aligned_alloc(64, (size_t)wanted);
        if (!fresh)
            return NULL;
        free(mine->area[which]);
        /* Vectors may read padding that nobody wrote: let it be numbers that repeat. */
        memset(fresh, 0, (size_t)wanted);
        mine->area[which] = fresh;
        mine->size[which] = wanted;
    }
    return mine->area[which];
}

/*
 * Threads that share the units of one step, and memory that belongs to each thread.
 *
 * Each thread has its own part of the units, the same one in every run: the weights and most of the numbers that it
 * needs are in its own cache already. Who has finished his part takes from the others.
 *
 * Each helper has a cache line of its own, and nobody else looks at it but the caller: IDLE -> OFFERED (the caller) ->
 * BUSY (the helper, who works) -> IDLE. A caller who has nothing left to do takes back the offers that were not yet
 * accepted, so he waits only for helpers that are at work: one that the system does not let run costs no time. Helpers
 * look at their line for a while, then they sleep. A caller who finds the helpers busy with another caller's step does
 * all units alone. A child process after fork() starts its own helpers.
 *
 * How many threads: each one more takes its share of the work w, and costs b for the offer and the look whether it has
 * finished. w / n + b n is least where n = sqrt(w / b); more threads than that make a step slower.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "internal.h"

#if defined(__x86_64__)
#define RELAX() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define RELAX() __asm__ volatile("yield")
#else
#define RELAX() ((void)0)
#endif

enum { MOST_THREADS = 256, LOOKS = 2000, LOOKS_OF_CALLER = 4000 };
enum { IDLE, OFFERED, BUSY, SLEEPING };

/* Two cache lines pass from core to core for each helper and step, each in about 100 ns; some more for the uneven rest. */
enum { THREAD_NANOSECONDS = 250 };

static struct {
    pthread_mutex_t caller; /* held by the thread whose step is worked on */
    atomic_int wanted; /* threads, the caller included */
    atomic_int cores;  /* that may be used; 0: as many as wanted */
    atomic_int price;  /* of one more thread, in nanoseconds */
    int started;       /* helpers */
    /* the step under way */
    int32_t units, parts;
    unit_function function;
    void *job;
} pool = {
    .caller = PTHREAD_MUTEX_INITIALIZER,
    .wanted = 1,
    .price = THREAD_NANOSECONDS,
};

/* What belongs to one thread: the next unit of its part, and its state; a cache line each. */
static struct {
    _Alignas(64) atomic_int next;
    _Alignas(64) atomic_int state;
} parts[MOST_THREADS];

static _Thread_local int32_t last_parts = 1;

static int32_t part_start(int32_t part)
{
    return (int32_t)((int64_t)part * pool.units / pool.parts);
}

static void take_units(int32_t number)
{
    for (int32_t i = 0; i < pool.parts; i++) {
        int32_t part = (number + i) % pool.parts, end = part_start(part + 1), unit;
        /* A look first: a line that has nothing left stays where it is. */
        if (atomic_load_explicit(&parts[part].next, memory_order_relaxed) >= end)
            continue;
        while ((unit = atomic_fetch_add_explicit(&parts[part].next, 1, memory_order_relaxed)) < end)
            pool.function(pool.job, unit);
    }
}

#ifdef __linux__
static void sleep_on(atomic_int *state)
{
    syscall(SYS_futex, state, FUTEX_WAIT_PRIVATE, SLEEPING, NULL, NULL, 0);
}

static void wake(atomic_int *state)
{
    syscall(SYS_futex, state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
#else
static void sleep_on(atomic_int *state)
{
    (void)state;
    sched_yield();
}

static void wake(atomic_int *state)
{
    (void)state;
}
#endif

/* Until there is an offer, which is accepted. */
static void accept_offer(atomic_int *state)
{
    for (int32_t looks = 0;;) {
        int seen = atomic_load_explicit(state, memory_order_relaxed);
        if (seen == OFFERED) {
            if (atomic_compare_exchange_strong(state, &seen, BUSY))
                return;
        } else if (seen == SLEEPING || ++looks > LOOKS) {
            if (seen == SLEEPING || atomic_compare_exchange_strong(state, &seen, SLEEPING))
                sleep_on(state);
            if (atomic_load_explicit(state, memory_order_relaxed) != SLEEPING)
                looks = 0;
        } else {
            RELAX();
        }
    }
}

static void *helper(void *argument)
{
    int number = (int)(intptr_t)argument;
    for (;;) {
        accept_offer(&parts[number].state);
        take_units(number);
        atomic_store_explicit(&parts[number].state, IDLE, memory_order_release);
    }
    return NULL;
}

static void forget_helpers(void)
{
    /* In a child process only the thread that called fork() is left. */
    pthread_mutex_init(&pool.caller, NULL);
    pool.started = 0;
    for (int32_t number = 0; number < MOST_THREADS; number++)
        atomic_store(&parts[number].state, IDLE);
}

static void start_helpers(int count)
{
    static int watches_fork;
    pthread_attr_t attributes;

    if (pool.started >= count)
        return;
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

int32_t useful_threads(int64_t nanoseconds)
{
    int32_t wanted = atomic_load_explicit(&pool.wanted, memory_order_relaxed);
    int32_t cores = atomic_load_explicit(&pool.cores, memory_order_relaxed);
    int32_t price = atomic_load_explicit(&pool.price, memory_order_relaxed);

    if (cores > 0)
        wanted = at_most(wanted, cores);
    if (price > 0 && wanted > 1)
        wanted = at_most(wanted, at_least((int32_t)sqrt((double)nanoseconds / price), 1));
    return wanted;
}

void run_units(int32_t units, int64_t nanoseconds, unit_function function, void *job)
{
    const int32_t count = at_most(useful_threads(nanoseconds), units);

    last_parts = 1;
    if (count <= 1 || pthread_mutex_trylock(&pool.caller) != 0) {
        for (int32_t unit = 0; unit < units; unit++)
            function(job, unit);
        return;
    }
    start_helpers(count - 1);
    pool.units = units;
    pool.function = function;
    pool.job = job;
    pool.parts = last_parts = at_most(count, pool.started + 1);
    for (int32_t part = 0; part < pool.parts; part++)
        atomic_store_explicit(&parts[part].next, part_start(part), memory_order_relaxed);
    for (int32_t number = 1; number < pool.parts; number++)
        if (atomic_exchange(&parts[number].state, OFFERED) == SLEEPING)
            wake(&parts[number].state);
    take_units(0);
    for (int32_t number = 1; number < pool.parts; number++) {
        int expected = OFFERED;
        if (atomic_compare_exchange_strong(&parts[number].state, &expected, IDLE))
            continue;
        for (int32_t look = 0; atomic_load_explicit(&parts[number].state, memory_order_acquire) == BUSY; look++) {
            RELAX();
            if (look > LOOKS_OF_CALLER)
                sched_yield();
        }
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

void openrknn_set_sharing(int32_t cores, int32_t nanoseconds)
{
    atomic_store(&pool.cores, at_least(cores, 0));
    atomic_store(&pool.price, nanoseconds < 0 ? THREAD_NANOSECONDS : nanoseconds);
}

int32_t openrknn_threads_for(int64_t nanoseconds)
{
    return useful_threads(nanoseconds);
}

int32_t openrknn_last_parts(void)
{
    return last_parts;
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

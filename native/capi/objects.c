/* What the program has: contexts and memories, and what the library keeps for each. */
#include "capi.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { BUCKETS = 256 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct context *contexts[BUCKETS];
static uint32_t last_number = 0x10000;
static struct memory *memories[BUCKETS];

/* ---------------------------------------------------------------- contexts */

static void context_free(struct context *context) {
    close_quietly(context->staging);
    close_quietly(context->results);
    while (context->outputs) {
        struct output *next = context->outputs->next;
        free(context->outputs->data);
        free(context->outputs);
        context->outputs = next;
    }
    custom_close(context);
    free(context->perf);
    pthread_mutex_destroy(&context->lock);
    free(context);
}

struct context *context_add(uint64_t id, enum kind kind, uint32_t link) {
    struct context *context = calloc(1, sizeof *context);
    if (!context) return NULL;
    context->id = id, context->kind = kind, context->link = link, context->users = 1;
    context->staging = context->results = -1;
    /* A function of a custom operator may call us while its thread is inside a call. */
    pthread_mutexattr_t again;
    pthread_mutexattr_init(&again);
    pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&context->lock, &again);
    pthread_mutexattr_destroy(&again);
    pthread_mutex_lock(&mutex);
    context->number = ++last_number;
    struct context **first = &contexts[context->number % BUCKETS];
    context->next = *first;
    *first = context;
    pthread_mutex_unlock(&mutex);
    return context;
}

static struct context **place_of(uint64_t number) {
    struct context **at = &contexts[number % BUCKETS];
    while (*at && (*at)->number != number) at = &(*at)->next;
    return at;
}

uint64_t context_id(uint64_t number) {
    pthread_mutex_lock(&mutex);
    const struct context *context = *place_of(number);
    uint64_t id = context ? context->id : 0;
    pthread_mutex_unlock(&mutex);
    return id;
}

struct context *context_get(uint64_t number, enum kind kind, char *reason, size_t room) {
    pthread_mutex_lock(&mutex);
    struct context *context = *place_of(number);
    if (context && (kind == KIND_ANY || context->kind == kind)) context->users++;
    pthread_mutex_unlock(&mutex);
    if (!context) {
        snprintf(reason, room, "there is no context %#llx: it was destroyed, or %s did not return it",
                 (unsigned long long)number, kind == KIND_MATMUL ? "rknn_matmul_create" : "rknn_init");
    } else if (kind != KIND_ANY && context->kind != kind) {
        snprintf(reason, room, "context %#llx is of the other kind: rknn_matmul_* and the other functions do not mix",
                 (unsigned long long)number);
        return NULL;
    }
    return context;
}

void context_put(struct context *context) {
    pthread_mutex_lock(&mutex);
    int left = --context->users;
    pthread_mutex_unlock(&mutex);
    if (!left) context_free(context);
}

int context_remove(uint64_t number, enum kind kind) {
    pthread_mutex_lock(&mutex);
    struct context **at = place_of(number), *context = *at;
    int found = context && context->kind == kind;
    if (found) *at = context->next;
    pthread_mutex_unlock(&mutex);
    if (found) context_put(context);
    return found ? 0 : -1;
}

/* ---------------------------------------------------------------- memories */

static struct memory **bucket_of(const void *mem) { return &memories[(uintptr_t)mem / 64 % BUCKETS]; }

static struct memory **memory_place(const void *mem) {
    struct memory **at = bucket_of(mem);
    while (*at && (const void *)*at != mem) at = &(*at)->next;
    return at;
}

struct memory *memory_add(const struct memory *new_memory) {
    struct memory *memory = malloc(sizeof *memory);
    if (!memory) return NULL;
    *memory = *new_memory;
    memory->given.priv_data = memory;
    pthread_mutex_lock(&mutex);
    memory->next = *bucket_of(memory);
    *bucket_of(memory) = memory;
    pthread_mutex_unlock(&mutex);
    return memory;
}

/* A program may have copied the struct: then priv_data says which one it was. */
static int original(const rknn_tensor_mem *mem, const rknn_tensor_mem **first, rknn_tensor_mem *copied) {
    if (copy_in(copied, mem, sizeof *copied) != 0) return -1;
    *first = copied->priv_data;
    return 0;
}

int memory_find(const rknn_tensor_mem *mem, struct memory *found) {
    rknn_tensor_mem copied;
    if (!mem) return -1;
    pthread_mutex_lock(&mutex);
    struct memory *memory = *memory_place(mem);
    if (memory) *found = *memory;
    pthread_mutex_unlock(&mutex);
    if (memory) {
        found->given.priv_data = memory; /* whatever the program wrote there */
        return 0;
    }
    if (original(mem, &mem, &copied) != 0 || !mem) return -1;
    pthread_mutex_lock(&mutex);
    memory = *memory_place(mem);
    if (memory) *found = *memory;
    pthread_mutex_unlock(&mutex);
    if (!memory || copied.virt_addr != found->given.virt_addr) return -1;
    found->given = copied;
    return 0;
}

int memory_remove(const rknn_tensor_mem *mem, struct memory *found) {
    pthread_mutex_lock(&mutex);
    struct memory **at = memory_place(mem), *memory = *at;
    if (memory) {
        *found = *memory;
        *at = memory->next;
        free(memory);
    }
    pthread_mutex_unlock(&mutex);
    return memory ? 0 : -1;
}

/* ---------------------------------------------------------------- the end */

static void close_memories(void) {
    for (int bucket = 0; bucket < BUCKETS; bucket++)
        while (memories[bucket]) {
            struct memory *memory = memories[bucket];
            memories[bucket] = memory->next;
            if (memory->mapped) munmap(memory->mapped, memory->mapped_bytes);
            close_quietly(memory->descriptor);
            free(memory);
        }
}

void objects_close(int all) {
    if (!all) return;
    pthread_mutex_lock(&mutex);
    for (int bucket = 0; bucket < BUCKETS; bucket++)
        while (contexts[bucket]) {
            struct context *context = contexts[bucket];
            contexts[bucket] = context->next;
            context_free(context);
        }
    close_memories();
    pthread_mutex_unlock(&mutex);
}

void objects_lock(void) { pthread_mutex_lock(&mutex); }
void objects_unlock(void) { pthread_mutex_unlock(&mutex); }

struct context *context_of_operator(uint64_t internal) {
    struct context *found = NULL;
    pthread_mutex_lock(&mutex);
    for (int bucket = 0; bucket < BUCKETS && !found; bucket++)
        for (struct context *context = contexts[bucket]; context && !found; context = context->next)
            if (custom_has(context, internal)) found = context, found->users++;
    pthread_mutex_unlock(&mutex);
    return found;
}

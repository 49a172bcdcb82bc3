/* The models that a program has opened. A handle is a number and never used again: a wrong one is an error, no crash. */
#include "library.h"

#include <stdlib.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static struct handle *known;
static uintptr_t last = 0x10000;

void objects_lock(void) { pthread_mutex_lock(&mutex); }
void objects_unlock(void) { pthread_mutex_unlock(&mutex); }

/* The engine gives models back when the connection ends. */
void objects_close(int all) { (void)all; }

struct handle *handle_add(const struct handle *values) {
    struct handle *made = malloc(sizeof *made);
    if (!made) return NULL;
    *made = *values;
    made->users = 1;
    objects_lock();
    made->number = ++last;
    made->next = known, known = made;
    objects_unlock();
    return made;
}

struct handle *handle_get(const char *function, LLMHandle number) {
    objects_lock();
    struct handle *found = known;
    while (found && found->number != (uintptr_t)number) found = found->next;
    if (found) found->users++;
    objects_unlock();
    if (!found)
        say(LEVEL_ERROR, function, "there is no model with the handle %p: it was destroyed, or rkllm_init did not return it",
            number);
    return found;
}

static void put_locked(struct handle *handle) {
    if (--handle->users == 0) free(handle);
}

void handle_put(struct handle *handle) {
    objects_lock();
    put_locked(handle);
    objects_unlock();
}

int handle_begin(struct handle *handle) {
    objects_lock();
    int result = handle->is_running || handle->is_closed ? -1 : 0;
    if (result == 0) handle->is_running = 1, handle->runner = pthread_self();
    objects_unlock();
    return result;
}

void handle_runs_here(struct handle *handle) {
    objects_lock();
    handle->runner = pthread_self();
    objects_unlock();
}

void handle_end(struct handle *handle) {
    objects_lock();
    handle->is_running = 0;
    pthread_cond_broadcast(&ended);
    objects_unlock();
}

int handle_is_running(struct handle *handle) {
    objects_lock();
    int result = handle->is_running;
    objects_unlock();
    return result;
}

int handle_is_closed(struct handle *handle) {
    objects_lock();
    int result = handle->is_closed;
    objects_unlock();
    return result;
}

int handle_close(struct handle *handle) {
    objects_lock();
    int was_open = !handle->is_closed;
    handle->is_closed = 1;
    for (struct handle **at = &known; *at; at = &(*at)->next)
        if (*at == handle) {
            *at = handle->next;
            put_locked(handle); /* the list's; the caller has its own */
            break;
        }
    while (handle->is_running && !pthread_equal(handle->runner, pthread_self())) pthread_cond_wait(&ended, &mutex);
    objects_unlock();
    return was_open;
}

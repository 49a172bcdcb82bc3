/* fork, dlclose and exit.

   fork: conversations, contexts and memory of the engine stay the parent's. The child's calls on them are refused; its
   own rknn_init makes a connection of its own. Memory stays mapped in both.
   dlclose and exit: the destructor gives everything back. If other threads run, one of them may still use memory or
   outputs at exit, so these stay; if one is inside a call, all stays, and the kernel cleans up. */
#include "capi.h"

#include <dirent.h>
#include <stdatomic.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int under_way, unloading;

static void before_fork(void) {
    link_lock();
    objects_lock();
}

static void in_parent(void) {
    objects_unlock();
    link_unlock();
}

static void in_child(void) {
    link_forget_after_fork();
    atomic_store(&under_way, 0);
    objects_unlock();
    link_unlock();
}

static void begin(void) { pthread_atfork(before_fork, in_parent, in_child); }

void lifetime_begin(void) { pthread_once(&once, begin); }

int lifetime_enter(void) {
    atomic_fetch_add(&under_way, 1);
    return !atomic_load(&unloading);
}

void lifetime_leave(void) { atomic_fetch_sub(&under_way, 1); }

static int is_alone(void) {
    int threads = 0;
    DIR *folder = opendir("/proc/self/task");
    if (!folder) return 0;
    for (struct dirent *entry; (entry = readdir(folder));) threads += entry->d_name[0] != '.';
    closedir(folder);
    return threads == 1;
}

__attribute__((destructor)) static void end(void) {
    atomic_store(&unloading, 1);
    if (atomic_load(&under_way)) return;
    link_close();
    objects_close(is_alone());
}

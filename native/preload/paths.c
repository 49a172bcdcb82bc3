/* Which paths are emulated: read once from the file `paths` in the device's folder.
 *
 *   version NUMBER                            of tables.h
 *   root FOLDER                               the tree
 *   prefix PATH                               this path, and everything below it, is in the tree
 *   node INODE MODE MAJOR MINOR PATH          the socket file with this inode stands for a node
 */
#include "preload.h"
#include "user.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { MAX_PREFIXES = 64, MAX_NODES = 128, MAX_FILE = 1 << 16, LETTERS = 128 };

static _Atomic int is_loaded;
static char text[MAX_FILE];
static const char *folder, *root;
static size_t root_length;
static dev_t root_device;
static const char *prefixes[MAX_PREFIXES];
static size_t prefix_lengths[MAX_PREFIXES];
static int prefix_count;
static struct node nodes[MAX_NODES];
static int node_count;
static char second_letters[LETTERS]; /* of the prefixes: most paths are told apart by one look */

static void add_prefix(const char *path) {
    if (prefix_count == MAX_PREFIXES || path[0] != '/' || !path[1]) return;
    prefixes[prefix_count] = path;
    prefix_lengths[prefix_count++] = strlen(path);
    second_letters[path[1] & (LETTERS - 1)] = 1;
}

static void add_node(const char *line) {
    unsigned long long inode;
    unsigned mode, major, minor;
    int at = 0;
    if (node_count == MAX_NODES || sscanf(line, "%llu %o %u %u %n", &inode, &mode, &major, &minor, &at) != 4) return;
    nodes[node_count++] = (struct node){inode, mode, makedev(major, minor), line + at};
}

static void check_version(const char *number) {
    if (!strcmp(number, TABLES_VERSION)) return;
    fputs("openrknn: the preload library and the emulated device are of different versions; install openrknn again\n",
          stderr);
    exit(127);
}

static void read_line(char *line) {
    if (!strncmp(line, "version ", 8)) check_version(line + 8);
    else if (!strncmp(line, "root ", 5)) root = line + 5, root_length = strlen(root);
    else if (!strncmp(line, "prefix ", 7)) add_prefix(line + 7);
    else if (!strncmp(line, "node ", 5)) add_node(line + 5);
}

static size_t read_file(const char *path) {
    int descriptor = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    size_t size = 0;
    if (descriptor < 0) return 0;
    for (ssize_t part = 1; part > 0 && size < sizeof text - 1; size += part > 0 ? (size_t)part : 0)
        part = syscall(SYS_read, descriptor, text + size, sizeof text - 1 - size);
    syscall(SYS_close, descriptor);
    return size;
}

/* Other libraries may be initialised before this one and open files then, so the first call loads as well. */
__attribute__((constructor)) static void load(void) {
    char path[MAX_PATH];
    struct stat64 status;
    if (atomic_exchange(&is_loaded, 1)) return;
    const char *named = getenv(ENVIRONMENT);
    if (!named && (named = getenv(OLD_ENVIRONMENT)) && !strchr(named, '/')) named = NULL; /* a device by its name */
    if (!named || !*named || snprintf(path, sizeof path, "%s/paths", named) >= (int)sizeof path) return;
    if (!read_file(path)) return;
    for (char *line = text, *end; *line; line = end) {
        end = strchrnul(line, '\n');
        if (*end) *end++ = 0;
        read_line(line);
    }
    if (!root || real_stat(AT_FDCWD, root, &status, 0) != 0) { root = NULL; return; }
    root_device = status.st_dev;
    folder = strdup(named);
}

int is_active(void) {
    if (!atomic_load_explicit(&is_loaded, memory_order_relaxed)) load();
    return folder != NULL;
}

const char *device_folder(void) { return folder; }

/* Without doubled slashes, "." and "..", as far as the letters tell. */
static size_t normalize(const char *path, char *into) {
    size_t length = 0;
    while (*path) {
        while (*path == '/') path++;
        size_t part = strcspn(path, "/");
        if (part == 2 && path[0] == '.' && path[1] == '.') {
            while (length && into[--length] != '/') {}
        } else if (part && !(part == 1 && path[0] == '.')) {
            if (length + part + 2 > MAX_PATH) return 0;
            into[length++] = '/';
            memcpy(into + length, path, part);
            length += part;
        }
        path += part;
    }
    into[length] = 0;
    return length;
}

static int is_emulated(const char *path, size_t length) {
    for (int number = 0; number < prefix_count; number++) {
        size_t size = prefix_lengths[number];
        if (length >= size && !memcmp(path, prefixes[number], size) && (path[size] == '/' || !path[size])) return 1;
    }
    return 0;
}

const char *redirect(const char *path, char *buffer) {
    char plain[MAX_PATH];
    if (!is_active() || !path || !is_readable_text(path) || path[0] != '/') return path; /* EFAULT is the kernel's */
    if (path[1] != '/' && path[1] != '.' && !second_letters[path[1] & (LETTERS - 1)]) return path;
    size_t length = normalize(path, plain);
    if (!is_emulated(plain, length)) {
        /* "/dev/dri/.." leads out again, and the real machine may have no /dev/dri */
        if (!is_emulated(path, strlen(path))) return path;
        memcpy(buffer, length ? plain : "/", length ? length + 1 : 2);
        return buffer;
    }
    if (root_length + length >= MAX_PATH) return path;
    memcpy(buffer, root, root_length);
    memcpy(buffer + root_length, plain, length + 1);
    return buffer;
}

/* `openrknn exec --open`: wherever a program believes the vendor's library to be, it gets the one in that folder. */
const char *opened_instead(const char *path, char *buffer) {
    static const char *const names[] = {OPEN_NAMES};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t number = 0; number < sizeof names / sizeof *names; number++) {
        if (strcmp(name, names[number]) != 0) continue;
        const char *place = getenv(OPEN_ENVIRONMENT);
        int length = place && *place ? snprintf(buffer, MAX_PATH, "%s/%s", place, name) : 0;
        return length > 0 && length < MAX_PATH ? buffer : path;
    }
    return path;
}

int strip_root(char *path) {
    if (!folder || strncmp(path, root, root_length) != 0 || path[root_length] != '/') return 0;
    memmove(path, path + root_length, strlen(path + root_length) + 1);
    return 1;
}

const struct node *find_node(const struct stat64 *status) {
    if (!folder || !S_ISSOCK(status->st_mode) || status->st_dev != root_device) return NULL;
    for (int number = 0; number < node_count; number++)
        if (nodes[number].inode == status->st_ino) return &nodes[number];
    return NULL;
}

const struct node *node_number(unsigned number) { return number < (unsigned)node_count ? &nodes[number] : NULL; }

int number_of_node(const struct node *node) { return (int)(node - nodes); }

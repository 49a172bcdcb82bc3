/*
 * A preload library that shows a program device files which a server emulates.
 *
 * It knows three things: which paths are emulated (from a file that the server wrote), how to reach the server
 * (a socket), and where pointers and descriptors are in the arguments of ioctls (tables.h, generated). It knows
 * nothing of any device.
 *
 * How an emulated file works. The server keeps a tree of files for the emulated paths; the library puts the name of
 * that tree in front of such paths, and the C library and the kernel do the rest, listings and links included.
 * Where a device node or a text that is made at the moment of reading belongs, the tree has a socket file: nobody
 * can open those (ENXIO), and so the library learns that the server has to. What the program gets for a node is a
 * socket whose other end the server holds. Copies of it, forked processes, descriptors passed to others and the end
 * of the program are thereby the kernel's business, and the inode number of the socket is the file's name.
 *
 * Nothing here takes a lock: calls may come from any thread, from signal handlers and after fork.
 */
#ifndef OPENRKNN_PRELOAD_H
#define OPENRKNN_PRELOAD_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
/* Some compilers for 32-bit machines have these on, and then open is open64 and stat another function; here each name
   means itself. */
#ifndef WITH_TIME64
#undef _FILE_OFFSET_BITS
#undef _TIME_BITS
#endif
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "tables.h"

#define EXPORT __attribute__((visibility("default")))

enum { MAX_PATH = 4096 };

/* The function of this name that the program would have called without us. */
void *next_symbol(void **cache, const char *name);
#define NEXT(function) ((__typeof__(&function))({ static void *cache; next_symbol(&cache, #function); }))

/* ---- channel.c: talking to the server */

/* struct stat64 is the kernel's on all machines, and struct stat the same thing on 64-bit ones. */
int real_stat(int folder, const char *path, struct stat64 *status, int flags);

/* Send a request and take its reply. Returns the reply's result: 0 or more, or -errno (ENODEV: nobody is there).
   `parts[0]` must be the header; `descriptor` is handed in unless it is -1. The reply's payload goes to `into`; a
   descriptor that comes with it to `*received` (-1: none), which is closed at exec. */
int call_server(struct iovec *parts, int count, int descriptor, struct reply_header *reply, void *into, size_t room,
                int *received);

/* ---- paths.c: which paths are emulated */

struct node { uint64_t inode; mode_t mode; dev_t device; const char *path; };

int is_active(void);                                       /* is there a device at all? */
const char *device_folder(void);
const char *redirect(const char *path, char *buffer);      /* where the file really is; `path` itself if not ours */
const char *opened_instead(const char *path, char *buffer); /* the library that dlopen takes; `path` itself mostly */
int strip_root(char *path);                                /* back again, in place; 1 if it was in our tree */
const struct node *find_node(const struct stat64 *status); /* the node that this file in the tree stands for */
const struct node *node_number(unsigned number);
int number_of_node(const struct node *node);

/* ---- files.c */

int open_node(int folder, const char *path, int flags);    /* -1 and ENXIO if it is none */

/* ---- stat.c */

/* The node that a file with this status is for the program; NULL: an ordinary file. */
const struct node *shown_node(mode_t mode, uint64_t inode, dev_t device);

/* ---- ioctl.c: sockets that are files */

/* What the server says about a socket: kind | node << KIND_BITS, or -1 if it is not an emulated file. */
int64_t file_of_socket(uint64_t inode);
void remember_file(uint64_t inode, uint64_t value);

#endif

/* Arguments of ioctls: what their pointers point to, and which of their fields are descriptors. */
#ifndef OPENRKNN_ARGUMENTS_H
#define OPENRKNN_ARGUMENTS_H
#include <stddef.h>

#include "tables.h"

struct payload { char *bytes; size_t size, room; int failed; /* 0, -EFAULT or -ENOMEM */ };

/* The rule for an ioctl of a kind of file; an empty one if there is none, or if the argument is too short for it. */
const struct ioctl_rule *find_rule(unsigned kind, unsigned long request);

/* The argument, then what its pointers point to, depth first: a 32-bit length and the bytes of each. From here on the
   argument is read in the payload: the program's memory may change, and it may not be there at all. */
void append_inputs(struct payload *payload, const struct ioctl_rule *rule, const void *argument, size_t size);

size_t room_behind(const struct ioctl_rule *rule, const char *bytes);   /* how much the kernel may write there */
int fill_outputs(const struct ioctl_rule *rule, const char *before, const char *from, size_t size);

int descriptor_in(const struct ioctl_rule *rule, const char *bytes, size_t size); /* handed in; -1: none, -2: a wrong one */
int descriptor_out_at(const struct ioctl_rule *rule);                   /* offset of one that is opened; -1: none */

#endif

/* Memory of the program: pointers that it passed may be wrong. Errors are -EFAULT; errno stays. */
#ifndef OPENRKNN_USER_H
#define OPENRKNN_USER_H
#include <stddef.h>

int is_readable(const void *memory, size_t size);
int is_readable_text(const char *text);                           /* up to and including its end */
int read_user(void *into, const void *from, size_t size);
int write_user(void *into, const void *from, size_t size);

#endif

/* Messages on standard error, as RKNN_LOG_LEVEL says: 0 errors, 1 warnings too, 2 information, 3 every call. */
#include "capi.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int wanted_level(void) {
    const char *text = getenv("RKNN_LOG_LEVEL");
    return text && *text ? atoi(text) : LEVEL_ERROR;
}

int says(enum level level) { return (int)level <= wanted_level(); }

void say(enum level level, const char *function, const char *format, ...) {
    if (!says(level)) return;
    int saved = errno;
    char line[1200];
    int length = snprintf(line, sizeof line, "%c RKNN: [openrknn] %s: ", "EWID"[level], function);
    va_list values;
    va_start(values, format);
    int more = vsnprintf(line + length, sizeof line - (size_t)length - 1, format, values);
    va_end(values);
    length += more < 0 ? 0 : more;
    if (length > (int)sizeof line - 2) length = (int)sizeof line - 2;
    line[length++] = '\n';
    /* One write, so that lines of several threads stay whole. */
    ssize_t written;
    do written = write(STDERR_FILENO, line, (size_t)length);
    while (written < 0 && errno == EINTR);
    errno = saved;
}

/* Which version a program was compiled for: OPENRKNN_ABI, else what the build chose, else the newest. */
#include "capi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef OPENRKNN_VERSION
#define OPENRKNN_VERSION "unknown"
#endif

#ifndef OPENRKNN_DEFAULT_ABI
#define OPENRKNN_DEFAULT_ABI NEWEST_ABI
#endif

/* Programs look for this text in the file, because the version decides about structs. */
__attribute__((used)) static const char version_text[] = "librknnrt version: " OPENRKNN_DEFAULT_ABI
    " (openrknn " OPENRKNN_VERSION ")";

static const struct abi known[] = {KNOWN_ABIS};
enum { KNOWN = sizeof known / sizeof *known };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct abi *chosen = &known[KNOWN - 1];
static char problem[256];

/* "1.5.2", "2.0.0-beta0" and "1.5", which is the last known 1.5.x; structs in between are those of the one before. */
static const struct abi *parsed(const char *text) {
    unsigned major, minor, patch = 99;
    int end = 0;
    if (sscanf(text, "%3u.%2u%n.%2u%n", &major, &minor, &end, &patch, &end) < 2) return NULL;
    const char *rest = text + end;
    if (*rest && strncmp(rest, "-beta", 5) != 0 && *rest != 'b') return NULL;
    uint32_t number = major * 10000 + minor * 100 + patch;
    if (number < known[0].number || number / 100 > known[KNOWN - 1].number / 100) return NULL;
    const struct abi *found = &known[0];
    for (int index = 0; index < KNOWN && known[index].number <= number; index++) found = &known[index];
    return found;
}

static void choose(void) {
    const char *text = getenv("OPENRKNN_ABI");
    if (!text || !*text) text = OPENRKNN_DEFAULT_ABI;
    const struct abi *found = parsed(text);
    if (found) { chosen = found; return; }
    int length = snprintf(problem, sizeof problem, "OPENRKNN_ABI=%.20s is not a version of the C API; there are", text);
    for (int index = 0; index < KNOWN && length < (int)sizeof problem; index++)
        length += snprintf(problem + length, sizeof problem - (size_t)length, " %s", known[index].name);
}

const struct abi *abi(void) {
    pthread_once(&once, choose);
    return chosen;
}

const char *abi_problem(void) {
    pthread_once(&once, choose);
    return *problem ? problem : NULL;
}

size_t query_size(uint32_t command) {
    const struct abi *mine = abi();
    switch (command) {
        QUERY_SIZES(mine)
        default: return 0;
    }
}

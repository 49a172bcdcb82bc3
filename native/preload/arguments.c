/* Arguments of ioctls, as the generated rules describe them. */
#include "arguments.h"
#include "user.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

enum { MOST_ELEMENTS = 65536 };

/* Room for more at the end of the payload; NULL if there is none, and then it has failed. */
static char *extend(struct payload *payload, size_t size) {
    if (payload->failed) return NULL;
    if (size > MAX_PAYLOAD || payload->size + size > MAX_PAYLOAD) { payload->failed = -ENOMEM; return NULL; }
    if (payload->size + size > payload->room) {
        size_t room = payload->room * 2 + size + 256;
        char *larger = realloc(payload->bytes, room);
        if (!larger) { payload->failed = -ENOMEM; return NULL; }
        payload->bytes = larger, payload->room = room;
    }
    char *place = payload->bytes + payload->size;
    payload->size += size;
    return place;
}

static void append(struct payload *payload, const void *bytes, size_t size) {
    char *place = extend(payload, size);
    if (place) memcpy(place, bytes, size);
}

static void append_user(struct payload *payload, const void *memory, size_t size) {
    if (!size) return;
    char *place = is_readable(memory, size) ? extend(payload, size) : NULL;
    if (place) memcpy(place, memory, size);
    else if (!payload->failed) payload->failed = -EFAULT;
}

static uint64_t number_at(const char *bytes, unsigned at, unsigned width) {
    uint64_t value = 0;
    memcpy(&value, bytes + at, width);
    return value;
}

static char *pointer_at(const char *bytes, const struct array_rule *rule) {
    return (char *)(uintptr_t)number_at(bytes, rule->at, rule->pointer_bytes);
}

static int is_pointer(const struct array_rule *rule, const char *bytes) {
    return !rule->mask || number_at(bytes, rule->flags, 4) & rule->mask;
}

/* An argument that is too short to hold what the rules speak of goes as it is. */
const struct ioctl_rule *find_rule(unsigned kind, unsigned long request) {
    static const struct ioctl_rule none;
    if (kind >= sizeof kind_rules / sizeof *kind_rules) return &none;
    const struct ioctl_rule *rule = ioctl_rules + kind_rules[kind].ioctl;
    for (int left = kind_rules[kind].ioctls; left; left--, rule++)
        if (rule->type == _IOC_TYPE(request) && rule->number == _IOC_NR(request))
            return _IOC_SIZE(request) >= rule->least ? rule : &none;
    return &none;
}

/* The struct that the rules speak of is in the payload itself, at `at`: what the program's memory held a moment ago. */
static void append_arrays(struct payload *payload, const struct array_rule *rules, int count, size_t at, int inner) {
    for (const struct array_rule *rule = rules; rule < rules + count && !payload->failed; rule++) {
        if (rule->out) continue;
        const char *bytes = payload->bytes + at;
        uint64_t stride = rule->stride == NO_FIELD ? rule->element : number_at(bytes, rule->stride, 4);
        uint64_t elements = number_at(bytes, rule->count, rule->count_bytes);
        const char *array = pointer_at(bytes, rule);
        /* Elements that are too small are the driver's to refuse; there is nothing to look into. */
        int usable = array && is_pointer(rule, bytes) && stride >= rule->element && elements <= MAX_PAYLOAD && stride <= MAX_PAYLOAD;
        uint64_t total = usable ? elements * stride : 0;
        /* Inside an element the driver misses what cannot be read, and says what becomes of the element. */
        if (inner && total && total <= MAX_PAYLOAD && !is_readable(array, total)) usable = 0, total = 0;
        uint32_t length = (uint32_t)total;
        if (total > MAX_PAYLOAD) { payload->failed = -ENOMEM; return; }
        append(payload, &length, sizeof length);
        size_t start = payload->size;
        append_user(payload, array, length);
        if (!rule->children) continue;
        for (uint64_t element = 0; usable && element < elements && !payload->failed; element++)
            append_arrays(payload, array_rules + rule->child, rule->children, start + element * stride, 1);
    }
}

void append_inputs(struct payload *payload, const struct ioctl_rule *rule, const void *argument, size_t size) {
    append_user(payload, argument, size);
    if (!payload->failed) append_arrays(payload, array_rules + rule->array, rule->arrays, 0, 0);
}

static size_t room_of(const struct array_rule *rule, const char *bytes) {
    if (!is_pointer(rule, bytes)) return 0;
    uint64_t elements = number_at(bytes, rule->count, rule->count_bytes);
    return (elements < MOST_ELEMENTS ? (size_t)elements : MOST_ELEMENTS) * rule->element;
}

size_t room_behind(const struct ioctl_rule *rule, const char *bytes) {
    size_t room = 0;
    const struct array_rule *item = array_rules + rule->array;
    for (int left = rule->arrays; left; left--, item++)
        if (item->out) room += sizeof(uint32_t) + room_of(item, bytes);
    return room;
}

int fill_outputs(const struct ioctl_rule *rule, const char *before, const char *from, size_t size) {
    const struct array_rule *item = array_rules + rule->array;
    for (int left = rule->arrays; left; left--, item++) {
        uint32_t length;
        if (!item->out) continue;
        if (size < sizeof length) return 0;
        memcpy(&length, from, sizeof length);
        from += sizeof length, size -= sizeof length;
        if (length > size) return 0;
        uint64_t room = number_at(before, item->count, item->count_bytes) * item->element;
        char *target = pointer_at(before, item);
        if (target && is_pointer(item, before) && write_user(target, from, length < room ? length : room) != 0) return -EFAULT;
        from += length, size -= length;
    }
    return 0;
}

int descriptor_in(const struct ioctl_rule *rule, const char *bytes, size_t size) {
    const struct descriptor_rule *item = descriptor_rules + rule->descriptor;
    for (int left = rule->descriptors; left; left--, item++) {
        if (item->at + 4u > size) continue; /* of an array's first element, and the array is empty */
        int descriptor = (int)number_at(bytes, item->at, 4);
        if (item->out || (item->when == WHEN_POSITIVE && descriptor <= 0)) continue;
        if (item->when == WHEN_FLAG && !(number_at(bytes, item->flags, 4) & item->mask)) continue;
        if (descriptor < 0) return item->when == WHEN_FLAG ? -1 : -2; /* of a flag: the driver says what is wrong */
        return descriptor;
    }
    return -1;
}

int descriptor_out_at(const struct ioctl_rule *rule) {
    const struct descriptor_rule *item = descriptor_rules + rule->descriptor;
    for (int left = rule->descriptors; left; left--, item++)
        if (item->out) return item->at;
    return -1;
}

/* Bytes that grow, and protobuf fields in them. */
#include "provider.h"

#include <stdlib.h>
#include <string.h>

void bytes_free(struct bytes *bytes) {
    free(bytes->at);
    *bytes = (struct bytes){0};
}

static bool reserve(struct bytes *bytes, size_t more) {
    if (bytes->failed || more > SIZE_MAX / 2 - bytes->length) {
        bytes->failed = true;
        return false;
    }
    size_t needed = bytes->length + more;
    if (needed <= bytes->room) return true;
    size_t room = bytes->room ? bytes->room : 256;
    while (room < needed) room *= 2;
    uint8_t *grown = realloc(bytes->at, room);
    if (!grown) {
        bytes->failed = true;
        return false;
    }
    bytes->at = grown;
    bytes->room = room;
    return true;
}

void bytes_add(struct bytes *bytes, const void *data, size_t length) {
    if (!length || !reserve(bytes, length)) return;
    memcpy(bytes->at + bytes->length, data, length);
    bytes->length += length;
}

void bytes_varint(struct bytes *bytes, uint64_t value) {
    uint8_t coded[10];
    size_t length = 0;
    do {
        coded[length++] = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value);
    bytes_add(bytes, coded, length);
}

void field_int(struct bytes *bytes, unsigned number, int64_t value) {
    bytes_varint(bytes, (uint64_t)number << 3);
    bytes_varint(bytes, (uint64_t)value);
}

void field_float(struct bytes *bytes, unsigned number, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint8_t coded[4] = {(uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16), (uint8_t)(bits >> 24)};
    bytes_varint(bytes, (uint64_t)number << 3 | 5);
    bytes_add(bytes, coded, sizeof coded);
}

void field_head(struct bytes *bytes, unsigned number, uint64_t length) {
    bytes_varint(bytes, (uint64_t)number << 3 | 2);
    bytes_varint(bytes, length);
}

void field_bytes(struct bytes *bytes, unsigned number, const void *data, size_t length) {
    field_head(bytes, number, length);
    bytes_add(bytes, data, length);
}

void field_text(struct bytes *bytes, unsigned number, const char *text) {
    field_bytes(bytes, number, text ? text : "", text ? strlen(text) : 0);
}

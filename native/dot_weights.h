/*
 * Weights as VPDPBUSD takes them, for vectors of any length: bytes 0 ... 255, 128 too large; the window sums take that back.
 * The file that includes this one defines BLOCK, the atoms of 16 output channels that are computed together.
 */
enum { OFFSET = 128, GROUP_BYTES = 64 };

/* [tap][group of 4 inputs][atom of the block][16 channels out][4 inputs] */
static int64_t block_bytes(int32_t taps, int32_t is_picture)
{
    return (int64_t)taps * (is_picture ? 1 : 4) * BLOCK * GROUP_BYTES;
}

static void store(uint8_t *block, int32_t tap, int32_t is_picture, const int16_t *weights)
{
    int32_t lanes = is_picture ? 4 : ATOM;
    uint8_t *out = block + (int64_t)tap * lanes / 4 * BLOCK * GROUP_BYTES;
    for (int32_t group = 0; group < lanes / 4; group++)
        for (int32_t o = 0; o < BLOCK * ATOM; o++)
            for (int32_t i = 0; i < 4; i++)
                out[(group * BLOCK * ATOM + o) * 4 + i] = (uint8_t)(weights[o * lanes + group * 4 + i] + OFFSET);
}

/*
 * Depthwise: one VPDPBUSD is 4 taps. Two pixels are made from the same inputs, the second one with weights that are moved by
 * one place. Weights are stored as w + 128 and as 128 - correction, both bytes:
 * sum x * (w + correction) = sum x * (w + 128) - sum x * (128 - correction).
 *
 * A strip: [group of 4 inputs][pixel of the pair][w or correction][16 channels][4 taps]
 */
static int32_t strip_groups(int32_t width)
{
    return divide_up(width + 1, 4);
}

static int64_t strip_bytes(int32_t width)
{
    return (int64_t)strip_groups(width) * 4 * GROUP_BYTES;
}

static void store_strip(uint8_t *packed, int32_t width, const int16_t *weights, const int32_t *corrections)
{
    for (int32_t group = 0; group < strip_groups(width); group++)
        for (int32_t moved = 0; moved < 2; moved++, packed += 2 * GROUP_BYTES)
            for (int32_t lane = 0; lane < ATOM; lane++)
                for (int32_t i = 0; i < 4; i++) {
                    int32_t x = group * 4 + i - moved, is_tap = x >= 0 && x < width;
                    packed[lane * 4 + i] = is_tap ? (uint8_t)(weights[x * ATOM + lane] + OFFSET) : 0;
                    packed[GROUP_BYTES + lane * 4 + i] = is_tap ? (uint8_t)(OFFSET - corrections[lane]) : 0;
                }
}

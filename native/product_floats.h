/*
 * Products of matrices in floating point: runs of B become panels for float_template.h. Before this file come what that one
 * needs, product_template.h, turn_floats, which turns 16 x 16 floats, and turn_halves (with TURNS_HALVES) where 16 x 16
 * halves are better turned before they are floats.
 */
/* 16 rows of a column as floats. */
ALWAYS_INLINE void column_run_floats(const uint8_t *at, const int32_t format, int32_t zero, float32 *out)
{
    int8_t bytes[16];
    if (format == OPENRKNN_FP16) {
        halves_to_floats(at, out);
        halves_to_floats(at + ATOM, out + 8);
        return;
    }
    if (format == OPENRKNN_INT8)
        memcpy(bytes, at, sizeof bytes);
    else
        product_unpack(at, bytes);
    for (int32_t i = 0; i < 16; i++)
        out[i] = (float32)(bytes[i] - zero);
}

ALWAYS_INLINE void columns_of(const float_columns *task, float32 *panel, const int32_t format)
{
    float32 rows[16][16];
#ifdef TURNS_HALVES
    if (format == OPENRKNN_FP16 && task->columns == 16) {
        turn_halves(task->at, task->column, panel);
        return;
    }
#endif
    for (int32_t c = task->columns; c < 16; c++)
        memset(rows[c], 0, sizeof rows[c]);
    for (int32_t c = 0; c < task->columns; c++)
        column_run_floats(task->at + c * task->column, format, task->zeros ? task->zeros[c] : 0, rows[c]);
    turn_floats(rows[0], panel);
}

/* 16 rows of 16 columns become a panel [row][column]. */
static void float_columns_run(const float_columns *task, float32 *panel)
{
    if (task->format == OPENRKNN_FP16)
        columns_of(task, panel, OPENRKNN_FP16);
    else if (task->format == OPENRKNN_INT8)
        columns_of(task, panel, OPENRKNN_INT8);
    else
        columns_of(task, panel, OPENRKNN_INT4);
}

static void widen(const uint8_t *halves, float32 *out, int32_t count)
{
    int32_t i = 0;
    uint16_t half;
    for (; i + 8 <= count; i += 8)
        halves_to_floats(halves + 2 * i, out + i);
    for (; i < count; i++) {
        memcpy(&half, halves + 2 * i, sizeof half);
        out[i] = half_to_float(half);
    }
}

/* Of numbers: what a NaN becomes depends on the instruction set. */
static void narrow(const float32 *from, uint16_t *halves, int64_t count)
{
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        floats_to_halves(from + i, halves + i);
    for (; i < count; i++)
        halves[i] = float_to_half(from[i]);
}

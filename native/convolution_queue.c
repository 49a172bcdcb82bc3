/*
 * Convolutions by pixel (tiles): sums wait in a queue until the tiles are at work on the next ones, and then go through the
 * DPU.
 */
#include "convolution.h"

/* Chains that add what sums of windows are multiplied with, where both parts of a sum have 16 bits. */
void plan_queue(convolution *c)
{
    enum { LARGEST_FACTOR = 255 };
    const int32_t flags = c->step->dpu.chain.flags;
    if (!c->by_pixel)
        return;
    c->magnitudes = (const int32_t *)(c->step->packed + correction_bytes(c->step, c->kernels));
    if (c->has_window && c->kernels->chain_adds_windows && flags & OPENRKNN_CHAIN_SINGLE && !(flags & OPENRKNN_CHAIN_TABLE) &&
        !c->step->dpu.halves && c->largest_window >> WINDOW_LOW_BITS <= INT16_MAX && c->largest_factor <= LARGEST_FACTOR)
        c->windows = WINDOW_PARTS;
}

/* What sums of windows add to the sums of an atom, for chains that do not. Sums wrap around. */
static void add_window(const convolution *c, int32_t atom, const int32_t *window, int32_t pixels, int32_t *sums)
{
    typedef uint32_t atom_sums __attribute__((vector_size(ATOM * 4), aligned(4), may_alias));
    const atom_sums factors = *(const atom_sums *)(c->factors + atom * ATOM);
    atom_sums *each = (atom_sums *)sums;
    for (int32_t pixel = 0; pixel < pixels; pixel++)
        each[pixel] += factors * (uint32_t)window[pixel];
}

/* The next run of pixels that follow each other in a row of the output; those between rows are none. */
typedef struct {
    int32_t at, pixels; /* in the queue */
    int32_t row, column; /* of the output */
} real_run;

static int32_t next_run(const sums_queue *queue, const convolution *c, real_run *run)
{
    const int32_t columns = c->run_columns ? c->run_columns : c->out_columns;
    for (;;) {
        if (run->at < 0) {
            run->at = 0;
            run->row = c->run_columns ? queue->first / columns : queue->row;
            run->column = c->run_columns ? queue->first % columns : queue->first;
        } else {
            run->at += columns - run->column;
            run->row++;
            run->column = 0;
        }
        if (run->at >= queue->pixels)
            return 0;
        run->pixels = at_most(queue->pixels - run->at, (c->run_columns ? c->step->out_width : columns) - run->column);
        if (run->pixels > 0)
            return 1;
    }
}

static void take_atom(const sums_queue *queue, int32_t atom)
{
    const convolution *c = queue->job;
    const int32_t channel = (queue->atom + atom) * ATOM;
    const int32_t adds = queue->window && c->windows != WINDOW_PARTS;
    int32_t *sums = queue->sums + atom * queue->atom_step;
    real_run run = {.at = -1};

    if (adds)
        add_window(c, queue->atom + atom, queue->window, queue->pixels, sums);
    while (next_run(queue, c, &run)) {
        const dpu_task finish = {
            .dpu = &c->step->dpu,
            .kernels = c->kernels,
            .channel = channel,
            .pixel = run.row * (c->run_columns ? c->step->out_width : c->out_columns) + run.column,
            .pixels = run.pixels,
            .sums = sums + run.at * ATOM,
            .window = queue->window && !adds ? queue->window + run.at : NULL,
            .factors = c->factors + channel,
            .magnitudes = c->magnitudes + channel,
        };
        dpu_finish(&finish);
    }
}

void queue_begin(sums_queue *queue, const convolution *c)
{
    queue->take = take_atom;
    queue->job = c;
    queue->atoms = queue->slot = 0;
}

void queue_end(sums_queue *queue)
{
    for (int32_t atom = 0; atom < queue->atoms; atom++)
        take_atom(queue, atom);
}

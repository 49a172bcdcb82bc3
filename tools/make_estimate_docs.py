#!/usr/bin/env python3
"""Writes docs/estimate.md and its picture: predicted beside published, for every public figure.

    python -m tools.make_estimate_docs

Needs neither the vendor's toolkit nor a board: what the tasks of the networks ask for is in benchmarks/estimate. It
also prints the constants that the figures give, in case those in src/openrknn/chip/*/board.py have to be changed.
tests/cost/test_docs.py keeps page and constants equal to what this makes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from benchmarks.estimate.chart import Dot, chart
from benchmarks.estimate.facts import CHIPS, HERE, Fact, Known, known
from benchmarks.estimate.fit import predict, spent
from benchmarks.estimate.layers import Told, read_layers, tell
from openrknn.chips import CHIPS as ALL_CHIPS
from openrknn.cost import BOARDS, Board

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, PICTURE = DOCS / "estimate.md", DOCS / "images" / "estimate.svg"

HEAD = """# Latency estimates

Written by `python -m tools.make_estimate_docs`: change that, not this page.

`openrknn profile`, `inspect` and `compile` say how long a run takes on a board, without a board. This page says how
they know, and holds every prediction against what people have published.

```console
$ openrknn inspect examples/models/efficientnet_lite0_rk3588_i8.rknn | grep time
```

```python
import openrknn
from openrknn.runtime.cost import cost_of

cost = cost_of(openrknn.load("examples/models/efficientnet_lite0_rk3588_i8.rknn"))
assert cost.low_ms < cost.time_ms < cost.high_ms
for operator in cost.operators[:3]:
    print(operator.name, operator.bound, f"{operator.spent.seconds * 1e6:.0f} us")
```

## In plain words

A `.rknn` holds the commands of its tasks, and the commands say all sizes: pixels, channels, kernels, bytes. So the work
of each part of the NPU can be counted without running anything:

| part | work of a task | rate |
|---|---|---|
| array | out pixels x taps x groups of inputs x groups of kernels (depthwise: of channels) | one a cycle |
| array, packed picture | out pixels x taps x groups of kernels, however few channels | one a cycle |
| lookup table (SiLU, sigmoid, ...) | channels rounded up to 32, x out pixels | see below |
| DPU | channels rounded up to 16, x out pixels | 8 a cycle |
| pooling | atoms written x (rows + columns of the window) | one a cycle |
| memory | bytes read and written, weights, operands and commands included | see below |

A task streams, so the parts work at the same time and the slowest one counts:

    time of a task = max(array, table, DPU, pooling, memory) + start of a task
    time of a run  = all tasks + start of a job for each job

What the slowest part is, is the *bound* of a task; `start` where starting takes longer than working. Cores that work
together share the memory: three cores of an RK3588 get 1.6 times what one gets, measured, not three times.

The range that is printed beside the time is what the figures below leave: the smallest and the largest ratio of
published to predicted time, each network predicted with constants that have not seen it.

## The constants

Two constants of each board are fitted, bytes per second and the start of a task, by least squares on the relative
error.
"""

AFTER_CONSTANTS = """ Clocks are the highest ones, but RK3576's: its figures fit the step of 800 MHz (mean error 8 %)
much better than its highest one of 950 MHz (14 %). The table's rate on RK3588 is a board's word (a per-layer table:
16 channels of 480 x 480 pixels take as long as 32, at 2 elements a cycle); on the others it is the step (1, 2, 4 or
8) that fits best. Where it says "none", no figure of a board for a known network is published: `time_ms` is
`None` there, and cycles are in the units of a relative, good for comparing two builds. The model zoo has one column
for RK3566 and RK3568.

Figures are the vendor's runtime on the vendor's kernel driver, and so is every time on this page
(`"assumed_driver": "vendor"` in JSON). Who drives the NPU decides what the start of a job costs: ork-driver, an open
library on the same kernel driver, measured 80 to 100 us from one submit to the next on a Rock 5B (RK3588). For
RK3588 the time with 90 us is next to the vendor's, as `open_driver_ms`; for other chips none is published.

Weights that meet a few pixels only (1x1 kernels, up to 8 pixels: the products of a language model) stream faster than
anything in the networks above. That library measured int8 products of one row on RK3588: 8.7 GB/s for one in a job,
12.7 for two, 19.9 for six, about 22 at most, and 28.5 on three cores. Times of n products are a + n x b: with bytes B
of one, B / 8.7 = a + b and 2 B / 12.7 = a + 2 b give b = B / 23.5 and a = 1.7 b, the start of a job (80 to 100 us for
products of 1.1 to 1.4 MB). So a product streams at 22 GB/s on one core and 28.5 on three, and the start of the job is
counted where jobs are. The vendor's language models reach 20 to 30 GB/s on three cores, which agrees. On RK3562 they
reach 6.7 with everything included, which is taken as the rate there. Nothing is known of the others. The two constants
above are fitted with these rates; of the networks, only the last layers of classifiers stream.

## Predicted beside published

![One dot per figure](images/estimate.svg)

Networks were rebuilt with the same layers and sizes and random weights, and compiled by the vendor's toolkit 2.5.0
(int8, calibrated on noise): `python -m benchmarks.estimate` does it. "Left out" is the ratio predicted / published
with constants fitted to the other networks of the chip. "Most of it" is where the time goes.
"""

OTHERS = """
## Figures that nothing was fitted to

Other people's boards, other programs around the model, fp16, and networks of which a part runs on the CPU. The times of
programs contain the copies in and out, which the estimate does not; the CPU's part is not in it either.

| network | chip | source | published ms | predicted ms | ratio | |
|---|---|---|---|---|---|---|
"""

LAYERS = """
## Layer by layer

Two per-layer tables that boards (RK3588) printed are an independent check: nothing is fitted to them but one constant
per table, because each layer is a job of its own there. Ratios are predicted / printed, the constant included.

| table | layers | printed ms | predicted ms | constant per layer |
|---|---|---|---|---|
"""

CORES = """
## Several cores

| operator | cores | published us | predicted us |
|---|---|---|---|
"""

TAIL = """
The memory of three cores is taken from these four figures, so they show the rule, not its error.

## What it does not know

- Operators of the CPU. They are counted and named, their time is not in the sum.
- Copies in and out, and the time that a program needs around the run.
- The clock of your board at the moment, and who else uses its memory. The figures are of boards at their highest
  clock with nothing else to do; people report half of that on boards with default governors.
- RK3576 and RK3562 have a buffer on the chip for tensors between tasks; which tensors use it is not known, so all of
  them are taken to go through memory. It would explain why networks with many small maps (YOLOv10, YOLO11) come out
  too slow on RK3576 and those with large ones (YOLOv8) too fast.
- Whether the bytes of a task come in long or short rows: all bytes cost the same here.

## Published, not rebuilt

Figures of these are in `benchmarks/estimate/facts.csv` too; the networks have not been rebuilt, so nothing is
predicted:
"""


def page(facts: Known) -> str:
    """The whole page."""
    parts = [HEAD, *_constants(facts), AFTER_CONSTANTS]
    for chip in CHIPS:
        parts += [f"\n### {ALL_CHIPS[chip].title}\n\n", *_figures(facts, chip)]
    parts += [OTHERS, *_others(facts), LAYERS, *_layers(), CORES, *_cores(facts), TAIL, _missing(facts)]
    return "".join(parts)


def picture(facts: Known) -> str:
    """The dots are predictions by constants that have not seen the figure."""
    return chart(
        Dot(fact.chip, fact.network, fact.ms, fact.ms * facts.fits[fact.chip].left_out[fact.network])
        for fact in facts.facts
        if facts.fitted(fact)
    )


def _constants(facts: Known) -> Iterator[str]:
    yield "\n| chip | clock | GB/s | us per task | us per job | table, elements a cycle | figures | "
    yield "mean error, left out | range | source |\n|---|---|---|---|---|---|---|---|---|---|\n"
    for name, board in BOARDS.items():
        row = (f"{board.hertz / 1e6:.0f} MHz | {board.bytes_per_second / 1e9:.2f} | {board.task_seconds * 1e6:.2f} | "
               f"{board.submit_seconds * 1e6:.1f} | {board.table_rate:g}")  # fmt: skip
        error = f"{100 * board.mean_error:.1f} %" if board.mean_error is not None else "none"
        span = f"{board.low:.2f} to {board.high:.2f}" if board.low and board.high else "none"
        yield f"| {ALL_CHIPS[name].title} | {row} | {board.figures or 'none'} | {error} | {span} | {board.source} |\n"


def _figures(facts: Known, chip: str) -> Iterator[str]:
    fit = facts.fits[chip]
    yield (
        f"{len(fit.left_out)} networks; mean error {100 * fit.mean_error:.1f} %, "
        f"largest {100 * fit.largest_error:.0f} %, each left out of its fit.\n\n"
        "| network | published ms | predicted ms | ratio | left out | most of it |\n|---|---|---|---|---|---|\n"
    )
    for fact in facts.facts:
        if fact.chip == chip and facts.fitted(fact):
            features, board = facts.features[fact.name, chip], BOARDS[chip]
            predicted = predict(features, board)
            yield (
                f"| {fact.network} {fact.input} | {fact.ms:.2f} | {predicted:.2f} | {predicted / fact.ms:.2f} | "
                f"{fit.left_out[fact.network]:.2f} | {_where(facts, fact, board)} |\n"
            )


def _where(facts: Known, fact: Fact, board: Board) -> str:
    parts = spent(facts.features[fact.name, fact.chip], board)
    shares = sorted(parts.by_bound.items(), key=lambda entry: -entry[1])[:2]
    return ", ".join(f"{bound} {100 * seconds / parts.seconds:.0f} %" for bound, seconds in shares)


def _others(facts: Known) -> Iterator[str]:
    for fact in facts.facts:
        features = facts.features.get((fact.name, fact.chip))
        if features is None or facts.fitted(fact):
            continue
        predicted = predict(features, BOARDS[fact.chip])
        note = f"{features.cpu_operators} operators on the CPU" if features.cpu_operators else ""
        source = fact.source.replace(" (", ", ").replace(")", "")
        yield (
            f"| {fact.name} {fact.input} | {ALL_CHIPS[fact.chip].title} | {source} | {fact.ms:.2f} | {predicted:.2f} | "
            f"{predicted / fact.ms:.2f} | {note} |\n"
        )


def _layers() -> Iterator[str]:
    rows = read_layers(HERE / "layers.csv")
    tables = [(name, *tell(list(part))) for name, part in groupby(rows, lambda row: row.table)]
    for name, told, constant in tables:
        printed = sum(entry.layer.time_us for entry in told) / 1e3
        predicted = sum(entry.predicted_us + constant for entry in told) / 1e3
        yield f"| {name} | {len(told)} | {printed:.1f} | {predicted:.1f} | {constant:.0f} us |\n"
    yield "\n| table | operator | bound | layers | median ratio | from | to |\n|---|---|---|---|---|---|---|\n"
    for name, told, constant in tables:
        kinds = sorted(told, key=_kind)
        for (operator, bound), entries in groupby(kinds, _kind):
            ratios = sorted((entry.predicted_us + constant) / entry.layer.time_us for entry in entries)
            shown = " | ".join(f"{ratio:.2f}" for ratio in (ratios[len(ratios) // 2], ratios[0], ratios[-1]))
            yield f"| {name} | {operator} | {bound} | {len(ratios)} | {shown} |\n"


def _kind(entry: Told) -> tuple[str, str]:
    return entry.layer.operator, str(entry.bound)


_MOVED = {"Add 16x480x480": 3 * 16 * 480 * 480, "Concat 48x480x480": 2 * 48 * 480 * 480}
"""Bytes read and written."""


def _cores(facts: Known) -> Iterator[str]:
    for fact in facts.facts:
        if fact.network in _MOVED:
            board = BOARDS[fact.chip].shared_by(fact.cores)
            predicted = _MOVED[fact.network] / fact.cores / board.bytes_per_second * 1e6
            yield f"| {fact.network} | {fact.cores} | {fact.ms * 1e3:.0f} | {predicted:.0f} |\n"


def _missing(facts: Known) -> str:
    chips = {(name, chip) for name, chip in facts.features}
    left = dict.fromkeys(fact.name for fact in facts.facts if (fact.name, fact.chip) not in chips
                         and fact.network not in _MOVED and "per layer" not in fact.network)  # fmt: skip
    return f"{', '.join(left)}.\n"


def main() -> None:
    """Write both files, and say what the figures give."""
    facts = known()
    PAGE.write_text(page(facts))
    PICTURE.write_text(picture(facts))
    for chip, fit in facts.fits.items():
        ratios = fit.left_out.values()
        print(
            f"{chip}: bytes_per_second={fit.board.bytes_per_second / 1e9:.3g}e9, "
            f"task_seconds={fit.board.task_seconds * 1e6:.3g}e-6, "
            f"low={1 / max(ratios):.2f}, high={1 / min(ratios):.2f}, "
            f"mean_error={fit.mean_error:.3f}, figures={len(fit.left_out)}; largest error {fit.largest_error:.2f}"
        )


if __name__ == "__main__":
    main()

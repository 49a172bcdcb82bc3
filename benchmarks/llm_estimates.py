"""What language models cost by the cost model, next to what the vendor publishes: the table of docs/llm-internals.md.

    python -m benchmarks.llm_estimates [--large] [--batch] [--write]

The shapes are those of the models, the weights are not: time depends on sizes only. Three layers and two blocks of the
head are compiled for each chip; further layers cost what the second one does, further blocks what the second one does.
`--large` makes the table of models that need several address spaces instead.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

from openrknn.compiler.errors import CompileError
from openrknn.compiler.link.joined import JOINED_CORES
from openrknn.compiler.options import CompileOptions
from openrknn.compiler.pipeline import build_graph
from openrknn.compiler.targets import target_of
from openrknn.cost import Cost
from openrknn.llm.config import LanguageConfig, Rope
from openrknn.llm.domains import layer_bytes, spans_of
from openrknn.llm.graph import StepGraph
from openrknn.llm.integers import IntegerProducts
from openrknn.llm.limits import MEMORIES
from openrknn.llm.ports import MOST_COLUMNS
from openrknn.llm.quantise.hadamard import block_order
from openrknn.llm.quantise.model import Quantised, product_names
from openrknn.llm.quantise.products import Int8Product
from openrknn.llm.weights import Floats

PAGE = Path(__file__).parent.parent / "docs" / "llm-internals.md"
BEGIN, END = "<!-- estimates: written by benchmarks/llm_estimates.py -->\n", "<!-- estimates end -->\n"
LARGE_BEGIN, LARGE_END = BEGIN.replace("estimates:", "large estimates:"), END.replace("estimates", "large estimates")
BATCH_BEGIN, BATCH_END = "<!-- batch estimates: by llm_estimates --batch -->\n", "<!-- batch estimates end -->\n"
BATCHES, BATCH_MODELS = (2, 4, 8, 16), ("SmolLM2-135M", "Qwen2.5-1.5B")
CHIPS = ("rk3588", "rk3576", "rk3562", "rk3566")
CAPACITY, PROMPT = 512, 128
_BUILT, _BLOCKS = 3, 2


class Model(NamedTuple):
    """Sizes."""

    name: str
    vocabulary: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    size: int
    hidden: int
    tied: bool
    published: dict[str, tuple[int, float]]
    """Chip -> ms to the first token after 128, tokens a second: rknn-llm 1.3.0, w8a8, its highest clocks."""


MODELS = (
    Model("SmolLM2-135M", 49152, 576, 30, 9, 3, 64, 1536, True, {}),
    Model("Qwen2-0.5B", 151936, 896, 24, 14, 2, 64, 4864, True,
          {"rk3588": (146, 41.6), "rk3576": (344, 21.7), "rk3562": (641, 13.6)}),
    Model("TinyLlama-1.1B", 32000, 2048, 22, 32, 4, 64, 5632, False, {"rk3588": (244, 24.4), "rk3576": (534, 12.2)}),
    Model("Qwen2.5-1.5B", 151936, 1536, 28, 12, 2, 128, 8960, True, {"rk3588": (378, 16.7)}),
)  # fmt: skip


LARGE = (
    Model("Llama-3.2-3B", 128256, 3072, 28, 24, 8, 128, 8192, True, {}),
    Model("Qwen2.5-7B", 152064, 3584, 28, 28, 4, 128, 18944, False, {}),
)


class Shapes:
    """A source of weights without weights."""

    def __init__(self, model: Model, layers: int, vocabulary: int) -> None:
        self.config = LanguageConfig(
            "llama", vocabulary, model.width, layers, model.heads, model.kv_heads, model.size, model.hidden,
            CAPACITY + PROMPT, rope=Rope(1e4, model.size), tied_head=model.tied,
        )  # fmt: skip
        width, inner, keys = model.width, model.heads * model.size, model.kv_heads * model.size
        self._shapes: dict[str, tuple[int, ...]] = {"embedding": (vocabulary, width), "final_norm": (width,)}
        self._shapes |= {} if model.tied else {"head": (vocabulary, width)}
        layer: dict[str, tuple[int, ...]] = {
            "attention_norm": (width,), "ffn_norm": (width,), "q": (inner, width), "k": (keys, width),
            "v": (keys, width), "o": (width, inner), "gate": (model.hidden, width), "up": (model.hidden, width),
            "down": (width, model.hidden),
        }  # fmt: skip
        self._shapes |= {f"layers.{number}.{name}": shape for number in range(layers) for name, shape in layer.items()}

    def names(self) -> list[str]:
        return list(self._shapes)

    def get(self, name: str) -> Floats:
        return self.rows(name, 0, self._shapes[name][0])

    def rows(self, name: str, first: int, count: int) -> Floats:
        shape = self._shapes[name]
        return np.broadcast_to(np.float32(1 if len(shape) == 1 else 0.01), (count, *shape[1:]))

    def quantised(self) -> Quantised:
        found = {}
        for name in product_names(self):
            rows, columns = self._shapes[name if name in self._shapes else "embedding"]
            stored = np.broadcast_to(np.int8(1), (rows, columns))
            found[name] = Int8Product(stored, np.full(rows, 0.01, np.float32), 0.05)
        order = block_order(self.config.hidden)
        return Quantised(self, "w8a8", found, (), None, {} if order is None else {"down": order})


class Whole(NamedTuple):
    """A model, from some of its layers."""

    cores: int
    time_ms: float
    low_ms: float
    high_ms: float
    open_ms: float | None
    tasks: int
    submits: int


def weight_bytes(model: Model, size: int) -> int:
    """Of the products of a token."""
    inner, keys = model.heads * model.size, model.kv_heads * model.size
    layer = model.width * (2 * inner + 2 * keys + 3 * model.hidden)
    return size * (layer * model.layers + model.width * model.vocabulary)


def whole(model: Model, chip: str, tokens: int, *, int8: bool, sequences: int = 1) -> Whole:
    """Compile a part, add up the rest."""
    options = CompileOptions(target=chip, fp16=True)
    target = target_of(options.chip)
    vocabulary = min(model.vocabulary, _BLOCKS * MOST_COLUMNS)
    source = Shapes(model, _BUILT, vocabulary)
    products = IntegerProducts(source.quantised() if int8 else None)
    has_head = tokens == 1 or sequences > 1
    step = StepGraph(source, target, CAPACITY, tokens, has_head, {}, products, sequences=sequences)
    built = build_graph(step.build(), options, {}, joined=True)
    cores = JOINED_CORES if JOINED_CORES in built.costs else 1
    cost = built.costs[cores]
    seconds, tasks = _sums(cost, ":layers.1.")
    block, block_tasks = _sums(cost, f":head.{MOST_COLUMNS}")
    blocks = (model.vocabulary - vocabulary) / MOST_COLUMNS
    more = model.layers - _BUILT
    time = 1e3 * (cost.spent.seconds + more * seconds + blocks * block)
    board = cost.board
    low, high = board.low or 1.0, board.high or 1.0
    extra = None
    if board.open_submit_seconds is not None:
        extra = time + 1e3 * cost.submits * (board.open_submit_seconds - board.submit_seconds)
    every = cost.tasks + more * tasks + -(-blocks // 1) * block_tasks
    return Whole(cores, time, time * low, time * high, extra, int(every), cost.submits)


def _sums(cost: Cost, part: str) -> tuple[float, int]:
    found = [entry for entry in cost.operators if part in entry.name]
    return sum(entry.spent.seconds for entry in found), sum(entry.tasks for entry in found)


def table() -> str:
    """In Markdown; then what was refused."""
    lines = [
        "| model | | chip | cores | weights | tasks | token | open driver | limit | reached | tokens/s | vendor | "
        "128 tokens | vendor |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    refused: list[str] = []
    for model in MODELS:
        for form, int8 in (("fp16", False), ("w8a8", True)):
            for chip in CHIPS:
                try:
                    lines.append(_row(model, form, chip, int8=int8))
                    print(lines[-1], flush=True)
                except CompileError as error:
                    refused.append(f"{form} on {chip.upper()}: {error}")
    return "\n".join([*lines, "", *(f"Refused: {text}." for text in dict.fromkeys(refused)), ""])


def large_table() -> str:
    """Of models beyond one address space, on RK3588."""
    lines = [
        "| model | | weights | parts | layers of each | largest part | tasks | token | 128 tokens |",
        "|---|---|---:|---:|---|---:|---:|---:|---:|",
    ]
    for model in LARGE:
        for form, int8 in (("fp16", False), ("w8a8", True)):
            lines.append(_large_row(model, form, int8=int8))
            print(lines[-1], flush=True)
    return "\n".join([*lines, ""])


def batch_table() -> str:
    """Tokens a second of all sequences together on RK3588, in Markdown."""
    lines = [
        f"| model | | one | {' | '.join(f'{count} sequences' for count in BATCHES)} |",
        f"|---|---|---:|{'---:|' * len(BATCHES)}",
    ]
    for model in MODELS:
        for form, int8 in (("fp16", False), ("w8a8", True)) if model.name in BATCH_MODELS else ():
            cells = [model.name, form]
            for count in (1, *BATCHES):
                tokens = 1 if count == 1 else -(-count // 8) * 8
                made = whole(model, "rk3588", tokens, int8=int8, sequences=count)
                cells.append(f"{1e3 * count / made.time_ms:.1f} ({made.time_ms:.1f} ms)")
            lines.append(f"| {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return "\n".join([*lines, ""])


def _large_row(model: Model, form: str, *, int8: bool) -> str:
    source = Shapes(model, model.layers, model.vocabulary)
    products = IntegerProducts(source.quantised() if int8 else None)
    spans = spans_of(source.config, products, CAPACITY)
    sizes = layer_bytes(source.config, products, CAPACITY)
    one, many = (whole(model, "rk3588", tokens, int8=int8) for tokens in (1, PROMPT))
    cells = (
        model.name, form, f"{weight_bytes(model, 1 if int8 else 2) / 1e9:.2f} GB", str(len(spans)),
        ", ".join(str(end - first) for first, end in spans),
        f"{max(sum(sizes[first:end]) for first, end in spans) / 1e9:.2f} GB", str(one.tasks),
        f"{one.time_ms:.0f} ms ({one.low_ms:.0f} to {one.high_ms:.0f})", f"{many.time_ms:.0f} ms",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _row(model: Model, form: str, chip: str, *, int8: bool) -> str:
    one, many = (whole(model, chip, tokens, int8=int8) for tokens in (1, PROMPT))
    size = weight_bytes(model, 1 if int8 else 2)
    memory = MEMORIES[chip][0]
    limit = 1e3 * size / memory.bytes_per_second
    published = model.published.get(chip) if int8 else None
    times = f"{one.time_ms:.1f} ms ({one.low_ms:.1f} to {one.high_ms:.1f})"
    slow = "" if one.open_ms is None else f"{one.open_ms:.1f} ms"
    there = f"{limit / one.time_ms:.0%} ({limit / one.high_ms:.0%} to {limit / one.low_ms:.0%})"
    vendor = ("", "") if published is None else (f"{published[1]:.1f}", f"{published[0]} ms")
    cells = (
        model.name, form, chip.upper(), str(one.cores), f"{size / 1e6:.0f} MB", str(one.tasks), times, slow,
        f"{limit:.1f} ms", there, f"{1e3 / one.time_ms:.1f}", vendor[0], f"{many.time_ms:.0f} ms", vendor[1],
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table, or put it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", action="store_true", help="several sequences instead")
    parser.add_argument("--write", action="store_true", help="into docs/llm-internals.md")
    parser.add_argument("--large", action="store_true", help="models that need several address spaces")
    asked = parser.parse_args()
    make, begin, end = table, BEGIN, END
    if asked.large:
        make, begin, end = large_table, LARGE_BEGIN, LARGE_END
    elif asked.batch:
        make, begin, end = batch_table, BATCH_BEGIN, BATCH_END
    text = make()
    print(text)
    if asked.write:
        before, _, rest = PAGE.read_text().partition(begin)
        PAGE.write_text(before + begin + text + end + rest.partition(end)[2])


if __name__ == "__main__":
    main()

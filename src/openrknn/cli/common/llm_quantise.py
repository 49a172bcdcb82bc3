"""`openrknn llm quantise`: ranges from one text, the cost on another one, a file for the NPU, a page."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openrknn.cli.common.files import save_atomically
from openrknn.cli.common.llm_check import check_compiled, is_failed
from openrknn.cli.common.options import positive
from openrknn.cli.common.output import CommandError, Output, reason_of
from openrknn.cli.common.outputs import PAGE, OutputFile
from openrknn.cli.common.progress import stages
from openrknn.quantities import size_text

if TYPE_CHECKING:
    from openrknn.llm.compile import CompiledLanguage
    from openrknn.llm.quantise.model import Precision, Progress, Quantised
    from openrknn.llm.quantise.report import Report
    from openrknn.llm.resume import KeptProducts
    from openrknn.llm.tokens import Tokenizer
    from openrknn.llm.weights import WeightSource


_CALIBRATION = 1536
_MOST_BYTES = 1 << 20
_CHARACTERS = 8
"""Of a token, at most, on average: no more of a text is read than can be used."""


def add_quantise_arguments(parser: argparse.ArgumentParser) -> None:
    """What `llm quantise` takes, and `llm compile` with integers."""
    parser.add_argument("--calibrate", metavar="TEXT", help="quantise, compile: a text for the ranges of activations")
    parser.add_argument("--precision", choices=("fp16", "w8a8", "w4a16"),
                        help="fp16, int8 for both (w8a8), or int4 weights (w4a16: RK3576, RV1126B)")  # fmt: skip
    parser.add_argument("--adapt", type=float, metavar="SECONDS", default=0.0,
                        help="quantise: what rounding by the data (GPTQ) may take (0)")  # fmt: skip
    parser.add_argument("--group", type=int, metavar="N", choices=(0, 32, 64, 96, 128),
                        help="w4a16: inputs per scale, at most; 0: all (0 with -o, else 128)")  # fmt: skip
    parser.add_argument("--limit", type=positive, metavar="N", default=2048,
                        help="quantise: tokens of the text to measure with (2048)")  # fmt: skip
    parser.add_argument("--layers", action="store_true", help="quantise: measure each layer, too")
    parser.add_argument("--report", metavar="OUT.html", action=OutputFile, kind=PAGE,
                        help="quantise: write a page: KL by kind, ranges and errors of all products")  # fmt: skip


def run_quantise(arguments: argparse.Namespace, output: Output) -> int:
    """Quantise, measure, and write what was asked for."""
    if not arguments.calibrate:
        raise CommandError("llm quantise needs --calibrate with another text than the one it is measured on")
    if arguments.precision == "fp16":
        raise CommandError("llm quantise makes integers; `openrknn llm compile` makes fp16")
    from openrknn.llm.compile import check_int4, check_target, compile_language
    from openrknn.llm.compiled_assets import assets_of
    from openrknn.llm.files import open_weights
    from openrknn.llm.home import find_model
    from openrknn.llm.quantise.measure import windows
    from openrknn.llm.quantise.report import make_report
    from openrknn.llm.resume import source_digest
    from openrknn.llm.tokens import open_tokenizer

    if arguments.precision == "w4a16" and arguments.output:
        check_int4(arguments.target)
    path = find_model(arguments.model)
    source, tokenizer = open_weights(path, context=arguments.context), open_tokenizer(path)
    if arguments.output:
        check_target(source.config, arguments.target, arguments.context)
    prefix = tokenizer.start
    size = min(arguments.window, source.config.context)
    text = _tokens(tokenizer, arguments.text, arguments.limit)
    digest = source_digest(path)
    with stages(output) as tell:
        quantised, kept = quantised_model(arguments, source, tokenizer, tell, digest)
        details = bool(arguments.report or output.is_json)
        report = make_report(
            quantised, list(windows(text, prefix, size)), kinds=details, layers=arguments.layers, progress=tell
        )
        if arguments.output:
            made = compile_language(
                quantised, arguments.target, capacity=arguments.context, few=arguments.drafts, batch=arguments.batch,
                assets=assets_of(path), progress=tell, resume=digest, start=tokenizer.start,
            )  # fmt: skip
            save_language(made, arguments.output, output)
            del made
    checked = None
    if arguments.output:
        checked = check_compiled(arguments.output, source, tokenizer, quantised.precision, output,
                                 skip=arguments.no_check)  # fmt: skip
    if arguments.report:
        from openrknn.pages.language import render

        save_atomically(arguments.report, render(report, path.name).encode("utf-8", "backslashreplace"))
    kept.clear()
    _say(report, arguments, output, checked)
    return int(is_failed(checked))


def save_language(made: CompiledLanguage, path: str, output: Output) -> None:
    """Write the file; what an interrupted compilation left is in it."""
    try:
        made.save(path)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror or error}; run the command again with another "
                           "-o, and it goes on from here") from None  # fmt: skip
    if made.kept is not None and made.kept.taken:
        output.line(f"{made.kept.taken} products were there from a compilation that was interrupted")


def quantised_model(
    arguments: argparse.Namespace, source: WeightSource, tokenizer: Tokenizer, tell: Progress, digest: str
) -> tuple[Quantised, KeptProducts]:
    """With ranges from the text of --calibrate. Finished products are kept until the caller clears them."""
    from openrknn.llm.quantise.measure import windows
    from openrknn.llm.quantise.model import quantise_language
    from openrknn.llm.resume import KeptProducts

    is_int4, prefix = arguments.precision == "w4a16", tokenizer.start
    group = (0 if arguments.output else 128) if arguments.group is None else arguments.group
    calibration = _tokens(tokenizer, arguments.calibrate, _CALIBRATION)
    size = min(arguments.window, source.config.context)
    texts = list(windows(calibration, prefix, size))
    precision: Precision = "w4a16" if is_int4 else "w8a8"
    kept = KeptProducts.of(digest, texts, precision=precision, adapt=arguments.adapt, group=group)
    made = quantise_language(
        source, texts, precision=precision, prefix=prefix, online=not is_int4, adapt_seconds=arguments.adapt,
        group=group, skip=["head"] if is_int4 else [], progress=tell, kept=kept,
    )  # fmt: skip
    return made, kept


def _say(
    report: Report, arguments: argparse.Namespace, output: Output, checked: dict[str, Any] | None
) -> None:
    whole = report.whole
    output.line(f"KL          {whole.kl:.5f}  (one token in a hundred above {whole.kl_99:.4f}; {whole.tokens} tokens)")
    output.line(f"perplexity  {whole.perplexity:.3f}  ({100 * whole.change:+.2f} % of {whole.reference:.3f} in float)")
    output.line(f"successors  {100 * whole.same:.1f} % the same")
    output.line(f"a token     {size_text(report.weight_bytes)} of weights ({size_text(report.float_bytes)} in fp16)")
    for label, file in (("wrote", arguments.output), ("report", arguments.report)):
        if file:
            output.line(f"{label:12}{file}")
    output.value(f"{whole.kl:.6f}") if not output.is_human else None
    output.data({"model": arguments.model, **report.to_json(), "check": checked})


def _tokens(tokenizer: Tokenizer, name: str, count: int) -> list[int]:
    try:
        with Path(name).open(encoding="utf-8") as file:
            text = file.read(min(count * _CHARACTERS, _MOST_BYTES))
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{name}: cannot be read: {reason_of(error)}") from None
    tokens = tokenizer.encode(text, special=False, begin=False)[:count]
    if len(tokens) < 2:
        raise CommandError(f"{name}: {len(tokens)} tokens are too few; give a text of some thousand words")
    return tokens

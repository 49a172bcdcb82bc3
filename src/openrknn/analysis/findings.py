"""What is worth a look in a model: damage, fallbacks, surprises; each with why it matters and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from openrknn.analysis.ranges import range_findings
from openrknn.analysis.reports import Finding, GraphReport, InputReport, OperatorReport, Severity
from openrknn.analysis.unknown_registers import unknown_register_findings
from openrknn.analysis.versions import NEWEST_TOOLKIT, parse_version
from openrknn.chips import TARGETS
from openrknn.container.check import problems
from openrknn.container.model import Model
from openrknn.container.parts import Kind, Placement, Tensor
from openrknn.container.sizes import memory_plan

_MAX_PROBLEMS = 20
_MAX_NAMES = 4
_MAX_PER_CODE = 8
_FREE_ON_CPU = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"})
_OUR_COMPILER = "openrknn"
"""What the version text of our own compiler's files begins with."""
_SCHEMA_LAG = "openrknn may read the rest wrongly, and refuses to rewrite the file"


def find(model: Model, inputs: Sequence[InputReport], graphs: Sequence[GraphReport]) -> tuple[Finding, ...]:
    """Everything worth saying, the worst first; a finding that repeats often is cut short."""
    found: list[Finding] = []
    found += _damage(model)
    found += _placements(graphs[0]) if graphs else ()
    for report in graphs[:1]:
        found += range_findings(model, model.graphs[report.index])
    found += _weights(model)
    found += _file(model)
    found += _memory(model)
    found += unknown_register_findings(model)
    found += _surprises(model)
    found += _colors(inputs)
    order = list(Severity)
    return tuple(sorted(_shortened(found), key=lambda finding: -order.index(finding.severity)))


def _shortened(found: Sequence[Finding]) -> Iterator[Finding]:
    counts: Counter[str] = Counter()
    totals = Counter(finding.code for finding in found)
    for finding in found:
        counts[finding.code] += 1
        if counts[finding.code] <= _MAX_PER_CODE:
            yield finding
        elif counts[finding.code] == _MAX_PER_CODE + 1:
            rest = totals[finding.code] - _MAX_PER_CODE
            yield Finding(finding.code, finding.severity, "", f"... and {rest} more of these", "", "")


def _damage(model: Model) -> Iterator[Finding]:
    for problem in islice(problems(model), _MAX_PROBLEMS):
        yield Finding(
            "damaged",
            Severity.ERROR,
            problem.section,
            str(problem),
            "the vendor's runtime does not check this: it may crash, or write outside its buffers",
            "get the file again, or convert the model again; do not load this file on a board",
        )


def _placements(graph: GraphReport) -> Iterator[Finding]:
    others = [row for row in graph.operators if row.placement == Placement.CPU and not row.is_boundary]
    if others:
        free = all(row.type in _FREE_ON_CPU for row in others)
        yield Finding(
            "cpu-fallback",
            Severity.NOTE if free else Severity.WARNING,
            others[0].name,
            f"{len(others)} of {graph.totals.operators} operators run on the CPU: {_listed(others)}",
            "data leave the NPU there, are converted on the CPU, and the NPU waits",
            "nothing: these only give the data another shape, which is cheap"
            if free
            else "replace the operator in the network before conversion, or cut the network there",
        )
    custom = [row for row in graph.operators if row.placement == Placement.CUSTOM]
    if custom:
        yield Finding(
            "custom-operator",
            Severity.WARNING,
            custom[0].name,
            f"{len(custom)} custom operators: {_listed(custom)}",
            "the vendor's runtime aborts when a custom operator is not registered",
            "register it with rknn_register_custom_ops before the first run",
        )


def _listed(rows: Sequence[OperatorReport]) -> str:
    """ "Sin (1: sin0), Reshape (12: a, b, c, ...)"."""
    names: dict[str, list[str]] = {}
    for row in rows:
        names.setdefault(row.type, []).append(f"#{row.index}")
    return ", ".join(
        f"{kind} {', '.join(numbers[:_MAX_NAMES])}{', ...' if len(numbers) > _MAX_NAMES else ''}"
        for kind, numbers in names.items()
    )


def _weights(model: Model) -> Iterator[Finding]:
    tensors = [tensor for tensor in model.graphs[0].tensors if tensor.kind is Kind.WEIGHT]
    missing = [tensor for tensor in tensors if _is_empty_weight(tensor)]
    if missing:
        yield Finding(
            "weights-missing",
            Severity.WARNING,
            missing[0].name,
            f"{len(missing)} of {len(tensors)} weight tensors have no data",
            "the file was exported without weights (remove_weight) and computes nothing on its own",
            "load it together with the model that holds the weights (RKNN_FLAG_SHARE_WEIGHT_MEM)",
        )
    compressed = [tensor for tensor in tensors if tensor.compressed]
    if compressed:
        yield Finding(
            "weights-compressed",
            Severity.NOTE,
            compressed[0].name,
            f"{len(compressed)} of {len(tensors)} weight tensors are compressed",
            "the NPU unpacks them while it loads them: the file is smaller and less memory is read",
            "nothing; results are the same as without compress_weight",
        )


def _is_empty_weight(tensor: Tensor) -> bool:
    return tensor.kind is Kind.WEIGHT and tensor.size_bytes > 0 and not tensor.data


def _file(model: Model) -> Iterator[Finding]:
    toolkit = parse_version(model.toolkit_version)
    if toolkit is not None and toolkit > NEWEST_TOOLKIT:
        known = ".".join(map(str, NEWEST_TOOLKIT))
        yield Finding(
            "newer-toolkit",
            Severity.NOTE,
            "",
            f"made by toolkit {model.toolkit_version}, newer than {known}, the newest that openrknn was tested with",
            _SCHEMA_LAG,
            "look for a newer openrknn",
        )
    for text in model.unknown:
        yield Finding("unknown-part", Severity.WARNING, "", text, _SCHEMA_LAG, "please report it, with the file")
    if model.trailing_bytes:
        yield Finding(
            "trailing-bytes",
            Severity.NOTE,
            "",
            f"{model.trailing_bytes} bytes follow the end of the model",
            "the vendor's runtime ignores them; something may have been appended to the file",
            "rewrite the file to drop them",
        )


def _surprises(model: Model) -> Iterator[Finding]:
    chips = [chip.name for chip in TARGETS.get(model.target, ())]
    if model.platform and model.platform.lower() not in chips:
        yield Finding(
            "two-platforms",
            Severity.NOTE,
            "",
            f"the file says {model.platform!r} for people and {model.target!r} ({', '.join(chips)}) for the runtime",
            "the runtime only looks at the second",
            "trust the second",
        )
    ours = model.toolkit_text.startswith(_OUR_COMPILER)
    if model.chip.cores > 1 and len(model.graphs[0].task_lists) == 1:
        yield Finding(
            "single-core",
            Severity.NOTE,
            "",
            f"built for one core of the {model.chip.cores}" + ("" if ours else " (single_core_mode)"),
            "several cores cannot share one run of it; several copies can run side by side",
            f"{'compile with --cores 3' if ours else 'convert without single_core_mode'} if one run must be faster",
        )
    outputs = {spec.name: spec.dtype for spec in model.outputs}
    if len(set(outputs.values())) > 1:
        yield Finding(
            "mixed-outputs",
            Severity.NOTE,
            "",
            "the outputs have different types: " + ", ".join(f"{name} {dtype}" for name, dtype in outputs.items()),
            "a program that treats all outputs alike reads nonsense",
            "look at the type of each, or ask the runtime for float32",
        )


def _memory(model: Model) -> Iterator[Finding]:
    planned = memory_plan(model)
    # Format 1 has no such numbers, and an export without weights keeps those of the whole model.
    if model.format_version == 1 or any(_is_empty_weight(tensor) for tensor in model.graphs[0].tensors):
        return
    # Converters of all versions count the weights in several ways: 20 of 88 published files have another number there.
    if planned[1:] != model.memory[1:]:
        yield Finding(
            "stale-memory-plan",
            Severity.NOTE,
            "",
            f"the file says weights {model.memory.weight_bytes}, internal {model.memory.internal_bytes}, constants "
            f"{model.memory.constant_bytes} bytes; its tensors add up to {', '.join(map(str, planned))}",
            "the vendor's runtime computes its own numbers, so this does no harm; a program that plans memory by the "
            "file's numbers is misled",
            "nothing, if you know that the file was edited",
        )


def _colors(inputs: Sequence[InputReport]) -> Iterator[Finding]:
    for item in inputs:
        if item.calibrated_as_bgr:
            yield Finding(
                "calibrated-as-bgr",
                Severity.NOTE,
                item.name,
                f"the calibration pictures of {item.name!r} were turned from RGB to BGR (quant_img_RGB2BGR)",
                "the model does not do this itself: your images are not converted at run time",
                "feed BGR",
            )

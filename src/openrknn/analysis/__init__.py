"""Facts about a model: a library that the commands, the server and other programs share.

    from openrknn import analysis

    analysis.report(model)              what is in it, what to feed it, what to look out for   (openrknn inspect)
    analysis.estimate(model)            how long a board takes for it
    analysis.coverage(model)            which registers and modes it uses                      (openrknn coverage)
    analysis.diff(old, new)             what differs between two files                         (openrknn diff)
    analysis.compare(model, onnx, ..)   where accuracy gets lost, layer by layer               (openrknn compare)
    analysis.profile_rows(..)           the rows of a profile, in the vendor's columns         (openrknn profile)
    openrknn.lint(model)                mistakes of the conversion                             (openrknn lint)

    reports       the values that a report is made of;  explain, feed, versions, strays, ranges, findings fill them
    inspection    the whole report: file, estimate and lint;  board_time: the estimate in numbers and words
    weights       weights as the network had them;  register_use: coverage;  differences: diff;  accuracy: compare
    parted        models in parts for NPU and CPU: what is in them, and which part loses accuracy
    lint          rules over decoded commands;  lint_codes: their names
    dependence    random inputs, and whether outputs depend on the inputs

Analysis stands above the runtime, because comparing and decoding need a device, and it prints nothing. What the runtime
itself has to know is below it: an operator's multiply-accumulates are in `openrknn.cost.macs`, because a Session's
profile counts them as a report does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openrknn.lazy import lazy_names

if TYPE_CHECKING:
    from openrknn.analysis.accuracy.api import compare
    from openrknn.analysis.accuracy.result import Comparison
    from openrknn.analysis.accuracy.result import as_json as comparison_as_json
    from openrknn.analysis.board_time import estimate
    from openrknn.analysis.differences.difference import Difference
    from openrknn.analysis.differences.models import compare as diff
    from openrknn.analysis.inspection import report
    from openrknn.analysis.profiles import rows_of as profile_rows
    from openrknn.analysis.register_use.summary import Report as CoverageReport
    from openrknn.analysis.register_use.summary import coverage
    from openrknn.analysis.reports import EstimateReport, Finding, ModelReport, Severity

__all__ = [
    "Comparison",
    "CoverageReport",
    "Difference",
    "EstimateReport",
    "Finding",
    "ModelReport",
    "Severity",
    "compare",
    "comparison_as_json",
    "coverage",
    "diff",
    "estimate",
    "profile_rows",
    "report",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "accuracy.api": "compare",
        "accuracy.result": "Comparison comparison_as_json=as_json",
        "board_time": "estimate",
        "differences.difference": "Difference",
        "differences.models": "diff=compare",
        "inspection": "report",
        "profiles": "profile_rows=rows_of",
        "register_use.summary": "CoverageReport=Report coverage",
        "reports": "EstimateReport Finding ModelReport Severity",
    },
)

"""A report in words: for the terminal and for the page."""

from __future__ import annotations

from openrknn.evaluate.report import Report

_SMALL_LOSS, _LARGE_LOSS = 0.01, 0.03
_WIDE = 0.04
"""An interval of more than so much says little about a loss of one point."""


def sentence(report: Report) -> str:
    """The result in one sentence."""
    metric = report.metric
    text = f"{metric.title} {metric.text(report.value)}"
    if report.model.interval is not None:
        low, high = report.model.interval
        text += f" (95 % interval {metric.text(low)} to {metric.text(high)})"
    if report.reference is None or report.drop is None:
        return text
    text += f", float {metric.text(report.reference.value)}: {points(report)}"
    if report.drop_interval is not None:
        low, high = (100 * value if metric.is_share else value for value in report.drop_interval)
        text += f" (interval of the loss {low:+.1f} to {high:+.1f})"
    return text


def points(report: Report) -> str:
    """ "0.8 points lost", "0.2 points gained"."""
    drop = report.drop or 0.0
    size = abs(100 * drop if report.metric.is_share else drop)
    unit = " points" if report.metric.is_share else " dB" if report.primary.endswith("_db") else ""
    return f"{size:.1f}{unit} {'lost' if drop >= 0 else 'gained'}"


def level(report: Report, failures: int, *, is_required: bool = False) -> str:
    """good, fair or poor. Without a float model and without requirements a number is neither: somebody has to look."""
    if failures or report.value is None:
        return "poor"
    if report.drop is None:
        return "good" if is_required else "fair"
    if not report.metric.is_share or report.drop <= _SMALL_LOSS:
        return "good"
    return "fair" if report.drop <= _LARGE_LOSS else "poor"


def next_step(report: Report) -> str:
    """What to do with the result."""
    if report.reference is None and report.task == "speech":
        return ""
    if report.reference is None:
        if report.model.about.startswith("float"):
            return "compile the model, and evaluate the .rknn with --float to see what that costs"
        return "--float MODEL.onnx shows how much of the error is the NPU's"
    if report.drop is not None and report.metric.is_share and report.drop > _SMALL_LOSS:
        return "compile with more calibration images, with --auto-mixed, or with --fp16, and evaluate again"
    if report.drop_interval is not None and report.metric.is_share:
        low, high = report.drop_interval
        if high - low > _WIDE:
            spread = f"{100 * (high - low):.1f} points"
            return f"evaluate more samples: {report.evaluated} leave the loss uncertain by {spread}"
    return ""

"""What works without an NPU, and how well."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.doctor.facts import Facts
from openrknn.doctor.finding import Finding, Severity
from openrknn.errors import UnsupportedError
from openrknn.extras import SOURCE

__all__ = ["check_software"]


def check_software(facts: Facts) -> Iterator[Finding]:
    """The software NPU of this Python; below another root there is nothing to try."""
    if not facts.is_this_machine:
        return
    from openrknn.compute import native

    try:
        kernels = native.choose() if native.load() is not None else None
    except UnsupportedError as error:
        yield Finding("software-npu", Severity.ERROR, f"the software NPU does not start: {error}", "nothing runs here",
                      (f"$ pip install --force-reinstall 'openrknn @ {SOURCE}'",))  # fmt: skip
        return
    if kernels is None:
        yield Finding(
            "software-npu",
            Severity.NOTE,
            "the software NPU works here with NumPy alone",
            "its native kernels were not built or are switched off; results are the same, some 100 times slower",
            ("$ pip install --force-reinstall --no-binary openrknn openrknn   # with a C compiler installed",),
        )
    else:
        yield Finding("software-npu", Severity.OK, f"the software NPU works here, with native kernels ({kernels.name})")

"""What tests of models need, for any framework of tests: the pytest plugin hands these out as fixtures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from openrknn.check.result import Check, Outcome, Status


def assert_passed(outcome: Outcome) -> None:
    """Raise an `AssertionError` that says all that is wrong."""
    bad = [entry for entry in outcome.checks if entry.status in (Status.FAILED, Status.ERROR)]
    if bad:
        raise AssertionError("\n".join(_lines(outcome.model, bad)))


def _lines(model: str, bad: list[Check]) -> Iterator[str]:
    yield f"{model} is not as expected:"
    for entry in bad:
        yield f"  {entry.name}: {entry.text}"
        for finding in entry.findings:
            yield f"    {finding.severity}: {finding.code}: {finding}"


class ModelUnderTest:
    """A model that opens when it is first used: `run`, `session`, `model`, `costs`, and asserts about its budget."""

    def __init__(self, path: Path, device: str) -> None:
        self.path, self.device = path, device
        self._session: Any = None
        self._subject: Any = None

    @property
    def session(self) -> Any:
        """An `openrknn.Session`."""
        if self._session is None:
            from openrknn.runtime.session import Session

            self._session = Session(self.path, device=self.device)
        return self._session

    @property
    def model(self) -> Any:
        """The `openrknn.Model`."""
        return self._opened.model

    @property
    def costs(self) -> Any:
        """`openrknn.check.Costs`: ms (estimated), bytes, memory_bytes, cpu_operators, submits, macs, ..."""
        from openrknn.check.budgets import costs_of

        return costs_of(self._opened)

    @property
    def _opened(self) -> Any:
        if self._subject is None:
            from openrknn.check.subject import open_subject

            self._subject = open_subject(self.path)
        return self._subject

    def run(self, *inputs: object, **options: Any) -> dict[str, Any]:
        """`Session.run`."""
        found: dict[str, Any] = self.session.run(*inputs, **options)
        return found

    def assert_budget(self, *, ms: float | None = None, **most: int) -> None:
        """Fail if one run takes more than `ms` milliseconds by estimate, or more of anything in `costs`."""
        from openrknn.check.budgets import budget_checks
        from openrknn.check.fields import near
        from openrknn.check.golden import AMOUNTS, Budget

        costs = self.costs
        for name in most:
            if name not in AMOUNTS:
                raise TypeError(f"there is no budget {name!r}{near(name, ('ms', *AMOUNTS))}")
        times = {} if ms is None else {costs.chip: ms}
        budget = replace(Budget(ms=times), **most)  # type: ignore[arg-type]
        checks = tuple(budget_checks(costs, budget, None, str(self.path), str(self.path)))
        assert_passed(Outcome(str(self.path), "", checks))

    def assert_no_findings(self, *ignore: str, fail_on: str = "warning") -> None:
        """Fail if `openrknn lint` finds something as bad as `fail_on`; `ignore`: codes."""
        from openrknn.check.golden import LintRules
        from openrknn.check.lints import lint_check

        rules = LintRules(fail_on, dict.fromkeys(ignore, "ignored by the test"))
        assert_passed(Outcome(str(self.path), "", (lint_check(self._opened, rules),)))

    def close(self) -> None:
        """Give everything back."""
        if self._session is not None:
            self._session.close()


class GoldenFolder:
    """A golden folder, to be checked whole."""

    def __init__(self, folder: Path, device: str, *, is_update: bool) -> None:
        self.folder, self.device, self._is_update = folder, device, is_update

    def check(self, model: ModelUnderTest | str | Path, *only: str) -> Outcome:
        """Fail with all that differs; with --openrknn-update, record it again instead."""
        from openrknn.check.record import update
        from openrknn.check.run import check

        path = model.path if isinstance(model, ModelUnderTest) else model
        if self._is_update:
            update(path, self.folder, only=only, device=self.device)
        outcome = check(path, self.folder, device=self.device, only=only)
        assert_passed(outcome)
        return outcome


class GoldenArrays:
    """Arrays beside a test that outputs have to be close to."""

    def __init__(self, folder: Path, model: ModelUnderTest | None, *, is_update: bool) -> None:
        self.folder, self._model, self._is_update = folder, model, is_update

    def __call__(self, outputs: Any, name: str, **tolerance: Any) -> None:
        """Compare outputs (an array, several, or a dict by name) with golden/NAME.npz.

        `tolerance`: exact, absolute, relative, steps, cosine, snr_db, outliers; left alone: steps=1.
        """
        import numpy as np

        from openrknn.check.tolerance import Tolerance, judge

        arrays = _named(outputs)
        path = self.folder / f"{name}.npz"
        if self._is_update:
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(path, allow_pickle=False, **arrays)
            return
        if not path.is_file():
            raise AssertionError(f"{path}: no such file; write it with --openrknn-update")
        specs = {} if self._model is None else {spec.name: spec for spec in self._model.session.outputs}
        limit = Tolerance(**tolerance) if tolerance else Tolerance(steps=1)
        wrong = []
        expected = _read(path)
        for key in dict.fromkeys((*expected, *arrays)):
            if key not in arrays or key not in expected:
                wrong.append(f"{key!r} is only in the {'outputs' if key in arrays else 'file'}")
                continue
            found, _ = judge(np.asarray(arrays[key]), expected[key], limit, specs.get(key))
            wrong += [f"{key!r}: {text}" for text in found]
        if wrong:
            raise AssertionError(f"not close to {path}:\n  " + "\n  ".join(wrong))


def _named(outputs: Any) -> dict[str, Any]:
    if isinstance(outputs, Mapping):
        return dict(outputs)
    if isinstance(outputs, list | tuple):
        return {f"x{number}": value for number, value in enumerate(outputs)}
    return {"x0": outputs}


def _read(path: Path) -> dict[str, Any]:
    from openrknn.numpyfiles import NpzFile

    with NpzFile(path, largest_bytes=1 << 32) as archive:
        return {name: archive.read(name) for name in archive.names}

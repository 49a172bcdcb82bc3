"""The chart as Helm renders it. The tests' extra brings Helm as a wheel; where there is none, they are skipped."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

__all__ = ["Chart", "ChartError"]

_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Written in C where PyYAML was built with it."""


class ChartError(Exception):
    """What Helm says of values that the chart does not take."""


@dataclass(frozen=True)
class Chart:
    """A folder with Chart.yaml, or a packed chart."""

    folder: Path
    release: str = "openrknn"
    namespace: str = "openrknn"
    kubernetes: str = "v1.36.0"
    cluster: str = ""
    """URL of an API server for `lookup`."""

    def objects(self, values: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Everything that is installed, the objects of `helm test` included."""
        server = ["--dry-run=server", "--kube-apiserver", self.cluster] if self.cluster else []
        text = self._run("template", "--kube-version", self.kubernetes, *server, values=values)
        return [one for one in yaml.load_all(text, _Loader) if one]

    def notes(self, folder: Path, values: Mapping[str, Any] | None = None) -> str:
        """What is printed after an installation. Helm shows it with a cluster only, so it becomes an object's text."""
        copy = Path(shutil.copytree(self.folder, folder / "chart", dirs_exist_ok=True))
        text = (copy / "templates/NOTES.txt").read_text()
        head = "apiVersion: v1\nkind: Notes\nmetadata: {name: notes}\ntext: {{ include \"notes\" . | toJson }}\n"
        (copy / "templates/notes.yaml").write_text(f'{{{{ define "notes" }}}}{text}{{{{ end }}}}\n{head}')
        (found,) = [one for one in replace(self, folder=copy).objects(values) if one["kind"] == "Notes"]
        return str(found["text"])

    def lint(self, values: Mapping[str, Any] | None = None) -> None:
        """Raise what `helm lint` finds."""
        self._run("lint", "--strict", "--kube-version", self.kubernetes, values=values, release=False)

    def _run(self, *words: str, values: Mapping[str, Any] | None, release: bool = True) -> str:
        tool = shutil.which("helm", path=f"{Path(sys.executable).parent}") or shutil.which("helm")
        if tool is None:
            pytest.skip("helm is not here")
        chart = [self.release, str(self.folder)] if release else [str(self.folder)]
        command = [tool, *words, "--namespace", self.namespace, "--values", "-", *chart]
        done = subprocess.run(command, input=yaml.safe_dump(values or {}), capture_output=True, text=True, check=False)
        if done.returncode:
            raise ChartError(done.stderr + done.stdout)
        return str(done.stdout)

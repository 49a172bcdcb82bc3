"""The renderer that stands in for Helm: what it does as Go does, and what it refuses.

Witness: Go's documentation of text/template; with `helm` on the PATH, test_chart.py compares whole charts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.helm.parse import TemplateError
from tests.deploy.helm.render import Chart

VALUES: dict[str, Any] = {
    "a": {"b": "c"}, "list": ["x", "y"], "map": {"two": 2, "one": 1}, "no": False, "big": 1000000, "empty": "",
    "none": [],
}  # fmt: skip


def render(folder: Path, text: str) -> str:
    (folder / "templates").mkdir(exist_ok=True)
    (folder / "templates/t.txt").write_text(text)
    (folder / "Chart.yaml").write_text("name: n\nversion: 1.0.0\nappVersion: '1'\n")
    (folder / "values.yaml").write_text(json.dumps(VALUES))
    (folder / "values.schema.json").write_text("{}")
    return Chart(folder).text("t.txt")


@pytest.mark.parametrize(("text", "expected"), [
    ("{{ .Values.a.b }}", "c"),
    ("x  {{- .Values.a.b -}}  y", "xcy"),
    ("x {{- /* nothing */ -}} y", "xy"),
    ("{{ if .Values.no }}1{{ else if .Values.a }}2{{ else }}3{{ end }}", "2"),
    ("{{ if .Values.empty }}1{{ else }}3{{ end }}", "3"),
    ("{{ with .Values.a }}{{ .b }}{{ $.Values.no }}{{ end }}", "cfalse"),
    ("{{ range .Values.list }}<{{ . }}>{{ end }}", "<x><y>"),
    ("{{ range $at, $one := .Values.list }}{{ $at }}{{ $one }}{{ end }}", "0x1y"),
    ("{{ range $key, $value := .Values.map }}{{ $key }}={{ $value }} {{ end }}", "one=1 two=2 "),
    ("{{ range .Values.none }}1{{ else }}none{{ end }}", "none"),
    ("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ end }}{{ $x }}", "2"),
    ("{{ $x := 1 }}{{ if true }}{{ $x := 2 }}{{ end }}{{ $x }}", "1"),
    ('{{ define "d" }}[{{ .b }}]{{ end }}{{ include "d" .Values.a }}', "[c]"),
    ('{{ "a {{ b }}" | quote }}', '"a {{ b }}"'),
    ("{{ and .Values.a .Values.no }}{{ or .Values.no .Values.empty }}", "false"),
    ('{{ default "d" .Values.empty }}{{ default "d" .Values.a.b }}', "dc"),
    ("{{ (index .Values.list 1) | quote }}", '"y"'),
    ("{{ toYaml .Values.map | nindent 2 }}", "\n  one: 1\n  two: 2"),
    ("{{ `a\\n` }}{{ \"b\\n\" }}", "a\\nb\n"),
])  # fmt: skip
def test_as_go_does_it(text: str, expected: str, tmp_path: Path) -> None:
    assert render(tmp_path, text) == expected


@pytest.mark.parametrize(("text", "words"), [
    ("{{ .Values.a.c }}", "there is no .c"),
    ("{{ .Valuse.a }}", "there is no .Valuse"),
    ("{{ sha256sum .Values.a.b }}", "sha256sum is not known"),
    ('{{ template "d" . }}', "'template' here"),
    ("{{ if .Values.a }}", "end is missing"),
    ("{{ end }}", "'end' here"),
    ("{{ range .Values.list }}{{ break }}{{ end }}", "'break' here"),
    ("{{ .Values.big }}", "with an exponent"),
    ("{{ .Values.a }}", "Go's own words"),
    ('{{ eq .Values.no "false" }}', "does not compare"),
    ('{{ ternary 1 2 "yes" }}', "wants a bool"),
    ("{{ $x }}", "not declared"),
    ("{{ (.Values.a }}", "lacks a parenthesis"),
    ("{{ .Values.a", "without an end"),
    ('{{ printf "%v" 1 }}', "only %s and %d"),
    ('{{ define "d" }}{{ include "d" . }}{{ end }}{{ include "d" . }}', "without end"),
    ("{{ range .Values.a.b }}{{ end }}", "range over"),
    ("{{ range .Values.empty }}{{ end }}", "range over"),
    ("{{ if true }}{{ else }}{{ else }}{{ end }}", "two else"),
])  # fmt: skip
def test_what_is_refused(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match=words):
        render(tmp_path, text)

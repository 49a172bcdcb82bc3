"""The page of `openrknn inspect --html`: complete, self-contained, small, and safe with names from hostile files."""

import dataclasses
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from openrknn.analysis.explain import describe
from openrknn.analysis.reports import Lifetime
from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.container.parts import Graph, Node, Tensor
from openrknn.pages.markup import breakable, clean, join, tag
from openrknn.pages.model.memory import alive_bytes
from openrknn.pages.model.page import render

GOLDENS = sorted(Path(__file__).parents[1].joinpath("goldens").glob("*.rknn"))
RESIDUAL = next(path for path in GOLDENS if path.name == "residual_rk3588_i8.rknn")
DYNAMIC = next(path for path in GOLDENS if path.name == "dynamic_rk3588_i8.rknn")
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
EVIL = "</script><script>document.title='pwned'</script>\"' onload='x' <img src=x onerror=alert(1)>&lt;"
_VOID = {"meta", "input", "wbr"}


class Page(HTMLParser):
    """A page as a list of elements; fails where the tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        assert len({name for name, _ in attrs}) == len(attrs)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)

    def having(self, name: str, look: str = "") -> list[dict[str, str]]:
        return [
            attributes
            for element, attributes in self.elements
            if element == name and (not look or look in attributes.get("class", "").split())
        ]


def page(model: Model) -> Page:
    return Page(render(describe(model), model))


def renamed(model: Model, name: str) -> Model:
    """The model with `name` in every text that a file can hold."""

    def tensor(old: Tensor) -> Tensor:
        return dataclasses.replace(old, name=f"{name}{old.index}")

    def node(old: Node) -> Node:
        return dataclasses.replace(old, name=name, type=name, attributes={name: name, "kernel_shape": [name, name]})

    def graph(old: Graph) -> Graph:
        return dataclasses.replace(old, tensors=tuple(map(tensor, old.tensors)), nodes=tuple(map(node, old.nodes)))

    return dataclasses.replace(
        model,
        path=f"/somewhere/{name.replace('/', '')}.rknn",
        platform=name,
        toolkit_text=name,
        framework=name,
        custom_string=name,
        custom_operators=name,
        graphs=tuple(map(graph, model.graphs)),
    )


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_a_page_is_whole_and_leads_nowhere_else(path: Path) -> None:
    model = load(path)
    text = render(describe(model), model)
    parsed = Page(text)
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in parsed.elements:
        assert not {"src", "srcset", "data", "action"} & attributes.keys()
        assert not any(name.startswith("on") for name in attributes)
        if "href" in attributes:
            assert attributes["href"][0] == "#"
            assert attributes["href"][1:] in ids
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert "@import" not in text


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_every_operator_is_drawn_and_every_row_is_there(path: Path) -> None:
    model = load(path)
    parsed = page(model)
    operators = sum(len(graph.nodes) for graph in model.graphs)
    tensors = sum(bool(tensor.name or tensor.size_bytes) for graph in model.graphs for tensor in graph.tensors)
    assert len(parsed.having("a", "node")) == operators
    assert len([row for row in parsed.having("tr") if re.fullmatch(r"g\d+-op\d+", row.get("id", ""))]) == operators
    assert len([row for row in parsed.having("tr") if re.fullmatch(r"g\d+-t\d+", row.get("id", ""))]) == tensors


def test_the_page_says_what_to_feed_and_what_it_found() -> None:
    model = load(RESIDUAL.with_name("cpu_sin_rk3588_i8.rknn"))
    report = describe(model)
    words = " ".join(text for texts in page(model).texts.values() for text in texts)
    for expected in (report.inputs[0].feed, report.outputs[0].read, report.findings[0].what, "RK3588", "toolkit 2.5.0"):
        assert expected in words
    assert len(page(model).having("a", "cpu")) == 1


def test_the_colours_tell_who_executes_an_operator() -> None:
    model = load(RESIDUAL.with_name("cpu_sin_rk3588_i8.rknn"))
    custom = dataclasses.replace(model, custom_operators="Sin")
    assert [len(page(custom).having("a", look)) for look in ("npu", "cpu", "custom", "io")] == [2, 0, 1, 2]


def test_a_model_of_many_shapes_has_one_part_per_graph() -> None:
    parsed = page(load(DYNAMIC))
    assert [part["id"] for part in parsed.having("div", "one-graph")] == ["g0-all", "g1-all", "g2-all"]
    assert len(parsed.having("option")) == 3
    only = describe(load(DYNAMIC), graph=1)
    assert [part["id"] for part in Page(render(only, load(DYNAMIC))).having("div", "one-graph")] == ["g1-all"]


def test_names_from_a_hostile_file_stay_text() -> None:
    model = load(RESIDUAL)
    calm, evil = page(model), page(renamed(model, EVIL))
    assert [name for name, _ in evil.elements if name in {"script", "img"}] == ["script", "script"]
    assert {name for name, _ in evil.elements} <= {name for name, _ in calm.elements}
    assert not any(name.startswith("on") for _, attributes in evil.elements for name in attributes)
    data = json.loads(evil.texts["script"][0])
    assert data["operators"]["1"]["type"].startswith("</script>")
    assert "pwned" in " ".join(evil.texts["b"])


def test_the_policy_allows_the_one_script_of_the_page() -> None:
    text = render(describe(load(RESIDUAL)), load(RESIDUAL))
    policy = next(
        meta["content"] for meta in Page(text).having("meta") if "content" in meta and "src" in meta["content"]
    )
    assert policy.startswith("default-src 'none'")
    assert re.search(r"script-src 'sha256-[\w+/]{43}='", policy)


def test_endless_names_do_not_make_an_endless_page() -> None:
    model = load(RESIDUAL)
    long = renamed(model, "x" * 100_000)
    size = len(render(describe(long), long))
    assert size < 200_000


def test_invisible_characters_are_shown_and_cannot_break_the_file(tmp_path: Path) -> None:
    model = renamed(load(RESIDUAL), "safe\u202egpj.exe\x00\ud800")
    (tmp_path / "page.html").write_text(render(describe(model), model), encoding="utf-8")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "safe\\u202egpj.exe\\u0000\\ud800" in text
    assert "\u202e" not in text


def test_the_page_names_the_file_and_not_the_folder(tmp_path: Path) -> None:
    copy = tmp_path / "net & co.rknn"
    copy.write_bytes(RESIDUAL.read_bytes())
    text = render(describe(load(copy)), load(copy))
    assert "net &amp; co.rknn" in text
    assert str(tmp_path) not in text


def test_the_same_model_gives_the_same_page() -> None:
    assert render(describe(load(RESIDUAL)), load(RESIDUAL)) == render(describe(load(RESIDUAL)), load(RESIDUAL))


def stretched(model: Model, times: int) -> Model:
    """The network again and again, each copy reading the outputs of the one before."""
    graph = model.graphs[0]
    tensors = list(graph.tensors)
    nodes: list[Node] = []
    for copy in range(times):
        base = len(graph.tensors) * copy
        if copy:
            tensors += [dataclasses.replace(t, index=t.index + base, name=f"{t.name}/{copy}") for t in graph.tensors]
        for node in graph.nodes:
            inputs = tuple(base + number for number in node.inputs)
            if not inputs and copy:
                inputs = (base - len(graph.tensors) + graph.outputs[0],)
            nodes.append(
                dataclasses.replace(
                    node, index=len(nodes), inputs=inputs, outputs=tuple(base + number for number in node.outputs)
                )
            )
    return dataclasses.replace(model, graphs=(dataclasses.replace(graph, tensors=tuple(tensors), nodes=tuple(nodes)),))


def test_a_model_of_300_operators_makes_a_small_page_fast() -> None:
    model = stretched(load(RESIDUAL), 34)
    assert len(model.graphs[0].nodes) > 300
    report = describe(model)
    began = time.process_time()
    text = render(report, model)
    assert time.process_time() - began < 1
    assert len(text.encode()) < 2_000_000


def test_alive_bytes_are_the_sum_of_what_lives() -> None:
    def lives(first: int, last: int, size: int) -> Lifetime:
        return Lifetime("t", "internal", (1,), "int8", 0, size, first, last, 0)

    tensors = [lives(0, 1, 100), lives(1, 3, 20), lives(3, 3, 3), lives(-1, -1, 999)]
    assert alive_bytes(tensors, 5) == [100, 120, 20, 23, 0]


def test_the_memory_map_has_a_rectangle_for_each_tensor_in_use() -> None:
    model = load(RESIDUAL)
    graph = describe(model).graphs[0]
    blocks = page(model).having("g", "b")
    assert len(blocks) == len([tensor for tensor in graph.memory if tensor.first >= 0])
    assert len([block for block in blocks if "input" in block["class"]]) == 1


def test_markup_escapes_what_is_not_markup() -> None:
    inner = tag("i", "a<b")
    assert tag("p", inner, " & ", 3, None, title='"', hidden=True, id=None) == (
        '<p title="&quot;" hidden><i>a&lt;b</i> &amp; 3</p>'
    )
    assert join(["<", inner], " ") == "&lt; <i>a&lt;b</i>"
    assert breakable("/a/<b>") == "/<wbr>a/&lt;b&gt;"
    assert tag("rect", x=1.23456789) == '<rect x="1.23457"/>'


@pytest.mark.parametrize(
    ("text", "expected"),
    [("plain", "plain"), ("a\nb", "a\nb"), ("a\x1bb", "a\\u001bb"), ("abcdefghij", "abcd…ij"), ("⊕ ü", "⊕ ü")],
)
def test_clean_makes_names_readable(text: str, expected: str) -> None:
    assert clean(text, 7) == expected


def in_browser(path: Path, profile: Path) -> Iterator[str]:
    """The document after the script ran, then what the console said."""
    assert BROWSER is not None
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    flags += ["--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}"]
    flags += ["--enable-logging=stderr", "--v=0", "--dump-dom"]
    done = subprocess.run(
        [BROWSER, *flags, path.as_uri()], capture_output=True, text=True, check=True, timeout=120, encoding="utf-8"
    )
    yield done.stdout
    yield "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


@pytest.mark.skipif(BROWSER is None, reason="no browser: install chromium")
@pytest.mark.parametrize("name", ["calm", EVIL], ids=["calm", "hostile"])
def test_a_browser_runs_the_script_without_complaint(name: str, tmp_path: Path) -> None:
    model = load(RESIDUAL) if name == "calm" else renamed(load(RESIDUAL), name)
    (tmp_path / "page.html").write_text(render(describe(model), model), encoding="utf-8")
    document, console = in_browser(tmp_path / "page.html", tmp_path / "profile")
    assert console == ""
    assert re.search(r'<html[^>]*class="scripted"', document)
    assert re.search(r"<aside[^>]*><h3>#\d+ ", document)
    assert "<title>pwned" not in document

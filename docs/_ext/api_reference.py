"""The API reference: public names instead of the modules behind them, links from every `name` in a text.

- Types in signatures lead to the entry of their public name; those of Python and NumPy lead to their own sites, and
  what is not public stays a word.
- A name in code (`Session`, `openrknn.compile`, `session.bind`) becomes a link to its entry, in guides and docstrings.
- Dataclasses of many fields show the fields once, below, and not in their signature too.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from functools import cache
from typing import Any

from docstrings import as_rst
from docutils import nodes
from public_names import public_objects
from sphinx import addnodes
from sphinx.ext.autodoc.mock import mock
from sphinx.transforms import SphinxTransform

__all__ = ["setup"]

_SHORT = {
    "Session", "SessionPool", "PartedSession", "Outputs", "Specs", "RunFuture", "Decoder", "Carried", "Binding",
    "DmaBuf", "Matmul", "Model", "TensorSpec", "InputWarning", "CompileOptions", "Pipeline", "TextReader",
    "Transcriber", "Speaker", "VoiceActivity", "Denoiser", "InferenceSession", "NodeArg", "Transcript", "MemoryReport",
}  # fmt: skip
"""What a guide means when it says only this much; every error as well."""
_OTHER_PAGES = ("capi/", "hardware/", "operators", "compiler-targets")
"""Where such words mean something else: functions of C, registers, operators of ONNX."""
_MANY_FIELDS = 5
_ALIAS = re.compile(r"TypeAliasForwardRef\('([\w.]+)'\)")
_NAME = re.compile(r"(?P<name>[A-Za-z_][\w.]*)(?:\(.*\))?\Z", re.DOTALL)


def _behind(public: str) -> str:
    """The full name of the module's own definition."""
    value = public_objects()[public]
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"


@cache
def _aliases() -> dict[str, str]:
    """Definition -> public name."""
    return {_behind(public): public for public in public_objects()}


@cache
def _entries() -> dict[str, str]:
    """What a text may say -> the entry that it means."""
    found = {public: public for public in public_objects()}
    for public in public_objects():
        short = public.rpartition(".")[2]
        if short in _SHORT or short.endswith("Error"):
            found.setdefault(short, public)
    return found


def _entry_of(text: str, entries: dict[str, str]) -> str | None:
    match = _NAME.match(text)
    if match is None:
        return None
    name = match["name"]
    if name in entries:
        return entries[name]
    owner, _, member = name.rpartition(".")
    owner = "Session" if owner == "session" else owner
    public = entries.get(owner)
    if public is None or member.startswith("_") or not isinstance(public_objects()[public], type):
        return None
    return f"{public}.{member}" if hasattr(public_objects()[public], member) else None


class LinkNames(SphinxTransform):
    """Names in code become links."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        """For all code of the page that is not a link or a heading already."""
        page = self.env.docname
        entries = {
            word: entry for word, entry in _entries().items() if "." in word or not page.startswith(_OTHER_PAGES)
        }
        for literal in list(self.document.findall(nodes.literal)):
            target = _entry_of(literal.astext(), entries)
            if target is None or _is_inside(literal, (nodes.reference, nodes.title, addnodes.pending_xref)):
                continue
            link = addnodes.pending_xref(
                "", refdomain="py", reftype="obj", reftarget=target, refexplicit=True, refwarn=False, refdoc=page
            )
            literal.replace_self(link)
            link += literal


def _is_inside(node: nodes.Node, kinds: tuple[type[nodes.Node], ...]) -> bool:
    above = node.parent
    while above is not None:
        if isinstance(above, kinds):
            return True
        above = above.parent
    return False


def find_reference(app: Any, env: Any, node: Any, word: Any) -> Any:
    """What Sphinx found nothing for."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py":
        return None
    public = _aliases().get(target) or _entries().get(target)
    if public is not None and public != target:
        domain = env.get_domain("py")
        return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", public, node, word)
    top = target.partition(".")[0]
    if top == "numpy":
        return _outside(f"https://numpy.org/doc/stable/reference/generated/{target}.html", word)
    if "." in target and top in sys.stdlib_module_names:
        return _outside(f"https://docs.python.org/3/library/{target.rpartition('.')[0]}.html#{target}", word)
    return word  # not public: a word


def _outside(address: str, word: Any) -> Any:
    link = nodes.reference("", "", internal=False, refuri=address)
    link += word
    return link


def write_docstring(_app: Any, _what: str, _name: str, _value: Any, _options: Any, lines: list[str]) -> None:
    """As reStructuredText."""
    lines[:] = as_rst(lines)


def write_signature(
    _app: Any, what: str, _name: str, value: Any, _options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None] | None:
    """Without the fields that are listed below it, and without what only the message about wrong options needs."""
    if what == "class" and dataclasses.is_dataclass(value) and len(dataclasses.fields(value)) > _MANY_FIELDS:
        return "", None
    return _plain(signature), _plain(returned)


def _plain(text: str | None) -> str | None:
    """Aliases inside of other types by their names; without the catch-all that only refuses."""
    return None if text is None else _ALIAS.sub(r"~\1", text).replace(", **unknown: object", "")


def _collect(app: Any) -> None:
    with mock(app.config.autodoc_mock_imports):
        public_objects()


def setup(app: Any) -> dict[str, bool]:
    """For Sphinx."""
    app.connect("builder-inited", _collect)
    app.add_transform(LinkNames)
    app.connect("missing-reference", find_reference)
    app.connect("autodoc-process-docstring", write_docstring)
    app.connect("autodoc-process-signature", write_signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

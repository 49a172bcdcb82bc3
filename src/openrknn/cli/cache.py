"""`openrknn cache`: what is kept so that the next start is quicker, and how to be rid of it."""

from __future__ import annotations

import argparse

from openrknn.cli.common.output import Output

NAME = "cache"
HELP = "show what is kept for quicker starts, and clear it"
DESCRIPTION = """Show what openrknn keeps in your cache folder: prepared programs (models that ran once start sooner),
compiled parts of models, helpers, downloaded packages, mirrored models, files of virtual boards. All of it can be
removed at any time and is made again when it is needed. OPENRKNN_CACHE=FOLDER keeps it elsewhere, OPENRKNN_CACHE=off
keeps nothing."""
EXAMPLES = (
    "openrknn cache                    where it is, and how large",
    "openrknn cache --clear            remove what can be made again without a network",
    "openrknn cache --clear programs   remove one kind",
    "OPENRKNN_CACHE=off openrknn run model.rknn photo.jpg",
)

_KINDS = {
    "programs": "models that ran, decoded and with packed weights",
    "parts": "compiled parts of models for NPU and CPU",
    "llm": "what an interrupted llm compile has finished",
    "preload": "helpers for exec and spy, compiled here",
    "packages": "downloaded packages with models",
    "models": "mirrors of models from the network (serve)",
    "board": "kernel, modules and QEMU of virtual boards",
}
"""Folders of the cache -> what is in them."""
_FETCHED = ("packages", "models", "board")
"""What it takes a network to have again."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument(
        "--clear", metavar="KIND", nargs="?", const=True, choices=[*_KINDS, "all"],
        help=f"remove {', '.join(_KINDS)} or all (default: all but {', '.join(_FETCHED)})",
    )  # fmt: skip


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Clear what was asked for, and print what is there."""
    from openrknn.folders import cache_base

    base = cache_base()
    freed = sum(_clear(kind) for kind in _chosen(arguments.clear))
    found = {kind: _size(kind) for kind in _KINDS}
    if output.is_json:
        kinds = {kind: {"files": files, "bytes": size} for kind, (files, size) in found.items()}
        folder = None if base is None else str(base / "openrknn")
        output.data({"folder": folder, "kinds": kinds, "freed_bytes": freed if arguments.clear else None})
    elif output.is_human:
        _show(found, freed if arguments.clear else None, output)
    else:
        output.value(str(sum(size for _, size in found.values())))
    return 0


def _chosen(clear: str | bool | None) -> list[str]:
    """`True`: no kind was said."""
    if clear is True:
        return [kind for kind in _KINDS if kind not in _FETCHED]
    return list(_KINDS) if clear == "all" else [str(clear)] if clear else []


def _show(found: dict[str, tuple[int, int]], freed: int | None, output: Output) -> None:
    from openrknn.cli.common.tables import table
    from openrknn.folders import CACHE_VARIABLE, cache_base
    from openrknn.quantities import size_text

    base = cache_base()
    if freed is not None:
        output.line(f"freed {size_text(freed)}")
    if base is None:
        output.line(f"nothing is cached: {CACHE_VARIABLE} disables the cache, or you have no home folder")
        return
    output.line(f"{base / 'openrknn'} ({CACHE_VARIABLE} moves it, or switches it off)")
    drawn = table("kind", "files", "size", "what", wrap=["what"])
    for kind, (files, size) in found.items():
        drawn.add_row(kind, str(files), size_text(size), _KINDS[kind])
    output.show(drawn)


def _size(kind: str) -> tuple[int, int]:
    from openrknn.folders import cache_folder

    folder = cache_folder(kind, make=False)
    sizes = [] if folder is None else [path.lstat().st_size for path in folder.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)


def _clear(kind: str) -> int:
    """How many bytes that were. Links are removed, not followed."""
    import shutil

    from openrknn.folders import cache_folder

    _, size = _size(kind)
    folder = cache_folder(kind, make=False)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    return size - _size(kind)[1]

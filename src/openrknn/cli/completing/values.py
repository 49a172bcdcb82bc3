"""What can follow an option or stand as an argument: a table by option, command and metavar."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cache

from openrknn.cli.completing import candidates

__all__ = ["Values", "values_of"]


@dataclass(frozen=True, slots=True)
class Values:
    """Everything that may stand in one place."""

    words: tuple[str, ...] = ()
    ask: candidates.Ask | None = None
    """Looked up when it is needed."""
    files: tuple[str, ...] = ()
    """Endings of files; "" for all files."""
    folders: bool = False
    """Folders are a value, and not only a way to files."""

    def __or__(self, other: Values) -> Values:
        files = ("",) if "" in (*self.files, *other.files) else tuple(dict.fromkeys((*self.files, *other.files)))
        words = tuple(dict.fromkeys((*self.words, *other.words)))
        return Values(words, self.ask or other.ask, files, self.folders or other.folders)


_NONE = Values()
_ANY = Values(files=("",))
_FOLDER = Values(folders=True)
_MODEL = Values(files=("rknn", "rknnz"))
_ONNX = Values(files=("onnx",))
_HTML = Values(files=("html",))
_SOURCES = Values(
    files=("onnx", "tflite", "pt", "pt2", "pth", "pb", "keras", "h5", "cfg", "weights", "prototxt", "caffemodel"),
    folders=True,
)
_PICTURES = Values(files=("jpg", "jpeg", "png", "bmp", "webp", "gif", "mp4", "avi", "mkv", "mov"), folders=True)
_SOUNDS = Values(files=("wav", "flac", "mp3", "ogg", "m4a"))
_INPUT = Values(files=("jpg", "jpeg", "png", "bmp", "webp", "npy", "npz"))

_BY_OPTION: dict[tuple[str, str], Values] = {
    ("trace", "FILE"): Values(files=("trace", "log")),
    ("trace", "OTHER"): Values(files=("trace", "log")),
    ("trace", "--model"): _MODEL,
    ("disasm", "--op"): Values(ask=candidates.operators),
    ("compile", "MODEL"): _SOURCES,
    ("compile", "--fp16-layers"): Values(ask=candidates.nodes),
    ("compile", "--outputs"): Values(("heads",), ask=candidates.tensors),
    ("compile", "--calibrate"): Values(files=_INPUT.files, folders=True),
    ("compile", "--verify-with"): Values(files=_INPUT.files, folders=True),
    ("compile", "--weights"): Values(files=("weights", "caffemodel")),
    ("check", "MODEL"): _MODEL,
    ("evaluate", "MODEL"): Values(files=("rknn", "rknnz", "onnx"), ask=candidates.sets("transcriber"), folders=True),
    ("evaluate", "DATA"): Values(files=("json", "jsonl", "yaml", "csv", "tsv", "txt"), folders=True),
    ("detect", "MODEL"): _MODEL | _PICTURES,
    ("voice", "NAME|FOLDER|FILE"): Values(ask=candidates.voices, files=("onnx",), folders=True),
    ("voice", "--family"): Values(ask=candidates.voice_families),
    ("models", "NAME"): Values(ask=candidates.all_models),
    ("transcribe", "--model"): Values(ask=candidates.sets("transcriber"), folders=True),
    ("transcribe", "--vad"): Values(ask=candidates.sets("activity"), folders=True),
    ("denoise", "--model"): Values(ask=candidates.sets("denoiser"), folders=True),
    ("speak", "--voice"): Values(ask=candidates.sets("speaker"), files=("onnx",), folders=True),
    ("speak", "--output"): Values(files=("wav",)),
    ("serve", "--voice"): Values(ask=candidates.sets(None), folders=True),
    ("serve", "MODEL_OR_FOLDER"): Values(files=_MODEL.files, folders=True),
    ("listen", "--wake"): Values(ask=candidates.wake_words),
    ("doctor", "MODEL"): Values(files=("rknn", "rknnz", "whl")),
    ("doctor", "--report"): Values(files=("zip",)),
    ("exec", "PROGRAM ARGS..."): Values(ask=candidates.programs, files=("",)),
    ("spy", "PROGRAM ARGS..."): Values(ask=candidates.programs, files=("",)),
}
"""(command, its option or the metavar of its argument) -> what is special there."""

_BY_METAVAR: dict[str, Values] = {
    "MODEL": _MODEL, "MODEL.rknn": _MODEL, "OUT.rknn": _MODEL, "A": _MODEL, "B": _MODEL, "FILE": _ANY,
    "MODEL.onnx": _ONNX, "FIRST.onnx": _ONNX, "DIR": _FOLDER, "FOLDER": _FOLDER, "PREFIX": _FOLDER, "DATA": _ANY,
    "SOURCE": _PICTURES, "AUDIO": Values(("mic",), files=_SOUNDS.files), "IN": _SOUNDS, "OUT": _ANY, "OUT.html": _HTML,
    "[NAME=]FILE": _INPUT, "PEM": Values(files=("pem", "crt", "key")), "JSON": Values(files=("json",)), "PATH": _ANY,
    "PROGRAM": _ANY, "SET": Values(ask=candidates.sets(None), folders=True), "fp16|mixed": Values(("fp16", "mixed")),
}  # fmt: skip
_FILES_OF = ("inspect", "extract", "edit", "coverage", "disasm")
"""Commands whose FILE is a model."""
_RUN = ("run", "classify", "segment", "pose", "ocr", "detect", "stream", "check", "bench", "profile", "compare",
        "evaluate", "serve", "transcribe", "verify")  # fmt: skip
_DEVICES = ("auto", "software", "rknpu", "rocket", "vendor")


@cache
def _chips() -> Values:
    from openrknn.chips import CHIPS, VARIANTS

    return Values((*CHIPS, *VARIANTS))


@cache
def _families(task: str) -> Values:
    from openrknn.vision.families import FAMILIES

    tasks = {"ocr": ("text", "read"), "stream": None, "check": None, "evaluate": None}.get(task, (task,))
    return Values(tuple(family.name for family in FAMILIES if tasks is None or family.task in tasks))


def values_of(command: str, action: argparse.Action) -> Values:
    """What can stand there; nothing where only the user knows (numbers, texts, addresses)."""
    if action.choices is not None:
        return Values(tuple(str(choice) for choice in action.choices))
    name = action.option_strings[-1] if action.option_strings else str(action.metavar or action.dest)
    metavar = str(action.metavar or "")
    for key in (name, metavar):
        if (command, key) in _BY_OPTION:
            return _BY_OPTION[command, key]
    if name in ("--target", "--chip", "--software-chip"):
        return _chips()
    if name == "--device" and command in _RUN:
        return Values(_DEVICES)
    if name == "--family":
        return _families(command)
    if metavar == "FILE" and command in _FILES_OF and not action.option_strings:
        return _MODEL
    return _BY_METAVAR.get(metavar, _NONE)

"""A parted model: one zip with `.rknn` parts for the NPU, `.onnx` parts for the CPU, and a manifest that joins them.

    manifest.json       what the parts read and write, in which order they run, and why they were cut so
    parts/00.onnx       parts of the CPU, for ONNX Runtime
    parts/01.rknn       parts of the NPU

Values have the names of the ONNX model that was cut. A plan is an order of parts for one choice of input shapes; a file
has one plan, or several for a model with open dimensions.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from openrknn.container.dataclass_json import from_plain
from openrknn.container.onnxdata import refuse_external_data
from openrknn.errors import BadTextError, FormatError, NotRknnError, UnsupportedError
from openrknn.records import dataclass

if TYPE_CHECKING:
    import zipfile  # imported where a zip is opened: a session of an ordinary model needs none

SUFFIX = ".rknnz"
_FORMAT, _VERSION = "openrknn-parts", 1
_OTHERS = {
    "openrknn-decoder": "a decoder with a cache: openrknn.Decoder runs it token by token",
    "openrknn-language": "a language model: `openrknn chat` runs it, and openrknn.llm.npu.NpuEngine in Python",
    _FORMAT: "a model in parts: openrknn.Session runs it",
}
_MANIFEST = "manifest.json"
_MARK = b"PK\x03\x04"
_LOCAL = struct.Struct("<4s22xHH")
"""Before each file: the mark, the length of its name and of what follows that."""
_LARGE = 1 << 20
"""Files that are worth a mapping."""
_KINDS = {"npu": ".rknn", "cpu": ".onnx"}
_BOUNDED = (0, 8)
"""ZIP_STORED, ZIP_DEFLATED: Python inflates the others whole, whatever one asks for."""
_MAX_MANIFEST_BYTES = 16 * 1024 * 1024
_MAX_BYTES = 2**32
"""Of all parts that are read into memory."""
_MOST_PARTS = 10_000
_LARGEST = 2**62
_OPTIONAL = ("made_by", "precision", "padded", "notes", "masks")
"""What a manifest need not have."""


@dataclass(frozen=True, slots=True)
class Port:
    """An input or an output of the whole model."""

    name: str
    type: str
    """As ONNX Runtime writes it: "tensor(float)", "tensor(int64)"."""
    shape: tuple[int | str | None, ...]
    """Open dimensions have a name, or None."""


@dataclass(frozen=True, slots=True)
class Part:
    """Neighbouring operators that run together."""

    kind: str
    """ "npu" or "cpu"."""
    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """NPU parts: of inputs and outputs."""
    operators: int = 0
    macs: int = 0
    """Products of the operators in it."""
    npu_macs: int = 0
    """Those of them that the NPU computes: a `.rknn` can leave operators to the CPU, too."""
    npu_us: float | None = None
    """What the NPU needs for it by estimate, with its inputs and outputs; None: it cannot run there."""
    cpu_us: float = 0.0
    """What a board's processor would need for it."""
    reason: str = ""
    """Why it is where it is."""
    masks: tuple[str, ...] = ()
    """NPU parts: inputs that only say "far below every score" before a Softmax, however low their numbers are."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The parts, in the order in which they run, for one choice of input shapes."""

    parts: tuple[int, ...]
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Of the inputs; empty: any shapes (parts of the CPU only)."""


@dataclass(frozen=True)
class Bundle:
    """A parted model."""

    target: str
    """The chip that the NPU's parts are for."""
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    parts: tuple[Part, ...]
    plans: tuple[Plan, ...]
    files: Mapping[str, bytes] = field(repr=False)
    made_by: str = ""
    precision: str = ""
    padded: Mapping[str, int] = field(default_factory=dict)
    """Inputs whose dimension of this number may be filled up to the next larger plan without changing the rest."""
    notes: tuple[str, ...] = ()
    """What was decided, in words."""
    path: str | None = None

    @property
    def macs(self) -> int:
        """Of the first plan."""
        return sum(self.parts[number].macs for number in self.plans[0].parts)

    @property
    def npu_share(self) -> float:
        """Share of the first plan's products that the NPU computes; 1 where there are none at all."""
        return sum(self.parts[number].npu_macs for number in self.plans[0].parts) / self.macs if self.macs else 1.0


def is_bundle(source: object) -> bool:
    """Whether a path or bytes hold a zip with the manifest; whatever cannot be read is none."""
    try:
        if isinstance(source, bytes | bytearray | memoryview):
            return bytes(source[:4]) == _MARK and _has_manifest(BytesIO(source))
        if not isinstance(source, str | os.PathLike):
            return False
        with Path(source).open("rb") as file:
            return file.read(4) == _MARK and _has_manifest(file)
    except (OSError, ValueError):
        return False


def _has_manifest(file: Any) -> bool:
    import zipfile

    try:
        with zipfile.ZipFile(file) as archive:
            return _MANIFEST in archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError):
        return False


def write_bundle(bundle: Bundle, *, packed: bool = True) -> bytes:
    """The file. The same bundle gives the same bytes. `packed`: a fifth smaller, and slower to open."""
    manifest = {
        "format": _FORMAT,
        "version": _VERSION,
        **{name: getattr(bundle, name) for name in ("target", "made_by", "precision", "padded", "notes")},
        **{name: [asdict(one) for one in getattr(bundle, name)] for name in ("inputs", "outputs", "parts", "plans")},
    }
    return write_zip(manifest, bundle.files, packed=packed)


def write_zip(manifest: Mapping[str, Any], files: Mapping[str, bytes | memoryview], *, packed: bool) -> bytes:
    """A manifest and files; the same ones give the same bytes."""
    out = BytesIO()
    write_zip_to(out, manifest, {name: [data] for name, data in files.items()}, packed=packed)
    return out.getvalue()


def write_zip_to(
    out: BinaryIO, manifest: Mapping[str, Any], files: Mapping[str, Sequence[bytes | memoryview]], *, packed: bool
) -> None:
    """The same, to a file that is open; contents come in pieces, so that large ones need not be in memory twice."""
    import zipfile

    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        entries = [(_MANIFEST, [json.dumps(manifest, indent=1).encode()]), *sorted(files.items())]
        for name, pieces in entries:
            info = zipfile.ZipInfo(name)  # dated 1980: no clock gets into the file
            info.compress_type = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
            info.external_attr = 0o644 << 16
            info.file_size = sum(map(len, pieces))
            with archive.open(info, "w") as file:
                for piece in pieces:
                    file.write(piece)


def read_bundle(source: str | os.PathLike[str] | bytes) -> Bundle:
    """Read and check: names, sizes, that every value is there before it is read."""
    manifest, files, path = read_zip(source, _FORMAT, _VERSION, "a parted model")
    name = path or "the model"
    try:
        bundle = from_plain(Bundle, manifest, _OPTIONAL, files=files, path=path)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadTextError(f"the manifest of {name} is not one of a parted model: {error!r}") from None
    _check(bundle, name)
    return bundle


def read_zip(
    source: str | os.PathLike[str] | bytes, wanted: str, version: int, what: str, *, maps: bool = False
) -> tuple[dict[str, Any], dict[str, Any], str | None]:
    """Manifest, files and path of a zip of this format; sizes are bounded before anything is unpacked.

    `maps`: large files of a path that are not packed come as views of the mapped zip, and take memory only while they
    are read. The zip must not be truncated while a view is in use.
    """
    import zipfile
    import zlib

    path = None if isinstance(source, bytes | bytearray | memoryview) else os.fspath(source)
    name = path or "the model"
    try:
        with zipfile.ZipFile(BytesIO(source) if isinstance(source, bytes) else str(path)) as archive:
            manifest = _manifest(archive, name)
            _check_format(manifest, name, wanted, version, what)
            return manifest, _files(archive, name, str(path) if maps and path is not None else None), path
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise FormatError(f"{name} is a damaged zip: {error}") from None
    except KeyError:
        raise NotRknnError(f"{name} is a zip without {_MANIFEST}: not {what}") from None


def format_in(source: object) -> str:
    """What the manifest of a zip says that it is; empty where there is none."""
    if not is_bundle(source):
        return ""
    import zipfile
    import zlib

    try:
        data = BytesIO(source) if isinstance(source, bytes) else str(source)
        with zipfile.ZipFile(data) as archive:
            return str(_manifest(archive, "the model").get("format", ""))
    except (FormatError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, KeyError):
        return ""


def _manifest(archive: zipfile.ZipFile, name: str) -> dict[str, Any]:
    info = archive.getinfo(_MANIFEST)
    if info.file_size > _MAX_MANIFEST_BYTES or info.compress_type not in _BOUNDED:
        raise FormatError(f"the manifest of {name} has {info.file_size} bytes, or is packed in an unusual way")
    try:
        with archive.open(info) as file:
            found = json.loads(file.read(_MAX_MANIFEST_BYTES))
    except (ValueError, RecursionError) as error:
        raise BadTextError(f"the manifest of {name} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise NotRknnError(f"{name} is a zip, but not a model of openrknn")
    return found


def _check_format(found: Mapping[str, Any], name: str, wanted: str, version: int, what: str) -> None:
    made = found.get("format")
    if made != wanted:
        other = _OTHERS.get(made) if isinstance(made, str) else None
        raise NotRknnError(f"{name} is {other}" if other else f"{name} is a zip, but not {what} of openrknn")
    if found.get("version") != version:
        raise UnsupportedError(
            f"{name} is {what} of version {found.get('version')!r}; this openrknn reads {version}: compile the model "
            "again, or update openrknn"
        )


def _can_be_mapped(info: zipfile.ZipInfo) -> bool:
    """Whether it is stored uncompressed, and large enough for a mapping."""
    return info.compress_type == 0 and info.file_size >= _LARGE and not info.flag_bits & 1


def _files(archive: zipfile.ZipFile, name: str, mapped: str | None = None) -> dict[str, bytes | memoryview]:
    # `is_dir` of zipfile fails on a member without a name; a name that no part has is not read.
    entries = [info for info in archive.infolist()
               if info.filename != _MANIFEST and info.filename[-1:] not in ("", "/")]  # fmt: skip
    views = {info.filename for info in entries if mapped is not None and _can_be_mapped(info)}
    total = sum(info.file_size for info in entries if info.filename not in views)
    if total > _MAX_BYTES or len(entries) > _MOST_PARTS:
        raise FormatError(f"{name} has {len(entries)} parts of {total} bytes to read; {_MAX_BYTES} are allowed")
    files: dict[str, bytes | memoryview] = {}
    whole = None
    for info in entries:
        if info.compress_type not in _BOUNDED:
            raise FormatError(f"{info.filename} of {name} is packed in an unusual way; deflate is read")
        if info.filename in views and mapped is not None:
            if whole is None:
                with open(mapped, "rb") as file:
                    whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            files[info.filename] = _view(whole, info, name)
            continue
        with archive.open(info) as packed:
            files[info.filename] = packed.read(info.file_size)
    return files


def _view(whole: mmap.mmap, info: zipfile.ZipInfo, name: str) -> memoryview:
    """What a zip has of a file, after a look at all of it: its checksum."""
    import zlib

    head = whole[info.header_offset : info.header_offset + _LOCAL.size]
    if len(head) < _LOCAL.size:
        raise FormatError(f"{info.filename} is not within {name}")
    mark, name_bytes, extra_bytes = _LOCAL.unpack(head)
    start = info.header_offset + _LOCAL.size + name_bytes + extra_bytes
    if mark != _MARK or start + info.file_size > len(whole):
        raise FormatError(f"{info.filename} is not within {name}")
    view = memoryview(whole)[start : start + info.file_size]
    if zlib.crc32(view) != info.CRC:
        raise FormatError(f"{info.filename} of {name} is damaged: its checksum is another one; copy the file again")
    forget_pages([view])
    return view


def forget_pages(views: Iterable[object]) -> None:
    """Release the memory of the mapped files behind these views; a later access reads it from the file again."""
    files = {id(view.obj): view.obj for view in views if isinstance(view, memoryview)}
    for whole in files.values():
        if isinstance(whole, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            whole.madvise(mmap.MADV_DONTNEED)


def _check(bundle: Bundle, name: str) -> None:
    if not bundle.plans:
        raise FormatError(f"{name} has no plan: nothing says in which order its parts run")
    for number, part in enumerate(bundle.parts):
        if part.kind not in _KINDS:
            raise FormatError(f"part {number} of {name} is for {part.kind!r}; there are npu and cpu")
        if part.file not in bundle.files:
            raise FormatError(f"part {number} of {name} is {part.file!r}, which is not in the zip")
        if part.kind == "cpu":
            refuse_external_data(bundle.files[part.file], f"part {number} ({part.file}) of {name}")
        missing = [value for value in (*part.inputs, *part.outputs) if value not in part.shapes]
        if part.kind == "npu" and missing:
            raise FormatError(f"part {number} of {name} does not say which shape {missing[0]!r} has")
    _check_numbers(bundle, name)
    known = {port.name for port in bundle.inputs}
    for plan in bundle.plans:
        made = set(known)
        for number in plan.parts:
            if not 0 <= number < len(bundle.parts):
                raise FormatError(f"a plan of {name} runs part {number} of {len(bundle.parts)}")
            lost = [value for value in bundle.parts[number].inputs if value not in made]
            if lost:
                raise FormatError(f"part {number} of {name} reads {lost[0]!r}, which no part before it makes")
            made.update(bundle.parts[number].outputs)
        lost = [port.name for port in bundle.outputs if port.name not in made]
        if lost:
            raise FormatError(f"no part of {name} makes its output {lost[0]!r}")


def _check_numbers(bundle: Bundle, name: str) -> None:
    """JSON numbers have no limits: these are checked before they are added or used as sizes."""
    for number, part in enumerate(bundle.parts):
        found = (part.operators, part.macs, part.npu_macs, part.cpu_us, part.npu_us or 0.0)
        if not all(0 <= value < _LARGEST for value in found):
            raise FormatError(f"part {number} of {name} has operators, products and times that cannot be: {found}")
    for shapes in (*(part.shapes for part in bundle.parts), *(plan.shapes for plan in bundle.plans)):
        for value, shape in shapes.items():
            if not all(0 <= size < _LARGEST for size in shape):
                raise FormatError(f"{value!r} of {name} has a shape that cannot be: {shape}")

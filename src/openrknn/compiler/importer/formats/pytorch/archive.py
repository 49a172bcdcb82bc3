"""What a PyTorch file is, without running any of it; and a new file with only those members that are harmless.

`.pt2`, TorchScript and `torch.save` all write zips. Pickles inside them are programs: here they are only listed. What
PyTorch opens is never the file that was given, but `rewrite`'s.
"""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.pairs import Source, name_of
from openrknn.compiler.importer.formats.pytorch.pickles import check_tensors, is_tensor_name, names_in
from openrknn.compiler.importer.formats.pytorch.program import checked_payloads, checked_program
from openrknn.compiler.importer.formats.pytorch.zips import Archive, write_archive

_ROOT = "model/"
_OLD_PROGRAM = "serialized_exported_program.json"
_OLD_TENSORS = ("serialized_state_dict.pt", "serialized_constants.pt")
_OLD_INPUTS = "serialized_example_inputs.pt"
_PROGRAM, _INPUTS = "models/model.json", "data/sample_inputs/model.pt"
_PAYLOADS = {
    "data/weights/model_weights_config.json": ("data/weights/", re.compile(r"weight_\d+")),
    "data/constants/model_constants_config.json": ("data/constants/", re.compile(r"tensor_\d+")),
}
_SMALL = {"archive_format", "archive_version", "version", "byteorder", ".data/version"}
_MOST_WORD = 64
_STORED = re.compile(r"(data|constants)/\d{1,9}")
_CODE = re.compile(r"code/__torch__[A-Za-z0-9_./\-]*\.py")
_REACHES_OUT = re.compile(r"\b(from_file|torch\.save|aten::save|ops\.(?!aten\b|prim\b|torchvision\b|quantized\b)\w+)")
"""TorchScript has operators that open files; custom libraries have others."""
_SCRIPT_NAME = re.compile(
    r"__torch__[. ](?!torch\.classes\.)[\w. ]+|__torch__\.torch\.classes\.quantized\.[\w. ]+|torch\.jit\._pickle \w+"
)


def kind_of(source: Source) -> str:
    """pt2, script, state, module (pickled classes), ultralytics, unknown or legacy."""
    name = name_of(source)
    try:
        with Archive(source, name) as archive:
            names = set(archive.names)
            if "archive_format" in names or _OLD_PROGRAM in names:
                return "pt2"
            if "constants.pkl" in names and any(one.startswith("code/") for one in names):
                return "script"
            if "data.pkl" not in names:
                return "unknown"
            found = set(names_in(archive.read("data.pkl"), name))
    except zipfile.BadZipFile:
        return "legacy"
    if any(one.startswith("ultralytics") for one in found):
        return "ultralytics"
    return "state" if all(is_tensor_name(one) for one in found) else "module"


def rewrite(source: Source, kind: str, target: Path) -> None:
    """Write what PyTorch may open of a "pt2" or a "script"; an error if there is anything that could run code."""
    name = name_of(source)
    with Archive(source, name) as archive:
        known = {one: archive.read(one, _MOST_WORD) for one in archive.names if one in _SMALL}
        if kind == "script":
            write_archive(target, archive, {**known, **_script(archive)}, _ROOT)
        elif _OLD_PROGRAM in archive.names:
            write_archive(target, archive, {**known, **_old_program(archive)}, "")
        else:
            write_archive(target, archive, {**known, **_program(archive)}, _ROOT)


def _program(archive: Archive) -> dict[str, str | bytes]:
    members: dict[str, str | bytes] = {_PROGRAM: checked_program(_needed(archive, _PROGRAM), archive.name)}
    members[_INPUTS] = b""  # a pickle, and only used to show how the program is called
    for config, (folder, pattern) in _PAYLOADS.items():
        text, payloads = checked_payloads(_needed(archive, config), archive.name, pattern)
        members[config] = text
        for path, is_pickled in payloads.items():
            member = folder + path
            if member not in archive.names:
                raise ModelError(f"{archive.name}: {member!r} is missing; export the model again")
            members[member] = _tensors(archive, member) if is_pickled else member
    return members


def _old_program(archive: Archive) -> dict[str, str | bytes]:
    """Of PyTorch up to 2.7."""
    tensors = {one: _tensors(archive, one) for one in _OLD_TENSORS if one in archive.names}
    return {_OLD_PROGRAM: checked_program(_needed(archive, _OLD_PROGRAM), archive.name), **tensors, _OLD_INPUTS: b""}


def _needed(archive: Archive, member: str) -> bytes:
    if member not in archive.names:
        raise ModelError(f"{archive.name} has no {member!r}; export the model again with torch.export.save")
    return archive.read(member)


def _tensors(archive: Archive, member: str) -> bytes:
    """An archive of `torch.save` inside the archive, rewritten as well."""
    data = archive.read(member, 1 << 31)
    if not data:
        return b""
    try:
        inner = Archive(data, f"{archive.name}: {member}")
    except zipfile.BadZipFile:
        raise ModelError(
            f"{archive.name} has a pickle in {member!r} that is not a file of tensors; loading it could run any code. "
            "Export the model again without objects of its own"
        ) from None
    pickled = _needed(inner, "data.pkl")
    check_tensors(pickled, archive.name, member)
    kept: dict[str, str | bytes] = {one: one for one in inner.names if _STORED.fullmatch(one)}
    kept |= {one: inner.read(one, _MOST_WORD) for one in inner.names if one in _SMALL}
    stream = io.BytesIO()
    write_archive(stream, inner, {"data.pkl": pickled, **kept}, _ROOT)
    return stream.getvalue()


def _script(archive: Archive) -> dict[str, str | bytes]:
    """TorchScript: tensors, the pickles that PyTorch reads without Python, and code of its own language."""
    members: dict[str, str | bytes] = {}
    for one in ("data.pkl", "constants.pkl"):
        members[one] = pickled = _needed(archive, one)
        for found in names_in(pickled, archive.name):
            if not is_tensor_name(found) and not _SCRIPT_NAME.fullmatch(found):
                raise ModelError(
                    f"{archive.name} has a pickle in {one!r} that names {found[:80]!r}, which TorchScript does not "
                    "need; export the model again"
                )
    for one in archive.names:
        if _STORED.fullmatch(one):
            members[one] = one
        elif _CODE.fullmatch(one):
            members[one] = data = archive.read(one)
            if reaching := _REACHES_OUT.search(data.decode("utf-8", "replace")):
                raise ModelError(
                    f"{archive.name}: its code uses {reaching.group(0)!r}, an operator that reads or writes files or "
                    "that a library has to bring; export the model without it"
                )
    return members


"""A folder that a command fills: safe file names, an index of the files, and it never overwrites without --force."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openrknn.cli.common.files import os_problem
from openrknn.cli.common.output import CommandError
from openrknn.wholefiles import is_input, write_atomically

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["INDEX", "Folder", "safe_name"]

INDEX = "index.json"
_LONGEST_NAME = 80
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
# Names that Windows keeps for devices, whatever their suffix.
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?$")


def safe_name(text: str) -> str:
    """`text` as part of a file name: no separators, no leading dots, no devices, not too long, never empty.

    Different texts can become the same name; put a number in front.
    """
    name = _UNSAFE.sub("_", text).strip("._")[:_LONGEST_NAME]
    return f"_{name}" if not name or _DEVICES.match(name) else name


class Folder:
    """Files below one root; paths are made of fixed words and `safe_name`s.

    With `again`, a folder that the same command filled before may be filled again: the files of its index, no others.
    `again` names a file that only this command writes.
    """

    def __init__(self, root: str, *, force: bool = False, again: str = "") -> None:
        self.root = Path(root)
        self.force = force
        self.files: list[dict[str, Any]] = []
        self.again = again
        self._mine = self._earlier(again) if again else frozenset()
        self._prepare()

    def _earlier(self, mark: str) -> frozenset[str]:
        """The files that this command wrote here before."""
        try:
            index = json.loads((self.root / INDEX).read_bytes())
            paths = frozenset(entry["path"] for entry in index["files"])
        except (OSError, ValueError, KeyError, TypeError):
            return frozenset()
        return paths | {INDEX} if mark in paths else frozenset()

    def _prepare(self) -> None:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            if not self.force and not self._mine and any(self.root.iterdir()):
                way_out = "" if self.again else ", or use --force to overwrite files in it"
                raise CommandError(f"{self.root}: not empty; choose another directory{way_out}")
        except (FileExistsError, NotADirectoryError):
            raise CommandError(f"{self.root}: this is a file; give a directory") from None
        except OSError as error:
            raise CommandError(os_problem(error, str(self.root))) from error

    def add_bytes(self, path: str, data: bytes | memoryview, what: str, **about: Any) -> None:
        """Write a file and note what it is."""
        target = self.root / path
        if target.is_symlink() or (target.exists() and not target.is_file()):
            raise CommandError(f"{target}: already exists and is not a regular file; choose another directory")
        if target.exists() and not (self.force or path in self._mine):
            raise CommandError(f"{target}: already exists; choose another directory")
        if target.exists() and is_input(target):
            raise CommandError(f"{target}: the command reads this file, or its directory; choose another directory")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(target, bytes(data))
        except OSError as error:
            raise CommandError(os_problem(error, str(target))) from error
        self.files.append({"path": path, "what": what, "size_bytes": os.path.getsize(target), **about})

    def rewrite_text(self, path: str, text: str, what: str) -> None:
        """Write a text that this command may have written before in this run: a page that grows."""
        known = [entry for entry in self.files if entry["path"] == path]
        if known:
            self.files.remove(known[0])
            self._mine = self._mine | {path}
        self.add_text(path, text, what)

    def add_array(self, path: str, array: npt.NDArray[np.generic], what: str, **about: Any) -> None:
        """Write an array as .npy."""
        from io import BytesIO

        import numpy as np

        stream = BytesIO()
        np.save(stream, array, allow_pickle=False)
        about = {"shape": list(array.shape), "dtype": array.dtype.name, **about}
        self.add_bytes(path, stream.getbuffer(), what, **about)

    def add_text(self, path: str, text: str, what: str, **about: Any) -> None:
        """Write a text as UTF-8; half characters of a hostile file are escaped."""
        self.add_bytes(path, text.encode("utf-8", "backslashreplace"), what, **about)

    def add_json(self, path: str, value: object, what: str, **about: Any) -> None:
        """Write a value as JSON; NaN and infinity are not JSON, and refused with `ValueError`."""
        self.add_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n", what, **about)

    def checkpoint(self, **head: Any) -> None:
        """Write the index of what is there so far: after an interrupted run the next may fill the folder again."""
        files = self.files
        self.finish(**head)
        self.files, self._mine = files, self._mine | {INDEX}

    def finish(self, **head: Any) -> dict[str, Any]:
        """Write the index and return it."""
        index = {**head, "files": self.files}
        self.files = []
        self.add_json(INDEX, index, "what each file is")
        return index

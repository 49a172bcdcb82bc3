"""`Mirror`: the files of one source on this disk, none of which did not verify.

    FOLDER/
    ├── .state.json     what each file is: ETag, size, SHA-256, whether somebody promised that SHA-256
    ├── .lock           one process at a time changes it
    ├── .half-...       what is on its way
    └── scene.rknn ...  as in a repository

A model and what belongs to it (labels, model.toml, .sha256) changes as a whole: all of it is fetched and checked first,
then renamed into place. What fails to verify is thrown away, and the model that was there stays. The state names old
and new while files are renamed, so a process that is killed there leaves a mirror that verifies.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from openrknn.serve.sources.address import MODEL_SUFFIXES, relative_path
from openrknn.serve.sources.errors import CacheError, ChecksumError, GoneError, MissingError, SourceError, TooMuchError
from openrknn.serve.sources.http_client import Bounds
from openrknn.serve.sources.item import Item, Remote
from openrknn.serve.sources.state import HALF, LOCK, STATE, Kept, locked, matching, read_state, write_state

__all__ = ["Mirror", "Outcome"]

_LOG = logging.getLogger(__name__)
_SUM = re.compile(rb"\s*([0-9a-fA-F]{64})(\s|$)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one look at a source came to."""

    changed: Sequence[str] = ()
    """Models whose files are new."""
    removed: Sequence[str] = ()
    problems: Sequence[SourceError] = ()
    files: int = 0
    """That are there now."""


_State = dict[str, Kept]


class Mirror:
    """One source and its folder."""

    def __init__(self, folder: Path, bounds: Bounds, *, require_checksum: bool = False, sha256: str = "") -> None:
        self.folder, self._bounds, self._require, self._sha256 = folder, bounds, require_checksum, sha256
        self._is_checked = False
        self._refused: dict[str, tuple[Sequence[Item], ChecksumError]] = {}
        """Models that did not verify: the same bytes would not the next time either, and are not fetched again."""

    def verified(self) -> int:
        """Look at what is there without asking anybody; what is not as it was left is removed. -> how many files."""
        with locked(self.folder):
            return len(self._now())

    def sync(self, remote: Remote) -> Outcome:
        """Follow the source. It raises where the source cannot be read at all; then nothing has changed."""
        with locked(self.folder):
            state = self._now()
            problems: list[SourceError] = []
            try:
                items = remote.items()
            except GoneError as error:
                items, problems = [], [error]
            self._bound(items)
            changed = []
            groups: dict[str, list[Item]] = {}
            for item in items:
                groups.setdefault(_group(item.path), []).append(item)
            for name, members in groups.items():
                try:
                    if self._follow(name, members, state, remote):
                        changed.append(name)
                except GoneError as error:
                    problems.append(error)
                    self._drop({path for path in state if _group(path) == name}, state)
                except SourceError as error:
                    problems.append(error)
            gone = {path for path in state if _group(path) not in groups}
            self._drop(gone, state)
            return Outcome(changed, sorted({_group(path) for path in gone}), problems, len(state))

    def _bound(self, items: Sequence[Item]) -> None:
        if len(items) > self._bounds.files:
            raise TooMuchError(f"there are {len(items)} files; {self._bounds.files} are allowed")
        total = sum(item.size or 0 for item in items)
        if total > self._bounds.total_bytes:
            raise TooMuchError(f"there are {total} bytes; {self._bounds.total_bytes} are allowed")
        for item in items:
            assert relative_path(item.path) == item.path, item.path  # else it would leave the folder

    def _follow(self, name: str, items: Sequence[Item], state: _State, remote: Remote) -> bool:
        """Bring one model to what the source has. -> whether something changed."""
        if name in self._refused and self._refused[name][0] == items:
            raise self._refused[name][1]
        halves: dict[str, Path] = {}
        try:
            fresh: _State = {}
            for item in items:
                kept = self._file(item, state.get(item.path), remote, halves)
                if kept is not None:
                    fresh[item.path] = kept
            fresh = {path: self._proved(path, kept, fresh, halves) for path, kept in fresh.items()}
            old = {path: kept for path, kept in state.items() if _group(path) == name}
            if fresh == old:
                return False
            self._commit(old, fresh, halves, state)
            return any(path not in old or old[path].sha256 != kept.sha256 for path, kept in fresh.items())
        except ChecksumError as error:
            if all(item.tag for item in items):
                self._refused[name] = (items, error)
            raise
        except OSError as error:
            raise CacheError(f"{name}: the cache cannot be written: {error}") from None
        finally:
            for half in halves.values():
                half.unlink(missing_ok=True)

    def _file(self, item: Item, old: Kept | None, remote: Remote, halves: dict[str, Path]) -> Kept | None:
        if item.size is not None and item.size > self._bounds.file_bytes:
            raise TooMuchError(f"{item.path} has {item.size} bytes; {self._bounds.file_bytes} are allowed")
        is_same = old is not None and item.sha256 in {"", old.sha256}
        if old is not None and is_same and (item.sha256 or (item.tag and item.tag == old.tag)):
            return Kept(item.tag or old.tag, old.size, old.sha256, old.is_promised or bool(item.sha256))
        descriptor, half = tempfile.mkstemp(prefix=HALF, dir=self.folder)
        with os.fdopen(descriptor, "w+b") as file:
            halves[item.path] = Path(half)
            try:
                got = remote.fetch(item, old.tag if old is not None and is_same else "", cast("BinaryIO", file))
            except MissingError:
                if item.is_optional:
                    halves.pop(item.path).unlink()
                    return None
                raise
            if got is None:
                halves.pop(item.path).unlink()
                return old
            os.fsync(file.fileno())
        if item.size is not None and item.size != got.size:
            raise ChecksumError(f"{item.path} has {got.size} bytes and should have {item.size}")
        for promised in (item.sha256, got.promised):
            if promised and promised != got.sha256:
                raise ChecksumError(f"{item.path} has SHA-256 {got.sha256[:16]}... and should have {promised[:16]}...")
        return Kept(got.tag, got.size, got.sha256, bool(item.sha256 or got.promised))

    def _proved(self, path: str, kept: Kept, fresh: Mapping[str, Kept], halves: Mapping[str, Path]) -> Kept:
        """Compare with the .sha256 beside it; where everything needs a checksum, see that it has one."""
        beside = f"{path}.sha256"
        if beside in fresh:
            found = _SUM.match(_head(halves.get(beside, self.folder / beside)))
            if found is None:
                raise ChecksumError(f"{beside} does not begin with a SHA-256 of 64 digits")
            if found[1].decode().lower() != kept.sha256:
                raise ChecksumError(
                    f"{path} has SHA-256 {kept.sha256[:16]}..., {beside} says {found[1].decode()[:16]}..."
                )
            kept = Kept(kept.tag, kept.size, kept.sha256, True)
        if self._require and path.endswith(MODEL_SUFFIXES) and not kept.is_promised:
            raise ChecksumError(f"{path} has no checksum, and one is required: put {Path(beside).name} beside it")
        return kept

    def _commit(self, old: _State, fresh: _State, halves: dict[str, Path], state: _State) -> None:
        write_state(self.folder, state, fresh)
        for path in sorted(halves):
            place = self.folder / path
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            halves[path].rename(place)
            state[path] = fresh[path]
        halves.clear()
        state.update(fresh)
        self._drop(old.keys() - fresh.keys(), state)
        write_state(self.folder, state)

    def _drop(self, paths: Collection[str], state: _State) -> None:
        gone = list(paths)
        for path in gone:
            with contextlib.suppress(OSError):
                (self.folder / path).unlink(missing_ok=True)
            state.pop(path, None)
            for parent in list((self.folder / path).parents)[: path.count("/")]:
                with contextlib.suppress(OSError):
                    parent.rmdir()
        if gone:
            write_state(self.folder, state)

    # -- state ---------------------------------------------------------------------------------------------------

    def _now(self) -> _State:
        """What is there: digests are compared once in a process, afterwards existing files are trusted."""
        if not self._is_checked:
            state = self._checked()
            write_state(self.folder, state)
            self._is_checked = True
            return state
        known = {name: kept[-1] for name, kept in read_state(self.folder).items() if kept}
        return {name: kept for name, kept in known.items() if _size(self.folder / name) == kept.size}

    def _checked(self) -> _State:
        """What the state says and the disk has; everything else in the folder is removed."""
        known = read_state(self.folder)
        found: _State = {}
        for path in [entry for entry in self.folder.rglob("*") if entry.is_symlink() or not entry.is_dir()]:
            name = path.relative_to(self.folder).as_posix()
            if name in {STATE, LOCK}:
                continue
            kept = matching(path, known.get(name, ()))
            if kept is not None and self._is_allowed(name, kept):
                found[name] = kept
            else:
                if not name.startswith(HALF):
                    _LOG.warning("%s is not as it was fetched, or not proved: it is removed", path)
                with contextlib.suppress(OSError):
                    path.unlink()
        return found

    def _is_allowed(self, name: str, kept: Kept) -> bool:
        if not name.endswith(MODEL_SUFFIXES):
            return True
        return (kept.is_promised or not self._require) and self._sha256 in {"", kept.sha256}


def _group(path: str) -> str:
    """The model that a file belongs to."""
    first, slash, _ = path.partition("/")
    if slash:
        return first
    name = first.removesuffix(".sha256")
    for suffix in (*MODEL_SUFFIXES, ".labels.txt"):
        name = name.removesuffix(suffix)
    return name


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4096)

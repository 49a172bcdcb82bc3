"""Files as packages and layers hold them: with root as owner, one time, and an order."""

from __future__ import annotations

import io
import os
import posixpath
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packing.errors import PackingError

# Some of Debian's packages still name these; they are links into /usr.
_MERGED = ("bin", "lib", "lib64", "sbin")


@dataclass
class Tree:
    """The files of one layer, by path without a leading slash. What is added later replaces what was there."""

    time: int
    entries: dict[str, tuple[tarfile.TarInfo, bytes]] = field(default_factory=dict)

    def file(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Add a file of root's."""
        self._add(path, tarfile.REGTYPE, mode, data=data)

    def folder(self, path: str, mode: int = 0o755, owner: int = 0) -> None:
        """Add a folder."""
        self._add(path, tarfile.DIRTYPE, mode, owner=owner)

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        self._add(path, tarfile.SYMTYPE, 0o777, link=target)

    def _add(self, path: str, kind: bytes, mode: int, *, data: bytes = b"", link: str = "", owner: int = 0) -> None:
        name = clean_path(path)
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode, entry.linkname, entry.size = kind, mode, link, len(data)
        entry.uid = entry.gid = owner
        self.entries[name] = (entry, data)

    def tar_of(self, data: bytes, skip: Sequence[str] = ()) -> None:
        """Add what is in a tar (a Debian package's), without what is below the folders of `skip`."""
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                if member.name.strip("./") == "":
                    continue
                path = clean_path(member.name)
                if any(path == name or path.startswith(f"{name}/") for name in skip) or path in _MERGED:
                    continue
                if member.isdir():
                    self.folder(path, member.mode & 0o7777)
                elif member.issym():
                    self.link(path, member.linkname)
                elif member.isreg() or member.islnk():  # a hard link becomes a copy: layers stay simple
                    source = archive.extractfile(member)
                    if source is None:
                        raise PackingError(f"{member.name} in a package leads nowhere")
                    self.file(path, source.read(), member.mode & 0o755)
                else:
                    raise PackingError(f"{member.name} in a package is neither file, folder nor link")

    def folder_of(self, source: Path, target: str) -> None:
        """Add a folder of this machine with everything below it."""
        for path in sorted(source.rglob("*")):
            name = f"{target}/{path.relative_to(source).as_posix()}"
            if path.is_symlink():
                self.link(name, path.readlink().as_posix())
            elif path.is_dir():
                self.folder(name)
            else:
                self.file(name, path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644)

    def complete(self) -> None:
        """Add the folders that nobody named."""
        for path in list(self.entries):
            parent = posixpath.dirname(path)
            while parent and parent not in self.entries:
                self.folder(parent)
                parent = posixpath.dirname(parent)

    def tar(self) -> bytes:
        """A tar: folders before what is in them, everything sorted."""
        self.complete()
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for path in sorted(self.entries):
                entry, data = self.entries[path]
                entry.mtime = self.time
                archive.addfile(entry, io.BytesIO(data) if entry.isreg() else None)
        return out.getvalue()

    def unpack(self, target: Path) -> None:
        """Write it into a new folder, with one time for everything."""
        target.mkdir(parents=True, exist_ok=True)
        target.chmod(0o755)
        self.complete()
        folders = [target]
        for name, (entry, data) in sorted(self.entries.items()):
            path = target / name
            if entry.isdir():
                path.mkdir(exist_ok=True)
                folders.append(path)
            elif entry.issym():
                path.symlink_to(entry.linkname)
            else:
                path.write_bytes(data)
            if not entry.issym():
                path.chmod(entry.mode)
            os.utime(path, (self.time, self.time), follow_symlinks=False)
        for path in reversed(folders):  # what is written into a folder changes its time
            os.utime(path, (self.time, self.time))


def clean_path(path: str) -> str:
    """A path of a layer: without a leading slash or dot, below /usr where today's systems have it, never upwards."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        raise PackingError(f"{path!r} is no path below the root of an image")
    if parts[0] in _MERGED and len(parts) > 1:
        parts.insert(0, "usr")
    return "/".join(parts)

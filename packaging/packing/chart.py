"""The Helm chart as the one file that `helm install` takes, without Helm."""

import gzip
import io
import re
import tarfile
from pathlib import Path

from packing import sources
from packing.errors import PackingError

__all__ = ["FOLDER", "build_chart", "semver", "set_version"]

FOLDER = "deploy/helm/openrknn"


def semver(version: str) -> str:
    """A version of Python's packages as Helm spells it: 0.1.0rc1 becomes 0.1.0-rc.1."""
    match = re.fullmatch(r"(\d+\.\d+\.\d+)(?:\.?(a|b|rc|dev)(\d+))?", version)
    if match is None:
        raise PackingError(f"{version}: Helm has no such versions")
    base, kind, number = match.groups()
    return f"{base}-{kind}.{number}" if kind else base


def set_version(root: Path, version: str) -> None:
    """Write both versions into Chart.yaml."""
    file = root / FOLDER / "Chart.yaml"
    text = file.read_text("utf-8")
    for key, value in (("version", semver(version)), ("appVersion", version)):
        text, count = re.subn(rf"^{key}: .*$", f"{key}: {value}", text, flags=re.MULTILINE)
        if count != 1:
            raise PackingError(f"{file} has {count} lines that begin with {key!r}; one is needed")
    file.write_text(text, "utf-8")


def build_chart(root: Path, out: Path) -> Path:
    """openrknn-VERSION.tgz, of the files that git knows, equal in every byte each time."""
    folder = root / FOLDER
    names = sorted(name for name in sources.tracked(root) if name.startswith(f"{FOLDER}/"))
    wanted = f"version: {semver(sources.version(root))}\n"
    if wanted not in (folder / "Chart.yaml").read_text("utf-8"):
        raise PackingError(f"{FOLDER}/Chart.yaml is of another version; it needs {wanted.strip()!r}")
    content = io.BytesIO()
    epoch = sources.epoch(root)
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in names:
            data = (root / name).read_bytes()
            member = tarfile.TarInfo(f"openrknn/{name.removeprefix(f'{FOLDER}/')}")
            member.size, member.mode, member.mtime = len(data), 0o644, epoch
            archive.addfile(member, io.BytesIO(data))
    made = out / f"openrknn-{semver(sources.version(root))}.tgz"
    made.write_bytes(gzip.compress(content.getvalue(), mtime=epoch))
    return made

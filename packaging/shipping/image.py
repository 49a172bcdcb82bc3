"""The container image for arm64 and amd64, made on either, without a container tool, a base image or root.

The lowest layer are Debian's packages of Python with all that they need, unpacked and not configured: no maintainer
script runs, so no emulator is needed for the other architecture and every build is the same. There is no shell in it.
"""

from __future__ import annotations

import platform
import re
import subprocess
import tempfile
from pathlib import Path

from packing import sources
from packing.errors import PackingError

from shipping import debs, site, source
from shipping.oci import Layout, Platform
from shipping.tree import Tree

SUITE, PYTHON = "trixie", "3.13"
USER = 65532
EXAMPLES = ("models/efficientnet_lite0_rk3588_i8.rknn", "images/cat.jpg")
"""What the example pods of deploy/kubernetes run, in /opt/openrknn/examples."""
# libstdc++6: NumPy's and gRPC's wheels need it and do not bring it.
_PACKAGES = ("python3-minimal", "libpython3-stdlib", "libstdc++6", "tzdata")
# Only the files: what it depends on is for its scripts.
_ALONE = ("base-files", "ca-certificates")
_SKIPPED = (
    "usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian", "usr/share/bug", "usr/share/menu",
    "usr/share/pixmaps", "usr/share/applications", "usr/share/base-files", "usr/share/debconf", "usr/sbin",
    "var/cache", "var/lib/apt", "etc/apt", "etc/dpkg", "etc/init.d", "etc/cron.daily", "etc/skel", "etc/profile.d",
)  # fmt: skip
_UNUSED = re.compile(r"usr/lib/[^/]+/gconv(/|$)|usr/lib/python[^/]+/(test|pydoc_data|idlelib)(/|$)")
"""Tables of iconv, which Python does not use; tests and the texts of its help."""
_SITE = f"usr/local/lib/python{PYTHON}/dist-packages"
_START = b"#!/usr/bin/python3\nimport sys\n\nfrom openrknn.cli.__main__ import start\n\nsys.exit(start())\n"
_ENGINE = b"#!/usr/bin/python3\nimport sys\n\nfrom openrknn.capi.engine import main\n\nsys.exit(main())\n"


def build(root: Path, wheels: Path, out: Path) -> list[Path]:
    """Write openrknn-VERSION-image.tar into `out`, for the architectures whose wheels are there."""
    version, time = sources.version(root), sources.epoch(root)
    layout, manifests = Layout(), []
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        compiler = Compiler(work / "compiler")
        for architecture, wheel in site.wheels_in(wheels, version).items():
            layers = _layers(root, wheel, architecture, time, work=work, compiler=compiler)
            image = Platform(architecture, layers)
            manifests.append(layout.image(image, started(), _labels(root, version), time))
    layout.finish(manifests, f"openrknn:{version}", _labels(root, version))
    path = out / f"openrknn-{version}-image.tar"
    layout.write(path, time)
    return [path]


def started() -> dict[str, object]:
    """How the image is started; Kubernetes' `command:` replaces the entry point."""
    return {
        "User": f"{USER}:{USER}",
        "Env": ["PATH=/usr/local/bin:/usr/bin", "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1", "LANG=C.UTF-8"],
        "Entrypoint": ["openrknn"],
        # Everybody who reaches the ports may ask: it does not start without a token (OPENRKNN_TOKEN, or --token-file).
        "Cmd": ["serve", "--host=0.0.0.0", "--require-token", "/models"],
        "ExposedPorts": {"8000/tcp": {}, "8001/tcp": {}},
        "WorkingDir": "/home/openrknn",
    }


def _labels(root: Path, version: str) -> dict[str, str]:
    names = {
        "title": "openrknn",
        "description": "Run and serve .rknn models, with or without an NPU",
        "licenses": "Apache-2.0",
        "version": version,
        "revision": source.revision(root),
        "source": sources.homepage(root),
    }
    return {f"org.opencontainers.image.{name}": value for name, value in names.items() if value}


def _layers(
    root: Path, wheel: Path, architecture: str, time: int, *, work: Path, compiler: Compiler
) -> list[tuple[str, bytes]]:
    folder = work / architecture
    system = _system(architecture, time, folder / "apt")
    packages, own = _python(root, wheel, architecture, time, folder / "site")
    for name in EXAMPLES:
        own.link(f"opt/openrknn/examples/{Path(name).name}", f"/{_SITE}/openrknn/examples/{name}")
    for tree in (system, packages, own):
        compiler.compile(tree)
    return [
        (f"Debian {SUITE}: {' '.join(_PACKAGES)}", system.tar()),
        (f"Python packages of openrknn[{','.join(site.EXTRAS)}]", packages.tar()),
        (wheel.name, own.tar()),
    ]


def _system(architecture: str, time: int, work: Path) -> Tree:
    """Debian's files, and the few that its scripts would write."""
    tree = Tree(time)
    packages = debs.Packages(SUITE, architecture, work)
    for package in [*packages.closure(_PACKAGES), *packages.alone(_ALONE)]:
        name, fields = debs.control(package)
        tree.tar_of(debs.files(package), skip=_SKIPPED)
        tree.file(f"var/lib/dpkg/status.d/{name}", fields)  # where scanners look for packages without a database
    for path in list(tree.entries):
        document = path.startswith("usr/share/doc/") and tree.entries[path][0].isreg()
        if _UNUSED.match(path) or (document and not path.endswith("/copyright")):
            del tree.entries[path]
    for name in ("bin", "lib", "sbin", *(["lib64"] if architecture == "amd64" else [])):
        tree.link(name, f"usr/{name}")
    authorities = sorted(path for path in tree.entries if path.startswith("usr/share/ca-certificates/mozilla/"))
    bundle = b"".join(tree.entries[path][1] for path in authorities if path.endswith(".crt"))
    tree.file("etc/ssl/certs/ca-certificates.crt", bundle)
    users = f"root:x:0:0:root:/root:/nologin\nopenrknn:x:{USER}:{USER}::/home/openrknn:/nologin\n"
    tree.file("etc/passwd", users.encode())
    tree.file("etc/group", f"root:x:0:\nopenrknn:x:{USER}:\n".encode())
    tree.file("etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\n")
    tree.folder("tmp", 0o1777)
    tree.folder("models")
    tree.folder("home/openrknn", 0o755, USER)
    return tree


def _python(root: Path, wheel: Path, architecture: str, time: int, folder: Path) -> tuple[Tree, Tree]:
    """What pip would install in a root of that architecture: others' packages, and our own."""
    site.install(root, wheel, architecture, PYTHON, folder)
    everything = Tree(time)
    everything.folder_of(folder, _SITE)
    packages, own = Tree(time), Tree(time)
    for path, entry in everything.entries.items():
        inside = path.removeprefix(f"{_SITE}/")
        if site.unwanted(inside):
            continue
        mine = inside.startswith(("openrknn/", "openrknn-")) or inside == "openrknn"
        (own if mine else packages).entries[path] = entry
    own.file("usr/local/bin/openrknn", _START, 0o755)
    own.file("usr/local/bin/openrknn-engine", _ENGINE, 0o755)
    return packages, own


class Compiler:
    """Debian's Python of the image for this machine, which compiles modules: their bytecode suits every processor."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        machine = platform.machine()
        architecture = site.ARCHITECTURES.get(machine)
        if architecture is None:
            raise PackingError(f"images are made on {' and '.join(site.MACHINES.values())}, not on {machine}")
        packages = debs.Packages(SUITE, architecture, folder / "apt")
        self.root = folder / "root"
        for package in packages.closure(_PACKAGES):
            subprocess.run(["dpkg-deb", "-x", str(package), str(self.root)], check=True)
        (self.loader,) = self.root.glob("usr/lib/*-linux-gnu/ld-linux-*.so.*")

    def compile(self, tree: Tree) -> None:
        """Add the bytecode of all modules of a layer, never checked against the source: starting takes half as long."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            work = Path(name)
            for path, (entry, data) in tree.entries.items():
                if entry.isreg() and path.endswith(".py"):
                    (work / path).parent.mkdir(parents=True, exist_ok=True)
                    (work / path).write_bytes(data)
            python = self.root / f"usr/bin/python{PYTHON}"
            command = [str(self.loader), "--library-path", str(self.loader.parent), str(python), "-m", "compileall"]
            command += ["-qq", "--invalidation-mode=unchecked-hash", "-s", str(work), "-p", "/", str(work)]
            environment = {"PYTHONHOME": str(self.root / "usr"), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}
            subprocess.run(command, env=environment, check=False)  # templates that are no Python stay uncompiled
            for module in sorted(work.rglob("*.pyc")):
                tree.file(module.relative_to(work).as_posix(), module.read_bytes())

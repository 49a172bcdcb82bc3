"""Clean roots: small systems that are made once, kept in a folder, and used through a copy that is thrown away."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packing.errors import PackingError

from shipping.emulation import emulated
from shipping.site import ARCHITECTURES

USER = 1000
"""Nobody installs a wheel as root: the roots have a user of this number."""
# No ca-certificates: pip is given those of this machine, and under emulation its scripts take minutes.
_PYTHON = ("python3", "python3-venv")
_BASE = ("base-files", "bash", "coreutils", "dash", "findutils", "grep", "sed", "util-linux")
_COMPILER = ("gcc", "libc6-dev")
UBUNTU_MIRROR = "OPENRKNN_UBUNTU_MIRROR"
"""Names the address of an archive of Ubuntu, which Debian's tools do not know by themselves."""
_UBUNTU_KEYS = Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg")
_SUITES = {
    "debian-11": "bullseye", "debian-12": "bookworm", "debian-13": "trixie",
    "ubuntu-22.04": "jammy", "ubuntu-24.04": "noble",
}  # fmt: skip
_PASSED = ("http_proxy", "https_proxy", "no_proxy", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_ALONE = ("unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--mount-proc", "--")
_INSIDE = """
set -eu
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$UPPER,workdir=$WORK" "$MERGED"
mkdir -p "$MERGED/proc" "$MERGED/dev"
mount -t proc proc "$MERGED/proc"
mount -t tmpfs -o mode=755 tmpfs "$MERGED/dev"
mkdir "$MERGED/dev/shm"
for node in null zero full random urandom; do
    : > "$MERGED/dev/$node"
    mount --bind "/dev/$node" "$MERGED/dev/$node"
done
ln -s /proc/self/fd "$MERGED/dev/fd"
mount -t tmpfs -o mode=1777 tmpfs "$MERGED/dev/shm"
for pair in $BINDS; do
    mkdir -p "$MERGED/${pair#*=}"
    mount --bind "${pair%%=*}" "$MERGED/${pair#*=}"
    parent="$(dirname "${pair#*=}")"
    while [ "$parent" != / ] && [ "$parent" != . ]; do  # the user has to get there
        chmod a+x "$MERGED/$parent"
        parent="$(dirname "$parent")"
    done
done
for pair in $FILES; do mkdir -p "$(dirname "$MERGED/${pair#*=}")"; cp -L "${pair%%=*}" "$MERGED/${pair#*=}"; done
ip link set lo up 2> /dev/null || true
exec env -i "$@"
"""


@dataclass(frozen=True)
class Root:
    """A clean system: which one, for which processor, with what beyond the least, and with whose Python."""

    system: str
    architecture: str
    packages: tuple[str, ...] = ()
    python: Path | None = None
    """The prefix of a Python of this machine, seen in the root where it is here; None: the system's own."""
    label: str = ""
    configured: bool = True
    """False: packages are unpacked and their scripts do not run, which under emulation would take most of an hour."""

    @property
    def name(self) -> str:
        """How tables call it."""
        return self.label or self.system

    @property
    def folder(self) -> str:
        """How its folder in the cache is called: roots that differ only in a Python that is bound in share one."""
        more = ("-gcc" if "gcc" in self.packages else "") + ("" if self.configured else "-unpacked")
        return f"{self.system}-{self.architecture}{more}"

    @property
    def foreign(self) -> bool:
        """Whether it needs an emulator here."""
        return self.architecture != here()


@dataclass(frozen=True)
class Ran:
    """What a program in a root said."""

    code: int
    output: str
    errors: str


def here() -> str:
    """This machine's architecture in Debian's words."""
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise PackingError(f"{machine} is no processor that packages are made for ({', '.join(ARCHITECTURES)})")
    return ARCHITECTURES[machine]


def debian(release: int, architecture: str, *, compiler: bool = False) -> Root:
    """Debian's least system with Python and venv, with or without a compiler."""
    packages = (*_PYTHON, *(_COMPILER if compiler else ()))
    return Root(f"debian-{release}", architecture, packages, label=f"debian-{release}" + (", gcc" if compiler else ""))


def ubuntu(release: str, architecture: str) -> Root:
    """Ubuntu's least system with Python and venv."""
    return Root(f"ubuntu-{release}", architecture, _PYTHON)


def unpacked(root: Root) -> Root:
    """The same system without its packages' scripts: enough for Python, not for apt."""
    return replace(root, packages=(*_BASE, *root.packages), configured=False, label=root.name)


def with_python(root: Root, interpreter: Path) -> Root:
    """The same system with a Python of this machine: what is on PATH, or what pyenv or a tool cache keeps."""
    command = [str(interpreter), "-c", "import sys; print(sys.base_prefix, '%d.%d' % sys.version_info[:2])"]
    try:
        prefix, version = subprocess.run(command, check=True, capture_output=True, text=True).stdout.rsplit(maxsplit=1)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PackingError(f"{interpreter} is no Python that runs: {error}") from error
    return Root(root.system, root.architecture, root.packages, Path(prefix), f"{root.system}, python {version}")


def runs(interpreter: Path) -> bool:
    """Whether it is a Python that runs; pyenv's shims of versions that nobody chose do not."""
    return subprocess.run([str(interpreter), "-c", ""], capture_output=True, check=False).returncode == 0


def make(root: Root, cache: Path) -> Path:
    """The folder of a root, made if it is not there."""
    folder = cache / root.folder
    if (folder / "usr/bin/python3").is_symlink():
        return folder
    if shutil.which("mmdebstrap") is None:
        raise PackingError("mmdebstrap is not here; on Debian: apt install mmdebstrap qemu-user-static")
    must_be_root()
    cache.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{root.folder}.", dir=cache))
    target = work / "root"
    variant = "minbase" if root.configured else "extract"
    options = ["--quiet", "--mode=root", f"--variant={variant}", f"--architectures={root.architecture}"]
    options += [f"--include={','.join(root.packages)}"]
    options += ['--aptopt=Acquire::Check-Valid-Until "false"']
    suite, lines = _source(root)
    if lines:
        options += [f"--keyring={_ubuntu_keys()}"]
    if root.configured:
        options += [f'--customize-hook=chroot "$1" useradd --create-home --uid {USER} user']
    try:
        with emulated(root.architecture):
            done = subprocess.run(
                # Its mounts of /proc, /sys and /dev are its own: whatever happens, nobody finds them in the folder.
                [*_ALONE, "mmdebstrap", *options, suite, str(target), *lines],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
        if done.returncode:
            raise PackingError(f"mmdebstrap could not make {root.folder}:\n{done.stderr[-3000:]}")
        if not root.configured:
            _settle(target)
        target.chmod(0o755)
        target.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def _settle(target: Path) -> None:
    """What scripts would have done, as far as Python needs it: the links into /usr, a shell, a user, /tmp."""
    for name in ("bin", "lib", "lib64", "sbin"):
        if not os.path.lexists(target / name) and (target / "usr" / name).exists():
            (target / name).symlink_to(f"usr/{name}")
    if not os.path.lexists(target / "bin/sh"):
        (target / "bin/sh").symlink_to("bash")
    home = target / "home/user"
    home.mkdir(parents=True, exist_ok=True)
    os.chown(home, USER, USER)
    (target / "etc/passwd").write_text(f"root:x:0:0:root:/root:/bin/sh\nuser:x:{USER}:{USER}::/home/user:/bin/sh\n")
    (target / "etc/group").write_text(f"root:x:0:\nuser:x:{USER}:\n")
    (target / "tmp").mkdir(exist_ok=True)
    (target / "tmp").chmod(0o1777)


def _source(root: Root) -> tuple[str, list[str]]:
    """The suite, and for systems other than Debian the lines of its sources."""
    suite = _SUITES.get(root.system)
    if suite is None:
        raise PackingError(f"{root.system} is no system that roots are made of ({', '.join(_SUITES)})")
    if root.system.startswith("debian-"):
        return suite, []
    mirror = os.environ.get(UBUNTU_MIRROR)
    if not mirror:
        raise PackingError(f"{root.system}: ${UBUNTU_MIRROR} does not name an archive of Ubuntu")
    return suite, [f"deb {mirror} {name} main universe" for name in (suite, f"{suite}-updates")]


def _ubuntu_keys() -> Path:
    if not _UBUNTU_KEYS.exists():
        raise PackingError(f"{_UBUNTU_KEYS} is not here; apt install ubuntu-keyring")
    return _UBUNTU_KEYS


def must_be_root() -> None:
    """Mounts and chroots need it."""
    if os.geteuid() != 0:
        raise PackingError("clean roots are mounted and entered: run this as root (sudo)")


def run(
    root: Root,
    cache: Path,
    script: str,
    *,
    folders: Mapping[Path, str] | None = None,
    environment: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> Ran:
    """Run a shell script as root in a copy of a root that is thrown away, with folders of this machine bound in."""
    lower = make(root, cache)
    return run_in(lower, root, ["/bin/sh", "-euc", script], folders=folders, environment=environment, timeout=timeout)


def run_in(
    lower: Path,
    root: Root,
    command: Sequence[str],
    *,
    folders: Mapping[Path, str] | None = None,
    environment: Mapping[str, str] | None = None,
    timeout: float | None = None,
    user: str = "0:0",
) -> Ran:
    """As `run`, for a folder that is a root already and a command."""
    must_be_root()
    binds = {str(path): name for path, name in (folders or {}).items()}
    if root.python is not None:
        binds[str(root.python)] = str(root.python)
    files = {"/etc/resolv.conf": "etc/resolv.conf"}
    inside = {"PATH": _PATH, "HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb"}
    inside |= {name: os.environ[name] for name in _PASSED if name in os.environ}
    authorities = os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt")
    if Path(authorities).exists():  # a proxy of a company may have one of its own
        files[authorities] = "etc/ssl/host.crt"
        inside |= {"PIP_CERT": "/etc/ssl/host.crt", "SSL_CERT_FILE": "/etc/ssl/host.crt"}
    inside |= environment or {}
    with tempfile.TemporaryDirectory(prefix=".copy.", dir=lower.parent) as name:
        copy = Path(name)
        for part in ("upper", "work", "merged"):
            (copy / part).mkdir()
        (copy / "upper").chmod(0o755)
        outside = {
            "PATH": os.environ["PATH"], "LOWER": str(lower), "UPPER": str(copy / "upper"), "WORK": str(copy / "work"),
            "MERGED": str(copy / "merged"), "BINDS": _pairs(binds), "FILES": _pairs(files),
        }  # fmt: skip
        arguments = [*_ALONE, "/bin/sh", "-c", _INSIDE, "inside"]
        arguments += [f"{key}={value}" for key, value in inside.items()]
        # Not by the root's own `env`: an image may have neither it nor a shell.
        arguments += [shutil.which("chroot") or "/usr/sbin/chroot", f"--userspec={user}", str(copy / "merged")]
        with emulated(root.architecture):
            try:
                done = subprocess.run(
                    [*arguments, *command], env=outside, capture_output=True, text=True, errors="replace",
                    timeout=timeout, check=False, stdin=subprocess.DEVNULL,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return Ran(124, "", f"not finished after {timeout:.0f} s")
    return Ran(done.returncode, done.stdout, done.stderr)


def _pairs(names: Mapping[str, str]) -> str:
    for name in (*names, *names.values()):
        if any(character in name for character in " =\t\n"):
            raise PackingError(f"{name!r}: a folder that is bound into a root must have a name without spaces and '='")
    return " ".join(f"{outside}={inside}" for outside, inside in names.items())

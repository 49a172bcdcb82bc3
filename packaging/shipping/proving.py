"""Installs a package in a root as a user would, runs the demo, and judges what it says."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from packing.errors import PackingError

from shipping import image, oci, roots
from shipping.cases import Case
from shipping.table import Row

EXPECTED = ("espresso", "tabby", "lines of text", "heard 0800#15774*")
"""What the demo has to recognise: each photo's class, the page, the number that was dialled."""
_HERE = Path(__file__).parent
_SECONDS = 3600.0


def prove(case: Case, dist: Path, cache: Path) -> Row:
    """One row of the table. What goes wrong in the root is a row that says so, not an exception."""
    try:
        ran = _image(case, cache) if case.kind == "image" else _installed(case, dist, cache)
    except PackingError as error:
        return _row(case, {}, str(error).splitlines()[0], passed=False, details=str(error))
    return judge(case, ran)


def judge(case: Case, ran: roots.Ran) -> Row:
    """The row of a root's output: lines that begin with a word in capitals, and Python's version."""
    said = dict(line.split(" ", 1) for line in ran.output.splitlines() if " " in line)
    if ran.code:
        last = next((line for line in reversed(ran.errors.splitlines()) if line.strip()), f"ends with {ran.code}")
        return _row(case, said, last[:160], passed=False, details=(ran.output + ran.errors)[-6000:])
    result, passed = judge_demo(said.get("DEMO", ""))
    kernels = said.get("KERNELS", "no word on its kernels")
    words = [f"{result}, {kernels}"]
    if passed and kernels != expected_kernels(case):
        words, passed = [f"{kernels} instead of {expected_kernels(case)}"], False
    if "FACE" in said:
        words.append(said["FACE"])
    if "PAGES" in said:
        words.append(f"{said['PAGES']} man pages, purged")
    if "HEALTH" in said:
        words.append(f"serve is ready, stops with {said.get('STOPPED', '?')}")
    return _row(
        case, said, "; ".join(words), passed=passed, details="" if passed else (ran.output + ran.errors)[-6000:]
    )


def expected_kernels(case: Case) -> str:
    """What has to compute: NumPy only where there is neither a compiled library nor a compiler."""
    compiled = case.kind != "pure" and (case.kind != "sdist" or "gcc" in case.root.packages)
    return "native" if compiled else "NumPy"


def judge_demo(text: str) -> tuple[str, bool]:
    """What the demo recognised. Classes are the measure, not bits: emulators compute some functions less exactly."""
    try:
        found = json.dumps(json.loads(text)["parts"], ensure_ascii=False).lower()
    except (ValueError, KeyError, TypeError):
        return f"the demo said nothing that can be read: {text[:80]!r}", False
    missing = [word for word in EXPECTED if word not in found]
    if missing:
        return f"not recognised: {', '.join(missing)}", False
    return f"{len(EXPECTED)} of {len(EXPECTED)} right", True


def seconds(text: str) -> float:
    """The time between two, as a root says them; 0 where it said none."""
    try:
        begin, end = map(float, text.split())
    except ValueError:
        return 0.0
    return end - begin


def _row(case: Case, said: dict[str, str], result: str, *, passed: bool, details: str = "") -> Row:
    install, run = (seconds(said.get(name, "")) for name in ("INSTALL", "RUN"))
    python, size = said.get("Python", "").strip(), case.package.stat().st_size
    root = case.root
    name, architecture, foreign = root.name, root.architecture, root.foreign
    return Row(case.package.name, name, architecture, python, result, passed, install, run, size, foreign, details)


def _installed(case: Case, dist: Path, cache: Path) -> roots.Ran:
    """A wheel, an sdist or a Debian package in a copy of a clean root."""
    pip = cache / f"pip-{case.root.architecture}"
    pip.mkdir(parents=True, exist_ok=True)
    what = f"/dist/{case.package.name}[images]"
    if case.kind in ("lite", "toolkit"):  # openrknn itself comes from the same folder
        extra = "compile" if case.kind == "toolkit" else "images"
        what = f"--find-links=/dist --pre 'openrknn[{extra}]' /dist/{case.package.name}"
    environment = {
        "KIND": case.kind, "PACKAGE": case.package.name, "WHAT": what, "NUMBER": str(roots.USER),
        "PYTHON": "python3" if case.root.python is None else str(case.root.python / "bin/python3"),
    }  # fmt: skip
    folders = {dist: "dist", pip: "pip", _HERE: "shipping"}
    script = (_HERE / "in-root.sh").read_text("utf-8")
    return roots.run(case.root, cache, script, folders=folders, environment=environment, timeout=_SECONDS)


def _image(case: Case, cache: Path) -> roots.Ran:
    """The image, unpacked and entered as its own user with its own environment; it has no shell."""
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".image.", dir=cache) as name:
        folder = Path(name) / "root"
        folder.mkdir()
        config = oci.unpack(case.package, case.root.architecture, folder)["config"]
        environment = dict(pair.split("=", 1) for pair in config["Env"]) | {"HOME": config["WorkingDir"]}
        driver = (_HERE / "in_image.py").read_text("utf-8")
        command = ["/usr/bin/python3", "-c", driver]
        if config["User"] != f"{image.USER}:{image.USER}" or config["Entrypoint"] != ["openrknn"]:
            raise PackingError(f"{case.package.name} starts {config['Entrypoint']} as {config['User']}")
        return roots.run_in(
            folder, case.root, command, environment=environment, user=config["User"], timeout=_SECONDS
        )  # fmt: skip

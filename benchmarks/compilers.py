"""How fast the native library is that one compiler made, beside another's: whole networks, in one run.

    python benchmarks/compilers.py gcc=.venv/lib/python3.11/site-packages/openrknn zig=unpacked/openrknn [--rounds 20]

NAME=FOLDER: the folder has `_native/libopenrknn.so`. Each library lives in a process of its own, and they take turns,
as in benchmarks/inference.py; what counts is the processor's time of the best inference with one thread.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from inference import MODELS, NETS, PEERS, Engine
from rich.console import Console
from rich.table import Table

START = """
import runpy, sys
import openrknn
openrknn.__path__.insert(0, sys.argv[1])
del sys.argv[:2]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def main() -> int:
    """Measure, and print one row per network."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("libraries", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--models", type=Path, default=MODELS)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--nets", nargs="*", default=list(NETS), choices=list(NETS))
    parser.add_argument("--model", action="append", type=Path, default=[], help="more: a .rknn with its .npz beside it")
    parser.add_argument("--realtime", action="store_true", help="before everything else on the machine, as root")
    arguments = parser.parse_args()
    libraries = [text.split("=", 1) for text in arguments.libraries]
    first = libraries[0][0]
    table = Table("net", *(name for name, _ in libraries), *(f"{first} : {name}" for name, _ in libraries[1:]))
    models = {net: arguments.models / NETS[net][0] for net in arguments.nets}
    for net, model in (models | {path.stem: path for path in arguments.model}).items():
        engines = [_engine(name, Path(folder), model) for name, folder in libraries]
        for engine in engines:
            engine.environment |= {"REALTIME": "1"} if arguments.realtime else {}
            engine.start()
            if engine.error:
                sys.exit(f"{engine.name}: {engine.error}")
        for _ in range(arguments.rounds):
            for engine in engines:
                engine.turn()
        for engine in engines:
            engine.stop()
        best = [min(engine.busy) * 1e3 for engine in engines]
        table.add_row(net, *(f"{one:.2f} ms" for one in best), *(f"{best[0] / one:.3f}" for one in best[1:]))
    Console().print(table)
    return 0


def _engine(name: str, folder: Path, model: Path) -> Engine:
    if not (folder / "_native/libopenrknn.so").is_file():
        sys.exit(f"{folder} has no _native/libopenrknn.so")
    peer = [str(PEERS / "session.py"), str(model), "1"]
    return Engine(name, [sys.executable, "-c", START, str(folder.resolve()), *peer])


if __name__ == "__main__":
    sys.exit(main())

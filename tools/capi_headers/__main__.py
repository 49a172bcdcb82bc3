"""Writes the generated files of native/capi."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.capi_headers import files


def main() -> int:
    """The folder is the argument."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "native/capi")
    for name, text in files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

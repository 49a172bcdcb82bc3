"""Takes a picture of the page that `openrknn inspect --html` writes, with a real browser (chromium).

.venv/bin/python tools/report_picture.py docs/gallery/inspect.png MODEL.rknn
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from openrknn.analysis.explain import describe
from openrknn.container.load import load
from openrknn.pages.model.page import render

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def main() -> int:
    """The command line of this tool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--size", default="1360,1800", help="of the window, in pixels (default: %(default)s)")
    arguments = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("no browser: install chromium")
    model = load(arguments.model)
    arguments.picture.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        page.write_text(render(describe(model), model), encoding="utf-8")
        flags = [f"--user-data-dir={folder}/profile", f"--screenshot={arguments.picture}"]
        command = [browser, *FLAGS, *flags, f"--window-size={arguments.size}", page.as_uri()]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL, timeout=120)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The log. One logger of this package, under the vendor's name for it; nothing else in the process is touched.

It has no handler of its own: messages go where the program sends its log, and without any set-up Python writes
warnings and errors to the standard error output.
"""

from __future__ import annotations

import logging
from pathlib import Path

__all__ = ["LOGGER", "RKNNLog"]

LOGGER = logging.getLogger("acuityLogger")


class RKNNLog:
    """The log of one `RKNNLite`: `.logger` is a `logging.Logger`, and a letter is a level."""

    def __init__(self, verbose: bool = False, verbose_file: str | None = None) -> None:
        self.logger = LOGGER
        self._file: logging.Handler | None = None
        if verbose:
            self.logger.setLevel(logging.DEBUG)
            self._open(verbose_file)

    def e(self, message: str) -> None:
        """Something failed."""
        self.logger.error("%s", message)

    def w(self, message: str) -> None:
        """Something is odd, but works."""
        self.logger.warning("%s", message)

    def i(self, message: str) -> None:
        """What happens."""
        self.logger.info("%s", message)

    def d(self, message: str) -> None:
        """For developers."""
        self.logger.debug("%s", message)

    def close(self) -> None:
        """Give the file back. Closing twice is allowed."""
        if self._file is not None:
            self.logger.removeHandler(self._file)
            self._file.close()
            self._file = None

    def _open(self, path: str | None) -> None:
        if not path or not Path(path).absolute().parent.is_dir():
            self.w("Verbose file path is invalid, debug info will not dump to file.")
            return
        self._file = logging.FileHandler(path)
        letters = logging.Formatter("%(levelname).1s %(message)s")
        self._file.setFormatter(letters)
        self.logger.addHandler(self._file)
        self.d(f"Save log info to: {path}")

"""Options that several commands share, and the session that they open with them."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from openrknn.cli.common.output import CommandError

if TYPE_CHECKING:
    from openrknn.container.bundle import Bundle
    from openrknn.container.model import Model
    from openrknn.runtime.session import Session

__all__ = [
    "add_device_arguments", "add_input_arguments", "number", "open_session", "port", "positive", "real_share",
    "seconds", "share", "zero_or_more",
]  # fmt: skip


def number(words: str, low: float, high: float = sys.float_info.max, *, whole: bool = False) -> Callable[[str], Any]:
    """The type of an option that takes a number from `low` to `high`; the message says that it is not `words`."""

    def read(text: str) -> float:
        try:
            value = int(text) if whole and text.isascii() and text.isdigit() else math.nan if whole else float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not {words}")
        return value

    return read


_LEAST = sys.float_info.min
"""Longer than nothing."""
positive = number("a whole number of at least 1", 1, whole=True)
zero_or_more = number("a number from 0 on", 0)
seconds = number("a number of seconds", _LEAST)
share = number("a number from 0 to 1", 0, 1)
real_share = number("between 0 and 1", _LEAST, 1)
port = number("a port, 0 to 65535", 0, 65535, whole=True)


def add_input_arguments(parser: argparse.ArgumentParser) -> None:
    """What to feed."""
    parser.add_argument(
        "-i", "--input", metavar="[NAME=]FILE", action="append", default=[], help=".npy, .npz, .bin or a picture"
    )
    fits = ("auto", "stretch", "letterbox", "crop")
    parser.add_argument("--fit", choices=fits, default="auto", help="pictures: crop for classifiers, else letterbox")
    parser.add_argument("--order", choices=("auto", "rgb", "bgr"), default="auto", help="pictures: colour order")
    parser.add_argument("--layout", choices=("nhwc", "nchw"), help="arrays: layout, where the shape is ambiguous")


def add_device_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to run."""
    parser.add_argument("--cores", type=positive, metavar="N", help="use the model's task lists for N cores")
    devices = "auto, software, software:CHIP, rknpu, rocket or vendor[:LIBRARY] (default: auto)"
    parser.add_argument("--device", default="auto", help=devices)


@contextmanager
def open_session(model: Model | Bundle, arguments: argparse.Namespace) -> Iterator[tuple[Session, float]]:
    """A session and the seconds that it took to get ready; what is wrong with the request is one line."""
    from openrknn.runtime.session import Session

    started = time.perf_counter()
    try:
        strict = getattr(arguments, "strict", False)
        source: Any = model  # one in parts gives a session of its own kind
        session = Session(source, device=arguments.device, cores=arguments.cores, strict=strict)
    except (ValueError, TypeError) as error:
        raise CommandError(str(error)) from error
    with session:
        yield session, time.perf_counter() - started

"""A program introduces itself, and opens further channels."""

from __future__ import annotations

import os
import socket
import threading

from openrknn.capi.call import OK, Call, CallError, Code, Reply
from openrknn.capi.channel import SocketChannel
from openrknn.capi.client import Client
from openrknn.capi.handlers import answers
from openrknn.capi.structs import Codec
from openrknn.capi.wire import WIRE_VERSION, Operation
from openrknn.compute import native
from openrknn.device.automatic import DEVICE_VARIABLE
from openrknn.vendor.tables.layouts import LP64
from openrknn.vendor.tables.versions import Version

_PREFIXES = ("OPENRKNN_", "RKNN_")
_ILP32 = 4


@answers(Operation.HELLO)
def hello(program: Client, call: Call) -> Reply:
    """The layout of its structs, and its environment instead of the one that the engine was started in."""
    if call.d != WIRE_VERSION:
        raise CallError(Code.FAIL, f"the library speaks protocol {call.d:#x}, the engine {WIRE_VERSION:#x}")
    if call.b not in {_ILP32, LP64}:
        raise CallError(Code.PARAM_INVALID, f"pointers of {call.b} bytes are not known")
    major, rest = divmod(call.a, 10_000)
    program.codec = Codec(Version(major, *divmod(rest, 100)), call.b)
    for name in [name for name in os.environ if name.startswith(_PREFIXES)]:
        del os.environ[name]
    for entry in bytes(call.payload).split(b"\0"):
        name, separator, value = os.fsdecode(entry).partition("=")
        if separator and name.startswith(_PREFIXES) and not _means_us(name, value):
            os.environ[name] = value
    native.set_threads(None)
    return Reply(value=os.getpid())


def _means_us(name: str, value: str) -> bool:
    """A program on openrknn that chose the vendor's library, and found this one in its place."""
    return name == DEVICE_VARIABLE and value.partition(":")[0] == "vendor"


@answers(Operation.CHANNEL)
def channel(program: Client, call: Call) -> Reply:
    """One more socket, with a thread of its own."""
    connection = socket.socket(fileno=call.take())
    served = SocketChannel(program, connection)
    threading.Thread(target=served.serve, name="openrknn-channel", daemon=True).start()
    return OK

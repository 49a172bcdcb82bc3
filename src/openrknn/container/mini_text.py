"""The first mini container (0x1003, toolkits 1.4.1 and 1.5.0): the names are JSON, written in base64.

Payload: a head of seven sizes, the names, the task records, the commands, the weights. As in 0x1004 everything is
linked at base 0, but the plan begins with the task records: [tasks | commands | weights | internal memory]. Nothing
says which commands hold addresses, so they are found by their registers; a tensor's `taskinfos` say which register of
which task holds it, and where that is silent the place in the plan decides. Worked out from 10 files of a vendor's SDK:
every address register of every task in them falls inside the tensor that its entry names.

Behind the network stand tasks that write the outputs in two more layouts (those of the OutputOperators). openrknn
converts outputs itself and leaves them out.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openrknn.container.mini import HEAD, HEAD_BYTES
from openrknn.container.parts import TASK, MemoryPlan, Task
from openrknn.container.reader import read_tasks
from openrknn.errors import BadTextError, TruncatedError

SECTION = "names"


@dataclass(frozen=True, slots=True)
class MiniText:
    """The regions of the payload, and the names."""

    names: Mapping[str, Any] = field(repr=False)
    tasks: tuple[Task, ...] = field(repr=False)
    commands: memoryview = field(repr=False)
    weights: memoryview = field(repr=False)
    task_bytes: int
    internal_bytes: int

    @property
    def weight_start(self) -> int:
        """Where the weights begin in the plan."""
        return self.task_bytes + 8 * len(self.commands)

    @property
    def internal_start(self) -> int:
        return self.weight_start + len(self.weights)

    @property
    def memory(self) -> MemoryPlan:
        return MemoryPlan(len(self.weights), self.internal_bytes, 0)


def split(payload: memoryview, payload_offset: int) -> MiniText:
    """Cut the payload into its regions and read the names."""
    if len(payload) < HEAD_BYTES:
        raise TruncatedError(f"the mini head needs {HEAD_BYTES} bytes", offset=payload_offset, section="mini head")
    names, tasks, count, commands, internal, weights, _ = HEAD.unpack_from(payload)
    if HEAD_BYTES + names + tasks + commands + weights > len(payload) or count * TASK.size > tasks or commands % 8:
        raise TruncatedError(
            f"the mini head announces {names} + {tasks} + {commands} + {weights} bytes and {count} tasks, the payload "
            f"has {len(payload)} bytes",
            offset=payload_offset,
            section="mini head",
        )
    at = HEAD_BYTES + names
    return MiniText(
        names=_names(payload[HEAD_BYTES:at], payload_offset + HEAD_BYTES),
        tasks=read_tasks(payload[at : at + count * TASK.size], "mini task records"),
        commands=memoryview(bytes(payload[at + tasks : at + tasks + commands])).cast("Q"),
        weights=payload[at + tasks + commands : at + tasks + commands + weights],
        task_bytes=tasks,
        internal_bytes=internal,
    )


def _names(data: memoryview, offset: int) -> Mapping[str, Any]:
    try:
        found = json.loads(base64.b64decode(bytes(data).rstrip(b"\0"), validate=True))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise BadTextError(f"the names are not JSON in base64: {error}", offset=offset, section=SECTION) from None
    if not isinstance(found, dict):
        raise BadTextError("the names are no JSON object", offset=offset, section=SECTION)
    return found

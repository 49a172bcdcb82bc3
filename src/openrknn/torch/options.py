"""The options of `torch.compile(..., backend="openrknn", options={...})` and of `openrknn.torch.compile`."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from openrknn.compiler.errors import OptionError
from openrknn.partition import PartitionOptions

WATCHES = ("version", "content")


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchOptions:
    """What PyTorch's face can be asked for. The first ones are those of `PartitionOptions`."""

    target: str = "rk3588"
    """The chip that NPU parts are compiled for."""
    device: str = "auto"
    """Where they run, as `Session` takes it."""
    precision: str = ""
    """fp16, int8 or mixed; empty: int8 with calibration data, else fp16."""
    calibrate: Any = None
    """Example inputs (tensors, tuples or dicts of them) to choose int8 ranges with; or a number: that many calls of the
    program run in PyTorch and are calibrated on."""
    prefer: str = "cost"
    """cost: what is faster by estimate; npu: all that can be; cpu: nothing goes to the NPU."""
    cache: str | os.PathLike[str] | bool = True
    """A folder for compiled parts; True: the user's cache folder; False: none."""
    compile: Mapping[str, Any] = field(default_factory=dict)
    """More keywords of `openrknn.compile` for the NPU parts."""
    inference: bool = False
    """Run on the NPU even where PyTorch records gradients: the results have none."""
    max_shapes: int = 8
    """Sets of input shapes (and of parameters) that a graph is compiled for; further ones run in PyTorch."""
    watch: str = "version"
    """How a changed parameter is noticed: version (PyTorch's counter, costs nothing), content (a sum over all of them
    at each call, which also sees writes through `.data`)."""
    free_parameters: bool = False
    """`openrknn.torch.compile` only: give the module's own copy of the parameters back once the NPU has them. The
    module is on PyTorch's "meta" device afterwards."""

    def __post_init__(self) -> None:
        if self.watch not in WATCHES:
            raise OptionError(f"watch={self.watch!r} is unknown; the choices are {', '.join(WATCHES)}")
        if self.max_shapes < 1:
            raise OptionError(f"max_shapes={self.max_shapes!r}: a graph is compiled for one set of shapes at least")
        if isinstance(self.calibrate, int) and self.calibrate < 1:
            raise OptionError(f"calibrate={self.calibrate!r}: give example inputs, or a number of calls above 0")
        self.partition(None)

    @classmethod
    def of(cls, options: Mapping[str, Any] | None) -> TorchOptions:
        """From a dictionary; what is not known is refused by name."""
        given = dict(options or {})
        known = [entry.name for entry in fields(cls)]
        for name in given:
            if name not in known:
                close = difflib.get_close_matches(str(name), known, 1)
                meant = f" (did you mean {close[0]}?)" if close else ""
                raise OptionError(
                    f"openrknn has no option {name!r} for torch.compile{meant}; there are {', '.join(known)}"
                )
        return cls(**given)

    def partition(self, calibration: Any) -> PartitionOptions:
        """These options for `Parted`, with calibration data by the names of its inputs."""
        return PartitionOptions(
            target=self.target, device=self.device, precision=self.precision, calibration=calibration,
            prefer=self.prefer, cache=self.cache, compile=self.compile,
        )  # fmt: skip

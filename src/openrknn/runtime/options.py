"""The arguments of `Session` about cores and devices, checked."""

from __future__ import annotations

from openrknn.chips import Chip
from openrknn.container.model import Model
from openrknn.device import Device, open_device
from openrknn.errors import UnsupportedError
from openrknn.npu.budget import Budget
from openrknn.runtime.program.weights import WeightStore


def core_count(cores: int | None, core_mask: int | None, chip: Chip) -> int:
    """How many cores work together: a number, or the bits of a mask as the C API has it (0 and None: one)."""
    if cores is not None and core_mask is not None:
        raise ValueError("cores= and core_mask= say the same; give one of them")
    for name, value in (("cores", cores), ("core_mask", core_mask)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise TypeError(f"{name}= is a number, not {value!r}")
    if core_mask is not None:
        if not 0 <= core_mask < 1 << chip.cores:
            raise ValueError(f"core_mask={core_mask:#x} names cores that {chip.title} does not have ({chip.cores})")
        return core_mask.bit_count() or 1
    if cores is None:
        return 1
    if not 1 <= cores <= chip.cores:
        raise ValueError(f"{chip.title} has {chip.cores} cores; cores={cores} is not possible")
    return cores


def budget_for(model: Model, work: int | None, memory: int | None) -> Budget:
    """What a run may ask for; a model that was never a file counts with its constants."""
    for name, value in (("max_work", work), ("max_memory", memory)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise TypeError(f"{name}= is a whole number, not {value!r}")
        if value is not None and value < 1:
            raise ValueError(f"{name}={value} allows nothing")
    size = model.size_bytes or sum(len(tensor.data or b"") for graph in model.graphs for tensor in graph.tensors)
    return Budget.for_file(size, work=work, memory=memory)


def open_store(
    model: Model, device: str | Device, shared: WeightStore | None, *, strict: bool, budget: Budget
) -> WeightStore:
    """The weights on their device: new ones, or those of another session."""
    if shared is not None:
        if not isinstance(device, str) and device is not shared.device:
            raise ValueError("sessions that share weights share the device as well; leave device= out")
        shared.join(model)
        return shared
    if isinstance(device, str):
        opened = open_device(device, model.chip, strict=strict)
        try:
            return WeightStore(model, opened, owns_device=True, budget=budget)
        except BaseException:
            opened.close()
            raise
    if not isinstance(device, Device):
        raise TypeError(f"device= is a text such as 'auto' or an open Device, not {type(device).__name__}")
    if device.chip.target != model.chip.target:
        raise UnsupportedError(f"the model is for {model.chip.title}, and the device {device.name} is not")
    return WeightStore(model, device, owns_device=False, budget=budget)

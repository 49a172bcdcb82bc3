"""The write DMA: places the atoms of the result in memory.

The stream of atoms, in the order channel group, row, column, atom of that pixel in the group, is numbered k = 0, 1 ...

    e = k mod E;  t = k div E;  w = t mod W;  h = (t div W) mod H;  g = t div (W * H)
    address = base + 16 * (g * surface_add + h * (W + notch) + w + e * surface_stride)

which is a walk through memory with four nested steps: one strided view. Packed output keeps the first bytes of each
atom and stores them back to back.
"""

from __future__ import annotations

import numpy as np

from openrknn.npu.memory import Bytes, Memory
from openrknn.task.write import Config

__all__ = ["place", "place_cube", "place_packed", "transpose_lanes"]


def place(stream: Bytes, config: Config, memory: Memory) -> None:
    """Write atoms [k, 16] at the places that the counters give them."""
    group = config.per_pixel * config.width * config.height
    whole = len(stream) // group
    if whole:
        _walk(config, memory, 0, whole)[...] = stream[: whole * group].reshape(
            whole, config.height, config.width, config.per_pixel, config.atom_bytes
        )
    for number, atom in enumerate(stream[whole * group :]):
        step, at = divmod(number, config.per_pixel)
        row, column = divmod(step, config.width)
        address = (
            config.address
            + whole * config.group_step_bytes
            + row * config.line_bytes
            + column * config.atom_bytes
            + at * config.atom_step_bytes
        )
        memory.view(address, config.atom_bytes, "DPU write", write=True)[...] = atom


def _walk(config: Config, memory: Memory, first: int, count: int, atoms: int | None = None) -> Bytes:
    """Groups `first` to `first + count` as [group, row, column, atom, 16]."""
    return memory.strided(
        config.address + first * config.group_step_bytes,
        (count, config.height, config.width, config.per_pixel if atoms is None else atoms, config.atom_bytes),
        (config.group_step_bytes, config.line_bytes, config.atom_bytes, config.atom_step_bytes, 1),
        "DPU write",
        write=True,
    )


def place_cube(atoms: Bytes, valid: int, config: Config, memory: Memory) -> None:
    """Write atoms [surface, row, column, 16]; surfaces from `valid` on carry no data and are not written."""
    count, height, width, size = atoms.shape
    each = config.per_pixel
    pixels = height * width
    if pixels != config.width * config.height:
        groups = -(-count // each)
        stream = np.zeros((groups * each, pixels, size), np.uint8)
        stream[:count] = atoms.reshape(count, pixels, size)
        ordered = stream.reshape(groups, each, pixels, size).transpose(0, 2, 1, 3)
        if config.skips_surplus and groups == 1:
            runs, atoms_each = pixels // (config.width * config.height), min(valid, each)
            _walk(config, memory, 0, runs, atoms_each)[...] = ordered[0, :, :atoms_each].reshape(
                runs, config.height, config.width, atoms_each, size
            )
            return
        place(np.ascontiguousarray(ordered).reshape(-1, size), config, memory)
        return
    shaped = atoms.reshape(count, config.height, config.width, size)
    whole, rest = divmod(min(valid, count), each)
    if config.height > 1 and config.line_bytes < config.width * size:
        _place_overlapping(shaped, whole, rest, config, memory)
        return
    if whole:
        full = shaped[: whole * each].reshape(whole, each, config.height, config.width, size)
        _walk(config, memory, 0, whole)[...] = full.transpose(0, 2, 3, 1, 4)
    if rest:
        last = shaped[whole * each : whole * each + rest]
        _walk(config, memory, whole, 1, rest)[0] = last.transpose(1, 2, 0, 3)


def _place_overlapping(shaped: Bytes, whole: int, rest: int, config: Config, memory: Memory) -> None:
    """Lines in the order of the stream, so that of two that meet the later one stays."""
    for group in range(whole + (1 if rest else 0)):
        atoms_each = config.per_pixel if group < whole else rest
        walk = _walk(config, memory, group, 1, atoms_each)[0]
        part = shaped[group * config.per_pixel :][:atoms_each]
        for row in range(config.height):
            walk[row] = part[:, row].transpose(1, 0, 2)


def place_packed(atoms: Bytes, config: Config, memory: Memory) -> None:
    """Write the first bytes of each atom back to back; atoms [surface, row, column, 16] in the order of the stream."""
    count, height, width, size = atoms.shape
    each = config.per_pixel if count % config.per_pixel == 0 else 1
    stream = atoms.reshape(count // each, each, height, width, size).transpose(0, 2, 3, 1, 4)
    kept = np.ascontiguousarray(stream.reshape(-1, size)[:, : config.packed_bytes]).reshape(-1)
    if config.packed_run_bytes is not None:
        whole = -(-config.packed_run_bytes // size) * size
        kept = kept.reshape(-1, whole)[:, : config.packed_run_bytes].reshape(-1)
    if config.spread_run_bytes is not None:
        kept = _spread(kept, config.spread_run_bytes, size)
    kept = kept[: config.packed_limit_bytes]
    memory.view(config.address, kept.size, "DPU packed write", write=True)[...] = kept


def _spread(kept: Bytes, run: int, size: int) -> Bytes:
    """Runs of `run` bytes, each filled up with zeros to whole atoms: rows of a matrix become rows of channels."""
    runs = -(-kept.size // run)
    whole = np.zeros((runs, -(-run // size) * size), np.uint8)
    filled = np.zeros(runs * run, np.uint8)
    filled[: kept.size] = kept
    whole[:, :run] = filled.reshape(runs, run)
    return whole.reshape(-1)


def transpose_lanes(atoms: Bytes, lanes: int) -> Bytes:
    """Runs of `lanes` pixels and the lanes of their atoms change places; a stream [k, 16].

    The runs go over the ends of surfaces, as a board with LPRNet shows, whose maps have 51 pixels; only the last run of
    the stream is filled up.
    """
    size = atoms.shape[-1]
    pixels = atoms.reshape(-1, size)
    filled = np.zeros((-(-len(pixels) // lanes) * lanes, size), np.uint8)
    filled[: len(pixels)] = pixels
    typed = filled.view(np.uint16 if lanes * 2 == size else np.uint8).reshape(-1, lanes, lanes)
    return np.ascontiguousarray(typed.transpose(0, 2, 1)).view(np.uint8).reshape(-1, size)

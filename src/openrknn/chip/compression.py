"""How CNA's registers say that weights are compressed; the same on every chip that decompresses them."""

from __future__ import annotations

from openrknn.chip.decompressor import DECOMPRESSORS, numbered
from openrknn.chip.task_registers import NamedRegisters
from openrknn.errors import UnknownModeError
from openrknn.isa import Precision
from openrknn.layout.compression import SCHEMES
from openrknn.task.cna import Compression, Config
from openrknn.task.place import Address

__all__ = ["encode_compression", "read_compression"]


def read_compression(cna: NamedRegisters, precision: Precision) -> Compression | None:
    """None where weights are stored as they are."""
    amounts, (first, *others) = numbered(cna.block, "DCOMP_AMOUNT"), numbered(cna.block, "DCOMP_ADDR")
    control = cna.bits("DCOMP_CTRL")
    if not control:
        cna.expect_zero("DCOMP_REGNUM", *amounts)
        cna.waive(*others)
        return None
    decompressor = DECOMPRESSORS[len(amounts)]
    if control != decompressor.controls.get(precision):
        text = f"DCOMP_CTRL = {control:#x} with {precision.name} weights is not implemented"
        raise UnknownModeError(text, register="DCOMP_CTRL")
    addresses = [cna(first, "decompress_addr0"), *(cna(name, "address") for name in others)]
    sizes = [cna(name, "amount") for name in amounts]
    return Compression(SCHEMES[len(amounts)], decompressor.streams(cna.bits("DCOMP_REGNUM"), sizes, addresses))


def encode_compression(source: Config[Address]) -> dict[str, dict[str, Address]]:
    """The registers that enable it; none where weights are stored as they are."""
    if source.compression is None:
        return {}
    streams = source.compression.streams
    decompressor = DECOMPRESSORS[len(streams)]
    unit, bits = decompressor.unit_bytes, decompressor.header_bits
    headers = sum(stream.header_bytes // unit << number * bits for number, stream in enumerate(streams))
    registers: dict[str, dict[str, Address]] = {
        "CNA.DCOMP_CTRL": {"decomp_control": decompressor.controls[source.weight_precision]},
        "CNA.DCOMP_REGNUM": {"dcomp_regnum": headers},
    }
    for number, stream in enumerate(streams):
        registers[f"CNA.DCOMP_AMOUNT{number}"] = {"amount": stream.size // unit - 1}
        if number and decompressor.has_addresses:
            registers[f"CNA.DCOMP_ADDR{number}"] = {"address": stream.address}
    return registers

"""Which layers share an address space of the NPU, where a model is larger than one of them.

An address of the NPU has 32 bits, and a job sees one address space (an IOMMU domain of `rknpu`, an open file of
`rocket`). A model that does not fit into one is cut between layers into as few parts as possible, of about the same
size: a step is a job for each part, and the CPU copies the stream from one to the next.
"""

from __future__ import annotations

from openrknn.compiler.errors import OptionError
from openrknn.llm.config import LanguageConfig
from openrknn.llm.file import MOST_PARTS
from openrknn.llm.integers import IntegerProducts
from openrknn.llm.ports import cache_numbers, makes_embeddings

__all__ = ["DOMAIN_BYTES", "Span", "check_part", "layer_bytes", "spans_of", "usable_bytes"]

Span = tuple[int, int]
"""First layer, and the one behind the last."""
DOMAIN_BYTES = 1 << 32
_LEFT = 8
"""One part in so many of an address space is for commands, results in between and further sequences."""


def usable_bytes(domain_bytes: int = DOMAIN_BYTES) -> int:
    """Of an address space, for weights and one cache."""
    return domain_bytes - domain_bytes // _LEFT


def spans_of(
    config: LanguageConfig, products: IntegerProducts, capacity: int, domain_bytes: int = DOMAIN_BYTES, *,
    can_int8: bool = False,
) -> tuple[Span, ...]:  # fmt: skip
    """The layers of each part. Raises `OptionError` with what fits, before any weight is read.

    `can_int8`: whether w8a8 would be smaller and the chip has it.
    """
    limit = usable_bytes(domain_bytes)
    sizes = layer_bytes(config, products, capacity)
    if makes_embeddings(config):
        if sum(sizes) > limit:
            raise _refusal(config, products, capacity, domain_bytes, 1, can_int8=can_int8)
        return ((0, config.layers),)
    found = _cut(sizes, limit)
    if found is None or len(found) > MOST_PARTS:
        raise _refusal(config, products, capacity, domain_bytes, MOST_PARTS, can_int8=can_int8)
    low, high = max(sizes), limit
    while low < high:  # the least limit that as many parts can have
        middle = (low + high) // 2
        cut = _cut(sizes, middle)
        if cut is not None and len(cut) == len(found):
            found, high = cut, middle
        else:
            low = middle + 1
    return tuple(found)


def check_part(written: int, config: LanguageConfig, span: Span, capacity: int, domain_bytes: int) -> None:
    """What was really written of a part, with its cache, has to fit too. Raises `OptionError`."""
    cache = 2 * cache_numbers(config, capacity) * (span[1] - span[0]) // config.layers
    cache = 0 if makes_embeddings(config) else cache
    if written + cache > domain_bytes - domain_bytes // 64:
        raise OptionError(
            f"layers {span[0]} to {span[1] - 1} take {written:,} bytes and their cache {cache:,}: more than an address "
            f"space of {domain_bytes:,} bytes has room for; compile with a smaller capacity or fewer graphs"
        )


def _cut(sizes: list[int], limit: int) -> list[Span] | None:
    """As many layers to each part as fit; None: there is a layer that is too large alone."""
    found, first, filled = [], 0, 0
    for layer, size in enumerate(sizes):
        if size > limit:
            return None
        if filled + size > limit:
            found.append((first, layer))
            first, filled = layer, 0
        filled += size
    return [*found, (first, len(sizes))]


def layer_bytes(config: LanguageConfig, products: IntegerProducts, capacity: int) -> list[int]:
    """Weights and cache of each layer, about; the last one has the head, too."""
    inner, keys = config.heads * config.head_size, config.kv_heads * config.head_size
    each = {"q": inner, "k": keys, "v": keys, "o": inner, "up": config.hidden, "down": config.hidden}
    each |= {"gate": config.hidden} if config.gated else {}
    cache = 0 if makes_embeddings(config) else 2 * cache_numbers(config, capacity) // config.layers
    sizes = [
        cache + int(sum(products.bytes_of(f"layers.{layer}.{kind}") * size * config.width
                        for kind, size in each.items()))
        for layer in range(config.layers)
    ]  # fmt: skip
    if not makes_embeddings(config):
        sizes[-1] += int(products.bytes_of("head") * config.vocabulary * config.width)
    return sizes


def _fits(sizes: list[int], limit: int, most: int) -> bool:
    cut = _cut(sizes, limit)
    return cut is not None and len(cut) <= most


def _refusal(
    config: LanguageConfig, products: IntegerProducts, capacity: int, domain_bytes: int, most: int, *, can_int8: bool
) -> OptionError:
    limit = usable_bytes(domain_bytes)
    can = []
    smaller = next((one for one in range(capacity // 32 * 32 - 32, 0, -32)
                    if _fits(layer_bytes(config, products, one), limit, most)), None)  # fmt: skip
    if smaller is not None and not makes_embeddings(config):
        can.append(f"a capacity of {smaller} tokens fits")
    if can_int8 and _fits(layer_bytes(config, _Eights(), capacity), limit, most):
        can.append("w8a8 fits (llm compile --precision w8a8 --calibrate TEXT)")
    advice = "; ".join(can) or "no precision of this chip makes it fit; choose a smaller model, or compute on the CPU"
    whole, without = (sum(layer_bytes(config, products, one)) for one in (capacity, 0))
    spaces = "one address space" if most == 1 else f"{most} address spaces, of whole layers,"
    return OptionError(f"weights of {without:,} bytes and a cache of {whole - without:,} do not fit into {spaces} of "
                       f"{domain_bytes:,} bytes, of which {limit:,} can be used: {advice}")  # fmt: skip


class _Eights(IntegerProducts):
    """As if all products were in int8."""

    def __init__(self) -> None:
        super().__init__(None)

    def bytes_of(self, name: str) -> float:
        return 1.0

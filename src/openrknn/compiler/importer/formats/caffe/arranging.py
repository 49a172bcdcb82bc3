"""Layers that move numbers, and those that look along an axis."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from openrknn.compiler.importer.formats.caffe.place import Place

_NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
_CORNERS = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
_REDUCTIONS = {"SUM": "ReduceSum", "ASUM": "ReduceL1", "SUMSQ": "ReduceSumSquare", "MEAN": "ReduceMean"}


def same(place: Place) -> str:
    """Dropout and the like: nothing when a network is used."""
    return place.source


def split(place: Place) -> list[str]:
    """One value under several names."""
    return [place.source] * len(place.tops)


def concat(place: Place) -> str:
    """Side by side along an axis."""
    fields = place.param("concat")
    axis = place.axis(fields.whole("axis", fields.whole("concat_dim", 1)))
    shapes = [place.build.shapes[name] for name in place.sources]
    if len({(*shape[:axis], 0, *shape[axis + 1 :]) for shape in shapes}) > 1:
        raise place.wrong(f"values that do not fit along axis {axis}: {', '.join(str(list(s)) for s in shapes)}")
    if len(shapes) == 1:
        return place.source
    total = sum(shape[axis] for shape in shapes)
    return place.add("Concat", place.sources, [*shapes[0][:axis], total, *shapes[0][axis + 1 :]], axis=axis)


def slices(place: Place) -> list[str]:
    """Parts along an axis: equal ones, or those between slice_points."""
    fields = place.param("slice")
    axis = place.axis(fields.whole("axis", fields.whole("slice_dim", 1)))
    length, count = place.shape[axis], len(place.tops)
    points = fields.wholes("slice_point")
    if points and len(points) != count - 1:
        raise place.wrong(f"{len(points)} slice_points for {count} tops")
    if not points and length % count:
        raise place.wrong(f"{length} cannot be divided into {count} equal parts")
    borders = [0, *(points or [length // count * number for number in range(1, count)]), length]
    sizes = [high - low for low, high in pairwise(borders)]
    if min(sizes) < 1:
        raise place.wrong(f"slice_points {', '.join(map(str, points))} do not fit a length of {length}")
    if count == 1:
        return [place.source]
    outputs = {top: [*place.shape[:axis], size, *place.shape[axis + 1 :]]
               for top, size in zip(place.tops, sizes, strict=True)}  # fmt: skip
    return place.build.add_many("Split", [place.source, place.constant("sizes", sizes, "int64")], outputs, axis=axis)


def softmax(place: Place) -> str:
    """Along an axis, the channels by default."""
    return place.add("Softmax", [place.source], place.shape, axis=place.axis(place.param("softmax").whole("axis", 1)))


def flatten(place: Place) -> str:
    """Dimensions from `axis` to `end_axis` become one."""
    fields = place.param("flatten")
    first, last = place.axis(fields.whole("axis", 1)), place.axis(fields.whole("end_axis", -1))
    if first > last:
        raise place.wrong(f"axis {first} comes behind end_axis {last}")
    shape = [*place.shape[:first], math.prod(place.shape[first : last + 1]), *place.shape[last + 1 :]]
    return place.reshape(place.source, shape)


def reshape(place: Place) -> str:
    """0 keeps a dimension, -1 is what is left."""
    fields = place.param("reshape")
    wanted = fields.inner("shape").wholes("dim")
    rank = len(place.shape)
    first = fields.whole("axis", 0)
    first = first if first >= 0 else first + rank + 1
    count = fields.whole("num_axes", -1)
    last = rank if count == -1 else first + count
    if not 0 <= first <= last <= rank:
        raise place.wrong(f"there are no axes {first} to {last} in {list(place.shape)}")
    middle = place.shape[first:last]
    if any(size < -1 for size in wanted) or wanted.count(-1) > 1 or (0 in wanted[len(middle) :]):
        raise place.wrong(f"the shape {wanted} cannot be")
    sizes = [middle[at] if size == 0 else size for at, size in enumerate(wanted)]
    known = math.prod(size for size in sizes if size > 0)
    sizes = [math.prod(middle) // known if size == -1 else size for size in sizes]
    return place.reshape(place.source, [*place.shape[:first], *sizes, *place.shape[last:]])


def crop(place: Place) -> str:
    """As large as a second value from `axis` on; `offset` says where it begins."""
    fields = place.param("crop")
    if len(place.sources) != 2:
        raise place.wrong("it needs a second value, whose size it takes")
    wanted = place.build.shapes[place.sources[1]]
    axis = place.axis(fields.whole("axis", 2))
    offsets = fields.wholes("offset") or [0]
    if len(offsets) == 1:
        offsets *= len(place.shape) - axis
    if len(wanted) != len(place.shape) or len(offsets) != len(place.shape) - axis:
        raise place.wrong(f"{list(place.shape)} cannot be cropped to {list(wanted)} with {len(offsets)} offsets")
    starts, stops = [], []
    for number, offset in enumerate(offsets, axis):
        if offset < 0 or offset + wanted[number] > place.shape[number]:
            raise place.wrong(f"{wanted[number]} from {offset} on are not inside {place.shape[number]} (axis {number})")
        starts.append(offset)
        stops.append(offset + wanted[number])
    bounds = [
        place.constant(name, values, "int64")
        for name, values in (("starts", starts), ("stops", stops), ("axes", list(range(axis, len(place.shape)))))
    ]
    return place.add("Slice", [place.source, *bounds], [*place.shape[:axis], *wanted[axis:]])


def permute(place: Place) -> str:
    """SSD's: the order of dimensions; those that are not named follow in their own order."""
    order = place.param("permute").wholes("order")
    rank = len(place.shape)
    if len(set(order)) != len(order) or any(not 0 <= axis < rank for axis in order):
        raise place.wrong(f"order: {', '.join(map(str, order))} is no order of {rank} dimensions")
    order += [axis for axis in range(rank) if axis not in order]
    return place.add("Transpose", [place.source], [place.shape[axis] for axis in order], perm=order)


def tile(place: Place) -> str:
    """Repeated along an axis."""
    fields = place.param("tile")
    axis, count = place.axis(fields.whole("axis", 1)), fields.whole("tiles", 0, 1)
    if count < 1:
        raise place.wrong("tiles is missing")
    repeats = [count if number == axis else 1 for number in range(len(place.shape))]
    shape = [size * many for size, many in zip(place.shape, repeats, strict=True)]
    return place.add("Tile", [place.source, place.constant("repeats", repeats, "int64")], shape)


def shuffle_channel(place: Place) -> str:
    """ShuffleNet's: channels of the groups by turns."""
    group = place.param("shuffle_channel").whole("group", 1, 1)
    batch, channels, height, width = place.map_shape()
    if channels % group:
        raise place.wrong(f"{channels} channels cannot be divided into {group} groups")
    each = channels // group
    parts = place.reshape(place.source, [batch, group, each, height, width], "groups")
    turned = place.add("Transpose", [parts], [batch, each, group, height, width], "turned", perm=[0, 2, 1, 3, 4])
    return place.reshape(turned, place.shape)


def interp(place: Place) -> str:
    """DeepLab's: linear, corner to corner."""
    fields = place.param("interp")
    batch, channels, height, width = place.map_shape()
    begin, end = fields.whole("pad_beg", 0), fields.whole("pad_end", 0)
    if begin or end:
        raise place.wrong("pad_beg and pad_end are not one of the forms that the compiler has")
    shrink, zoom = fields.whole("shrink_factor", 1, 1), fields.whole("zoom_factor", 1, 1)
    sizes = []
    for name, length in (("height", height), ("width", width)):
        small = (length - 1) // shrink + 1
        sizes.append(fields.whole(name, small + (small - 1) * (zoom - 1), 1))
    shape = [batch, channels, *sizes]
    return place.add("Resize", [place.source, "", "", place.constant("sizes", shape, "int64")], shape, **_CORNERS)


def upsample(place: Place) -> str:
    """Each pixel several times."""
    fields = place.param("upsample")
    if len(place.sources) > 1:
        raise place.wrong("unpooling with a mask is not one of the forms that the compiler has")
    factor = fields.whole("scale", fields.whole("stride", 2, 1), 1)
    batch, channels, height, width = place.map_shape()
    scales = place.constant("scales", [1, 1, factor, factor])
    return place.add("Resize", [place.source, "", scales], [batch, channels, height * factor, width * factor],
                     **_NEAREST)  # fmt: skip


def arg_max(place: Place) -> str:
    """Places of the largest numbers, as floats; their values in front or instead, if asked for."""
    fields = place.param("argmax")
    count, with_values = fields.whole("top_k", 1, 1), fields.flag("out_max_val", False)
    has_axis = "axis" in fields
    batch = place.shape[0]
    if has_axis:
        value, axis, shape = place.source, place.axis(fields.whole("axis", 1)), list(place.shape)
    else:
        shape, axis = [batch, math.prod(place.shape[1:])], 1
        value = place.reshape(place.source, shape, "flat")
    if count > shape[axis]:
        raise place.wrong(f"top_k: {count} of {shape[axis]} numbers")
    shape[axis] = count
    if count == 1 and not with_values:
        first = place.add("ArgMax", [value], shape, "first", axis=axis, keepdims=1)
        if has_axis:
            return place.add("Cast", [first], shape, to=1)
        return place.reshape(place.add("Cast", [first], shape, "float", to=1), [batch, 1, 1])
    many = place.constant("count", [count], "int64")
    values, places = place.build.add_many(
        "TopK", [value, many], {f"{place.name}.values": shape, f"{place.name}.places": shape}, axis=axis
    )
    if has_axis:
        if with_values:
            return place.add("Identity", [values], shape)
        return place.add("Cast", [places], shape, to=1)
    floats = place.add("Cast", [places], shape, "floats", to=1)
    if with_values:
        both = place.add("Concat", [floats, values], [batch, 2 * count], "both", axis=1)
        return place.reshape(both, [batch, 2, count])
    return place.reshape(floats, [batch, 1, count])


def reduction(place: Place) -> str:
    """One number for all dimensions from `axis` on."""
    fields = place.param("reduction")
    axis = place.axis(fields.whole("axis", 0))
    word = fields.word("operation", "SUM")
    word = {"1": "SUM", "2": "ASUM", "3": "SUMSQ", "4": "MEAN"}.get(word, word)
    if word not in _REDUCTIONS:
        raise place.wrong(f"operation: {word} is not one of {', '.join(_REDUCTIONS)}")
    axes, shape, factor = list(range(axis, len(place.shape))), place.shape[:axis], fields.number("coeff", 1.0)
    suffix = "" if factor == 1 else "reduced"
    kind = _REDUCTIONS[word]
    if kind == "ReduceSum":
        inputs = [place.source, place.constant("axes", axes, "int64")]
        made = place.add(kind, inputs, shape, suffix, keepdims=0)
    else:
        made = place.add(kind, [place.source], shape, suffix, axes=axes, keepdims=0)
    return made if factor == 1 else place.with_number("Mul", made, factor)


def embed(place: Place) -> str:
    """A row of the weights for each number."""
    fields = place.param("embed")
    outputs, inputs = fields.whole("num_output", 0, 1), fields.whole("input_dim", 0, 1)
    if outputs < 1 or inputs < 1:
        raise place.wrong("num_output or input_dim is missing")
    weights = place.constant("weights", place.array(0, (inputs, outputs), "weights"))
    ids = place.add("Cast", [place.source], place.shape, "ids", to=7)
    shape = [*place.shape, outputs]
    if not fields.flag("bias_term", True):
        return place.add("Gather", [weights, ids], shape, axis=0)
    rows = place.add("Gather", [weights, ids], shape, "rows", axis=0)
    bias = place.constant("bias", place.array(1, (outputs,), "biases").astype(np.float32))
    return place.add("Add", [rows, bias], shape)

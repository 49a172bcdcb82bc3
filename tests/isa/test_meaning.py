"""Natural values mean what they say: registers that describe one thing agree, on every chip."""

from pathlib import Path

import pytest

import openrknn
from openrknn import isa
from openrknn.isa.stream import Instruction

ROOT = Path(__file__).parents[2]
GOLDENS = sorted((ROOT / "tests" / "goldens").glob("*_rk3588_*.rknn"))
CORPUS = ROOT.parent / "shared" / "corpus"


def tasks(path: Path) -> list[dict[str, Instruction]]:
    """The instructions of each task by name."""
    model = openrknn.load(path)
    register_map = isa.map_for(model.chip)
    return [
        {one.name: one for one in isa.disassemble(graph.task_words(task).tolist(), register_map)}
        for graph in model.graphs
        for task in graph.tasks
    ]


def entries_of_a_row(width: int, channels: int, element_bytes: int) -> int:
    whole, rest = divmod(-(-channels * element_bytes // 16), 4)
    return whole * width + (width if rest == 3 else -(-rest * width // 4))


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_registers_of_one_convolution_agree(path: Path) -> None:
    for task in tasks(path):
        if len(task) < 100 or "CNA.DATA_SIZE0" not in task:
            continue

        def value(register: str, field: str, task: dict[str, Instruction] = task) -> int:
            return task[register].values[field]

        width = value("CNA.DATA_SIZE2", "dataout_width")
        height = value("CNA.DATA_SIZE3", "dataout_atomics") // width
        assert width == value("CORE.DATAOUT_SIZE_0", "dataout_width") == value("DPU.DATA_CUBE_WIDTH", "width")
        assert width == value("DPU.WDMA_SIZE_1", "width_wdma")
        assert height == value("CORE.DATAOUT_SIZE_0", "dataout_height") == value("DPU.DATA_CUBE_HEIGHT", "height")
        kernels = value("CNA.WEIGHT_SIZE2", "weight_kernels")
        weight_bytes = kernels * value("CNA.WEIGHT_SIZE1", "weight_bytes_per_kernel")
        if value("CNA.DCOMP_CTRL", "decomp_control"):
            weight_bytes += -weight_bytes % 64  # four bytes for each of 16 lanes
        assert value("CNA.WEIGHT_SIZE0", "weight_bytes") == weight_bytes
        columns, rows = value("CNA.DATA_SIZE0", "datain_width"), value("CNA.DATA_SIZE0", "datain_height")
        entries = value("CNA.CBUF_CON1", "data_entries")
        element_bytes = 1 if value("CNA.CONV_CON1", "in_precision") == isa.Precision.INT8 else 2
        if value("CNA.CONV_CON1", "argb_in"):
            step = 16 // element_bytes  # a line of a model's input is whole atoms, of another tensor W pixels
            assert entries in {columns * rows, -(-columns // step) * step * rows}
        else:
            assert entries == entries_of_a_row(columns, value("CNA.DATA_SIZE1", "datain_channel"), element_bytes)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="no ../shared/corpus")
@pytest.mark.parametrize("kind", ["conv1x1", "convs2", "convrelu6"])
@pytest.mark.parametrize("chip", ["rk3566", "rk3562", "rk3576", "rv1106"])
def test_one_model_reads_alike_on_every_chip(chip: str, kind: str) -> None:
    """The same network compiled for another chip has the same natural values where both have the field."""
    expected = fields_of(CORPUS / "rk3588" / f"{kind}_rk3588_i8.rknn")
    found = fields_of(CORPUS / chip / f"{kind}_{chip}_i8.rknn")
    names = (
        *("datain_width", "datain_height", "datain_channel_real", "dataout_width", "dataout_atomics"),
        *("weight_kernels", "weight_width", "weight_height", "weight_bytes", "weight_bytes_per_kernel"),
        *("conv_x_stride", "conv_y_stride", "pad_top", "pad_left", "dataout_height", "width"),
        *("height", "orig_channel", *(() if chip == "rk3576" else ("bs_mul_shift_value", "bs_mul_shift_value_neg"))),
        *("out_cvt_scale", "out_cvt_shift", "out_cvt_offset"),
    )
    shared = [name for name in names if name in found]
    assert len(shared) >= 19
    assert {name: found[name] for name in shared} == {name: expected[name] for name in shared}


def fields_of(path: Path) -> dict[str, int]:
    """The fields of the first task, by name alone; of fields of one name the first."""
    found: dict[str, int] = {}
    for instruction in tasks(path)[0].values():
        for name, value in instruction.values.items():
            found.setdefault(name, value)
    return found

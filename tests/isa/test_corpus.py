"""Real streams: disassembled, assembled, as text and back; nothing unexplained on RK3588.

The small models of the repository are always there. The corpus beside the repository is larger; without it its tests
are skipped.
"""

from pathlib import Path

import pytest

import openrknn
from openrknn import isa
from tests.container.places import IS_WHOLE
from tools.survey_registers import DOCS, seen_json, survey, undeclared_page

ROOT = Path(__file__).parents[2]
GOLDENS = sorted((ROOT / "tests" / "goldens").glob("*.rknn"))
SHARED = (ROOT.parent / "shared" / "corpus", ROOT.parent / "shared" / "models")
CORPUS = sorted(path for folder in SHARED for path in folder.rglob("*.rknn"))

needs_corpus = pytest.mark.skipif(
    not all(folder.is_dir() for folder in SHARED), reason="no ../shared/corpus and ../shared/models"
)


def check_streams(path: Path) -> None:
    model = openrknn.load(path)
    register_map = isa.map_for(model.chip)
    for graph in model.graphs:
        words = graph.commands.tolist()
        instructions = isa.disassemble(words, register_map)
        assert isa.assemble(instructions) == words
        text = isa.format_text(instructions)
        assert isa.assemble(isa.parse_text(text, register_map)) == words
        assert all(one.register is not None for one in instructions)
        if register_map is isa.RK3588:
            assert all(one.is_known for one in instructions)


def check_tails(path: Path) -> None:
    """Every task ends in a link (or nothing), an amount, SYNC and ENABLE, and the amount is that of the next task."""
    model = openrknn.load(path)
    register_map = isa.map_for(model.chip)
    for graph in model.graphs:
        amounts = {task.address: task.amount for task in graph.tasks}
        for task in graph.tasks:
            tail = graph.task_words(task)[task.amount :].tolist()
            link, amount, sync, enable = (isa.Command.decode(word) for word in tail)
            assert sync.word == isa.SYNC_WORD
            assert enable.target == isa.Target.ENABLE
            assert enable.value & 0x7F == task.enable_mask
            assert link.word == isa.NOP_WORD or (link.target, link.offset) == (isa.Target.PC, 0x10)
            fetched = isa.pc.RegisterAmounts(amount.value).pc_data_amount
            if link.word != isa.NOP_WORD and link.value in amounts:
                assert fetched == register_map.fetch_amount(amounts[link.value])


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_goldens(path: Path) -> None:
    check_streams(path)
    check_tails(path)


@needs_corpus
def test_every_stream_of_the_corpus_survives() -> None:
    assert len(CORPUS) > 200
    for path in CORPUS if IS_WHOLE else CORPUS[::4]:
        check_streams(path)


@needs_corpus
def test_every_tail_of_the_corpus_is_as_described() -> None:
    for path in CORPUS:
        check_tails(path)


@needs_corpus
def test_what_is_unexplained_is_listed() -> None:
    found = survey(CORPUS)
    assert not found["rk3588"].unexplained
    hint = "run: python tools/survey_registers.py ../shared/corpus ../shared/models"
    assert undeclared_page(found) == (DOCS / "undeclared.md").read_text(encoding="utf-8"), hint
    assert seen_json(found) == (DOCS / "seen.json").read_text(encoding="utf-8"), hint

"""A few hundred damaged files of language models; tools/fuzz_llm.py has thousands."""

import pytest

from tools.fuzzing_llm.campaign import campaign
from tools.fuzzing_llm.seeds import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_mutants_work_or_are_refused(kind: str) -> None:
    tally, failures = campaign(kind, 150, 1, memory=256 << 20, seconds=60)
    assert not failures, [(number, text) for number, text, _ in failures]
    assert tally["refused"] > 20
    assert tally["works"] > 5

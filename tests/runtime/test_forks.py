"""Sessions in forked processes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping

from openrknn.runtime.session import Session
from tests.runtime.cases import Array, answers, golden, same

MODEL = golden("residual_rk3588_i8")
SECONDS = 20


def use(session: Session, inputs: list[Array], expected: Mapping[str, Array]) -> int:
    """What a forked process does with the session that it inherited; 0: all results were right."""
    found = session.run(inputs, outputs="raw")
    later = session.run_async(inputs, outputs="raw").result()
    session.close()
    return 0 if same(found, expected) and same(later, expected) else 1


def forked(session: Session, inputs: list[Array], expected: Mapping[str, Array]) -> int:
    process = os.fork()
    if process == 0:
        signal.alarm(SECONDS)  # a child that waits for ever ends by the signal
        code = 3
        try:
            code = use(session, inputs, expected)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def test_a_fork_while_another_thread_runs_a_session() -> None:
    """FINDINGS 10c: the child waited for ever for the lock that the other thread held."""
    inputs, _ = answers(MODEL)
    over = threading.Event()
    with Session(MODEL, device="software") as session:
        expected = session.run(inputs, outputs="raw")
        session.run_async(inputs).result()

        def work() -> None:
            while not over.is_set():
                session.run(inputs)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            assert [forked(session, inputs, expected) for _ in range(4)] == [0] * 4
        finally:
            over.set()
            thread.join()
        assert same(session.run(inputs, outputs="raw"), expected)

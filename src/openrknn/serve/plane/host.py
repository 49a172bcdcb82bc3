"""`Host`: where a model runs. In a worker process (`serve.worker`), or here, in the process of the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, cast

from openrknn.container.bundle import Bundle
from openrknn.container.model import Model
from openrknn.runtime.profile import RunTimes
from openrknn.runtime.session import Session
from openrknn.serve.datatypes import Array
from openrknn.serve.errors import NotFoundError
from openrknn.serve.plane.contexts import Contexts, OpenSession, run_session
from openrknn.serve.plane.instance import Context
from openrknn.serve.plane.model_info import ModelInfo
from openrknn.serve.shared.tensor import Tensor, loaded

__all__ = ["Host", "InProcessHost", "no_report"]


class Host(Protocol):
    """One model version, loaded somewhere."""

    card: ModelInfo

    @property
    def restarts(self) -> int:
        """Processes that ended by themselves and were replaced."""

    def open_context(self) -> tuple[Context, str]:
        """A context that has proved itself, and the name of its device."""

    def report(self) -> str:
        """The report of `openrknn inspect --html`."""

    def pids(self) -> Sequence[int]:
        """Processes beside the server's."""

    def close(self) -> None:
        """After the contexts are closed: give everything back."""


class _Local:
    """A `Session` of this process. It lives as long as the process does."""

    is_alive = True
    lends_outputs = False

    def __init__(self, session: Session) -> None:
        self._session = session
        self.set_shapes, self.close = session.set_shapes, session.close

    def run(self, inputs: Mapping[str, Tensor], *, layout: Mapping[str, str], outputs: str) -> dict[str, Array]:
        """As `Session.run`."""
        given = {name: loaded(tensor) for name, tensor in inputs.items()}
        found: dict[str, Array] = run_session(self._session, given, layout, outputs)
        return found

    @property
    def times(self) -> RunTimes:
        return self._session.times


class InProcessHost:
    """The model runs in the server's own process: a crash of the model is a crash of the server."""

    restarts = 0

    def __init__(
        self,
        path: Path,
        *,
        device: str,
        cores: int | None,
        warm_up: bool,
        open_session: OpenSession = Session,
        describe: Callable[[Model | Bundle], str] | None = None,
    ) -> None:
        self._contexts = Contexts(path, device=device, cores=cores, warm_up=warm_up, open_session=open_session)
        self._describe = describe
        self.card = self._contexts.card

    def open_context(self) -> tuple[Context, str]:
        """A session."""
        session = self._contexts.open()
        return cast(Context, _Local(session)), session.device.name

    def report(self) -> str:
        """Made here."""
        if self._describe is None:
            raise no_report()
        return self._describe(self._contexts.model)

    def pids(self) -> Sequence[int]:
        """None."""
        return ()

    def close(self) -> None:
        """Nothing is left but memory."""


def no_report() -> NotFoundError:
    """This server does not make reports."""
    return NotFoundError("this server was started without the reports of `openrknn inspect`")

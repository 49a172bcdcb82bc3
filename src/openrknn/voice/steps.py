"""The models of a voice set, opened; a net that keeps a state takes what is new and gives what is new."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from openrknn.backports import add_note
from openrknn.closing import Closing
from openrknn.errors import RknnError
from openrknn.runtime.session import Session
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.sets import VoiceSet


class Steps(Closing):
    """One model of a set, whose option `states` says which outputs are which inputs of the next step."""

    def __init__(self, voice: VoiceSet, role: str, device: str, taken: int, given: int) -> None:
        self._where = f"{voice.folder}: {role!r} of the set {voice.name!r}"
        states = _states(voice, role, self._where)
        self._session = open_net(voice, role, device)
        try:
            self._shape, self._input, self._output = self._ports(states, taken, given)
            self._carried = self._session.carry(states)
        except ValueError as error:
            self._session.close()
            raise VoiceSetError(f"{self._where}: {error}") from error
        except BaseException:
            self._session.close()
            raise

    @property
    def session(self) -> Session:
        """The model itself."""
        return self._session

    def step(self, block: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """What comes out for these numbers, flat. The state stays where the NPU has it."""
        found = self._carried.step({self._input: block.reshape(self._shape)})
        return np.asarray(found[self._output], np.float32).reshape(-1)

    def reset(self) -> None:
        """The state is zeros again."""
        self._carried.reset()

    def close(self) -> None:
        """Give the model back."""
        self._session.close()

    def _ports(self, states: Mapping[str, str], taken: int, given: int) -> tuple[tuple[int, ...], str, str]:
        ins = {port.name: tuple(port.shape) for port in self._session.inputs}
        outs = {port.name: tuple(port.shape) for port in self._session.outputs}
        new = [name for name in ins if name not in states.values()]
        made = [name for name in outs if name not in states]
        if len(new) != 1 or len(made) != 1 or np.prod(ins[new[0]]) != taken or np.prod(outs[made[0]]) != given:
            raise VoiceSetError(
                f"{self._where}: takes {[ins[name] for name in new]} and gives {[outs[name] for name in made]} beside "
                f"its state; {taken} numbers in and {given} out are needed"
            )
        return ins[new[0]], new[0], made[0]


def _states(voice: VoiceSet, role: str, where: str) -> dict[str, str]:
    row = voice.options.get("states", {})
    found = row.get(role, {}) if isinstance(row, dict) else None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found.values()):
        raise VoiceSetError(f"{where}: its 'states' should be an object of names, not {found!r:.60}")
    return dict(found)


def open_net(voice: VoiceSet, role: str, device: str = "auto") -> Session:
    """The model of this role (`.rknn` or `.rknnz`), ready to run; "auto" takes the NPU here, else the software NPU."""
    path = voice.file(role)
    try:
        return Session(path, device)
    except RknnError as error:
        # A set that was moved, cut or made for another chip: which file of which set is what helps.
        add_note(error, f"while {role!r} of the set {voice.name!r} was opened: {path}")
        raise
    except OSError as error:
        raise VoiceSetError(f"{path}: cannot be read: {error.strerror or error}") from error


def shape_sets(session: Session) -> list[dict[str, tuple[int, ...]]]:
    """The input shapes of every graph of a model, as the model had them before it was compiled (channels first)."""
    found = []
    for allowed, graph in zip(session.allowed_shapes, session.model.graphs, strict=True):
        shapes = (tuple(graph.tensors[index].shape) for index in graph.inputs)
        found.append(dict(zip(allowed, shapes, strict=True)))
    return found

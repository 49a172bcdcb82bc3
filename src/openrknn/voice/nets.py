"""The models of a voice set, opened."""

from __future__ import annotations

from openrknn.backports import add_note
from openrknn.errors import RknnError
from openrknn.runtime.session import Session
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.sets import VoiceSet

__all__ = ["open_net", "shape_sets"]


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

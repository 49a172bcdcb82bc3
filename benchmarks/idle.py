"""`RKNNLite` of ours on a device that computes nothing: what is left is the cost of the call."""

from __future__ import annotations

from typing import Any

import numpy as np

from openrknn.device import Job
from openrknn.device.base import Work
from openrknn.device.software import SoftwareBuffer, SoftwareDevice
from openrknn.runtime.session import Session
from rknnlite.api import RKNNLite
from rknnlite.api.rknn_runtime import RKNNRuntime
from rknnlite.engine.sources import Source


class IdleDevice(SoftwareDevice):
    """Memory, and no work."""

    def _prepare(self, job: Job) -> Work[SoftwareBuffer]:
        """Whatever the job is, it leaves everything as it is."""
        return Work(lambda buffers: None)


class IdleSource(Source):
    """A model whose sessions are on such a device."""

    def open_session(self, device: str, core_mask: int) -> Session:
        """As always, but there."""
        return Session(self.model, IdleDevice(self.model.chip), core_mask=core_mask)


def start(source: IdleSource) -> RKNNLite:
    """A runtime on the idle device."""
    lite = RKNNLite()
    lite.rknn_runtime = RKNNRuntime()
    lite.rknn_runtime.build_graph(source)
    return lite


def picture_for(lite: Any) -> Any:
    """Zeros in the shape of the first input."""
    attribute = lite.rknn_runtime.get_tensor_attr(0)
    return np.zeros(list(attribute.dims[: attribute.n_dims]), np.uint8)

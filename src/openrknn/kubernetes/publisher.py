"""Makes the slices at the API server those of this node, whenever either of them changes.

Its thread is the only one that writes. It compares what is wanted with what the API server holds (`ObjectStore`, which
`SliceWatch` keeps true), and never with what it wrote before.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from openrknn.kubernetes.api import ApiError, ApiServer
from openrknn.kubernetes.features import Features, ask
from openrknn.kubernetes.object_store import ObjectStore
from openrknn.kubernetes.watch import SLICES, SliceWatch, jittered, listed

__all__ = ["Publisher"]

_LOG = logging.getLogger(__name__)
_LEAVE_SECONDS = 3.0
_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.1, 15.0
_ASK_AGAIN_SECONDS = 3600.0
Contents = Callable[[Features], Sequence[Mapping[str, Any]]]
"""What goes into the slices, in order, given what the API server knows."""


class Publisher:
    """One pool: the devices of one driver on one node."""

    def __init__(
        self,
        api: ApiServer,
        driver: str,
        node: str,
        clock: Callable[[], float] = time.monotonic,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self._api, self._driver, self._node, self._clock, self._may_write = api, driver, node, clock, may_write
        self._changed = threading.Condition()
        self._is_dirty = self._closed = False
        self._wanted: tuple[object, Contents] | None = None
        self._known = ObjectStore(driver, node, self.wake)
        self._watch = SliceWatch(api, driver, node, self._known)
        self._features: Features | None = None
        self._asked_at = 0.0
        self._normal: dict[str, tuple[object, object]] = {}
        """What was written, and what the API server made of it."""
        self._thread = threading.Thread(target=self._run, name="openrknn-publish", daemon=True)
        self._problem = ""
        self.writes = 0
        self.published_devices = 0
        self.is_held = False
        """Whether something differs, and we may not write it: a newer instance on this node does."""
        self.is_published = False
        """Whether the API server held what is wanted when it was last looked at."""

    @property
    def watch_breaks(self) -> int:
        return self._watch.breaks

    def start(self) -> None:
        """Watch and write from now on."""
        self._watch.start()
        self._thread.start()

    def want(self, key: object, contents: Contents) -> None:
        """What the node has now; `key` tells whether that is something else than before."""
        with self._changed:
            if self._wanted is not None and self._wanted[0] == key:
                return
            self._wanted = key, contents
        self.wake()

    def wake(self) -> None:
        """Look now."""
        with self._changed:
            self._is_dirty = True
            self._changed.notify_all()

    def close(self) -> None:
        """Stop. Slices stay: a driver that is updated must not take its pods' devices away."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._watch.close()
        if self._thread.is_alive():
            self._thread.join(_LEAVE_SECONDS)

    # ------------------------------------------------------------ inside

    def _run(self) -> None:
        pause, wait = _SHORTEST_SECONDS, 0.0
        while True:
            with self._changed:
                if wait:
                    # Not even something new is worth a write before the server can take it.
                    self._changed.wait_for(lambda: self._closed, timeout=wait)
                else:
                    self._changed.wait_for(lambda: self._closed or self._is_dirty)
                if self._closed:
                    return
                self._is_dirty = False
                wanted = self._wanted
            wait = 0.0
            if wanted is None or not self._known.is_complete:
                continue
            try:
                self._reconcile(wanted[1])
                self._problem, pause = "", _SHORTEST_SECONDS
            except ApiError as error:
                self.is_published = False
                wait = max(error.retry_after, jittered(pause))
                pause = min(pause * 2, _LONGEST_SECONDS)
                self._tell(error)
                self._look_again(error)
            except Exception:  # noqa: BLE001 - as in SliceWatch
                self.is_published, wait = False, pause
                pause = min(pause * 2, _LONGEST_SECONDS)
                _LOG.exception("the slices could not be published; trying again")

    def _tell(self, error: ApiError) -> None:
        kind = str(error.status)
        if error.status == 409:
            _LOG.debug("%s; reading again", error)
        elif kind != self._problem:
            _LOG.warning("the slices could not be published: %s; trying again", error)
            self._problem = kind

    def _look_again(self, error: ApiError) -> None:
        """Somebody else wrote (409), deleted (404) or the object is not what we think (422): read all of them."""
        if error.status in (404, 409, 422):
            try:
                items, _ = listed(self._api, self._driver, self._node)
                self._known.replace(items)
            except ApiError as again:
                _LOG.debug("%s", again)

    def _reconcile(self, contents: Contents) -> None:
        have = self._known.items()
        now = self._clock()
        if self._features is None or now - self._asked_at > _ASK_AGAIN_SECONDS:
            self._features, self._asked_at = ask(self._api, self._driver, self._node), now
        wanted = contents(self._features)
        names = {self._name(number): content for number, content in enumerate(wanted)}
        generations = {item["spec"]["pool"]["generation"] for item in have.values()}
        if have.keys() == names.keys() and len(generations) == 1:
            specs = self._specs(names, generations.pop())
            if all(self._is_so(name, have[name]["spec"], spec) for name, spec in specs.items()):
                self._say_published(wanted)
                self.is_held = False
                return
        # Asked at the last moment: what differs may be the first thing that a newer instance wrote.
        self.is_held = not self._may_write()
        if self.is_held:
            return
        self.is_published = False
        generation = self._known.generation + 1
        uid = self._api.get(f"/api/v1/nodes/{quote(self._node)}")["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": uid, "controller": True}
        for name, spec in self._specs(names, generation).items():
            self._write(name, spec, owner, have.get(name))
        for name in have.keys() - names.keys():
            self._delete(have[name])
        self._say_published(wanted)
        _LOG.info("published %d devices, generation %d", self.published_devices, generation)

    def _say_published(self, wanted: Sequence[Mapping[str, Any]]) -> None:
        """Devices that may be used: those with a taint are published, and not for use."""
        devices = [device for content in wanted for device in content.get("devices", ())]
        self.published_devices = sum(not device.get("taints") for device in devices)
        self.is_published = True

    def _specs(self, names: Mapping[str, Mapping[str, Any]], generation: int) -> dict[str, dict[str, Any]]:
        pool = {"name": self._node, "generation": generation, "resourceSliceCount": len(names)}
        common = {"driver": self._driver, "nodeName": self._node, "pool": pool}
        return {name: {**common, **content} for name, content in names.items()}

    def _name(self, number: int) -> str:
        """At most 253 characters, whatever the node is called."""
        return f"{self._node[: 240 - len(self._driver)].rstrip('.-')}-{self._driver}-{number}"

    def _write(
        self, name: str, spec: dict[str, Any], owner: Mapping[str, Any], old: Mapping[str, Any] | None
    ) -> None:
        item = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": spec,
        }
        self.writes += 1
        if old is None:
            answer = self._api.call("POST", SLICES, item)
        else:
            item["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]  # type: ignore[index]
            answer = self._api.call("PUT", f"{SLICES}/{quote(name)}", item)
        try:
            kept = answer["spec"]
            self._known.put(answer)
        except (KeyError, TypeError):
            raise ApiError(f"{SLICES}/{name}: the answer is not a slice") from None
        if not _holds(kept, spec):
            self._features = None
            raise ApiError(f"{SLICES}/{name}: the API server dropped a part of it; asking what it knows")
        self._normal[name] = _without(spec, "pool"), _without(kept, "pool")

    def _delete(self, item: Mapping[str, Any]) -> None:
        self.writes += 1
        try:
            self._api.call("DELETE", f"{SLICES}/{quote(item['metadata']['name'])}")
        except ApiError as error:
            if error.status != 404:
                raise
        # The next list or event would tell it as well; without this the loop would see it once more.
        self._known.remove({"metadata": {"name": item["metadata"]["name"]}})

    def _is_so(self, name: str, have: Mapping[str, Any], want: Mapping[str, Any]) -> bool:
        """Whether nothing is missing and nothing was added, except for what the API server itself adds."""
        if not _holds(have, want):
            return False
        return _equal(have, want) or self._normal.get(name) == (_without(want, "pool"), _without(have, "pool"))


def _holds(have: object, want: object) -> bool:
    """Whether everything wanted is there."""
    if isinstance(have, dict) and isinstance(want, dict):
        return all(name in have and _holds(have[name], value) for name, value in want.items())
    if isinstance(have, list) and isinstance(want, list):
        return len(have) == len(want) and all(map(_holds, have, want))
    return have == want


def _equal(have: object, want: object) -> bool:
    """Whether nothing more is there, but for the time that the API server gives to a taint."""
    if isinstance(have, dict) and isinstance(want, dict):
        more = have.keys() - want.keys() - {"timeAdded"}
        return not more and all(_equal(have[name], value) for name, value in want.items())
    if isinstance(have, list) and isinstance(want, list):
        return len(have) == len(want) and all(map(_equal, have, want))
    return have == want


def _without(spec: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key != name}

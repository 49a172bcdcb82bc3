"""A stand-in for the API server: nodes, claims and slices, as unkind as the real one.

Resource versions of the whole store, lists in pages with field selectors, watches that send bookmarks, break, and are
told that their version is too old; conflicts, tokens that expire, overload; fields of features that are off vanish
without a word; dry runs.
"""

from __future__ import annotations

import copy
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

__all__ = ["StandInApi"]

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
GATES = frozenset({"DRAPartitionableDevices", "DRADeviceTaints", "DRAConsumableCapacity"})


class StandInApi:
    """Objects by path. What is public may be set by a test at any time."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {"/api/v1/nodes/board1": {"metadata": {"name": "board1", "uid": "node-uid"}}}
        self.tokens: set[str] = set()
        self.calls: list[str] = []
        self.fail = False
        self.valid_token: str | None = None
        """With one, every other gets 401."""
        self.overload = 0
        """So many calls are answered with 429 and Retry-After."""
        self.retry_after = "0"
        self.conflicts = 0
        """So many writes meet somebody else's."""
        self.gates: frozenset[str] = GATES
        self.page = 1
        """A page of the real one is larger; a client must go on anyway."""
        self.listed = 0
        self.watch_seconds = 60.0
        """A watch breaks after that, in the middle of a line."""
        self.bookmark_seconds = 60.0
        self.too_old = 0
        """So many watches are told 410: every other one by its status, the others by an event."""
        self.may_watch = True
        """Whether the account's role has the verb."""
        self.noise: list[bytes] = []
        """Lines that watches send before anything else."""
        self.watches = 0
        self.open_watches = 0
        self._version = 100
        self._events: list[tuple[int, str, Any]] = []
        self._changed = threading.Condition()
        self._closed = False
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _do(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                token = self.headers.get("Authorization") or ""
                api.tokens.add(token)
                query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
                if api.valid_token is not None and token != f"Bearer {api.valid_token}":
                    self._answer(401, {"message": "Unauthorized"})
                elif query.get("watch") and not api.may_watch:
                    self._answer(403, {"message": "resourceslices is forbidden: cannot watch"})
                elif query.get("watch") and not api.fail:
                    api.calls.append(f"WATCH {self.path}")
                    self._watch(query)
                else:
                    self._answer(*api.answer(self.command, self.path, body))

            def _answer(self, status: int, answer: Any) -> None:
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                if status in (429, 503):
                    self.send_header("Retry-After", api.retry_after)
                self.end_headers()
                self.wfile.write(content)

            def _watch(self, query: dict[str, str]) -> None:
                api.watches += 1
                if api.too_old > 0:
                    api.too_old -= 1
                    status = {"kind": "Status", "code": 410, "message": "too old resource version", "reason": "Expired"}
                    if api.too_old % 2:
                        self._answer(410, status)
                        return
                    api.noise.append(json.dumps({"type": "ERROR", "object": status}).encode())
                self.close_connection = True
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                with api._changed:
                    api.open_watches += 1
                try:
                    api._send(self._chunk, query)
                except OSError:
                    pass
                finally:
                    with api._changed:
                        api.open_watches -= 1

            def _chunk(self, content: bytes) -> None:
                self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")

            do_GET = do_PUT = do_POST = do_DELETE = _do  # noqa: N815

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request: object, client_address: object) -> None:
                """A client that was killed."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(poll_interval=0.02))

    def __enter__(self) -> StandInApi:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # ------------------------------------------------------------ what tests do to it

    @property
    def slices(self) -> list[dict[str, Any]]:
        with self._changed:
            return [value for path, value in sorted(self.objects.items()) if path.startswith(f"{SLICES}/")]

    def mine(self, driver: str = "npu.rockchip.com", node: str = "board1") -> list[dict[str, Any]]:
        """The slices of one driver on one node."""
        return [
            item for item in self.slices if item["spec"]["driver"] == driver and item["spec"].get("nodeName") == node
        ]

    def wipe(self) -> None:
        """What a kubelet does with the slices of its node when it starts."""
        for path in [path for path in self.objects if path.startswith(f"{SLICES}/board1-")]:
            self._store(path, None)

    def add_foreign(self, count: int) -> None:
        """Slices of other drivers and other nodes."""
        for number in range(count):
            driver = "gpu.example.com" if number % 2 else "npu.rockchip.com"
            spec = {"driver": driver, "nodeName": f"other{number}", "pool": {"generation": 7}, "devices": []}
            name = f"other{number}"
            self.objects[f"{SLICES}/{name}"] = {"metadata": {"name": name, "resourceVersion": "1"}, "spec": spec}

    def alter(self, name: str, **spec: Any) -> None:
        """Somebody else changes a slice."""
        item = copy.deepcopy(self.objects[f"{SLICES}/{name}"])
        item["spec"].update(spec)
        self._store(f"{SLICES}/{name}", item)

    def claim(
        self,
        name: str,
        uid: str,
        *devices: str,
        pool: str = "board1",
        requests: tuple[str, ...] = (),
        shares: tuple[str, ...] = (),
    ) -> None:
        """A claim that the scheduler has given these devices; all to one request unless said otherwise."""
        results = [
            {"request": request, "driver": "npu.rockchip.com", "pool": pool, "device": one}
            for request, one in zip(requests or ("npu",) * len(devices), devices, strict=True)
        ]
        for result, share in zip(results, shares, strict=False):
            result["shareID"] = share
        self.objects[f"/apis/resource.k8s.io/v1/namespaces/home/resourceclaims/{name}"] = {
            "metadata": {"name": name, "uid": uid},
            "status": {"allocation": {"devices": {"results": results}}},
        }

    def remove_claim(self, name: str) -> None:
        """As its owner does."""
        del self.objects[f"/apis/resource.k8s.io/v1/namespaces/home/resourceclaims/{name}"]

    # ------------------------------------------------------------ inside

    def _store(self, path: str, item: Any) -> Any:
        """With a new version, and told to every watch; None deletes."""
        with self._changed:
            self._version += 1
            kind = "DELETED" if item is None else "MODIFIED" if path in self.objects else "ADDED"
            item = copy.deepcopy(self.objects.pop(path) if item is None else item)
            item["metadata"]["resourceVersion"] = str(self._version)
            if kind != "DELETED":
                self.objects[path] = item
            if path.startswith(f"{SLICES}/"):
                self._events = [*self._events[-999:], (self._version, kind, item)]
            self._changed.notify_all()
            return item

    def _send(self, write: Any, query: dict[str, str]) -> None:
        """The events of one watch; at its end half a line, as when a connection is cut."""
        end = time.monotonic() + self.watch_seconds
        bookmark = time.monotonic() + self.bookmark_seconds
        seen = int(query.get("resourceVersion") or 0)
        while self.noise:
            write(self.noise.pop(0) + b"\n")
        while True:
            with self._changed:
                now = time.monotonic()
                self._changed.wait_for(
                    lambda: self._closed or self._version > seen,  # noqa: B023
                    timeout=max(0.0, min(end, bookmark) - now),
                )
                if self._closed:
                    return
                events = [event for event in self._events if event[0] > seen and _matches(event[2], query)]
                seen = self._version
            for _, kind, item in events:
                write(json.dumps({"type": kind, "object": item}).encode() + b"\n")
            if time.monotonic() >= end:
                write(b'{"type":"MODIF')
                return
            if time.monotonic() >= bookmark:
                bookmark += self.bookmark_seconds
                metadata = {"resourceVersion": str(seen)}
                write(json.dumps({"type": "BOOKMARK", "object": {"metadata": metadata}}).encode() + b"\n")

    def _list(self, query: dict[str, str]) -> dict[str, Any]:
        """One page of the slices that the field selector names."""
        with self._changed:
            version = str(self._version)
        found = [item for item in self.slices if _matches(item, query)]
        start, limit = int(query.get("continue", 0)), min(int(query.get("limit", len(found))), self.page)
        more = {"continue": str(start + limit)} if start + limit < len(found) else {}
        self.listed += len(found[start : start + limit])
        return {"metadata": {"resourceVersion": version, **more}, "items": found[start : start + limit]}

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        self.calls.append(f"{method} {path}")
        if self.fail:
            return 503, {"message": "the server is starting"}
        if self.overload > 0:
            self.overload -= 1
            return 429, {"message": "too many requests, please try again later"}
        query = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
        if method == "GET" and path.startswith(f"{SLICES}?"):
            return 200, self._list(query)
        path = unquote(path.partition("?")[0])
        if method == "GET":
            return (200, self.objects[path]) if path in self.objects else (404, {"message": f"{path} not found"})
        with self._changed:
            return self._change(method, path, body, "dryRun" in query)

    def _change(self, method: str, path: str, body: Any, is_dry: bool) -> tuple[int, Any]:
        if method == "POST":
            item = self._kept(body, None)
            if is_dry:
                return 201, item
            if f"{path}/{item['metadata']['name']}" in self.objects:
                return 409, {"message": "already exists"}
            return 201, self._store(f"{path}/{item['metadata']['name']}", item)
        if path not in self.objects:
            return 404, {"message": "not found"}
        if method == "DELETE":
            return 200, self._store(path, None)
        if self.conflicts > 0:
            self.conflicts -= 1
            self._store(path, self.objects[path])
        if body["metadata"].get("resourceVersion") != self.objects[path]["metadata"]["resourceVersion"]:
            return 409, {"message": "the object has been modified"}
        return 200, self._store(path, self._kept(body, self.objects[path]))

    def _kept(self, body: Any, old: Any) -> Any:
        """Without the fields of features that are off, and with what the real one adds."""
        item = copy.deepcopy(body)
        spec = item.get("spec", {})
        if "DRAPartitionableDevices" not in self.gates:
            spec.pop("sharedCounters", None)
        for device in spec.get("devices", ()):
            if "DRAPartitionableDevices" not in self.gates:
                device.pop("consumesCounters", None)
            if "DRADeviceTaints" not in self.gates:
                device.pop("taints", None)
            if "DRAConsumableCapacity" not in self.gates:
                device.pop("allowMultipleAllocations", None)
                for capacity in device.get("capacity", {}).values():
                    capacity.pop("requestPolicy", None)
            for taint in device.get("taints", ()):
                taint.setdefault("timeAdded", "2026-01-01T00:00:00Z")
        item["metadata"]["generation"] = 1 + (old["metadata"].get("generation", 0) if old else 0)
        item["metadata"]["managedFields"] = [{"manager": "openrknn"}]
        return item


def _matches(item: Any, query: dict[str, str]) -> bool:
    wanted = dict(one.split("=") for one in query.get("fieldSelector", "").split(",") if one)
    return all(item["spec"].get(name.removeprefix("spec.")) == value for name, value in wanted.items())

"""A stand-in for the API server: nodes, claims and slices, with resource versions."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

__all__ = ["StandInApi"]

SLICES = "/apis/resource.k8s.io/v1/resourceslices"


class StandInApi:
    """Objects by path."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {"/api/v1/nodes/board1": {"metadata": {"name": "board1", "uid": "node-uid"}}}
        self.tokens: set[str] = set()
        self.calls: list[str] = []
        self.fail = False
        self.page = 1
        """A page of the real one is larger; a client must go on anyway."""
        self.listed = 0
        api = self

        class Handler(BaseHTTPRequestHandler):
            def _do(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                api.tokens.add(self.headers.get("Authorization") or "")
                status, answer = api.answer(self.command, self.path, body)
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = _do  # noqa: N815

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> StandInApi:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def slices(self) -> list[dict[str, Any]]:
        return [value for path, value in sorted(self.objects.items()) if path.startswith(f"{SLICES}/")]

    def wipe(self) -> None:
        """What a kubelet does with the slices of its node when it starts."""
        for path in [path for path in self.objects if path.startswith(f"{SLICES}/board1-")]:
            del self.objects[path]

    def add_foreign(self, count: int) -> None:
        """Slices of other drivers and other nodes."""
        for number in range(count):
            driver = "gpu.example.com" if number % 2 else "npu.rockchip.com"
            spec = {"driver": driver, "nodeName": f"other{number}", "pool": {"generation": 7}, "devices": []}
            name = f"other{number}"
            self.objects[f"{SLICES}/{name}"] = {"metadata": {"name": name, "resourceVersion": "1"}, "spec": spec}

    def _list(self, query: dict[str, str]) -> dict[str, Any]:
        """One page of the slices that the field selector names."""
        wanted = dict(one.split("=") for one in query.get("fieldSelector", "").split(",") if one)
        found = [
            item for item in self.slices
            if all(item["spec"].get(name.removeprefix("spec.")) == value for name, value in wanted.items())
        ]  # fmt: skip
        start, limit = int(query.get("continue", 0)), min(int(query.get("limit", len(found))), self.page)
        more = {"continue": str(start + limit)} if start + limit < len(found) else {}
        self.listed += len(found[start : start + limit])
        return {"metadata": more, "items": found[start : start + limit]}

    def claim(self, name: str, uid: str, *devices: str, pool: str = "board1", requests: tuple[str, ...] = ()) -> None:
        """A claim that the scheduler has given these devices; all to one request unless said otherwise."""
        results = [
            {"request": request, "driver": "npu.rockchip.com", "pool": pool, "device": one}
            for request, one in zip(requests or ("npu",) * len(devices), devices, strict=True)
        ]
        self.objects[f"/apis/resource.k8s.io/v1/namespaces/home/resourceclaims/{name}"] = {
            "metadata": {"name": name, "uid": uid},
            "status": {"allocation": {"devices": {"results": results}}},
        }

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        self.calls.append(f"{method} {path}")
        if self.fail:
            return 503, {"message": "the server is starting"}
        if method == "GET" and path.startswith(f"{SLICES}?"):
            return 200, self._list({name: values[0] for name, values in parse_qs(urlsplit(path).query).items()})
        if method == "GET":
            return (200, self.objects[path]) if path in self.objects else (404, {"message": f"{path} not found"})
        if method == "POST":
            if f"{path}/{body['metadata']['name']}" in self.objects:
                return 409, {"message": "already exists"}
            body["metadata"]["resourceVersion"] = "1"
            self.objects[f"{path}/{body['metadata']['name']}"] = body
            return 201, body
        if path not in self.objects:
            return 404, {"message": "not found"}
        if method == "DELETE":
            return 200, self.objects.pop(path)
        if body["metadata"].get("resourceVersion") != self.objects[path]["metadata"]["resourceVersion"]:
            return 409, {"message": "the object has been modified"}
        body["metadata"]["resourceVersion"] += "1"
        self.objects[path] = body
        return 200, body

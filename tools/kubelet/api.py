"""The API server's answers as Python values, by certificate or by token."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from pathlib import Path
from typing import Any

from sandbox import NODE_ADDRESS

PORT = 443
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
PODS = "/api/v1/namespaces/default/pods"


class RefusedError(OSError):
    """The API server said no."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status} {text}")
        self.status = status


class Api:
    """One connection per thread, kept."""

    def __init__(self, ca: Path, certificate: tuple[Path, Path] | None = None, token: str = "") -> None:
        self._context = ssl.create_default_context(cafile=str(ca))
        if certificate is not None:
            self._context.load_cert_chain(*map(str, certificate))
        self._token = token
        self._kept = threading.local()

    def call(self, method: str, path: str, value: object = None, kind: str = "application/json") -> Any:
        """One request, its answer's content."""
        headers = {"Content-Type": kind, "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        content = None if value is None else json.dumps(value)
        for attempt in range(2):
            connection = getattr(self._kept, "connection", None)
            if connection is None:
                connection = http.client.HTTPSConnection(NODE_ADDRESS, PORT, timeout=20, context=self._context)
                self._kept.connection = connection
            try:
                connection.request(method, path, content, headers)
                answer = connection.getresponse()
                text = answer.read().decode()
                break
            except (OSError, http.client.HTTPException):
                connection.close()
                self._kept.connection = None
                if attempt:
                    raise
        if answer.status >= 300:
            try:
                text = json.loads(text)["message"]
            except (ValueError, KeyError):
                text = text[:300]
            raise RefusedError(answer.status, f"{method} {path}: {text}")
        try:
            return json.loads(text)
        except ValueError:
            return text

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def post(self, path: str, value: object) -> Any:
        return self.call("POST", path, value)

    def delete(self, path: str, grace: int | None = None) -> None:
        """It may be gone already."""
        try:
            self.call("DELETE", path + (f"?gracePeriodSeconds={grace}" if grace is not None else ""))
        except RefusedError as error:
            if error.status != 404:
                raise

    def slices(self, driver: str = "", node: str = "") -> list[dict[str, Any]]:
        """Of a driver and a node."""
        chosen = ",".join(
            f"{name}%3D{value}" for name, value in (("spec.driver", driver), ("spec.nodeName", node)) if value
        )
        found: list[dict[str, Any]] = self.get(SLICES + (f"?fieldSelector={chosen}" if chosen else ""))["items"]
        return found

"""The few calls to the API server that a DRA driver needs, with the standard library alone."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from openrknn.errors import RknnError

__all__ = ["ApiError", "ApiServer"]

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_SECONDS = 10
_MOST_BYTES = 8 * 1024 * 1024


class ApiError(RknnError):
    """The API server said no; `status` is the HTTP status, 0 without an answer."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class ApiServer:
    """Kubernetes' API, as a pod's service account or by address and token file."""

    def __init__(self, url: str, token_file: Path | None = None, ca_file: Path | None = None) -> None:
        self._url, self._token_file = url.rstrip("/"), token_file
        self._context = ssl.create_default_context(cafile=str(ca_file)) if self._url.startswith("https:") else None

    @classmethod
    def from_pod(cls) -> ApiServer:
        """As the account of the pod that this runs in."""
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host or not (_ACCOUNT / "token").exists():
            raise ApiError("this is not a pod with a service account; name the API server with --api-server")
        place = f"[{host}]" if ":" in host else host
        return cls(f"https://{place}:{port}", _ACCOUNT / "token", _ACCOUNT / "ca.crt")

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def call(self, method: str, path: str, value: object = None) -> Any:
        """One request; the token is read each time, because the kubelet replaces it."""
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self._token_file is not None:
            headers["Authorization"] = f"Bearer {self._token_file.read_text().strip()}"
        content = None if value is None else json.dumps(value).encode()
        request = urllib.request.Request(self._url + path, content, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS, context=self._context) as answer:
                content = answer.read(_MOST_BYTES + 1)
            if len(content) > _MOST_BYTES:
                raise ApiError(f"{method} {path}: the answer is larger than {_MOST_BYTES >> 20} MiB")
            return json.loads(content or b"null")
        except urllib.error.HTTPError as error:
            with error:
                text = error.read(_MOST_BYTES).decode("utf-8", "replace")
            raise ApiError(f"{method} {path}: {error.code} {_message(text)}", error.code) from None
        except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
            raise ApiError(f"{method} {path}: {error}") from None


def _message(text: str) -> str:
    try:
        return str(json.loads(text).get("message", ""))[:500]
    except (ValueError, AttributeError):
        return text[:200]

"""Certificates of a cluster that lives for minutes, by openssl.

The authority has no key usage, as those of some clusters: Python 3.13 refuses such a one unless it is told not to.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")


class Certificates:
    """A certificate authority, and what it signs."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.ca = folder / "ca.crt"
        _openssl("req", "-x509", *_CURVE, "-subj", "/CN=openrknn-test", "-keyout", folder / "ca.key", "-out", self.ca)
        self.accounts = folder / "accounts.key"
        """Signs the tokens of service accounts."""
        _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", self.accounts)
        self.accounts_public = folder / "accounts.pub"
        _openssl("pkey", "-in", self.accounts, "-pubout", "-out", self.accounts_public)

    def make(self, name: str, user: str, group: str = "", names: str = "") -> tuple[Path, Path]:
        """Certificate and key of a user, or of a server with these names."""
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        extra = ["-addext", f"subjectAltName={names}"] if names else []
        _openssl(
            "req", "-x509", "-CA", self.ca, "-CAkey", self.folder / "ca.key", *_CURVE,
            "-subj", (f"/O={group}" if group else "") + f"/CN={user}", "-addext", "basicConstraints=critical,CA:FALSE",
            "-addext", "extendedKeyUsage=clientAuth,serverAuth", *extra, "-keyout", key, "-out", certificate,
        )  # fmt: skip
        return certificate, key

    def kubeconfig(self, name: str, server: str, user: str, group: str = "") -> Path:
        """What a program needs to be this user."""
        certificate, key = self.make(name, user, group)
        path = self.folder / f"{name}.conf"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": str(self.ca)}}],
            "users": [{"name": "me", "user": {"client-certificate": str(certificate), "client-key": str(key)}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "me"}}],
        }
        path.write_text(json.dumps(content))
        return path


def _openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)

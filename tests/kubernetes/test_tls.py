"""The API server's certificate: clusters' own authorities are older than what Python 3.13 asks of them."""

from __future__ import annotations

import ssl

import pytest

from openrknn.kubernetes.api import ApiServer


def test_plain_authorities_are_taken_and_everything_else_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen with the image's Python 3.13 on a real cluster: "CA cert does not include key usage extension"."""
    made = ssl.create_default_context()
    made.verify_flags |= ssl.VERIFY_X509_STRICT  # as 3.13 does by itself
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: made)
    context = ApiServer("https://127.0.0.1:1")._tls()
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname

"""Certificates: read at the start, and again when their files change."""

from __future__ import annotations

import logging
import ssl

from openrknn.errors import UnsupportedError
from openrknn.serve.settings import Tls
from openrknn.serve.stamps import FileStamp, stamp_of

__all__ = ["Certificates"]

_LOG = logging.getLogger(__name__)


class Certificates:
    """The contexts of both ports. A new certificate is used from the next connection on."""

    def __init__(self, tls: Tls, *contexts: ssl.SSLContext) -> None:
        self._tls, self._contexts = tls, contexts
        self._stamp = self._look()

    @staticmethod
    def context(tls: Tls, protocol: str) -> ssl.SSLContext:
        """A new context for one protocol, as ALPN names it."""
        made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            made.load_cert_chain(tls.certificate, tls.key)
            if tls.client_ca:
                made.load_verify_locations(tls.client_ca)
                made.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError) as error:
            raise UnsupportedError(f"the TLS files cannot be used: {error}") from None
        made.set_alpn_protocols([protocol])
        return made

    def refresh(self) -> bool:
        """Read the files again where they have changed; whether they were."""
        stamp = self._look()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            Certificates.context(self._tls, "h2")  # certificate and key have to fit before they are used
            for context in self._contexts:
                context.load_cert_chain(self._tls.certificate, self._tls.key)
        except (OSError, ssl.SSLError, UnsupportedError) as error:
            _LOG.error("the new certificate cannot be used, the old one stays: %s", error)
            return False
        _LOG.info("the certificate has changed; new connections use the new one")
        return True

    def _look(self) -> list[FileStamp]:
        stamps = map(stamp_of, (self._tls.certificate, self._tls.key))
        return [stamp for stamp in stamps if stamp is not None]

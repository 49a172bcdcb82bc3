"""`Bucket`: models below a prefix of an S3-compatible storage."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import BinaryIO, ClassVar
from urllib.parse import unquote_plus, urlsplit
from xml.etree import ElementTree

from openrknn.serve.sources.address import Address, relative_path
from openrknn.serve.sources.credentials import Storage
from openrknn.serve.sources.download import save_body
from openrknn.serve.sources.errors import (
    AnswerError,
    CredentialsError,
    GoneError,
    MissingError,
    SourceError,
    TooMuchError,
    UnreachableError,
)
from openrknn.serve.sources.http_client import Answer, HttpClient, refusal
from openrknn.serve.sources.item import Got, Item
from openrknn.serve.sources.signing import canonical_path, canonical_query, signed

__all__ = ["Bucket"]

_PAGE_BYTES = 8 << 20
_REGION = re.compile(r"[a-z0-9-]{1,63}", re.ASCII)
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
_WRONG = {
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidToken",
    "AuthorizationHeaderMalformed",
    "InvalidClientTokenId",
}


def _now() -> datetime:
    return datetime.now(timezone.utc)


class Bucket:
    """Lists in pages, gets objects as the list had them."""

    page_size: ClassVar[int] = 1000
    """Objects; S3 gives no more."""

    def __init__(
        self, address: Address, storage: Storage, http: HttpClient, *, now: Callable[[], datetime] = _now
    ) -> None:
        self._address, self._storage, self._http, self._now = address, storage, http, now
        self._region = storage.region
        prefix = address.path
        if address.file_name:
            self._base = prefix[: len(prefix) - len(address.file_name)]
            self._prefix = self._base + address.file_name.rpartition(".")[0]
        else:
            self._base = self._prefix = f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""

    def items(self) -> list[Item]:
        """Every object that belongs to a repository."""
        return self._http.trying(self._items)

    def _items(self) -> list[Item]:
        found: dict[str, Item] = {}
        after, seen = "", 0
        while True:
            page = self._page(after)
            for key, tag, size in _objects(page):
                seen += 1
                path = relative_path(key[len(self._base) :]) if key.startswith(self._base) else None
                if path is not None and self._is_wanted(path):
                    sha256 = self._address.sha256 if path == self._address.file_name else ""
                    found[path] = Item(path, tag, size, sha256)
            more = _text(page, "NextContinuationToken") if _text(page, "IsTruncated") == "true" else ""
            if not more:
                break
            # Other things may lie below the prefix, but nobody keeps us listing for ever.
            if more == after or seen > 20 * self._http.bounds.files:
                raise TooMuchError(f"{self._address.text}: more than {seen} objects; give a prefix with models only")
            after = more
        if self._address.file_name and self._address.file_name not in found:
            raise GoneError(f"{self._address.text}: there is no such object")
        return list(found.values())

    def _is_wanted(self, path: str) -> bool:
        name = self._address.file_name
        return not name or path in {name, f"{name}.sha256", f"{name.rpartition('.')[0]}.labels.txt"}

    def _page(self, after: str) -> ElementTree.Element:
        words = {"list-type": "2", "prefix": self._prefix, "encoding-type": "url", "max-keys": str(self.page_size)}
        if after:
            words["continuation-token"] = after
        with self._open("", words, {}) as answer:
            body = b"".join(answer.chunks(_PAGE_BYTES))
        page = _xml(body)
        if page is None or not page.tag.endswith("ListBucketResult"):
            raise AnswerError(f"{self._address.text}: the answer is no list of S3; is AWS_ENDPOINT_URL right?")
        return page

    def fetch(self, item: Item, tag: str, file: BinaryIO) -> Got | None:
        """The bytes that the list spoke of."""
        return self._http.trying(lambda: self._fetch(item, file))

    def _fetch(self, item: Item, file: BinaryIO) -> Got:
        headers = {"x-amz-checksum-mode": "ENABLED"}
        if item.tag:
            headers["if-match"] = item.tag
        with self._open(self._base + item.path, {}, headers) as answer:
            size, sha256 = save_body(answer, file, self._http.bounds.file_bytes, is_promised=True)
            return Got(item.tag or answer.headers.get("etag", ""), size, sha256, _promised(answer.headers))

    @contextmanager
    def _open(self, key: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Iterator[Answer]:
        try:
            with self._signed(key, query, headers) as answer:
                yield answer
            return
        except _OtherRegionError as error:
            self._region = error.region
        with self._signed(key, query, headers) as answer:
            yield answer

    @contextmanager
    def _signed(self, key: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Iterator[Answer]:
        bucket = self._address.place
        endpoint = self._storage.endpoint or f"https://s3.{self._region}.amazonaws.com"
        parts = urlsplit(endpoint)
        # Names of hosts cannot hold every bucket, and other servers than Amazon's know paths for certain.
        if self._storage.endpoint or "." in bucket or "_" in bucket:
            host, path = parts.netloc, f"{parts.path}/{bucket}/{key}"
        else:
            host, path = f"{bucket}.{parts.netloc}", f"/{key}"
        sent = dict(headers)
        if self._storage.credentials is not None:
            sent = signed(
                self._storage.credentials,
                region=self._region,
                host=host,
                path=path,
                query=query,
                headers=headers,
                now=self._now(),
            )
        words = canonical_query(query)
        url = f"{parts.scheme}://{host}{canonical_path(path)}{'?' if words else ''}{words}"
        with self._http.open(url, sent, follow=False, refuse=self._refusal) as answer:
            yield answer

    def _refusal(self, text: str, status: int, headers: Mapping[str, str], body: bytes) -> SourceError:
        """S3 says more than a number."""
        root = _xml(body)
        code = _text(root, "Code")[:60] if root is not None else ""
        region = headers.get("x-amz-bucket-region", "") or (_text(root, "Region") if root is not None else "")
        if (
            status in {301, 307, 400}
            and _REGION.fullmatch(region)
            and region != self._region
            and not self._storage.endpoint
        ):
            return _OtherRegionError(region)
        text = self._address.text
        who = "an anonymous user (there are no credentials: AWS_ACCESS_KEY_ID, ~/.aws/credentials)"
        if self._storage.credentials is not None:
            who = f"the key {self._storage.credentials.key[:4]}..."
        if code in _EXPIRED:
            return CredentialsError(
                f"{text}: the credentials have expired ({code}); new ones are read at the next look"
            )
        if code in {"RequestTimeTooSkewed", "RequestInTheFuture"}:
            return CredentialsError(f"{text}: the clock of this machine is wrong ({code}); set it (timedatectl)")
        if code in _WRONG:
            return CredentialsError(f"{text}: the server does not accept {who} ({code})")
        if status in {401, 403}:
            return CredentialsError(
                f"{text}: {who} may not read it ({code or status}); it takes ListBucket and GetObject"
            )
        if code == "NoSuchBucket":
            return MissingError(f"{text}: there is no bucket {self._address.place!r}")
        if status == 404:
            return MissingError(f"{text}: an object is gone ({code or status})")
        if status == 412:
            return UnreachableError(f"{text}: an object changed while it was read")
        return refusal(text, status, headers, body)


class _OtherRegionError(SourceError):
    def __init__(self, region: str) -> None:
        super().__init__(f"the bucket is in region {region}; set AWS_REGION={region}")
        self.region = region


def _xml(body: bytes) -> ElementTree.Element | None:
    # Entities are the one thing with which a small text can become a large one.
    if b"<!" in body.replace(b"<![CDATA[", b""):
        return None
    try:
        return ElementTree.fromstring(body)
    except (ElementTree.ParseError, ValueError, LookupError):
        return None


def _local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _text(element: ElementTree.Element, name: str) -> str:
    return next((child.text or "" for child in element if _local(child) == name), "")


def _objects(page: ElementTree.Element) -> Iterator[tuple[str, str, int]]:
    is_escaped = _text(page, "EncodingType") == "url"
    for element in page:
        if _local(element) != "Contents":
            continue
        key, size = _text(element, "Key"), _text(element, "Size")
        if not size.isascii() or not size.isdigit() or len(size) > 18:
            raise AnswerError("a list of S3 with an object of no size")
        yield (unquote_plus(key) if is_escaped else key), _text(element, "ETag"), int(size)


def _promised(headers: Mapping[str, str]) -> str:
    """The storage's own checksum, if it has one over the whole object (parts have `-3` at the end)."""
    try:
        digest = base64.b64decode(headers.get("x-amz-checksum-sha256", ""), validate=True)
    except (binascii.Error, ValueError):
        return ""
    return digest.hex() if len(digest) == 32 and headers.get("x-amz-checksum-type", "") != "COMPOSITE" else ""

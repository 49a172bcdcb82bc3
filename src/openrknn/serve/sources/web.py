"""`Page` and `Sums`: models behind HTTP(S)."""

from __future__ import annotations

import re
from typing import BinaryIO
from urllib.parse import quote, urlsplit, urlunsplit

from openrknn.serve.sources.address import Address, relative_path
from openrknn.serve.sources.download import save_body
from openrknn.serve.sources.errors import AnswerError, CredentialsError, MissingError, TooMuchError
from openrknn.serve.sources.http_client import HttpClient
from openrknn.serve.sources.item import Got, Item

__all__ = ["Page", "Sums", "read_sums"]

_LIST_BYTES = 4 << 20
_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](.+)", re.ASCII)


class Page:
    """One model by its address, with its checksum beside it (NAME.sha256) unless the address has it."""

    def __init__(self, address: Address, http: HttpClient) -> None:
        self._address, self._http = address, http

    def items(self) -> list[Item]:
        """The file, and what may lie beside it."""
        name, sha256 = self._address.file_name, self._address.sha256
        beside = [] if sha256 else [Item(f"{name}.sha256", is_optional=True)]
        return [Item(name, sha256=sha256), *beside]

    def fetch(self, item: Item, tag: str, file: BinaryIO) -> Got | None:
        """By ETag: only what is new travels."""
        parts = urlsplit(self._address.place)
        suffix = item.path.removeprefix(self._address.file_name)
        url = urlunsplit(parts._replace(path=parts.path + suffix))
        try:
            return self._http.trying(lambda: _fetched(self._http, url, tag, file, is_promised=bool(item.sha256)))
        except CredentialsError as error:
            if item.is_optional:  # storages that hide what is there say 403 for what is not
                raise MissingError(str(error)) from None
            raise


class Sums:
    """A folder on a web server, by its list of checksums."""

    def __init__(self, address: Address, http: HttpClient) -> None:
        self._address, self._http = address, http

    def items(self) -> list[Item]:
        """What the list names."""
        data, _ = self._http.trying(lambda: self._http.read(self._address.place, {}, _LIST_BYTES))
        return read_sums(data, self._address.text, self._http.bounds.files)

    def fetch(self, item: Item, tag: str, file: BinaryIO) -> Got | None:
        """The checksum says whether it is new."""
        parts = urlsplit(self._address.place)
        url = urlunsplit(parts._replace(path=parts.path.rpartition("/")[0] + "/" + quote(item.path)))
        return self._http.trying(lambda: _fetched(self._http, url, "", file, is_promised=True))


def read_sums(data: bytes, where: str, most: int) -> list[Item]:
    """The lines of `sha256sum`; files that are no part of a repository are left out."""
    try:
        lines = data.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise AnswerError(f"{where} is no text") from None
    found: dict[str, Item] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise AnswerError(f"{where}, line {number}: not what sha256sum writes")
        path = relative_path(match[2].removeprefix("./"))
        if path is not None:
            found[path] = Item(path, sha256=match[1].lower())
        if len(found) > most:
            raise TooMuchError(f"{where} names more than {most} files")
    return list(found.values())


def _fetched(http: HttpClient, url: str, tag: str, file: BinaryIO, *, is_promised: bool) -> Got | None:
    headers = {"if-none-match": tag} if tag else {}
    with http.open(url, headers) as answer:
        if answer.status == 304:
            return None
        size, sha256 = save_body(answer, file, http.bounds.file_bytes, is_promised=is_promised)
        return Got(answer.headers.get("etag", "")[:200], size, sha256)

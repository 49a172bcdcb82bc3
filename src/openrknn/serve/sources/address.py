"""Addresses of sources, taken apart and checked before anything is asked."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from openrknn.serve.sources.errors import BadAddressError

__all__ = ["MODEL_SUFFIXES", "SUMS", "Address", "is_remote", "parse", "relative_path"]

MODEL_SUFFIXES = (".rknn", ".rknnz")
SUMS = "SHA256SUMS"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]", re.ASCII)
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
_LEVELS = 3
"""model/version/file is the deepest that a repository knows."""


@dataclass(frozen=True, slots=True)
class Address:
    """One source."""

    scheme: str
    """s3, https or http."""
    place: str
    """The bucket, or the whole URL without its fragment."""
    path: str
    """s3: the prefix or key. Else the path of the URL."""
    sha256: str = ""
    """What the address promises about its one file."""

    @property
    def text(self) -> str:
        """For messages and names: without the query, which may hold a signature."""
        if self.scheme == "s3":
            return f"s3://{self.place}/{self.path}".rstrip("/")
        parts = urlsplit(self.place)
        return urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))

    @property
    def file_name(self) -> str:
        """The last part of the path, if this source is one file."""
        name = unquote(self.path).rpartition("/")[2]
        return name if name.endswith(MODEL_SUFFIXES) else ""


def is_remote(source: str | os.PathLike[str]) -> bool:
    """Whether it has a scheme; folders and files have none."""
    return isinstance(source, str) and _SCHEME.match(source) is not None


def parse(source: str) -> Address:
    """The parts of an address, or a BadAddressError that says what is wrong."""
    found = _SCHEME.match(source)
    scheme = found[1].lower() if found else ""
    if scheme not in {"s3", "https", "http"}:
        raise BadAddressError(f"{source!r}: models come from s3://, https:// and http://, files and folders")
    if not source.isascii() or any(ord(letter) <= 32 for letter in source):
        raise BadAddressError(f"{source!r} has letters that an address cannot have; write them as %20 and so on")
    try:
        parts = urlsplit(source)
        _ = parts.port
    except ValueError as error:
        raise BadAddressError(f"{source!r} is no address: {error}") from None
    if parts.username is not None or parts.password is not None:
        raise BadAddressError(
            f"{scheme}://...@{parts.hostname}: no passwords in addresses, every user of the machine can read them;"
            " put them into ~/.netrc (HTTP) or the AWS_ variables (S3)"
        )
    sha256 = _fragment(parts.fragment, source)
    if scheme == "s3":
        return _bucket(parts.netloc, parts.path, parts.query, sha256)
    if not parts.hostname:
        raise BadAddressError(f"{source!r} names no host")
    address = Address(
        scheme, urlunsplit((scheme, parts.netloc, parts.path or "/", parts.query, "")), parts.path, sha256
    )
    name = address.file_name
    if not name and unquote(parts.path).rpartition("/")[2] != SUMS:
        raise BadAddressError(
            f"{address.text} ends neither in .rknn or .rknnz nor in {SUMS}; a folder on a web server is served by its"
            f" list of checksums: sha256sum *.rknn > {SUMS}"
        )
    if name and relative_path(name) is None:
        raise BadAddressError(f"a model file cannot be called {name!r}; names have letters, digits, and _ . - inside")
    return address


def _bucket(bucket: str, path: str, query: str, sha256: str) -> Address:
    if not _BUCKET.fullmatch(bucket) or ".." in bucket:
        raise BadAddressError(f"s3://{bucket}: that is no name of a bucket; write s3://BUCKET/PREFIX")
    if query:
        raise BadAddressError(f"s3://{bucket}: a ? is not known here; say the endpoint by AWS_ENDPOINT_URL")
    address = Address("s3", bucket, unquote(path).lstrip("/"), sha256)
    if sha256 and not address.file_name:
        raise BadAddressError(f"{address.text}: #sha256= is for one model; files below a prefix have NAME.sha256")
    if address.file_name and relative_path(address.file_name) is None:
        raise BadAddressError(f"a model file cannot be called {address.file_name!r}")
    return address


def _fragment(fragment: str, source: str) -> str:
    if not fragment:
        return ""
    words = parse_qsl(fragment, keep_blank_values=True)
    if len(words) != 1 or words[0][0] != "sha256" or not _SHA256.fullmatch(words[0][1]):
        raise BadAddressError(f"{source!r}: after # there may be sha256= and 64 hexadecimal digits")
    return words[0][1].lower()


def relative_path(text: str) -> str | None:
    """The path in the mirror, if it is one that a repository knows; hostile names and other files are None."""
    parts = text.split("/")
    if len(parts) > _LEVELS or not all(_PART.fullmatch(part) and ".." not in part for part in parts):
        return None
    plain = parts[-1].removesuffix(".sha256")
    return text if plain.endswith((*MODEL_SUFFIXES, ".txt")) or plain == "model.toml" else None

"""Who signs requests to S3, and where they go: the variables and files that every program of AWS reads.

    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN     who
    AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials), AWS_PROFILE   the same in a file, read again before every look
    AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL                           MinIO, Ceph, Garage ...; none: Amazon's own
    AWS_REGION, AWS_DEFAULT_REGION, AWS_CONFIG_FILE (~/.aws/config) where
    AWS_CA_BUNDLE                                                   certificates to trust

Without credentials requests are not signed: public buckets need none.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from openrknn.serve.sources.errors import BadAddressError, CredentialsError

__all__ = ["Credentials", "Storage", "storage"]

_REGION = re.compile(r"[a-z0-9-]{1,63}", re.ASCII)
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Credentials:
    """A key pair; temporary ones have a token."""

    key: str
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Storage:
    """Where buckets are, and who asks."""

    region: str
    endpoint: str = ""
    """scheme://host[:port][/path]; empty: Amazon's."""
    credentials: Credentials | None = None
    """None: anonymous; requests are not signed."""
    ca_file: str = ""


def storage(environment: Mapping[str, str] = os.environ) -> Storage:
    """What the variables and files say now."""
    profile = environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE") or "default"
    home = Path(environment.get("HOME") or "/nonexistent")
    keys = _section(environment.get("AWS_SHARED_CREDENTIALS_FILE") or home / ".aws" / "credentials", profile)
    words = _section(
        environment.get("AWS_CONFIG_FILE") or home / ".aws" / "config",
        profile if profile == "default" else f"profile {profile}",
    )
    if "AWS_PROFILE" in environment and not keys and not words:
        raise CredentialsError(f"AWS_PROFILE={profile}: neither ~/.aws/credentials nor ~/.aws/config has that profile")
    region = (
        environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or words.get("region") or "us-east-1"
    )
    if not _REGION.fullmatch(region):
        raise CredentialsError(f"AWS_REGION={region!r} is no name of a region")
    endpoint = (
        environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or words.get("endpoint_url")
    )
    return Storage(
        region,
        _endpoint(endpoint or ""),
        _credentials(environment, {**words, **keys}),
        environment.get("AWS_CA_BUNDLE") or words.get("ca_bundle", ""),
    )


def _credentials(environment: Mapping[str, str], words: Mapping[str, str]) -> Credentials | None:
    key, secret = environment.get("AWS_ACCESS_KEY_ID", ""), environment.get("AWS_SECRET_ACCESS_KEY", "")
    if key or secret:
        if not key or not secret:
            raise CredentialsError(
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY belong together; one of them is missing"
            )
        return _clean(key, secret, environment.get("AWS_SESSION_TOKEN", ""))
    if words.get("aws_access_key_id") and words.get("aws_secret_access_key"):
        return _clean(words["aws_access_key_id"], words["aws_secret_access_key"], words.get("aws_session_token", ""))
    return None


def _clean(key: str, secret: str, token: str) -> Credentials:
    """A line end in a secret (from a file mounted by Kubernetes) would become part of a header."""
    for name, value in (("key", key), ("secret", secret), ("session token", token)):
        if any(not 32 < ord(letter) < 127 for letter in value.strip()):
            raise CredentialsError(f"the AWS {name} has letters that it cannot have")
    return Credentials(key.strip(), secret.strip(), token.strip())


def _endpoint(text: str) -> str:
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good or parts.query or parts.fragment or parts.username is not None:
        raise BadAddressError(f"AWS_ENDPOINT_URL={text!r}: write http://HOST:PORT or https://HOST")
    return text.rstrip("/")


def _section(path: str | os.PathLike[str], name: str) -> dict[str, str]:
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(_MAX_BYTES)
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialsError(f"{path} cannot be read: {error}") from None
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        raise CredentialsError(
            f"{path} is not as AWS writes it: sections in brackets with lines `key = value`"
        ) from None
    return dict(parser.items(name)) if parser.has_section(name) else {}

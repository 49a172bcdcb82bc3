"""AWS Signature Version 4 of a request without a body.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html says how; its example is a test.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote

from openrknn.serve.sources.credentials import Credentials

__all__ = ["EMPTY", "canonical_path", "canonical_query", "signed"]

EMPTY = hashlib.sha256(b"").hexdigest()
_ALGORITHM = "AWS4-HMAC-SHA256"


def canonical_path(path: str) -> str:
    """Escaped as S3 signs it: everything but letters, digits, - . _ ~ and /."""
    return quote(path, safe="/-._~") or "/"


def canonical_query(words: Mapping[str, str]) -> str:
    """Sorted and escaped."""
    return "&".join(f"{quote(key, safe='-._~')}={quote(words[key], safe='-._~')}" for key in sorted(words))


def signed(
    credentials: Credentials,
    *,
    region: str,
    host: str,
    path: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    now: datetime,
) -> dict[str, str]:
    """The headers of a GET, with what proves who asks. `path` is not escaped yet; `now` is UTC."""
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    all_headers = {name.lower(): value.strip() for name, value in headers.items()}
    all_headers |= {"host": host, "x-amz-content-sha256": EMPTY, "x-amz-date": stamp}
    if credentials.token:
        all_headers["x-amz-security-token"] = credentials.token
    names = sorted(all_headers)
    request = "\n".join(
        [
            "GET",
            canonical_path(path),
            canonical_query(query),
            *(f"{name}:{all_headers[name]}" for name in names),
            "",
            ";".join(names),
            EMPTY,
        ]
    )
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    text = "\n".join([_ALGORITHM, stamp, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{credentials.secret}".encode()
    for word in (stamp[:8], region, "s3", "aws4_request"):
        key = hmac.digest(key, word.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    proof = f"{_ALGORITHM} Credential={credentials.key}/{scope},SignedHeaders={';'.join(names)},Signature={signature}"
    return {**all_headers, "authorization": proof}

"""Models from HTTP(S) and from S3-compatible storage, mirrored into a folder that the repository reads.

    s3://bucket/prefix                          every model below the prefix, with the structure of a folder of models
    s3://bucket/prefix/scene.rknn#sha256=...    one model
    https://host/models/scene.rknn              one model; its checksum in the address, or in scene.rknn.sha256
    https://host/models/SHA256SUMS              every model that the list names, with its checksum

    address      what such a source may look like            http_client  HTTP with bounds: time, size, redirects
    bucket       S3: lists and objects                       signing      AWS Signature Version 4
    web          HTTP(S): files, lists of checksums          credentials  who signs: variables and files of AWS
    mirror       one mirror: checksums, commits              sync         all sources of a server

Signing takes eighty lines of the standard library; boto3 would bring 20 MB to boards that have little room.
"""

from __future__ import annotations

from openrknn.serve.sources.address import is_remote
from openrknn.serve.sources.errors import SourceError
from openrknn.serve.sources.sync import Sources

__all__ = ["SourceError", "Sources", "is_remote"]

"""A zip for bug reports. It holds what the checks looked at, and nothing private: no model, no names of users, hosts,
folders or processes, no addresses, no serial numbers.
"""

from __future__ import annotations

import json
import re
import socket
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openrknn.doctor.facts import Facts
from openrknn.doctor.finding import Finding
from openrknn.wholefiles import new_file

__all__ = ["scrub", "write_bundle"]

_FILES = (
    "/proc/device-tree/compatible",
    "/proc/sys/kernel/osrelease",
    "/proc/meminfo",
    "/proc/rknpu/version",
    "/proc/rknpu/load",
    "/proc/rknpu/mm",
    "/sys/kernel/debug/rknpu/version",
    "/sys/kernel/debug/rknpu/load",
    "/sys/kernel/debug/rknpu/mm",
    "/sys/module/rknpu/version",
)
_LOG = re.compile(r"rknpu|rocket|\bnpu|\brga|iommu|swiotlb|\bcma\b|accel|vdd_npu|panthor", re.IGNORECASE)
_MOST_LINES = 500
_SECRETS = (
    (re.compile(r"(/home/|/Users/|/run/user/)[^/\s:'\"]+"), r"\1USER"),
    (re.compile(r"\b(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\b"), "MAC"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "UUID"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"), "ADDRESS"),
    (re.compile(r"(?i)(serial\S*\s*[:=]\s*)\S+"), r"\1SERIAL"),
    (re.compile(r"[^\s/'\"]+\.(rknn|whl)\b"), r"FILE.\1"),
)


def scrub(text: str, hosts: Sequence[str] = ()) -> str:
    """Without what tells who or where somebody is."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    for host in hosts:
        if len(host) > 2:
            text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", "HOST", text)
    return text


def write_bundle(path: Path, facts: Facts, findings: Sequence[Finding], version: str) -> None:
    """Write the zip."""
    hosts = [socket.gethostname(), (facts.text("/etc/hostname") or "").strip()]
    parts: dict[str, str] = {
        "README.txt": _readme(version),
        "findings.json": json.dumps([finding.as_json() for finding in findings], indent=2),
        "npus.json": json.dumps(_without_people(facts.reading.as_json()), indent=2),
    }
    for name in _FILES:
        if (text := facts.text(name)) is not None:
            parts[f"files{name}"] = text.replace("\0", "\n")
    lines = [line for line in facts.log or () if _LOG.search(line)]
    parts["kernel.log"] = "\n".join(lines[-_MOST_LINES:]) + "\n"
    with new_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, scrub(text, hosts))


def _without_people(value: dict[str, Any]) -> dict[str, Any]:
    """Clients are counted, not named; files of the software NPU carry the names of processes."""
    for npu in value["npus"]:
        npu["clients"] = len(npu["clients"])
    return value


def _readme(version: str) -> str:
    return (
        f"Made by `openrknn doctor --bundle` of openrknn {version}.\n"
        "Look through it before you send it: findings.json, npus.json, the driver's files, and the lines\n"
        "of the kernel's log about the NPU. Names of users, hosts and files, addresses and serials are replaced.\n"
    )

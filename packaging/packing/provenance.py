"""Where the packages of a release come from: an in-toto statement with a SLSA 1 provenance predicate.

It is not signed here. The release workflow signs its own statement about the same files (GitHub's attestations), and
anyone can build the same bytes from the commit that this one names.
"""

import json
import os
import platform
import re
from pathlib import Path
from typing import Any

from packing import archives, sources

__all__ = ["statement", "write"]


def write(root: Path, folder: Path, repository: str) -> Path:
    """openrknn-VERSION.provenance.json, about every other file of a folder."""
    path = folder / f"openrknn-{sources.version(root)}.provenance.json"
    files = [file for file in sorted(folder.iterdir()) if file.is_file() and file != path and file.name != "SHA256SUMS"]
    path.write_text(json.dumps(statement(root, files, repository), indent=1) + "\n", "utf-8")
    return path


def statement(root: Path, files: list[Path], repository: str) -> dict[str, Any]:
    """The files by their checksums, the commit, the tools by their versions, and who built."""
    version = sources.version(root)
    commit = sources.git(root, "rev-parse", "HEAD").strip() if sources.in_git(root) else ""
    tools = re.findall(r"^([\w.-]+)==(\S+)$", (root / "packaging/requirements.txt").read_text("utf-8"), re.MULTILINE)
    dependencies: list[dict[str, Any]] = [{"uri": f"pkg:pypi/{name}@{number}"} for name, number in tools]
    if commit:
        dependencies.insert(0, {"uri": f"git+{repository}@refs/tags/v{version}", "digest": {"gitCommit": commit}})
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": file.name, "digest": {"sha256": archives.sha256(file)}} for file in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{repository}/blob/main/docs/packages.md#release",
                "externalParameters": {"repository": repository, "version": version},
                "internalParameters": {"SOURCE_DATE_EPOCH": sources.epoch(root), "python": platform.python_version()},
                "resolvedDependencies": dependencies,
            },
            "runDetails": {"builder": {"id": _builder(repository)}, "metadata": {"invocationId": _invocation(commit)}},
        },
    }


def _builder(repository: str) -> str:
    """The workflow of a run on GitHub, else the command."""
    if workflow := os.environ.get("GITHUB_WORKFLOW_REF"):
        return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{workflow}"
    return f"{repository}/blob/main/packaging/release"


def _invocation(commit: str) -> str:
    if run := os.environ.get("GITHUB_RUN_ID"):
        server, name = os.environ.get("GITHUB_SERVER_URL", ""), os.environ.get("GITHUB_REPOSITORY", "")
        return f"{server}/{name}/actions/runs/{run}/attempts/{os.environ.get('GITHUB_RUN_ATTEMPT', '1')}"
    return f"local:{commit}"

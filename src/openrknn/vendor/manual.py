"""What each C function is for and what it is called in Python: the words of `docs/capi/functions`.

The signatures, versions and chips come from the tables; `tools/make_capi_docs.py` puts both together. Traps are what
runtime 1.5.2 was seen to do; openrknn guards against each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from openrknn.vendor.manual_contexts import CONTEXTS
from openrknn.vendor.manual_entry import Entry
from openrknn.vendor.manual_matmul import MATMUL
from openrknn.vendor.manual_memory import MEMORY
from openrknn.vendor.manual_running import RUNNING

__all__ = ["MANUAL", "Entry"]

MANUAL: Mapping[str, Entry] = MappingProxyType({**CONTEXTS, **RUNNING, **MEMORY, **MATMUL})
"""Every function by its name."""

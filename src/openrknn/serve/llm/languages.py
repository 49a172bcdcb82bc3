"""`Languages`: all language models that are served, by name."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from openrknn.errors import UnsupportedError
from openrknn.llm.generation.model import LanguageModel
from openrknn.llm.home import find_model
from openrknn.serve.errors import BadRequestError, NotFoundError, NotReadyError
from openrknn.serve.llm.language import FoundLanguage, Language, OpenLanguage
from openrknn.serve.settings import Settings

__all__ = ["Languages", "find_language", "open_language"]

_LOG = logging.getLogger(__name__)
_LATEST = ":latest"
"""Ollama's clients add it to names."""
_USUAL_NAMES = frozenset({"", "default", "gpt-3.5-turbo", "gpt-4", "gpt-4o", "gpt-4o-mini"})
"""Programs with these names in their settings, or in their code, get the first model."""
_MOST_NAME = 200


def open_language(where: str, device: str, sequences: int, drafts: int, draft_model: str | None) -> LanguageModel:
    """The real ones. They are imported here, by the process that needs them."""
    from openrknn.llm.opening import open_model

    return open_model(where, device=device, sequences=sequences, drafts=drafts, draft_model=draft_model)


def find_language(text: str) -> FoundLanguage:
    """NAME=FILE or FILE: a GGUF file, a folder of Hugging Face, or a compiled model."""
    name, is_named, where = text.partition("=")
    if not is_named or Path(text).exists():
        where = text
        name = Path(where).resolve().name
        for suffix in (".gguf", ".rknn", ".rknnz"):
            name = name.removesuffix(suffix)
    if not name or len(name) > _MOST_NAME or not name.isprintable():
        raise UnsupportedError(f"--llm {text!r:.100}: a name of 1 to {_MOST_NAME} characters is before the =")
    path = find_model(where)
    files = [path] if path.is_file() else [one for one in path.iterdir() if one.is_file()]
    size = sum(one.stat().st_size for one in files)
    return FoundLanguage(name, str(path), size, path.stat().st_mtime)


def with_drafts(found: Sequence[FoundLanguage], texts: Sequence[str]) -> list[FoundLanguage]:
    """Each with the model that drafts for it: [NAME=]FILE, without NAME for all that have no other one."""
    models: dict[str, FoundLanguage] = {}
    for text in texts:
        name, is_named, where = text.partition("=")
        if not is_named or Path(text).exists():
            name, where = "", text
        if name in models or (name and name not in {one.name for one in found}):
            wrong = "is given twice" if name in models else "is for no language model of this server"
            raise UnsupportedError(f"--llm-draft-model {text!r:.100}: it {wrong}; give NAME=FILE with a name of --llm")
        models[name] = find_language(f"draft={where}")
    made = []
    for one in found:
        draft = models.get(one.name) or models.get("")
        made.append(one if draft is None else replace(one, draft=draft.where, draft_bytes=draft.size_bytes))
    return made


class Languages:
    """Opened when the server starts; each was named, so each has to open."""

    def __init__(self, settings: Settings, opener: OpenLanguage = open_language) -> None:
        self._settings, self._opener = settings, opener
        self._models: dict[str, Language] = {}
        self.is_loading = bool(settings.llms)

    def load_all(self) -> None:
        """One after the other: each takes much memory while it loads."""
        try:
            found = [find_language(str(text)) for text in self._settings.llms]
            names = [one.name for one in found]
            for one in found:
                if names.count(one.name) > 1:
                    raise UnsupportedError(f"{one.where}: there is another language model {one.name!r}; give NAME=FILE")
            for one in with_drafts(found, [str(text) for text in self._settings.llm_draft_models]):
                model = self._models[one.name] = Language(one, self._settings, self._opener)
                _LOG.info("language model %s is ready: %s", one.name, model.card.architecture)
                if model.card.notice:
                    _LOG.warning("language model %s: %s", one.name, model.card.notice)
        finally:
            self.is_loading = False

    def all(self) -> list[Language]:
        """In the order in which they were named."""
        return list(self._models.values())

    def find(self, name: object) -> Language:
        """The model of this name; usual names of other people's models mean the first."""
        if not isinstance(name, str):
            raise BadRequestError("'model' is the name of a model; /v1/models lists what there is")
        found = self._models.get(name) or self._models.get(name.removesuffix(_LATEST))
        if found is None and self._models and name in _USUAL_NAMES:
            found = next(iter(self._models.values()))
        if found is not None:
            return found
        if self.is_loading:
            raise NotReadyError("the language models are being loaded")
        if not self._models:
            raise NotFoundError("this server has no language model; start it with `openrknn serve --llm FILE`")
        names = ", ".join(repr(one) for one in list(self._models)[:20])
        raise NotFoundError(f"there is no language model {name[:80]!r}; there are {names}")

    def problem(self) -> str:
        """Why the models should not be asked now; empty: they should."""
        if self.is_loading:
            return "the language models are being loaded"
        problems = [f"language model {one.name!r}: {one.problem}" for one in self.all() if one.problem]
        strict = self._settings.strict_readiness
        return problems[0] if problems and (strict or len(problems) == len(self._models)) else ""

    def pids(self) -> Sequence[int]:
        """Their processes."""
        return [pid for one in self.all() for pid in one.pids()]

    def close(self) -> None:
        """End all of them."""
        for one in self.all():
            one.close()

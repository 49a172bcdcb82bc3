"""`Conversation`: messages, answers as they are written, and numbers about them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from openrknn.cli.common.output import Output, printable
from openrknn.llm.generation.events import Statistics
from openrknn.llm.generation.model import LanguageModel
from openrknn.llm.generation.request import Request

__all__ = ["Conversation", "shown"]


class Conversation:
    """One user and one model."""

    def __init__(self, model: LanguageModel, request: Request, system: str, output: Output) -> None:
        self.model, self.request, self._output = model, request, output
        self.system = system
        self.messages: list[dict[str, Any]] = []
        self.last: Statistics | None = None
        """About the last answer."""
        self.finish = ""

    def answer(self, message: str) -> None:
        """Ask, and stream the answer. Ctrl-C ends the answer; what was written stays."""
        self.messages.append({"role": "user", "content": message})
        head = [{"role": "system", "content": self.system}] if self.system else []
        try:
            tokens = self.model.chat_tokens([*head, *self.messages])
            stream = self.model.generator.stream(tokens, self.request)
        except BaseException:
            self.messages.pop()
            raise
        written: list[str] = []
        self.last, self.finish = None, ""
        try:
            for event in stream:
                written.append(event.text)
                self._write(event.text)
                self.last = event.statistics
                self.finish = event.finish or ""
        except KeyboardInterrupt:
            stream.close()
            self.finish = "cancelled"
        self._write("\n" if "".join(written)[-1:] != "\n" else "")
        self.messages.append({"role": "assistant", "content": "".join(written)})

    def retry(self) -> bool:
        """Answer the last message again; False: there is none."""
        if len(self.messages) < 2:
            return False
        self.messages.pop()
        message = self.messages.pop()["content"]
        self.answer(message)
        return True

    def clear(self) -> None:
        """Forget what was said."""
        self.messages = []

    def change(self, name: str, text: str) -> None:
        """Another value for something about sampling; ValueError says what is wrong."""
        sampling = self.request.sampling
        kinds = {
            "temperature": float, "top_k": int, "top_p": float, "min_p": float, "repetition_penalty": float, "seed": int
        }  # fmt: skip
        if name == "max_tokens":
            self.request = replace(self.request, max_tokens=int(text))
        elif name in kinds:
            self.request = replace(self.request, sampling=replace(sampling, **{name: kinds[name](text)}))
        else:
            raise ValueError(f"there are max_tokens, {', '.join(kinds)}")

    def statistics(self) -> str:
        """A line about the last answer."""
        one = self.last
        if one is None:
            return "the answer was interrupted" if self.finish == "cancelled" else "nothing was said yet"
        drafts = f", {one.accepted_tokens} of {one.drafted_tokens} drafts right" if one.drafted_tokens else ""
        return (
            f"{one.prompt_tokens} prompt tokens ({one.reused_tokens} from the cache), {one.generated_tokens} written, "
            f"{one.generation_rate:.1f} tokens/s, first after {one.first_seconds:.2f} s{drafts}"
        )

    def _write(self, text: str) -> None:
        if text and not self._output.is_json:
            self._output.stream.write(shown(text))
            self._output.stream.flush()


def shown(text: str) -> str:
    """Text of a model for a terminal: lines and tabs as they are, everything that a terminal could obey written out."""
    return "\n".join("\t".join(printable(part) for part in line.split("\t")) for line in text.split("\n"))

"""`openrknn chat`: talk to a language model in the terminal."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openrknn.cli.common.options import number, positive, share, zero_or_more
from openrknn.cli.common.output import CommandError, Output, reason_of
from openrknn.errors import RknnError
from openrknn.extras import missing

if TYPE_CHECKING:
    from openrknn.cli.chat.conversation import Conversation

NAME = "chat"
HELP = "talk to a language model"
DESCRIPTION = """Talk to a language model: a GGUF file, or a name that `openrknn llm list` shows. Without a
message and on a terminal it is a conversation, with /help for its commands, and numbers after each answer: tokens,
tokens per second, the time to the first one. A message on the command line or on standard input gets one answer."""
EXAMPLES = (
    "openrknn llm get smollm2-135m-instruct                     get a model, once",
    "openrknn chat smollm2-135m-instruct                        a conversation",
    "openrknn chat model.gguf 'Why is the sky blue?'            one answer",
    "git diff | openrknn chat model.gguf --system 'Write a commit message for this diff.'",
    "openrknn chat model.gguf 'A person' --json-schema person.json --temperature 0",
)
_WHOLE = number("a whole number", 0, 2**63 - 1, whole=True)
_MOST_INPUT = 16 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("model", metavar="MODEL", help="a GGUF file, or the name of a downloaded model")
    parser.add_argument("message", metavar="MESSAGE", nargs="?", help="one message, for one answer")
    parser.add_argument("--device", default="auto", help="auto, software, rknpu or rocket (default: auto)")
    parser.add_argument("--system", metavar="TEXT", help="instructions that come before everything")
    parser.add_argument("--context", type=positive, metavar="N", help="tokens that a conversation may have (default: "
                        "what the model was trained for)")  # fmt: skip
    parser.add_argument("--max-tokens", type=positive, metavar="N", help="of one answer (default: until it ends)")
    parser.add_argument("--stop", metavar="TEXT", action="append", default=[], help="ends an answer; repeat for more")
    parser.add_argument("--json-schema", metavar="FILE", help="the answer is JSON of this schema")
    few = number("a whole number from 0 to 64", 0, 64, whole=True)
    parser.add_argument("--drafts", type=few, metavar="N", default=0,
                        help="tokens that n-grams of the text propose at a time; changes the speed only")  # fmt: skip
    add_sampling_arguments(parser)


def add_sampling_arguments(parser: argparse.ArgumentParser) -> None:
    """How tokens are chosen."""
    group = parser.add_argument_group("sampling")
    group.add_argument("--temperature", type=number("a number from 0 to 100", 0, 100), metavar="T", default=0.7,
                       help="0 takes the most probable token always (default: 0.7)")  # fmt: skip
    group.add_argument("--top-k", type=_WHOLE, metavar="N", default=0, help="of the N most probable tokens")
    group.add_argument("--top-p", type=share, metavar="P", default=0.95, help="of those with this probability together "
                       "(default: 0.95)")  # fmt: skip
    group.add_argument("--min-p", type=share, metavar="P", default=0.0, help="of those that are at least so probable, "
                       "relative to the first")  # fmt: skip
    factor = number("a number from 0.01 to 100", 0.01, 100)
    group.add_argument("--repeat-penalty", type=factor, metavar="X", default=1.0,
                       help="makes tokens of the conversation less probable (default: 1, not at all)")  # fmt: skip
    group.add_argument("--presence-penalty", type=zero_or_more, metavar="X", default=0.0, help="the same for tokens of "
                       "the answer")  # fmt: skip
    group.add_argument("--seed", type=_WHOLE, metavar="N", help="the same number gives the same answer")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """One answer, or a conversation."""
    from openrknn.cli.chat.conversation import Conversation

    try:
        from openrknn.llm.opening import open_model
    except ImportError as error:
        raise CommandError(missing(error, "llm")) from None
    message = _message(arguments.message)
    request = _request(arguments)
    model = open_model(arguments.model, device=arguments.device, sequences=1, capacity=arguments.context,
                       drafts=arguments.drafts)  # fmt: skip
    try:
        if model.details.notice:
            Output.complain(f"{model.details.name}: {model.details.notice}")
        if arguments.context and model.generator.engine.capacity < arguments.context:
            Output.complain(f"--context {arguments.context}: {model.details.name} has a context of "
                            f"{model.generator.engine.capacity} tokens")  # fmt: skip
        talk = Conversation(model, request, arguments.system or "", output)
        if message is not None:
            return _once(talk, message, output)
        from openrknn.cli.chat.terminal import converse

        return converse(talk, output)
    finally:
        model.close()


def _message(given: str | None) -> str | None:
    """The message of the command line, then what is piped in; None: somebody sits at a terminal."""
    if sys.stdin is None or sys.stdin.isatty():
        return given
    if given is not None:
        return given  # what runs beside it may have its own use for standard input
    text = sys.stdin.read(_MOST_INPUT + 1)
    if len(text) > _MOST_INPUT:
        raise CommandError(f"standard input has more than {_MOST_INPUT} characters")
    if not text.strip():
        raise CommandError("there is no message: standard input is empty")
    return text.strip()


def _request(arguments: argparse.Namespace) -> Request:
    from openrknn.llm.generation.constraint import Constraint
    from openrknn.llm.generation.request import Request
    from openrknn.llm.generation.sampling import Sampling

    constraint = None
    if arguments.json_schema:
        try:
            constraint = Constraint("json_schema", Path(arguments.json_schema).read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{arguments.json_schema}: cannot be read: {reason_of(error)}") from None
    sampling = Sampling(
        temperature=arguments.temperature, top_k=arguments.top_k, top_p=arguments.top_p, min_p=arguments.min_p,
        repetition_penalty=arguments.repeat_penalty, presence_penalty=arguments.presence_penalty, seed=arguments.seed,
    )  # fmt: skip
    return Request(
        sampling, max_tokens=arguments.max_tokens, stop=tuple(arguments.stop), constraint=constraint, shift=False
    )


def _once(talk: Conversation, message: str, output: Output) -> int:
    try:
        talk.answer(message)
    except RknnError as error:
        raise CommandError(str(error)) from None
    words: dict[str, Any] = {"answer": talk.messages[-1]["content"], "finish": talk.finish}
    numbers = talk.last
    if numbers is not None:
        words |= {
            "prompt_tokens": numbers.prompt_tokens, "generated_tokens": numbers.generated_tokens,
            "first_seconds": numbers.first_seconds, "tokens_per_second": numbers.generation_rate,
        }  # fmt: skip
    output.data(words)
    if numbers is None:
        raise KeyboardInterrupt  # what was written is written; the exit code says that it is not all
    return 0


if TYPE_CHECKING:
    from openrknn.llm.generation.request import Request

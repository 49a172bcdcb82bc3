"""The conversation at a terminal: lines in, answers out, and commands that begin with a slash."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from openrknn.cli.chat.conversation import Conversation
from openrknn.cli.common.output import Output
from openrknn.errors import RknnError
from openrknn.wholefiles import write_atomically

__all__ = ["COMMANDS", "command", "converse"]

COMMANDS = {
    "/help": "this list",
    "/reset": "forget the conversation",
    "/retry": "answer the last message again",
    "/system TEXT": "other instructions; the conversation starts again",
    "/set NAME VALUE": "temperature, top_k, top_p, min_p, repetition_penalty, seed or max_tokens",
    "/stats": "numbers about the last answer",
    "/save FILE": "write the conversation as JSON",
    "/exit": "leave (Ctrl-D as well)",
}


def converse(talk: Conversation, output: Output) -> int:
    """Until the user leaves."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - arrow keys and earlier lines work once it is imported
    output.line(f"{talk.model.details.name}: say something, or /help")
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            output.line()
            return 0
        except KeyboardInterrupt:
            output.line()
            continue
        if not line:
            continue
        try:
            if line.startswith("/"):
                if command(talk, line, output):
                    return 0
                continue
            talk.answer(line)
            output.line(f"[{talk.statistics()}]")
        except (RknnError, ValueError, OSError) as error:
            Output.complain(str(error))


def command(talk: Conversation, line: str, output: Output) -> bool:
    """Do it; True: leave."""
    name, _, rest = line.partition(" ")
    rest = rest.strip()
    if name in {"/exit", "/quit", "/bye"}:
        return True
    if name == "/reset":
        talk.clear()
        output.line("forgotten")
    elif name == "/retry":
        if not talk.retry():
            output.line("there is nothing to answer again")
    elif name == "/system":
        talk.system = rest
        talk.clear()
        output.line("a new conversation" if rest else "a new conversation, without instructions")
    elif name == "/set":
        what, _, value = rest.partition(" ")
        talk.change(what, value.strip())
        output.line(f"{what} is {value.strip()}")
    elif name == "/stats":
        output.line(talk.statistics())
    elif name == "/save":
        if not rest:
            raise ValueError("/save needs the name of a file")
        write_atomically(Path(rest), json.dumps({"system": talk.system, "messages": talk.messages}, indent=1) + "\n")
        output.line(f"written to {rest}")
    elif name == "/help":
        for words, about in COMMANDS.items():
            output.line(f"{words:17} {about}")
    else:
        raise ValueError(f"there is no command {name}; /help lists them")
    return False

"""The script for zsh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from openrknn.cli.completing.parser_tree import Command, Option
from openrknn.cli.completing.values import Values

__all__ = ["script"]

_SCRIPT = """#compdef openrknn
_openrknn_ask() {{
    local -a found
    found=("${{(@f)$(openrknn completion --values $1 --words "${{(@)words[1,CURRENT]}}" 2>/dev/null)}}")
    compadd -a found
}}
_openrknn_any() {{
    # Several kinds of values in one place: words (before --), then calls.
    local -a fixed
    while (( $# )) && [[ $1 != -- ]]; do fixed+=($1); shift; done
    (( $# )) && shift
    local result=1
    (( $#fixed )) && compadd -a fixed && result=0
    local call
    for call in "$@"; do eval $call && result=0; done
    return result
}}
_openrknn() {{
    local -a commands
    commands=(
{commands}
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        _arguments '--help[show help]' '--version[show the version]'
        return
    fi
    case $words[2] in
{cases}
    esac
}}
compdef _openrknn openrknn
"""


def script(commands: Sequence[Command]) -> str:
    """The whole script."""
    described = "\n".join(f"        {_quoted(f'{command.name}:{command.help}')}" for command in commands)
    return _SCRIPT.format(commands=described, cases="\n".join(_case(command) for command in commands))


def _case(command: Command) -> str:
    specs = [_option(option, flag) for option in command.options for flag in option.flags]
    specs += _arguments(command)
    return f"        {command.name}) shift words; (( CURRENT-- )); _arguments {' '.join(specs)} ;;"


def _arguments(command: Command) -> Iterator[str]:
    last = len(command.arguments) - 1
    for at, values in enumerate(command.arguments):
        if at == last and command.repeats:
            yield _quoted(f"*:argument:{_action(values)}")
        else:
            yield _quoted(f"{at + 1}:argument:{_action(values)}")


def _option(option: Option, flag: str) -> str:
    text = option.help.replace("[", "(").replace("]", ")").replace(":", "\\:")
    value = f":value:{_action(option.values)}" if option.takes_value else ""
    # `--option=value` as well.
    return _quoted(f"{flag}{'=' if option.takes_value and flag.startswith('--') else ''}[{text}]{value}")


def _action(values: Values) -> str:
    calls = list(_calls(values))
    if values.words and not calls:
        return f"({' '.join(values.words)})"
    if not values.words and len(calls) == 1:
        # A blank before it: `_arguments` adds nothing to the call.
        return f" {calls[0]}" if values.ask else calls[0]
    if not calls:
        return " "  # only the user knows
    return f" _openrknn_any {' '.join(values.words)} -- {' '.join(_doubly(call) for call in calls)}"


def _calls(values: Values) -> Iterator[str]:
    if values.ask:
        yield f"_openrknn_ask {values.ask}"
    if "" in values.files:
        yield "_files"
    elif values.files:
        yield f'_files -g "*.({"|".join(values.files)})(-.)"'
    elif values.folders:
        yield "_files -/"


def _doubly(call: str) -> str:
    return '"' + call.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"

"""The script for fish, which does not count arguments: each place offers what any argument of the command can be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from openrknn.cli.completing.parser_tree import Command
from openrknn.cli.completing.values import Values

__all__ = ["script"]

_HEAD = """# openrknn completion for fish
function __openrknn_ask
    set -l words (commandline -opc) (commandline -ct)
    command openrknn completion --values $argv[1] --words $words[2..-1] 2>/dev/null
end
function __openrknn_files
    # Files with one of these endings and folders; all files where there are none.
    set -l word (commandline -ct)
    set -l found (string match -r -- '.*/$' (complete -C"'' $word"))
    for ending in $argv
        set -a found (string match -- "*.$ending" (complete -C"'' $word"))
    end
    if set -q found[1]
        printf '%s\n' $found
    else
        complete -C"'' $word"
    end
end
complete -c openrknn -f
complete -c openrknn -n __fish_use_subcommand -l help -d 'show help'
complete -c openrknn -n __fish_use_subcommand -l version -d 'show the version'
"""


def script(commands: Sequence[Command]) -> str:
    """The whole script."""
    lines = []
    for command in commands:
        lines.append(f"complete -c openrknn -n __fish_use_subcommand -a {command.name} -d {_text(command.help)}")
        lines += _command(command)
    return _HEAD + "\n".join(lines) + "\n"


def _command(command: Command) -> Iterator[str]:
    # The word after openrknn: `run` may also be the name of a file.
    start = f"complete -c openrknn -n '__fish_seen_subcommand_from {command.name}'"
    values = command.any_argument
    for part in _parts(values):
        yield f"{start} {part}"
    for option in command.options:
        names = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
        if not option.takes_value:
            yield f"{start} {names} -d {_text(option.help)}"
            continue
        asked = " ".join(_parts(option.values)) or ""
        yield f"{start} {names} {'-r -F' if asked == '-F' else f'-x {asked}'.rstrip()} -d {_text(option.help)}"


def _parts(values: Values) -> Iterator[str]:
    calls = []
    if values.ask:
        calls.append(f"(__openrknn_ask {values.ask})")
    if "" in values.files:
        if not (calls or values.words):
            yield "-F"
            return
        calls.append("(__fish_complete_path (commandline -ct))")
    elif values.files:
        calls.append(f"(__openrknn_files {' '.join(values.files)})")
    elif values.folders:
        calls.append("(__fish_complete_directories (commandline -ct))")
    if calls or values.words:
        yield f"-a '{' '.join((*values.words, *calls))}'"


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

"""`openrknn completion SHELL`: a completion script, made from the parser itself, so it is never out of date."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from openrknn.cli.common.output import Output

NAME = "completion"
HELP = "print a completion script for bash, zsh or fish"
EXAMPLES = (
    'eval "$(openrknn completion bash)"                                     in ~/.bashrc',
    'eval "$(openrknn completion zsh)"                                      in ~/.zshrc, after compinit',
    "openrknn completion fish > ~/.config/fish/completions/openrknn.fish",
)

_SHELLS = ("bash", "zsh", "fish")
_FILES = "@files"
"""Stands for file names where a fixed list of words stands otherwise."""


@dataclass(frozen=True, slots=True)
class _Option:
    flags: tuple[str, ...]
    words: tuple[str, ...]
    """What can follow it: nothing, fixed words, or `_FILES`."""
    takes_value: bool
    help: str


@dataclass(frozen=True, slots=True)
class _Command:
    name: str
    help: str
    options: tuple[_Option, ...]
    words: tuple[str, ...]
    """What its positional arguments can be."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help="bash, zsh or fish")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Print the script."""
    from openrknn.cli.commands import NAMES
    from openrknn.cli.main import build_parser

    commands = tuple(_commands(build_parser(NAMES)))
    script = {"bash": _bash, "zsh": _zsh, "fish": _fish}[arguments.shell](commands)
    output.stream.write(script)
    return 0


# ---------------------------------------------------------------- from the parser


def _commands(parser: argparse.ArgumentParser) -> Iterator[_Command]:
    subparsers = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    helps = {action.dest: action.help or "" for action in subparsers._choices_actions}
    for name, command in subparsers.choices.items():
        options = tuple(_option(action) for action in command._actions if action.option_strings)
        words = tuple(word for action in command._actions if not action.option_strings for word in _words_of(action))
        yield _Command(name, helps.get(name, ""), options, tuple(dict.fromkeys(words)))


def _option(action: argparse.Action) -> _Option:
    takes_value = action.nargs != 0
    return _Option(
        tuple(action.option_strings), _words_of(action) if takes_value else (), takes_value, action.help or ""
    )


def _words_of(action: argparse.Action) -> tuple[str, ...]:
    if action.choices is not None:
        return tuple(str(choice) for choice in action.choices)
    return (_FILES,) if action.type is None else ()


# ---------------------------------------------------------------- bash

_BASH = """# openrknn completion for bash
_openrknn() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command= word
    local words= files=
    COMPREPLY=()
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case $word in -*) ;; *) command=$word; break ;; esac
    done
    case $command in
{cases}
        *) words="{commands} --help --version --debug" ;;
    esac
    if [[ -n $files ]]; then
        local IFS=$'\\n'
        COMPREPLY=($(compgen -f -X '!*.rknn' -- "$current") $(compgen -f -X '!*.rknnz' -- "$current")
            $(compgen -d -- "$current"))
        [[ ${{#COMPREPLY[@]}} -eq 0 ]] && COMPREPLY=($(compgen -f -- "$current"))
        compopt -o filenames 2>/dev/null
    fi
    local IFS=$' \\t\\n'
    COMPREPLY+=($(compgen -W "$words" -- "$current"))
    return 0
}}
complete -F _openrknn openrknn
"""


def _bash(commands: tuple[_Command, ...]) -> str:
    cases = "\n".join(_bash_case(command) for command in commands)
    return _BASH.format(cases=cases, commands=" ".join(command.name for command in commands))


def _bash_case(command: _Command) -> str:
    lines = [f"        {command.name})", "            case $previous in"]
    for option in command.options:
        if option.takes_value:
            lines.append(f"                {'|'.join(option.flags)}) {_bash_words(option.words)} ;;")
    flags = " ".join(flag for option in command.options for flag in option.flags)
    lines += [
        "                *)",
        f'                    if [[ $current == -* ]]; then words="{flags}"; else {_bash_words(command.words)}; fi ;;',
        "            esac ;;",
    ]
    return "\n".join(lines)


def _bash_words(words: tuple[str, ...]) -> str:
    fixed = " ".join(word for word in words if word != _FILES)
    parts = ["files=1"] if _FILES in words else []
    parts += [f'words="{fixed}"'] if fixed else []
    return "; ".join(parts) or ":"


# ---------------------------------------------------------------- zsh

_ZSH = """#compdef openrknn
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


def _zsh(commands: tuple[_Command, ...]) -> str:
    described = "\n".join(f"        {_quoted(f'{command.name}:{command.help}')}" for command in commands)
    return _ZSH.format(commands=described, cases="\n".join(_zsh_case(command) for command in commands))


def _zsh_case(command: _Command) -> str:
    specs = [_zsh_option(option, flag) for option in command.options for flag in option.flags]
    specs.append(_quoted(f"*:argument:{_zsh_words(command.words)}"))
    return f"        {command.name}) shift words; (( CURRENT-- )); _arguments {' '.join(specs)} ;;"


def _zsh_option(option: _Option, flag: str) -> str:
    text = option.help.replace("[", "(").replace("]", ")").replace(":", "\\:")
    value = f":value:{_zsh_words(option.words)}" if option.takes_value else ""
    return _quoted(f"{flag}[{text}]{value}")


def _zsh_words(words: tuple[str, ...]) -> str:
    return "_files" if _FILES in words or not words else f"({' '.join(words)})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# ---------------------------------------------------------------- fish


def _fish(commands: tuple[_Command, ...]) -> str:
    lines = ["# openrknn completion for fish", "complete -c openrknn -f"]
    for command in commands:
        lines.append(f"complete -c openrknn -n __fish_use_subcommand -a {command.name} -d {_fish_text(command.help)}")
        lines += _fish_command(command)
    return "\n".join(lines) + "\n"


def _fish_command(command: _Command) -> Iterator[str]:
    start = f"complete -c openrknn -n '__fish_seen_subcommand_from {command.name}'"
    if _FILES in command.words:
        yield f"{start} -F"
    fixed = " ".join(word for word in command.words if word != _FILES)
    if fixed:
        yield f"{start} -a '{fixed}'"
    for option in command.options:
        names = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
        words = " ".join(word for word in option.words if word != _FILES)
        value = "" if not option.takes_value else " -r -F" if _FILES in option.words else f" -x -a '{words}'"
        yield f"{start} {names}{value} -d {_fish_text(option.help)}"


def _fish_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

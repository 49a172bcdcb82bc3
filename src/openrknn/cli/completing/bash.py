"""The script for bash. Arguments are counted: what follows an option that takes a value is no argument."""

from __future__ import annotations

from collections.abc import Sequence

from openrknn.cli.completing.parser_tree import Command
from openrknn.cli.completing.values import Values

__all__ = ["script"]

_SCRIPT = """# openrknn completion for bash
_openrknn() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command= word at start=0
    local words= files= folders= every= ask= valued= number=0 ending end=$COMP_CWORD typed=${{COMP_LINE-}}
    COMPREPLY=()
    # Names with colons (Conv:head) come as several words; what is typed is whole in the line.
    typed=${{typed:0:${{COMP_POINT-0}}}} typed=${{typed##*[[:space:]]}}
    while (( end > 1 )) && [[ ${{COMP_WORDS[end]}} == : || ${{COMP_WORDS[end-1]}} == : ]]; do (( end-- )); done
    (( end < COMP_CWORD )) && previous=${{COMP_WORDS[end-1]}} || typed=$current
    # --option=value comes as three words.
    if [[ $current == = ]]; then current=
    elif [[ $previous == = && COMP_CWORD -gt 1 ]]; then previous=${{COMP_WORDS[COMP_CWORD-2]}}; fi
    for (( at = 1; at < COMP_CWORD; at++ )); do
        case ${{COMP_WORDS[at]}} in -*) ;; *) command=${{COMP_WORDS[at]}}; start=$at; break ;; esac
    done
    case $command in
{valued}
        *) ;;
    esac
    if [[ -n $command ]]; then
        for (( at = start + 1; at < COMP_CWORD; at++ )); do
            word=${{COMP_WORDS[at]}}
            if [[ $word == -?* ]]; then
                [[ " $valued " == *" $word "* && ${{COMP_WORDS[at+1]-}} != = ]] && (( at++ ))
            elif [[ $word != = && ${{COMP_WORDS[at-1]}} != = ]]; then (( number++ )); fi
        done
    fi
    case $command in
{cases}
        *) words="{commands} --help --version --debug" ;;
    esac
    local IFS=$'\\n'
    if [[ -n $ask ]]; then
        local answer=$(openrknn completion --values "$ask" --words "${{COMP_WORDS[@]:1:end-1}}" "$typed" 2>/dev/null)
        COMPREPLY+=($(compgen -W "$answer" -- "$typed"))
        [[ $typed == *:* ]] && COMPREPLY=(${{COMPREPLY[@]+"${{COMPREPLY[@]#"${{typed%:*}}:"}}"}})
    fi
    if [[ -n $files$folders$every ]]; then
        local found=()
        IFS=' '
        for ending in $files; do
            IFS=$'\\n'
            found+=($(compgen -f -X "!*.$ending" -- "$current"))
        done
        IFS=$'\\n'
        if [[ -n $every ]]; then found+=($(compgen -f -- "$current"))
        else found+=($(compgen -d -- "$current")); fi
        # Somebody may know better which ending a file has.
        [[ ${{#found[@]}} -eq 0 && -n $files ]] && found=($(compgen -f -- "$current"))
        COMPREPLY+=(${{found[@]+"${{found[@]}}"}})
        compopt -o filenames 2>/dev/null
    fi
    IFS=$' \\t\\n'
    COMPREPLY+=($(compgen -W "$words" -- "$current"))
    return 0
}}
complete -F _openrknn openrknn
"""
_INDENT = " " * 8


def script(commands: Sequence[Command]) -> str:
    """The whole script."""
    valued = "\n".join(
        f'{_INDENT}{command.name}) valued="{" ".join(_flags(command, only_valued=True))}" ;;' for command in commands
    )
    cases = "\n".join(_case(command) for command in commands)
    names = " ".join(command.name for command in commands)
    return _SCRIPT.format(valued=valued, cases=cases, commands=names)


def _flags(command: Command, *, only_valued: bool = False) -> list[str]:
    return [flag for option in command.options for flag in option.flags if option.takes_value or not only_valued]


def _case(command: Command) -> str:
    lines = [f"{_INDENT}{command.name})", f"{_INDENT}    case $previous in"]
    for option in command.options:
        if option.takes_value:
            lines.append(f"{_INDENT}        {'|'.join(option.flags)}) {_assigned(option.values)} ;;")
    lines += [
        f"{_INDENT}        *)",
        f'{_INDENT}            if [[ $current == -* ]]; then words="{" ".join(_flags(command))}"; else',
        *_arguments(command),
        f"{_INDENT}            fi ;;",
        f"{_INDENT}    esac ;;",
    ]
    return "\n".join(lines)


def _arguments(command: Command) -> list[str]:
    if not command.arguments:
        return [f"{_INDENT}                :"]
    rows = [f"{_INDENT}                case $number in"]
    last = len(command.arguments) - 1
    for at, values in enumerate(command.arguments):
        pattern = "*" if at == last and command.repeats else str(at)
        rows.append(f"{_INDENT}                    {pattern}) {_assigned(values)} ;;")
    return [*rows, f"{_INDENT}                esac"]


def _assigned(values: Values) -> str:
    parts = [f'words="{" ".join(values.words)}"'] if values.words else []
    if values.files:
        parts.append("every=1" if "" in values.files else f'files="{" ".join(values.files)}"')
    parts += ["folders=1"] if values.folders else []
    parts += [f"ask={values.ask}"] if values.ask else []
    return "; ".join(parts) or ":"

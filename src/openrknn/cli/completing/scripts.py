"""The scripts. `openrknn completion --line` answers in rows: a value, a tabulator, what it is.

`:files` stands for the files with the endings that follow it and for folders, `:folders` for folders alone. The shells
look for files themselves, as they know about quotes and ~.
"""

from __future__ import annotations

__all__ = ["SCRIPTS"]

_BASH = r"""# openrknn completion for bash
_openrknn() {
    local line=${COMP_LINE:0:COMP_POINT} current=${COMP_WORDS[COMP_CWORD]} word text ending typed found
    # For bash, what follows : and = is a word of its own.
    typed=${line##*[[:space:]]}
    [[ $current == [:=] ]] && current=
    COMPREPLY=()
    while IFS=$'\t' read -r word text; do
        if [[ $word != :* ]]; then COMPREPLY+=("${word#"${typed%"${typed##*[:=]}"}"}"); continue; fi
        compopt -o filenames 2>/dev/null
        mapfile -t found < <(for ending in $text; do compgen -f -X "!*.$ending" -- "$current"; done)
        [[ -n $text || $word == :folders ]] && mapfile -t -O ${#found[@]} found < <(compgen -d -- "$current")
        # Somebody may know better which ending a file has.
        [[ ${#found[@]} -eq 0 && $word == :files ]] && mapfile -t found < <(compgen -f -- "$current")
        COMPREPLY+=(${found[@]+"${found[@]}"})
    done < <(openrknn completion --line "$line" 2>/dev/null)
}
complete -F _openrknn openrknn
"""
_ZSH = r"""#compdef openrknn
_openrknn() {
    local row value text
    local -a values shown
    for row in "${(@f)$(openrknn completion --line "${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null)}"; do
        value=${row%%$'\t'*} text=${row#*$'\t'}
        case $value in
            :folders) [[ $PREFIX == -*=* ]] && compset -P '*='; _files -/ ;;
            :files)
                [[ $PREFIX == -*=* ]] && compset -P '*='
                if [[ -n $text ]]; then _files -g "*.(${text// /|})(-.)"; else _files; fi ;;
            *) values+=($value) shown+=("$value${text:+  -- $text}") ;;
        esac
    done
    (( $#values )) && compadd ${text:+-l} -d shown -a values
}
compdef _openrknn openrknn
"""
_FISH = r"""# openrknn completion for fish
function __openrknn_complete
    set -l token (commandline -ct)
    set -l head (string match -r -- '^--[^=]*=' $token)
    set -l files (complete -C"'' "(string replace -r -- '^--[^=]*=' '' $token))
    for row in (command openrknn completion --line (commandline -cp | string collect) 2>/dev/null)
        set -l parts (string split \t -- $row)
        set -l found
        switch $parts[1]
            case :files :folders
                for ending in (string split -n ' ' -- $parts[2])
                    set -a found (string match -- "*.$ending" $files)
                end
                test -n "$parts[2]" -o $parts[1] = :folders; and set -a found (string match -- '*/' $files)
                # Somebody may know better which ending a file has.
                test -z "$found" -a $parts[1] = :files; and set found $files
                set -q found[1]; and printf "$head%s\n" $found
            case '*'
                printf '%s\n' $row
        end
    end
end
complete -c openrknn -f -a '(__openrknn_complete)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}

"""What completion scripts are made of.

parsed     commands and options of the parser, and what can follow each;   values: by name and metavar, what that is
asked      values that depend on this machine or on the line: the shell asks for them with `completion --values KIND`
bash, zsh, fish     the scripts
"""

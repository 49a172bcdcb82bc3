"""What completion scripts are made of.

parser_tree  commands and options of the parser, and what can follow each;   values: by name and metavar, what that is
dynamic_values  values that depend on the machine or the line; the shell asks for them: `completion --values KIND`
bash, zsh, fish     the scripts
"""

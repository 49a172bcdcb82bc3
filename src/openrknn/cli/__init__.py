"""The command line: parsing and printing. A file per command, or a folder where a command has several files.

A command is a module in this package, named in `commands.NAMES`, with

    NAME = "inspect"
    HELP = "one line for `openrknn --help`"
    EXAMPLES = ("openrknn inspect model.rknn",)         # optional, shown by `openrknn inspect --help`
    WAITS = "reading the model"                         # optional: printed when it takes longer than two seconds
    def add_arguments(parser: argparse.ArgumentParser) -> None: ...
    def run(arguments: argparse.Namespace, output: Output) -> int: ...

It is imported when it is needed, and imports heavy things (numpy, rich, ...) inside `run`, so that the command line
starts fast. `run` returns the exit code: 0 success, 1 done and something is wrong with the model, 2 failed. Commands do
not import each other; what they share is in `common`. What a program would want is a library, not here.
"""
